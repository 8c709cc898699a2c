// The algebra of normal forms, with its laws about elements. Laws of index arithmetic are in context.h and
// core/index/laws.h, further laws of functions in function_laws.h and real_functions.h.
//
//   [c] ? a : b = [c] a + [not c] b          sums and products by distributivity, exchange and merging of sums
//   one-point rule: [v = e] removes v        counting: a variable that only its bounds mention becomes their distance
//   f([c] ? a : b) = [c] ? f(a) : f(b)       relu is max{., 0}; max of max is a max over the union of the families
//   max(x + c) = max(x) + c                  max(a x) = a max(x) for a > 0, and a >= 0 where the family has a point
//   prod(a b) = prod(a) prod(b)              a prod over a disjoint union is the product of two; prod of prod is one
//   pos and zero of integers are guards      trunc(a / b) of integers a >= 0, b >= 1 is the quotient of indices
//   with Strategy::finite_laws: exp(a + b) = exp(a) exp(b), 1/(a b) = (1/a)(1/b), a (1/a) = 1 for a > 0, sqrt(a)^2 = a,
//   log(exp a) = a, exp(log a) = a for a > 0; these hold over the reals and fail for infinities, so their use is
//   recorded.
#pragma once

#include <string>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// More terms than any honest rule makes; one with literal matrices multiplies them out.
inline size_t MostTerms(const Context& ctx) { return ctx.strategy.unroll ? 20000 : 600; }

NormalForm ConstantForm(const Rational& value);
NormalForm AtomForm(const Atom& a);
NormalForm IndexForm(Context& ctx, const Poly& value);
NormalForm Simplify(Context& ctx, const NormalForm& n);
// Merges like terms; the terms are simplified already.
NormalForm Merged(Context& ctx, const NormalForm& n);
NormalForm Add(Context& ctx, const NormalForm& a, const NormalForm& b);
NormalForm Scale(const NormalForm& n, const Rational& factor);
NormalForm Multiply(Context& ctx, const NormalForm& a, const NormalForm& b);
NormalForm Restrict(Context& ctx, const Guard& guard, const NormalForm& n);
NormalForm Choose(Context& ctx, const Guard& guard, const NormalForm& yes, const NormalForm& no);
NormalForm SumOver(Context& ctx, const std::vector<Var>& bound, const Guard& guard, const NormalForm& body);

bool IsConstant(const NormalForm& n, Rational* value);
// Exactly one term without sum and guard: coef * atoms.
bool IsMonomial(const NormalForm& n);
// A polynomial in indices with integer coefficients.
bool IsIndex(const NormalForm& n, Poly* value);
bool IsSingleAtom(const NormalForm& n, AtomNode::Kind kind);

}  // namespace rewright::verifier
