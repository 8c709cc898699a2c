// Sums and products of derivatives in a simple form: no factor 1, no term 0, equal terms merged, signs and constants in
// front, guards outside of products.
//
// These functions rearrange real numbers: u * (a / b) becomes (u * a) / b. They are for derived expressions only, which
// are defined by this form; declared expressions are never rearranged.
#pragma once

#include <vector>

#include "core/ir/expr.h"

namespace rewright {

bool IsConstant(const Scalar& value, double number);

// A value that is 0 if one of the conditions fails, and is not evaluated then. A condition is evaluated only if those
// before it hold.
struct GuardedScalar {
  std::vector<ExprPtr> conditions;
  Scalar value;
};
GuardedScalar SplitGuard(const Scalar& value);
// The conditions, without repetitions and without true ones.
Scalar Join(const GuardedScalar& guarded);
Cond AllOf(const std::vector<ExprPtr>& conditions);

// condition ? yes : no, which may be the same.
Scalar Choose(const Cond& condition, const Scalar& yes, const Scalar& no);
Scalar Times(const Scalar& a, const Scalar& b);
// Adds terms. If every term is guarded, the sum is guarded too: a later factor may not be readable elsewhere.
Scalar SumOf(const std::vector<Scalar>& terms, DType dtype);

// A product: coefficient * above... / below...
struct Monomial {
  double coefficient = 1;
  std::vector<Scalar> above, below;
};
Monomial MonomialOf(const Scalar& value);
Scalar ProductOf(const Monomial& monomial, DType dtype);

}  // namespace rewright
