#include "core/ir/pointwise.h"

#include <algorithm>
#include <utility>

#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Returns the axis of the output that variable `id` indexes, or -1.
int OutputAxis(const OutputMeaning& output, int64_t id) {
  for (size_t k = 0; k < output.index_vars.size(); ++k) {
    if (output.index_vars[k] == id) return static_cast<int>(k);
  }
  return -1;
}

// True if the expression is made of calls, selects, casts and constants over reads at the position itself.
bool PointwiseExpr(const Meaning& meaning, const ExprNode& expr) {
  switch (expr.kind()) {
    case ExprKind::kBool:
    case ExprKind::kConst:
    case ExprKind::kParam: return true;
    case ExprKind::kRead: {
      std::vector<bool> seen(meaning.outputs[0].index_vars.size());
      for (const ExprPtr& index : expr.args()) {
        if (index->IsInt(0)) continue;
        if (!index->IsVariable()) return false;
        const int axis = OutputAxis(meaning.outputs[0], index->variable());
        if (axis < 0 || seen[axis]) return false;
        seen[axis] = true;
      }
      return true;
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
    case ExprKind::kHolds:
    case ExprKind::kCall:
    case ExprKind::kSelect:
    case ExprKind::kCast:
      return std::all_of(expr.args().begin(), expr.args().end(),
                         [&](const ExprPtr& arg) { return PointwiseExpr(meaning, *arg); });
    default: return false;
  }
}

bool Moves(const ExprNode& element) {
  switch (element.kind()) {
    case ExprKind::kRead:
    case ExprKind::kConst:
    case ExprKind::kParam: return true;
    case ExprKind::kSelect: return Moves(*element.yes()) && Moves(*element.no());
    default: return false;
  }
}

}  // namespace

bool IsPointwise(const Meaning& meaning) {
  return meaning.outputs.size() == 1 && !meaning.outputs[0].element->IsRead() &&
         PointwiseExpr(meaning, *meaning.outputs[0].element);
}

PointwiseRead PointwiseReadOf(const Meaning& meaning, const ExprNode& read) {
  PointwiseRead result{read.operand(), {}};
  for (const ExprPtr& index : read.args()) {
    result.axes.push_back(index->IsVariable() ? OutputAxis(meaning.outputs[0], index->variable()) : -1);
  }
  return result;
}

std::vector<PointwiseRead> PointwiseReads(const Meaning& meaning) {
  std::vector<PointwiseRead> reads;
  Visit(meaning.outputs[0].element, [&](const ExprPtr& expr) {
    if (!expr->IsRead()) return;
    PointwiseRead read = PointwiseReadOf(meaning, *expr);
    if (std::find(reads.begin(), reads.end(), read) == reads.end()) reads.push_back(std::move(read));
  });
  return reads;
}

bool IsIdentityRead(const PointwiseRead& read, const TensorType& operand, const TensorType& output) {
  if (operand.shape != output.shape) return false;
  for (size_t d = 0; d < read.axes.size(); ++d) {
    if (read.axes[d] != static_cast<int>(d) && operand.shape[d] != 1) return false;
  }
  return true;
}

std::optional<int> CopiedOperand(const Meaning& meaning, const std::vector<TensorType>& operands,
                                 const std::vector<TensorType>& outputs) {
  if (meaning.IsOpaque() || meaning.outputs.size() != 1) return std::nullopt;
  const OutputMeaning& output = meaning.outputs[0];
  const ExprNode& element = *output.element;
  if (!element.IsRead() || operands[static_cast<size_t>(element.operand())] != outputs[0]) return std::nullopt;
  for (size_t axis = 0; axis < element.args().size(); ++axis) {
    const bool one_place = outputs[0].shape[axis] == 1 && element.arg(axis)->IsInt(0);
    if (!one_place && !element.arg(axis)->IsVariable(output.index_vars[axis])) return std::nullopt;
  }
  return element.operand();
}

bool MovesElements(const Meaning& meaning) {
  return !meaning.IsOpaque() && std::all_of(meaning.outputs.begin(), meaning.outputs.end(),
                                            [](const OutputMeaning& output) { return Moves(*output.element); });
}

}  // namespace rewright
