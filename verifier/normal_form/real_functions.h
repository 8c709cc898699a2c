// Laws of roots, rounding, and truth values that stand as numbers.
#pragma once

#include <optional>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

NormalForm ApplyFloor(Context& ctx, const NormalForm& x);
NormalForm ApplyRound(Context& ctx, const NormalForm& x);
NormalForm ApplySqrt(Context& ctx, const NormalForm& x);
std::optional<NormalForm> PowerOfLog(Context& ctx, const Term& t);
std::optional<NormalForm> TruthByCases(Context& ctx, const NormalForm& x, bool zero);

}  // namespace rewright::verifier
