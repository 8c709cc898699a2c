#include "core/numerics/decisions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Returns the value of an expression without reads; a parameter counts as a number that no expression has by chance.
std::optional<double> NumberOf(const ExprNode& expr) {
  switch (expr.kind()) {
    case ExprKind::kConst: return expr.real();
    case ExprKind::kParam: return 0.7310585 + 0.4142136 * expr.param();
    case ExprKind::kCast: return IsFloating(expr.dtype()) ? NumberOf(*expr.arg(0)) : std::nullopt;
    case ExprKind::kCall: {
      const std::optional<double> a = NumberOf(*expr.arg(0));
      const std::optional<double> b = expr.args().size() > 1 ? NumberOf(*expr.arg(1)) : a;
      if (!a || !b) return std::nullopt;
      return EvaluateReal(expr.fn(), *a, *b);
    }
    default: return std::nullopt;
  }
}

// True if both sides are equal where the operands of the condition, one of them a number, are.
bool IsContinuous(const ExprNode& select) {
  const ExprNode& condition = *select.condition();
  if (condition.kind() != ExprKind::kHolds || !condition.arg(0)->IsCall()) return false;
  const ExprNode& comparison = *condition.arg(0);
  if (comparison.fn() != Fn::kLess && comparison.fn() != Fn::kLessEqual) return false;
  for (const int side : {0, 1}) {
    const ExprPtr &number = comparison.arg(side), &turning = comparison.arg(1 - side);
    if (!number->IsConst() && number->kind() != ExprKind::kParam) continue;
    const auto at = [&](const ExprPtr& expr) {
      return RewriteExpr(expr, [&](const ExprPtr& node) { return node == turning ? number : node; });
    };
    const ExprPtr yes = at(select.yes()), no = at(select.no());
    if (yes == no) return true;
    const std::optional<double> a = NumberOf(*yes), b = NumberOf(*no);
    if (a && b && std::abs(*a - *b) <= 1e-12 * (std::abs(*a) + std::abs(*b))) return true;
  }
  return false;
}

class Tracer {
 public:
  explicit Tracer(size_t operands) : flows_(operands) {}

  std::vector<Flow> Trace(const ExprPtr& element) {
    Visit(element, [&](const ExprPtr& node) { Note(*node); });
    for (const size_t operand : reads_.at(element.get())) flows_[operand].passes = true;
    return std::move(flows_);
  }

 private:
  // Returns the operands from which a node's elements are computed; those of indices and conditions are left out.
  void Note(const ExprNode& node) {
    Operands reads;
    const auto add = [&](const ExprPtr& arg) {
      const Operands& below = reads_.at(arg.get());
      if (reads.empty() || below.empty()) {
        reads.insert(reads.end(), below.begin(), below.end());
        return;
      }
      Operands both;
      std::set_union(reads.begin(), reads.end(), below.begin(), below.end(), std::back_inserter(both));
      reads = std::move(both);
    };
    Decisions decisions;
    switch (node.kind()) {
      case ExprKind::kRead:
        if (static_cast<size_t>(node.operand()) < flows_.size()) reads = {static_cast<size_t>(node.operand())};
        break;
      case ExprKind::kOpaque:
        for (size_t k = 0; k < flows_.size(); ++k) reads.push_back(k);
        decisions = {true, true};
        break;
      case ExprKind::kCall:
        for (const ExprPtr& arg : node.args()) add(arg);
        if (FnHas(node.fn(), FnTrait::kCompares) || node.fn() == Fn::kSign) {
          decisions.comparison = !IsChoiceThatBends(node);
        } else if (FnHas(node.fn(), FnTrait::kSteps)) {
          decisions.rounding = true;
        }
        break;
      case ExprKind::kCast:
        add(node.arg(0));
        if (IsFloating(node.arg(0)->dtype())) {
          decisions.comparison = node.dtype() == DType::kBool;
          decisions.rounding = IsInteger(node.dtype());
        }
        break;
      case ExprKind::kSelect:
        add(node.yes());
        add(node.no());
        break;
      case ExprKind::kReduce:
        add(node.body());
        decisions.comparison = IsPosition(node.reduction());
        break;
      default:
        // Visits indices and conditions: adds the elements that they read to the functions around them.
        for (const ExprPtr& arg : node.args()) add(arg);
        break;
    }
    for (const size_t operand : reads) flows_[operand].decisions.Add(decisions);
    reads_.emplace(&node, std::move(reads));
  }

  bool IsChoiceThatBends(const ExprNode& comparison) const { return bends_.contains(&comparison); }

 public:
  // Finds comparisons that stand in conditions of continuous choices alone.
  void NoteBends(const ExprPtr& element) {
    absl::flat_hash_map<const ExprNode*, int> uses, bends;
    Visit(element, [&](const ExprPtr& node) {
      if (node->kind() == ExprKind::kSelect && IsContinuous(*node)) ++bends[node->condition()->arg(0).get()];
      for (const ExprPtr& arg : node->args()) ++uses[arg.get()];
    });
    // A condition may be shared by several choices; all of them must be continuous.
    Visit(element, [&](const ExprPtr& node) {
      if (node->kind() != ExprKind::kHolds) return;
      const auto found = bends.find(node->arg(0).get());
      if (found != bends.end() && uses[node->arg(0).get()] == 1 && uses[node.get()] == found->second) {
        bends_.emplace(found->first, true);
      }
    });
  }

 private:
  using Operands = std::vector<size_t>;  // ascending

  std::vector<Flow> flows_;
  absl::flat_hash_map<const ExprNode*, Operands> reads_;
  absl::flat_hash_map<const ExprNode*, bool> bends_;
};

}  // namespace

std::vector<std::vector<Flow>> FlowsOf(const Meaning& meaning, size_t operands) {
  std::vector<std::vector<Flow>> flows;
  for (const OutputMeaning& output : meaning.outputs) {
    if (output.element == nullptr) {
      flows.emplace_back(operands, Flow{{true, true}, true});
      continue;
    }
    const ExprNode& element = *output.element;
    if (element.IsRead() && !element.ReadsData()) {  // one of many parts; its place is a sum of their sizes
      std::vector<Flow>& flow = flows.emplace_back(operands);
      if (const auto operand = static_cast<size_t>(element.operand()); operand < operands) flow[operand].passes = true;
      continue;
    }
    Tracer tracer(operands);
    tracer.NoteBends(output.element);
    flows.push_back(tracer.Trace(output.element));
  }
  return flows;
}

}  // namespace rewright
