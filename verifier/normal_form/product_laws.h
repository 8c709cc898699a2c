// Laws of the factors of one term.
#pragma once

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// The a of max{a, 0}, or null.
const NormalForm* PositivePartOf(const Atom& a);
// One law of the term's factors, as long as one applies.
bool SimplifyFactors(Context& ctx, Term* t);

}  // namespace rewright::verifier
