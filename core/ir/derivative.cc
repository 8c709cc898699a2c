#include "core/ir/derivative.h"

#include "core/base/check.h"

namespace rewright {
namespace {

// Words of the table.
Scalar Zero(const Scalar& like) { return Constant(0, like.dtype()); }
Scalar One(const Scalar& like) { return Constant(1, like.dtype()); }
Cond Less(const Scalar& a, const Scalar& b) { return Holds(Call(Fn::kLess, {a, b})); }
Cond LessEqual(const Scalar& a, const Scalar& b) { return Holds(Call(Fn::kLessEqual, {a, b})); }
Cond IsZero(const Scalar& a) { return Holds(Call(Fn::kEqual, {a, Zero(a)})); }

bool IsNumber(const Scalar& a) { return a.node()->kind() == ExprKind::kConst || a.node()->kind() == ExprKind::kParam; }

// Derivative of max or min by the argument `of`: 1 if that argument alone is the result, that is, if `lesser` is less
// than `greater`. If both arguments are equal, a tie with a number gives 0 and any other tie 0.5.
Scalar Share(const Scalar& of, const Scalar& lesser, const Scalar& greater, const Scalar& other) {
  if (IsNumber(of)) return Scalar();
  const Scalar tie = IsNumber(other) ? Zero(of) : Constant(0.5, of.dtype());
  return Select(Less(lesser, greater), One(of), Select(Less(greater, lesser), Zero(of), tie));
}

const Scalar FLAT;

}  // namespace

std::vector<Scalar> Partials(const Scalar& call) {
  const Scalar& y = call;
  CHECK(y.node()->kind() == ExprKind::kCall) << PrintExpr(y.node(), {});
  const Scalar a(y.node()->arg(0)), b(y.node()->args().back());
  if (!IsFloating(y.dtype()) || !IsFloating(a.dtype())) return std::vector<Scalar>(y.node()->args().size());
  switch (y.node()->fn()) {
// clang-format off
#define REWRIGHT_REAL(Id, name, summary, low, high, traits, real, field, derivative) \
  case Fn::k##Id: return {derivative};
#define REWRIGHT_UNARY(Id, name, traits, real, integer, boolean, field, derivative) \
  case Fn::k##Id: return {derivative};
#define REWRIGHT_BINARY(Id, name, sign, traits, real, integer, boolean, field, by_a, by_b) \
  case Fn::k##Id: return {by_a, by_b};
#include "core/ir/functions.def"
    // clang-format on
  }
  CHECK(false) << "an unknown function";
  return {};
}

}  // namespace rewright
