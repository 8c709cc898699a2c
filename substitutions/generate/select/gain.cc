#include "substitutions/generate/select/gain.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/index/cost_features.h"
#include "core/ir/rewrite.h"
#include "substitutions/match/applier.h"

namespace rewright::generate {
namespace {

constexpr size_t kAllSubsets = 4;  // of inputs

// The work at inference. Views move nothing and start nothing.
struct Work {
  int operators = 0;
  double flops = 0, bytes = 0;
  int views = 0;
  double divisions = 0;  // of elements: they count once in `flops`, and take several times as long as products
};

bool IsView(const OpDef& op) {
  static const std::set<std::string> kViews = {"reshape", "transpose", "slice", "split", "expand", "identity"};
  return kViews.count(op.name) > 0;
}

bool Divides(const ExprPtr& element) {
  return AnyOf(element, [](const ExprNode& node) { return node.IsCall(Fn::kDiv); });
}

Work WorkOf(const std::shared_ptr<Arena>& arena, const std::vector<Value>& outputs) {
  const Graph graph = GraphOf(arena, outputs);
  Work work;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!graph.IsRun(node)) continue;
    if (IsView(*node.op)) {
      ++work.views;
      continue;
    }
    const CostFeatures features = FeaturesOf(*node.meaning, arena->types(node.operands), node.attrs, node.outputs);
    ++work.operators;
    work.flops += features.flops;
    work.bytes += features.bytes;
    if (Divides(node.meaning->outputs[0].element))
      work.divisions += static_cast<double>(node.outputs[0].num_elements());
  }
  return work;
}

// A tensor in which no rule can see special elements.
Tensor PlainTensor(const TensorType& type, NodeId id) {
  Tensor data(type);
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    const int64_t element = (i * 7 + id * 5 + 3) % 11 - 4;
    if (IsFloating(type.dtype)) {
      data.Set(i, static_cast<double>(element) + 0.5);
    } else {
      data.SetInt(i, element & 1);
    }
  }
  return data;
}

}  // namespace

std::vector<Value> Place::Side(bool left) const {
  std::vector<Value> values;
  for (const auto& [from, to] : sides) values.push_back(left ? from : to);
  return values;
}

std::optional<Place> PlaceOf(const RandomApplication& drawn, uint32_t weights) {
  const Arena& from = *drawn.graph.arena();
  Place place{std::make_shared<Arena>(), drawn.match, {}};
  std::vector<NodeId> to;  // operands come before their users
  uint32_t bit = 1;
  for (NodeId id = 0; id < from.size(); ++id) {
    const Node& node = from.node(id);
    if (node.op != nullptr) {
      std::vector<Value> operands;
      for (Value value : node.operands) operands.push_back({to[value.node], value.output});
      to.push_back(place.arena->AddLike(node, std::move(operands)));
    } else if (node.leaf == LeafKind::kConstant) {
      to.push_back(place.arena->AddConstant(node.data).node);
    } else {
      const bool input = node.leaf == LeafKind::kInput, stays = input && (weights & bit) == 0;
      if (input) bit <<= 1;
      const auto leaf = stays   ? place.arena->AddInput(node.name, node.outputs[0])
                        : input ? place.arena->AddState(node.name, PlainTensor(node.outputs[0], id))
                                : place.arena->AddState(node.name, *from.Elements(id));
      if (!leaf.ok()) return std::nullopt;
      to.push_back(leaf->node);
    }
  }
  for (Value& value : place.match.nodes) value.node = to[value.node];
  for (Value& value : place.match.roots) value.node = to[value.node];
  const auto right = BuildReplacement(*place.arena, place.match);
  if (!right.ok()) return std::nullopt;
  for (Value root : place.match.roots) {
    const auto it = right->find(root);
    if (it != right->end()) place.sides.emplace_back(root, it->second);
  }
  return place;
}

std::vector<uint32_t> WeightSubsets(size_t inputs) {
  std::set<uint32_t> subsets;
  const uint32_t all = (uint32_t{1} << inputs) - 1;
  if (inputs <= kAllSubsets) {
    for (uint32_t subset = 0; subset < all; ++subset) subsets.insert(subset);
  } else {
    subsets.insert(0);
    for (size_t i = 0; i < inputs; ++i) subsets.insert({uint32_t{1} << i, all ^ (uint32_t{1} << i)});
  }
  return std::vector<uint32_t>(subsets.begin(), subsets.end());
}

Gain GainOf(const Place& place) {
  const Work before = WorkOf(place.arena, place.Left()), after = WorkOf(place.arena, place.Right());
  if (after.operators < before.operators) return Gain::kAtAllSizes;
  const bool less = after.flops < before.flops || after.bytes < before.bytes;
  if (after.operators > before.operators) return less ? Gain::kTraded : Gain::kNone;
  if (less) return Gain::kAtTheSizes;
  if (after.flops > before.flops || after.bytes > before.bytes) return Gain::kNone;
  const bool fewer_views = after.views < before.views && after.divisions <= before.divisions;
  const bool fewer_divisions = after.divisions < before.divisions && after.views <= before.views;
  return fewer_views || fewer_divisions ? Gain::kAtAllSizes : Gain::kNone;
}

Graph GraphOf(const std::shared_ptr<Arena>& arena, const std::vector<Value>& outputs) {
  std::vector<Output> named;
  for (Value value : outputs) named.push_back(Output{value, ""});
  return Graph(arena, {}, std::move(named));
}

bool Gives(const Matcher& matcher, const std::shared_ptr<Arena>& arena, const std::vector<Value>& from,
           const std::vector<Value>& to) {
  const Graph start = GraphOf(arena, from);
  for (const Match& match : matcher.FindMatches(start)) {
    const auto end = ApplyMatch(start, match);
    if (!end.ok() || end->outputs().size() != to.size()) continue;
    std::vector<std::pair<Value, Value>> pairs;
    for (size_t k = 0; k < to.size(); ++k) pairs.emplace_back(end->outputs()[k].value, to[k]);
    EGraph egraph(arena);
    if (MakeEqual(egraph, pairs, {}, {}).end == SaturationEnd::kDone) return true;
  }
  return false;
}

bool AtAllInstances(const CompiledRule& rule, const DeriveOptions& draws,
                    const std::function<bool(const Place&)>& holds) {
  int instances = 0;
  bool all = true;
  const auto look = [&](const RandomApplication& application) {
    const auto place = PlaceOf(application, 0);
    instances += place.has_value();
    all = place && holds(*place);
    return all;
  };
  return ForEachDrawnInstance(rule, draws, look).ok() && all && instances > 0;
}

bool Exchanges(const Matcher& matcher, const DeriveOptions& draws) {
  return AtAllInstances(matcher.rule(), draws,
                        [&](const Place& place) { return Gives(matcher, place.arena, place.Right(), place.Left()); });
}

}  // namespace rewright::generate
