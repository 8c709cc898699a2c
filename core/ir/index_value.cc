#include "core/ir/index_value.h"

#include <algorithm>

#include "core/base/integer.h"

namespace rewright {

bool EvalIndex(ExprKind kind, int64_t a, int64_t b, int64_t* value) {
  switch (kind) {
    case ExprKind::kIndexAdd: return CheckedAdd(a, b, value);
    case ExprKind::kIndexSub: return CheckedSubtract(a, b, value);
    case ExprKind::kIndexMul: return CheckedMultiply(a, b, value);
    case ExprKind::kFloorDiv: return CheckedFloorDivide(a, b, value);
    case ExprKind::kMod: return CheckedRemainder(a, b, value);
    case ExprKind::kIndexMin: *value = std::min(a, b); return true;
    default: *value = std::max(a, b); return true;
  }
}

bool EvalIndex(const ExprNode& e, const std::vector<int64_t>& variables, int64_t* value) {
  const ExprKind kind = e.kind();
  if (kind == ExprKind::kInt) {
    *value = e.value();
    return true;
  }
  if (kind == ExprKind::kVar) {
    *value = variables[e.variable()];
    return true;
  }
  if (kind >= ExprKind::kFromValue) return false;  // the kinds of indices come first, this one last
  int64_t a, b;
  return EvalIndex(*e.arg(0), variables, &a) && EvalIndex(*e.arg(1), variables, &b) && EvalIndex(kind, a, b, value);
}

std::optional<int64_t> EvalIndex(const ExprPtr& e, const std::vector<int64_t>& variables) {
  int64_t value;
  return EvalIndex(*e, variables, &value) ? std::optional<int64_t>(value) : std::nullopt;
}

std::optional<bool> EvalCond(const ExprPtr& e, const std::vector<int64_t>& variables) {
  switch (e->kind()) {
    case ExprKind::kBool: return e->truth();
    case ExprKind::kLess:
    case ExprKind::kLessEqual:
    case ExprKind::kEqual: {
      int64_t a, b;
      if (!EvalIndex(*e->arg(0), variables, &a) || !EvalIndex(*e->arg(1), variables, &b)) return std::nullopt;
      return e->kind() == ExprKind::kLess ? a < b : e->kind() == ExprKind::kEqual ? a == b : a <= b;
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const std::optional<bool> first = EvalCond(e->arg(0), variables);
      if (!first || *first == (e->kind() == ExprKind::kOr)) return first;
      return EvalCond(e->arg(1), variables);
    }
    case ExprKind::kNot: {
      const std::optional<bool> negated = EvalCond(e->arg(0), variables);
      if (!negated) return std::nullopt;
      return !*negated;
    }
    default: return std::nullopt;
  }
}

}  // namespace rewright
