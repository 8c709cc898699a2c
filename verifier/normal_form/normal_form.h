// The algebra of normal forms, with its laws about elements. Laws of index arithmetic are in context.h and
// core/index/laws.h, further laws of functions in functions.cc and real_functions.cc.
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
// Integers are the ring modulo 2^64 or 2^32. Their sums, differences and products are those of normal forms. Functions
// that depend on their order or size have a name that ends in their type, and so do such binders:
//   less.i64 zero.i64 max.i64 min.i64 quotient.i64 float.i64 (a cast), the same of i32, and widen.i32 (to i64).
// Their arguments are compared in the ring. Only constants within the type, and sizes and positions of tensors (which
// fit 64 bits; for i32, a plain position), are the integers themselves, with their order.
//
// Functions: exp log sqrt recip erf tanh sigmoid abs floor ceil pow max min quotient (of integers, rounded toward
// zero), pos (x > 0) and zero (x = 0) with values 0 and 1; any other name is uninterpreted.
NormalForm Apply(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args);
NormalForm SumOver(Context& ctx, const std::vector<Var>& bound, const Guard& guard, const NormalForm& body);
NormalForm MaxOver(Context& ctx, const std::vector<Family>& families);
// The same for the binder "max", or one of integers, "max.i64", "min.i32", ...
NormalForm ExtremumOver(Context& ctx, const std::string& binder, const std::vector<Family>& families);
bool IsExtremum(const std::string& binder);
// The value of an element of that integer type as a number that no arithmetic has wrapped around.
bool IsBoundedIndex(Context& ctx, const NormalForm& n, bool wide, Poly* value);
NormalForm ProdOver(Context& ctx, const Family& family);
// f([c] ? a : b) = [c] ? f(a) : f(b) for conditions that lie deep inside functions.
NormalForm LiftConditions(Context& ctx, const NormalForm& n);
// Drops the conditions that the others imply. A bound variable's recorded range counts if they state it.
Guard SimplifyGuard(Context& ctx, const Guard& g, const std::vector<Var>& bound);

bool IsConstant(const NormalForm& n, Rational* value);
// Exactly one term without sum and guard: coef * atoms.
bool IsMonomial(const NormalForm& n);
// A polynomial in indices with integer coefficients.
bool IsIndex(const NormalForm& n, Poly* value);
bool IsSingleAtom(const NormalForm& n, AtomNode::Kind kind);
bool IsNonnegative(Context& ctx, const NormalForm& n);
bool IsPositive(Context& ctx, const NormalForm& n);

}  // namespace rewright::verifier
