// Scalar functions of normal forms.
#pragma once

#include <string>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// Integers are the ring modulo 2^64 or 2^32. Their sums, differences and products are those of normal forms. Functions
// that depend on their order or size have a name that ends in their type, and so do such binders:
//   less.i64 zero.i64 max.i64 min.i64 quotient.i64 float.i64 (a cast), the same of i32, and widen.i32 (to i64).
// Their arguments are compared in the ring. Only constants within the type, and sizes and positions of tensors (which
// fit 64 bits; for i32, a plain position), are the integers themselves, with their order.
//
// Functions: exp log sqrt recip erf tanh sigmoid abs floor ceil pow max min quotient (of integers, rounded toward
// zero), pos (x > 0) and zero (x = 0) with values 0 and 1; any other name is uninterpreted.
NormalForm Apply(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args);
bool IsExtremum(const std::string& binder);
// The value of an element of that integer type as a number that no arithmetic has wrapped around.
bool IsBoundedIndex(Context& ctx, const NormalForm& n, bool wide, Poly* value);
// True if it is a function of integers: its name ends in their type.
bool IsIntegerFunction(const std::string& name);
// True if the type in the name holds the number.
bool FitsType(const Rational& value, const std::string& name);

}  // namespace rewright::verifier
