// How equations between expressions and known values bind names: which names an expression needs, and which one it
// can be solved for. Used to fix the order of binding (CompileRule) and to bind (matcher.cc).
#pragma once

#include <cstdint>

#include "substitutions/language/rule.h"

namespace rewright {

// True if all sizes, packs and attributes in `expr` are bound; asks `bound(ref, id)`. Tensors always are.
template <typename Bound>
bool AllBound(const ArgExpr& expr, const Bound& bound) {
  if (expr.ref == ArgExpr::Ref::kSize || expr.ref == ArgExpr::Ref::kPack || expr.ref == ArgExpr::Ref::kAttr) {
    return bound(expr.ref, expr.id);
  }
  for (const ArgExpr& arg : expr.args) {
    if (!AllBound(arg, bound)) return false;
  }
  return true;
}

// True if `expr` is the length of a pack. An equation can be solved for a lone name or for such a length.
inline bool IsLength(const ArgExpr& expr) {
  return expr.kind == ArgExpr::Kind::kCall && expr.fn == ArgFn::kLen && expr.args[0].ref == ArgExpr::Ref::kPack;
}

// When `expr` has exactly one unbound operand on its way down through + - * and that is a lone name or a length: that;
// else null. SolveStep() takes the value down the same way.
template <typename Bound>
const ArgExpr* SolvableName(const ArgExpr& expr, const Bound& bound) {
  const bool name = expr.kind == ArgExpr::Kind::kName || expr.kind == ArgExpr::Kind::kAttr;
  if (name) return expr.ref != ArgExpr::Ref::kTensor && !bound(expr.ref, expr.id) ? &expr : nullptr;
  if (IsLength(expr)) return bound(ArgExpr::Ref::kPack, expr.args[0].id) ? nullptr : &expr;
  if (expr.kind != ArgExpr::Kind::kOp) return nullptr;
  if (expr.op != ArgOp::kAdd && expr.op != ArgOp::kSub && expr.op != ArgOp::kMul) return nullptr;
  const bool first = AllBound(expr.args[0], bound);
  const bool second = AllBound(expr.args[1], bound);
  if (first == second) return nullptr;
  return SolvableName(expr.args[first ? 1 : 0], bound);
}

// Solves `a op b = value` with one side known for the other side; false if there is no solution.
inline bool SolveStep(ArgOp op, bool first_known, int64_t known, int64_t value, int64_t* result) {
  switch (op) {
    case ArgOp::kAdd: return !__builtin_sub_overflow(value, known, result);
    case ArgOp::kSub:
      return first_known ? !__builtin_sub_overflow(known, value, result)
                         : !__builtin_add_overflow(value, known, result);
    case ArgOp::kMul:
      if (known == 0 || known == -1 || value % known != 0) return false;
      *result = value / known;
      return true;
    default: return false;
  }
}

}  // namespace rewright
