// Signs of elements that are plain to see.
#pragma once

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

bool IsNonnegative(Context& ctx, const NormalForm& n);
bool IsPositive(Context& ctx, const NormalForm& n);
bool IsPositiveAtom(Context& ctx, const Atom& a);
bool IsNonnegativeAtom(Context& ctx, const Atom& a);
// The product of the atoms is >= 0.
bool IsNonnegativeTerm(Context& ctx, const Term& t);

}  // namespace rewright::verifier
