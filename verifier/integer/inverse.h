// Inverses of changes of summation variables.
#pragma once

#include <optional>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/integer/polynomial.h"

namespace rewright::verifier {

// `s` gives every variable of `from` as an integer combination of `to` plus an expression free of both. The result is
// the substitution that gives `to` by `from`, integer too; nothing if there is none. Both compositions are checked
// symbolically to be the identity, so the result is a proof that `s` is a bijection of the integers.
std::optional<Substitution> Inverse(Context& ctx, const Substitution& s, const std::vector<Var>& from,
                                    const std::vector<Var>& to);

}  // namespace rewright::verifier
