// Inverses of changes of summation variables.
#pragma once

#include <optional>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/integer/polynomial.h"

namespace rewright::verifier {

// `s` gives every variable of `from` as an integer combination of `to` plus something free of both. The substitution
// that gives `to` by `from`, integer too; nothing where there is none. Both compositions are checked symbolically to be
// the identity, so that what comes back is a proof that `s` is a bijection of the integers.
std::optional<Substitution> Inverse(Context& ctx, const Substitution& s, const std::vector<Var>& from,
                                    const std::vector<Var>& to);

}  // namespace rewright::verifier
