#include "substitutions/egraph/egraph.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/check.h"
#include "substitutions/match/match_search.h"
#include "substitutions/match/sibling_groups.h"

namespace rewright {
namespace {

// The amount of facts that a value carries about its class.
int Knowledge(const Arena& arena, Value value) {
  const Node& node = arena.node(value.node);
  if (node.leaf == LeafKind::kConstant) return 3;
  if (node.leaf == LeafKind::kState) return 2;
  return arena.IsKnown(node) ? 1 : 0;
}

void SortUnique(std::vector<NodeId>* nodes) {
  std::sort(nodes->begin(), nodes->end());
  nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
}

// MatchSearch's view of an e-graph: a class may be computed by many nodes.
class EGraphView {
 public:
  static constexpr bool kUniqueProducer = false;

  explicit EGraphView(const EGraph& egraph) : egraph_(egraph) {}

  const Arena& arena() const { return *egraph_.arena(); }
  Value Class(Value value) const { return egraph_.Find(value); }
  template <typename Visit>
  void ForEachProducer(Value value, int32_t output, const OpDef* op, Visit visit) const {
    const Value wanted = egraph_.Find(value);
    for (NodeId id : egraph_.Nodes(wanted)) {
      const Node& node = arena().node(id);
      if (node.op != op || static_cast<size_t>(output) >= node.outputs.size()) continue;
      if (egraph_.Find(Value{id, output}) == wanted) visit(id);
    }
  }
  int PlaceOf(NodeId node) const { return node; }
  NodeId NodeAt(int place) const { return place; }
  void AppendUsers(Value value, const OpDef* op, std::vector<int>* places) const {
    for (NodeId user : egraph_.Users(value)) {
      if (arena().node(user).op == op) places->push_back(user);
    }
  }
  // A class may depend on itself, as x = relu(x) where x is a relu.
  bool IsCyclic(const CompiledRule&, const std::vector<Value>&) const { return false; }

 private:
  const EGraph& egraph_;
};

}  // namespace

// ---------------------------------------------------------------- classes

int32_t EGraph::IndexOf(Value value) const {
  const size_t node = value.node;
  return node < first_.size() && first_[node] >= 0 ? first_[node] + value.output : -1;
}

size_t EGraph::Root(size_t index) const {
  while (parent_[index] != index) {
    parent_[index] = parent_[parent_[index]];
    index = parent_[index];
  }
  return index;
}

size_t EGraph::Root(Value value) const {
  const int32_t index = IndexOf(value);
  CHECK(index >= 0) << "a value that was not added: " << value.node << "." << value.output;
  return Root(static_cast<size_t>(index));
}

Value EGraph::Find(Value value) const { return values_[Root(value)]; }

std::vector<Value> EGraph::Classes() const {
  std::vector<Value> classes;
  for (size_t i = 0; i < parent_.size(); ++i) {
    if (parent_[i] == i) classes.push_back(values_[i]);
  }
  return classes;
}

// ---------------------------------------------------------------- adding

NodeId EGraph::Canonical(NodeId id) {
  const Node& node = arena_->node(id);
  std::vector<Value> operands = node.operands;
  for (Value& operand : operands) operand = Find(operand);
  if (node.op != nullptr && node.op->commutative && operands.size() == 2 && operands[1] < operands[0]) {
    if (arena_->type(operands[0]) == arena_->type(operands[1])) {
      std::swap(operands[0], operands[1]);
    } else {
      const absl::StatusOr<NodeId> exchanged = arena_->Add(*node.op, {operands[1], operands[0]}, node.attrs);
      CHECK(exchanged.ok()) << exchanged.status().ToString();
      return *exchanged;
    }
  }
  return operands == node.operands ? id : arena_->AddLike(node, std::move(operands));
}

void EGraph::Register(NodeId id) {
  const Node& node = arena_->node(id);
  first_.resize(arena_->size(), -1);
  live_.resize(first_.size(), false);
  first_[id] = static_cast<int32_t>(values_.size());
  live_[id] = true;
  for (int32_t output = 0; output < static_cast<int32_t>(node.outputs.size()); ++output) {
    parent_.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back(Value{id, output});
    classes_.push_back(Class{{id}, {}});
  }
  num_classes_ += static_cast<int>(node.outputs.size());
  ++num_nodes_;
  if (node.op != nullptr) applications_.push_back(id);
  for (Value operand : node.operands) {
    const size_t root = Root(operand);
    classes_[root].users.push_back(id);
    touched_.push_back(root);
  }
}

// The operands have been added.
void EGraph::AddNode(NodeId id) {
  const NodeId canonical = Canonical(id);
  if (IndexOf(Value{canonical, 0}) < 0) Register(canonical);
  if (canonical == id) return;
  // The node itself is no e-node; its outputs are names of classes.
  first_.resize(arena_->size(), -1);
  live_.resize(first_.size(), false);
  first_[id] = static_cast<int32_t>(values_.size());
  for (int32_t output = 0; output < static_cast<int32_t>(arena_->node(id).outputs.size()); ++output) {
    parent_.push_back(static_cast<uint32_t>(Root(Value{canonical, output})));
    values_.push_back(Value{id, output});
    classes_.emplace_back();
  }
}

Value EGraph::Add(Value value) {
  std::vector<NodeId> stack = {value.node};
  while (!stack.empty()) {
    const NodeId id = stack.back();
    const size_t before = stack.size();
    if (!Contains(Value{id, 0})) {
      for (Value operand : arena_->node(id).operands) {
        if (!Contains(operand)) stack.push_back(operand.node);
      }
      if (stack.size() > before) continue;
      AddNode(id);
    }
    stack.pop_back();
  }
  return Find(value);
}

NodeId EGraph::NodeOf(NodeId id) {
  const NodeId canonical = Canonical(id);
  CHECK(Contains(Value{canonical, 0})) << "an e-graph that was not rebuilt";
  return canonical;
}

absl::StatusOr<std::vector<Value>> EGraph::Add(const Graph& graph) {
  std::vector<Value> classes;
  if (graph.arena() == arena_) {
    for (const Output& output : graph.outputs()) classes.push_back(Add(output.value));
    return classes;
  }
  ValueMap copies;
  for (NodeId id : graph.nodes()) {
    if (absl::Status status = CopyNode(*graph.arena(), id, *arena_, &copies); !status.ok()) return status;
  }
  for (const Output& output : graph.outputs()) classes.push_back(Add(copies.at(output.value)));
  return classes;
}

// ---------------------------------------------------------------- unions

bool EGraph::Union(Value a, Value b) {
  size_t stays = Root(a), goes = Root(b);
  if (stays == goes) return false;
  CHECK(arena_->type(a) == arena_->type(b)) << arena_->type(a).ToString() << " and " << arena_->type(b).ToString();
  const auto rank = [&](size_t root) { return std::pair(-Knowledge(*arena_, values_[root]), values_[root]); };
  if (rank(goes) < rank(stays)) std::swap(stays, goes);
  parent_[goes] = static_cast<uint32_t>(stays);
  Class& to = classes_[stays];
  Class from = std::exchange(classes_[goes], Class{});
  to.nodes.insert(to.nodes.end(), from.nodes.begin(), from.nodes.end());
  to.users.insert(to.users.end(), from.users.begin(), from.users.end());
  stale_.insert(stale_.end(), from.users.begin(), from.users.end());
  touched_.push_back(stays);
  --num_classes_;
  ++num_unions_;
  return true;
}

void EGraph::Rebuild() {
  while (!stale_.empty()) {
    std::vector<NodeId> nodes = std::exchange(stale_, {});
    SortUnique(&nodes);
    for (NodeId id : nodes) {
      if (!live_[id]) continue;
      const NodeId canonical = Canonical(id);
      if (canonical == id) continue;
      live_[id] = false;
      --num_nodes_;
      if (IndexOf(Value{canonical, 0}) < 0) Register(canonical);
      for (int32_t output = 0; output < static_cast<int32_t>(arena_->node(id).outputs.size()); ++output) {
        touched_.push_back(Root(Value{id, output}));
        Union(Value{id, output}, Value{canonical, output});
      }
    }
  }
  Tidy();
}

void EGraph::Tidy() {
  const auto dead = [&](NodeId id) { return !live_[id]; };
  for (size_t index : touched_) {
    Class& touched = classes_[Root(index)];
    for (std::vector<NodeId>* nodes : {&touched.nodes, &touched.users}) {
      std::erase_if(*nodes, dead);
      SortUnique(nodes);
    }
  }
  touched_.clear();
  std::erase_if(applications_, dead);
  SortUnique(&applications_);
}

bool EGraph::IsCongruent() const {
  absl::flat_hash_set<NodeId> seen;
  for (Value representative : Classes()) {
    for (NodeId id : Nodes(representative)) {
      const Node& node = arena_->node(id);
      bool inside = false;
      for (int32_t output = 0; output < static_cast<int32_t>(node.outputs.size()); ++output) {
        if (Find(Value{id, output}) != representative) continue;
        inside = true;
        if (node.outputs[output] != arena_->type(representative)) return false;
      }
      // The arena has one node for equal operators and operands, so e-nodes with representatives as operands differ.
      const auto is_found = [&](Value operand) { return Find(operand) == operand; };
      if (!inside || !std::all_of(node.operands.begin(), node.operands.end(), is_found)) return false;
      seen.insert(id);
    }
  }
  return static_cast<int>(seen.size()) == num_nodes_;
}

void EGraph::Candidates(const DiscriminationNet& net, NodeId node, std::vector<int>* rules) const {
  net.Find(EGraphView(*this), node, rules);
}

void EGraph::MatchAt(const Matcher& matcher, NodeId node, std::vector<Match>* matches) const {
  const size_t before = matches->size();
  MatchSearch<EGraphView>(matcher, EGraphView(*this), matches).Run(node);
  if (matcher.rule().siblings()) SiblingGroups<EGraphView>(matcher, EGraphView(*this), matches).Append(before);
}

}  // namespace rewright
