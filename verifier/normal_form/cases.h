// Case analysis: forms under an assumed condition, conditions lifted out of functions.
#pragma once

#include <optional>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// f([c] ? a : b) = [c] ? f(a) : f(b) for conditions that lie deep inside functions.
NormalForm LiftConditions(Context& ctx, const NormalForm& n);
// The form where `literal` holds and its negation does not.
NormalForm AssumeForm(Context& ctx, const NormalForm& n, const Guard& literal, const Guard& negation);
Atom AssumeAtom(Context& ctx, const Atom& a, const Guard& literal, const Guard& negation);
// Literals of the terms' guards that mention none of the variables bound by their own term.
std::vector<Guard> FreeLiterals(const Context& ctx, const NormalForm& n);
// A condition that an element in the polynomial depends on.
std::optional<Guard> LiteralOfValues(const Context& ctx, const Poly& p);

}  // namespace rewright::verifier
