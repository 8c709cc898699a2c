#include "search/strategies/match_site.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "substitutions/match/node_signatures.h"

namespace rewright {
namespace {

// A node with very many users (a concat, a shared input) does not draw all of them in.
constexpr size_t kMaxSiteNodes = 64;
constexpr int32_t kMaxScratchNodes = 200000;

uint64_t HashOfType(const TensorType& type) { return absl::HashOf(static_cast<int>(type.dtype), type.shape); }

}  // namespace

std::vector<int> NodesAround(const Graph& graph, const std::vector<NodeId>& seeds, int radius) {
  absl::flat_hash_set<int> site;
  std::vector<int> found;  // in the order of distance
  const auto visit = [&](int position) {
    if (found.size() >= kMaxSiteNodes) return;
    if (!graph.IsRun(graph.node(graph.nodes()[position]))) return;
    if (site.insert(position).second) found.push_back(position);
  };
  for (NodeId id : seeds) visit(graph.index(id));
  size_t begin = 0;
  for (int distance = 0; distance < radius; ++distance) {
    const size_t end = found.size();
    for (; begin < end; ++begin) {
      const int at = found[begin];
      for (int producer : graph.producers(at)) visit(producer);
      for (int user : graph.users(at)) visit(user);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Copies a site into the scratch arena. Values computed outside become inputs, numbered by first use.
class SiteEstimator::Cutter {
 public:
  Cutter(SiteEstimator& estimator, const Graph& graph, const Rewrite& rewrite)
      : estimator_(estimator),
        graph_(graph),
        rewrite_(rewrite),
        scratch_(estimator.scratch_),
        site_(NodesAround(graph, rewrite.matched, estimator.radius_)) {
    for (int i : site_) inside_.insert(graph.nodes()[i]);
    for (int i : site_) {
      const NodeId id = graph.nodes()[i];
      const int32_t count = static_cast<int32_t>(graph.node(id).outputs.size());
      for (int32_t output = 0; output < count; ++output) {
        if (Escapes(i, Value{id, output})) escaping_.push_back(Value{id, output});
      }
    }
  }

  // The signature of everything that the estimate depends on: the site and its replacement, but not the names of
  // weights and of values computed outside.
  uint64_t Signature() {
    Put(static_cast<uint64_t>(rewrite_.rule));
    for (int i : site_) PutValue({graph_.nodes()[i], 0});
    for (Value value : escaping_) PutValue(value);
    for (const auto& [from, to] : rewrite_.replacement) {
      PutValue(from);
      PutValue(to);
    }
    return absl::HashOf(parts_);
  }

  Graph Before() {
    std::vector<Output> outputs;
    for (Value value : escaping_) outputs.push_back({Copy(value), ""});
    return Graph(scratch_, inputs_, std::move(outputs));
  }

  // The site after the rewrite, made as ReplaceValues does it.
  Graph After() {
    ValueMap rebuilt;
    for (const auto& [from, to] : rewrite_.replacement) rebuilt[from] = Copy(to);
    const auto resolve = [&](Value value) {
      auto it = rebuilt.find(value);
      return it == rebuilt.end() ? Copy(value) : it->second;
    };
    for (int i : site_) {
      const NodeId id = graph_.nodes()[i];
      const Node& node = graph_.node(id);
      const bool changed = std::any_of(node.operands.begin(), node.operands.end(),
                                       [&](Value operand) { return rebuilt.contains(operand); });
      if (!changed) continue;
      std::vector<Value> operands;
      for (Value operand : node.operands) operands.push_back(resolve(operand));
      const NodeId copy = Add(node, std::move(operands));
      for (int32_t output = 0; output < static_cast<int32_t>(node.outputs.size()); ++output) {
        rebuilt.try_emplace(Value{id, output}, Value{copy, output});
      }
    }
    std::vector<Output> outputs;
    for (Value value : escaping_) outputs.push_back({resolve(value), ""});
    return Graph(scratch_, inputs_, std::move(outputs));
  }

 private:
  bool Escapes(int position, Value value) const {
    if (graph_.is_output(value)) return true;
    for (int user : graph_.users(position)) {
      const NodeId id = graph_.nodes()[user];
      if (inside_.contains(id)) continue;
      const std::vector<Value>& operands = graph_.node(id).operands;
      if (std::find(operands.begin(), operands.end(), value) != operands.end()) return true;
    }
    return false;
  }

  // New nodes of the right side belong to the site; one that the graph computes elsewhere already comes from there.
  bool Outside(NodeId id) const {
    const Node& node = graph_.arena()->node(id);
    if (graph_.IsKnown(node)) return false;
    return node.op == nullptr || (graph_.contains(id) && !inside_.contains(id));
  }

  void Put(uint64_t number) { parts_.push_back(number); }

  // Values outside are numbered by first use and seen by their types alone; nodes are described when they come first.
  void PutValue(Value value) {
    constexpr uint64_t kOutside = 1, kNode = 2, kKnown = 3;
    if (Outside(value.node)) {
      const auto [it, fresh] = outside_numbers_.try_emplace(value, outside_numbers_.size());
      Put(kOutside);
      Put(it->second);
      if (fresh) Put(HashOfType(graph_.arena()->type(value)));
      return;
    }
    const auto [it, fresh] = node_numbers_.try_emplace(value.node, node_numbers_.size());
    Put(fresh ? kNode : kKnown);
    Put(it->second);
    Put(static_cast<uint64_t>(value.output));
    if (!fresh) return;
    const Node& node = graph_.arena()->node(value.node);
    Put(estimator_.LocalHash(value.node, node));
    for (Value operand : node.operands) PutValue(operand);
  }

  Value Copy(Value value) {
    const Node& node = graph_.arena()->node(value.node);
    if (graph_.IsKnown(node)) return {CopyWeightOnly(value.node), value.output};
    if (auto it = copies_.find(value); it != copies_.end()) return it->second;
    Value copy;
    if (Outside(value.node)) {
      copy = AddInput(graph_.arena()->type(value));
    } else {
      copy = {CopyNode(node), value.output};
    }
    copies_[value] = copy;
    return copy;
  }

  NodeId CopyNode(const Node& node) {
    std::vector<Value> operands;
    for (Value operand : node.operands) operands.push_back(Copy(operand));
    return Add(node, std::move(operands));
  }

  NodeId Add(const Node& like, std::vector<Value> operands) { return scratch_->AddLike(like, std::move(operands)); }

  NodeId CopyWeightOnly(NodeId id) {
    if (auto it = estimator_.copied_.find(id); it != estimator_.copied_.end()) return it->second;
    const Node& node = graph_.arena()->node(id);
    NodeId copy = -1;
    if (node.leaf == LeafKind::kConstant) {
      copy = scratch_->AddConstant(node.data).node;
    } else if (node.leaf == LeafKind::kState) {
      const absl::StatusOr<Value> weight = scratch_->AddState(node.name, *graph_.arena()->Elements(id));
      CHECK(weight.ok()) << weight.status().ToString();
      copy = weight->node;
    } else {
      copy = CopyNode(node);
    }
    estimator_.copied_[id] = copy;
    return copy;
  }

  Value AddInput(const TensorType& type) {
    const std::string name = absl::StrCat("%", inputs_.size(), ":", type.ToString());
    const absl::StatusOr<Value> input = scratch_->AddInput(name, type);
    CHECK(input.ok()) << input.status().ToString();
    inputs_.push_back(*input);
    return *input;
  }

  SiteEstimator& estimator_;
  const Graph& graph_;
  const Rewrite& rewrite_;
  std::shared_ptr<Arena> scratch_;
  std::vector<int> site_;  // positions, ascending
  absl::flat_hash_set<NodeId> inside_;
  std::vector<Value> escaping_;
  std::vector<Value> inputs_;
  ValueMap copies_;
  std::vector<uint64_t> parts_;
  absl::flat_hash_map<Value, uint64_t> outside_numbers_;
  absl::flat_hash_map<NodeId, uint64_t> node_numbers_;
};

uint64_t SiteEstimator::LocalHash(NodeId id, const Node& node) {
  const auto [it, fresh] = local_hashes_.try_emplace(id);
  if (fresh) it->second = NodeSignature(node);
  return it->second;
}

absl::StatusOr<double> SiteEstimator::TotalCost(const Graph& site, uint64_t hash) {
  if (auto it = total_cost_.find(hash); it != total_cost_.end()) return it->second;
  const absl::StatusOr<GraphCost> cost = costs_.Cost(site);
  if (!cost.ok()) return cost.status();
  total_cost_[hash] = cost->total();
  return cost->total();
}

absl::StatusOr<SiteEstimate> SiteEstimator::Judge(const Graph& graph, const Rewrite& rewrite) {
  if (scratch_ == nullptr || scratch_->size() > kMaxScratchNodes) {
    scratch_ = std::make_shared<Arena>(graph.mode());
    copied_.clear();
  }
  Cutter cutter(*this, graph, rewrite);
  const uint64_t signature = cutter.Signature();
  auto it = known_.find(signature);
  if (it == known_.end()) it = known_.emplace(signature, JudgeNew(rewrite, cutter)).first;
  return it->second;
}

absl::StatusOr<SiteEstimate> SiteEstimator::JudgeNew(const Rewrite& rewrite, Cutter& cutter) {
  const Graph before = cutter.Before();
  const Graph after = cutter.After();
  const uint64_t before_hash = before.CanonicalHash();
  const uint64_t after_hash = after.CanonicalHash();
  const absl::StatusOr<double> before_cost = TotalCost(before, before_hash);
  if (!before_cost.ok()) return before_cost.status();
  const absl::StatusOr<double> after_cost = TotalCost(after, after_hash);
  if (!after_cost.ok()) return after_cost.status();
  SiteEstimate estimate;
  estimate.delta = *after_cost - *before_cost;
  estimate.signature = absl::HashOf(rewrite.rule, before_hash, after_hash);
  return estimate;
}

}  // namespace rewright
