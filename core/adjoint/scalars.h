// Sums and products of derivatives in a simple form: no factor 1, no term 0, equal terms once, signs and constants in
// front, what guards a value outside of what it is multiplied by.
//
// These rearrange real numbers: (u * a) / b for u * (a / b). They are for what is derived, of which the simple form
// *is* the definition; what somebody declared is left as it stands.
#pragma once

#include <vector>

#include "core/ir/expr.h"

namespace rewright {

bool IsConstant(const Scalar& value, double number);

// A value that is 0 where one of the conditions fails, and is not evaluated there. A condition is evaluated where those
// before it hold.
struct GuardedScalar {
  std::vector<ExprPtr> conditions;
  Scalar value;
};
GuardedScalar SplitGuard(const Scalar& value);
// No condition twice, none that is true.
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
