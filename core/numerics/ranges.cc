#include "core/numerics/ranges.h"

#include <algorithm>
#include <cmath>

#include "core/base/files.h"
#include "core/ir/rewrite.h"
#include "core/numerics/compose.h"

namespace rewright {
namespace {

template <typename T, typename Computed>
Facts FactsOf(const T* elements, int64_t n) {
  Facts facts;
  Computed lo = std::numeric_limits<Computed>::max(), hi = std::numeric_limits<Computed>::lowest();
  double smallest = kUnbounded;
  bool integral = true, zero = false;
  for (int64_t i = 0; i < n; ++i) {
    const Computed x = static_cast<Computed>(elements[i]);
    if constexpr (std::is_floating_point_v<Computed>) {
      if (!std::isfinite(x)) [[unlikely]] {
        (std::isnan(x) ? facts.may_be_undefined : facts.may_be_infinite) = true;
        integral = integral && std::isnan(x);
        if (std::isnan(x)) continue;
      }
      if (integral) integral = x == std::trunc(x);
    }
    lo = std::min(lo, x);
    hi = std::max(hi, x);
    zero |= x == 0;
    const double size = std::abs(static_cast<double>(x));
    smallest = std::min(smallest, x == 0 ? kUnbounded : size);
  }
  facts.range = lo <= hi ? Interval{static_cast<double>(lo), static_cast<double>(hi)} : Interval::Of(0);
  if constexpr (!std::is_floating_point_v<Computed>) {
    // The bounds of integers beyond 2^53 were rounded.
    if (facts.range.Magnitude() > 0x1p53) {
      facts.range = {std::nextafter(facts.range.lo, -kUnbounded), std::nextafter(facts.range.hi, kUnbounded)};
    }
  }
  facts.smallest = std::isfinite(smallest) ? smallest : 0;
  facts.nonzero = !zero;
  facts.integral = integral;
  return facts;
}

}  // namespace

Facts FactsOfElements(const Tensor& elements) {
  const DType dtype = elements.dtype();
  Facts facts = VisitDType(dtype, [&](auto tag) {
    using Tag = decltype(tag);
    using Computed = typename DTypeTag<Tag::kComputed>::Type;
    return FactsOf<typename Tag::Type, Computed>(elements.as<typename Tag::Type>(), elements.num_elements());
  });
  ReleasePages(elements.data(), elements.num_bytes());
  if (IsFloating(dtype)) facts.held_by = TypesAbove(dtype);
  Round(dtype, &facts);
  return facts;
}

Facts Numerics::OfLeaf(const Arena& arena, NodeId leaf) {
  const Node& node = arena.node(leaf);
  const DType dtype = node.outputs[0].dtype;
  if (const Tensor* elements = arena.KnownElements(leaf)) return FactsOfElements(*elements);
  Facts facts = Facts::Unknown(dtype);
  const auto given = options_.inputs.find(node.name);
  if (node.leaf == LeafKind::kInput && given != options_.inputs.end()) {
    facts.range = Intersect(facts.range, given->second);
    Tighten(&facts);
  }
  return facts;
}

ElementFacts& Numerics::FactsOfOperator(const Node& node) {
  std::vector<int> first;  // by operand, if some are equal: the first one that is the same value
  absl::flat_hash_map<Value, int> places;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    first.push_back(places.try_emplace(node.operands[k], static_cast<int>(k)).first->second);
  }
  const bool repeats = places.size() < first.size();
  if (!repeats) first.clear();
  Operator& found = operators_[{node.meaning.get(), first}];
  if (found.meaning != nullptr) return *found.facts;
  found.meaning = node.meaning;
  std::shared_ptr<const Meaning> meaning = node.meaning;
  if (repeats && !meaning->IsOpaque()) {
    auto merged = std::make_shared<Meaning>(*meaning);
    for (OutputMeaning& output : merged->outputs) {
      output.element = RewriteExpr(output.element, [&](const ExprPtr& expr) {
        if (!expr->IsRead() || first[expr->operand()] == expr->operand()) return expr;
        std::vector<Index> at;
        for (const ExprPtr& index : expr->args()) at.emplace_back(index);
        return ReadOperand(first[expr->operand()], at, expr->dtype()).node();
      });
    }
    meaning = std::move(merged);
  }
  found.facts = std::make_unique<ElementFacts>(std::move(meaning));
  return *found.facts;
}

const std::vector<std::vector<Flow>>& Numerics::FlowsOfOperator(const Node& node) {
  Flows& found = flows_[{node.meaning.get(), node.operands.size()}];
  if (found.meaning == nullptr) found = {node.meaning, FlowsOf(*node.meaning, node.operands.size())};
  return found.flows;
}

std::vector<Facts> Numerics::OfApplication(const Node& node, const std::vector<const Facts*>& operands,
                                           const std::vector<TensorType>& operand_types) {
  return FactsOfOperator(node).Of(BindingsOf(*node.meaning, operand_types, node.attrs), operands, node.outputs);
}

// Intersects with the facts of the node and those before it as one expression; both hold.
void Numerics::RefineByOperands(const Arena& arena, NodeId id, std::vector<Facts>* facts) {
  const Composed composed = ComposeForFacts(arena, id);
  if (composed.meaning == nullptr) return;
  std::vector<const Facts*> operands;
  for (const Value operand : composed.operands) operands.push_back(&nodes_.at(operand.node)[operand.output]);
  Bindings bindings;
  bindings.variables.resize(composed.meaning->variables.size());
  const Facts more = ElementFacts(composed.meaning).Of(bindings, operands, arena.node(id).outputs)[0];
  Facts& found = (*facts)[0];
  found.range = Intersect(found.range, more.range);
  found.smallest = std::max(found.smallest, more.smallest);
  found.nonzero = found.nonzero || more.nonzero;
  found.may_be_undefined = found.may_be_undefined && more.may_be_undefined;
  found.may_be_infinite = found.may_be_infinite && more.may_be_infinite;
  Tighten(&found);
}

const Facts& Numerics::Of(const Arena& arena, Value value) {
  std::vector<NodeId> open = {value.node};
  while (!open.empty()) {
    const NodeId id = open.back();
    if (nodes_.contains(id)) {
      open.pop_back();
      continue;
    }
    const Node& node = arena.node(id);
    if (node.op == nullptr) {
      nodes_[id] = {OfLeaf(arena, id)};
      open.pop_back();
      continue;
    }
    const size_t before = open.size();
    for (const Value operand : node.operands) {
      if (!nodes_.contains(operand.node)) open.push_back(operand.node);
    }
    if (open.size() > before) continue;
    std::vector<const Facts*> operands;
    for (const Value operand : node.operands) operands.push_back(&nodes_.at(operand.node)[operand.output]);
    std::vector<Facts> facts = OfApplication(node, operands, arena.types(node.operands));
    RefineByOperands(arena, id, &facts);
    nodes_[id] = std::move(facts);
    open.pop_back();
  }
  return nodes_.at(value.node)[value.output];
}

Decisions Numerics::OfOperand(const Node& node, int operand, const std::vector<Decisions>& outputs) {
  Decisions result;
  const std::vector<std::vector<Flow>>& flows = FlowsOfOperator(node);
  for (size_t o = 0; o < flows.size(); ++o) {
    const Flow& flow = flows[o][operand];
    result.Add(flow.decisions);
    if (flow.passes) result.Add(outputs[o]);
  }
  return result;
}

absl::flat_hash_map<Value, Decisions> Numerics::DecisionsOf(const Graph& graph) {
  absl::flat_hash_map<Value, Decisions> decisions;
  const std::vector<NodeId>& nodes = graph.nodes();
  for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
    const Node& node = graph.node(*id);
    std::vector<Decisions> outputs;
    for (size_t o = 0; o < node.outputs.size(); ++o) outputs.push_back(decisions[{*id, static_cast<int32_t>(o)}]);
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const Decisions reached = OfOperand(node, static_cast<int>(k), outputs);
      decisions[node.operands[k]].Add(reached);
    }
  }
  return decisions;
}

}  // namespace rewright
