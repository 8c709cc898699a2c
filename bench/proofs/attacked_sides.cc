#include "bench/proofs/attacked_sides.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"
#include "core/numerics/retype.h"
#include "substitutions/match/applier.h"

namespace rewright::attack {
namespace {

constexpr int64_t kMostElements = 1 << 15;  // of one value

// The applications that the rule adds and that may be new values: those of the record, in the order in which they are
// made. Where some were there before, or the match has more siblings, all of such an operator.
std::set<NodeId> NewValues(const CompiledRule& rule, const Graph& graph, NodeId first) {
  std::vector<NodeId> made;
  for (NodeId id = first; id < graph.arena()->size(); ++id) {
    if (graph.arena()->node(id).op != nullptr) made.push_back(id);
  }
  std::vector<int> nodes;
  for (int i = rule.num_lhs_nodes(); i < static_cast<int>(rule.nodes().size()); ++i) {
    if (rule.nodes()[static_cast<size_t>(i)].op != nullptr) nodes.push_back(i);
  }
  const std::vector<int>& listed = rule.rule().proof->new_values;
  std::set<NodeId> found;
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (!std::binary_search(listed.begin(), listed.end(), nodes[k])) continue;
    const OpDef* op = rule.nodes()[static_cast<size_t>(nodes[k])].op;
    for (size_t m = 0; m < made.size(); ++m) {
      if (nodes.size() == made.size() ? m == k : graph.arena()->node(made[m]).op == op) found.insert(made[m]);
    }
  }
  return found;
}

// Both sides in one type, and which applications the right side adds, as it is made in that type.
struct Typed {
  Graph left, right;
  std::set<NodeId> added, new_values;
};

std::optional<Typed> InType(const CompiledRule& rule, const RandomApplication& application, std::optional<DType> type) {
  const std::optional<TypedMatch> given = MatchInType(application, type);
  if (!given) return std::nullopt;
  const NodeId first = given->left.arena()->size();
  const absl::StatusOr<ValueMap> map = BuildReplacement(given->left, given->match);
  if (!map.ok()) return std::nullopt;
  absl::StatusOr<Graph> right = ReplaceValues(given->left, *map);
  if (!right.ok()) return std::nullopt;
  Typed typed{given->left, *std::move(right), {}, {}};
  typed.new_values = NewValues(rule, typed.right, first);
  for (NodeId id = first; id < typed.right.arena()->size(); ++id) typed.added.insert(id);
  return typed;
}

}  // namespace

absl::StatusOr<CompiledGraph> CompiledGraph::Make(const Graph& graph, Precision precision) {
  CompiledGraph made(graph, precision);
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    made.programs_.emplace_back();
    for (const TensorType& type : node.outputs) {
      if (type.num_elements() > kMostElements) return absl::OutOfRangeError("too large");
    }
    if (node.op == nullptr) continue;
    if (node.meaning->IsOpaque()) return absl::UnimplementedError("opaque");
    const std::vector<TensorType> types = graph.arena()->types(node.operands);
    ASSIGN_OR_RETURN(made.programs_.back(),
                     CompiledMeaning::Compile(*node.meaning, BindingsOf(*node.meaning, types, node.attrs), types,
                                              node.outputs, precision));
  }
  return made;
}

absl::StatusOr<CompiledGraph::Values> CompiledGraph::Run(const Leaves& leaves,
                                                         const std::function<void(Tensor*)>& change) const {
  Values values;
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.node(graph_.nodes()[i]);
    if (node.op == nullptr) {
      ASSIGN_OR_RETURN(Tensor leaf,
                       ToPrecision(node.leaf == LeafKind::kConstant ? node.data : leaves.at(node.name), precision_));
      values.push_back({std::move(leaf)});
      continue;
    }
    std::vector<Tensor> operands;
    for (Value operand : node.operands) operands.push_back(At(values, operand));
    ASSIGN_OR_RETURN(std::vector<Tensor> results, programs_[i]->Run(operands));
    if (change != nullptr) {
      for (Tensor& result : results) change(&result);
    }
    values.push_back(std::move(results));
  }
  return values;
}

std::optional<TypedMatch> MatchInType(const RandomApplication& application, std::optional<DType> type) {
  TypedMatch typed{application.graph, application.match};
  if (!type) return typed;
  const absl::StatusOr<Retyped> retyped = Retype(typed.left, {.to = *type});
  if (!retyped.ok()) return std::nullopt;
  typed.left = retyped->graph;
  for (std::vector<Value>* values : {&typed.match.nodes, &typed.match.roots}) {
    for (Value& value : *values) {
      const auto to = retyped->values.find(value);
      if (to == retyped->values.end()) return std::nullopt;
      value = to->second;
    }
  }
  typed.match.bindings.floating = *type;
  for (Attr& attr : typed.match.bindings.attrs) {
    if (auto* dtype = std::get_if<DType>(&attr); dtype != nullptr && IsFloating(*dtype)) *dtype = *type;
  }
  return typed;
}

std::optional<Sides> MakeSides(const CompiledRule& rule, const RuleInstance& instance,
                               const RandomApplication& application, std::optional<DType> type) {
  std::optional<Typed> typed = InType(rule, application, type);
  if (!typed) return std::nullopt;
  auto left = CompiledGraph::Make(typed->left, Precision::kNative);
  auto right = CompiledGraph::Make(typed->right, Precision::kNative);
  if (!left.ok() || !right.ok()) return std::nullopt;
  const DType computed = type.value_or(DType::kFloat32);
  Sides sides{*std::move(left), *std::move(right),       {}, {}, std::move(typed->new_values), std::move(typed->added),
              computed,         application.description, {}, {}};
  const std::optional<Typed> wide =
      computed == DType::kFloat64 ? std::nullopt : InType(rule, application, DType::kFloat64);
  if (wide) {
    auto truth = CompiledGraph::Make(wide->left, Precision::kFloat64);
    auto right_truth = CompiledGraph::Make(wide->right, Precision::kFloat64);
    if (truth.ok() && right_truth.ok()) {
      sides.truth = *std::move(truth);
      sides.right_truth = *std::move(right_truth);
    }
  }
  for (const SymbolicNode& node : instance.nodes) {
    if (node.op == nullptr && node.positive) sides.positive.insert(node.name);
    if (node.op == nullptr && node.finite) sides.finite.insert(node.name);
  }
  return sides;
}

double Magnitude(const Tensor& tensor) {
  double largest = 0;
  if (!IsFloating(tensor.dtype())) return 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double x = std::abs(tensor.At(i));
    if (!(x <= largest)) largest = std::isnan(x) ? HUGE_VAL : x;
  }
  return largest;
}

}  // namespace rewright::attack
