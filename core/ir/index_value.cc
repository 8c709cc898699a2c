#include "core/ir/index_value.h"

#include <algorithm>

#include "core/base/integer.h"

namespace rewright {

std::optional<int64_t> EvalIndex(const ExprPtr& e, const std::vector<int64_t>& variables) {
  if (e->kind == ExprKind::kInt) return e->integer;
  if (e->kind == ExprKind::kVar) return variables[e->integer];
  if (e->kind == ExprKind::kFromValue || !IsIndexKind(e->kind)) return std::nullopt;
  const std::optional<int64_t> a = EvalIndex(e->args[0], variables);
  if (!a) return std::nullopt;
  const std::optional<int64_t> b = EvalIndex(e->args[1], variables);
  if (!b) return std::nullopt;
  int64_t value = 0;
  bool fits = true;
  switch (e->kind) {
    case ExprKind::kIndexAdd: fits = CheckedAdd(*a, *b, &value); break;
    case ExprKind::kIndexSub: fits = CheckedSubtract(*a, *b, &value); break;
    case ExprKind::kIndexMul: fits = CheckedMultiply(*a, *b, &value); break;
    case ExprKind::kFloorDiv: fits = CheckedFloorDivide(*a, *b, &value); break;
    case ExprKind::kMod: fits = CheckedRemainder(*a, *b, &value); break;
    case ExprKind::kIndexMin: value = std::min(*a, *b); break;
    default: value = std::max(*a, *b); break;
  }
  if (!fits) return std::nullopt;
  return value;
}

std::optional<bool> EvalCond(const ExprPtr& e, const std::vector<int64_t>& variables) {
  switch (e->kind) {
    case ExprKind::kBool: return e->integer != 0;
    case ExprKind::kLess:
    case ExprKind::kLessEqual:
    case ExprKind::kEqual: {
      const std::optional<int64_t> a = EvalIndex(e->args[0], variables), b = EvalIndex(e->args[1], variables);
      if (!a || !b) return std::nullopt;
      return e->kind == ExprKind::kLess ? *a < *b : e->kind == ExprKind::kEqual ? *a == *b : *a <= *b;
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const std::optional<bool> first = EvalCond(e->args[0], variables);
      if (!first || *first == (e->kind == ExprKind::kOr)) return first;
      return EvalCond(e->args[1], variables);
    }
    case ExprKind::kNot: {
      const std::optional<bool> negated = EvalCond(e->args[0], variables);
      if (!negated) return std::nullopt;
      return !*negated;
    }
    default: return std::nullopt;
  }
}

}  // namespace rewright
