// Maxima over unions of guarded families: flattening, common terms and factors.
#pragma once

#include <string>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

NormalForm MaxOver(Context& ctx, const std::vector<Family>& families);
// The same for the binder "max", or one of integers, "max.i64", "min.i32", ...
NormalForm ExtremumOver(Context& ctx, const std::string& binder, const std::vector<Family>& families);
// The positive rational that makes all coefficients coprime integers when they are divided by it.
Rational ContentOf(const Families& families);
// Removes one factor `factor` from each term; all terms have it.
void RemoveFactor(const Context& ctx, const Atom& factor, NormalForm* n);

}  // namespace rewright::verifier
