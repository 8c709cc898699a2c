// Decides instances of rules by the reference interpreter.
#pragma once

#include <optional>
#include <random>
#include <string>

#include "substitutions/instance/instance.h"

namespace rewright {

// Computes both sides with the interpreter at random sizes up to 5, on leaves of small integers. Returns the sizes at
// which they differ or the right side is not legal, as text; nothing if there are none. Adds the number of times that
// both sides were computed to `computed`.
std::optional<std::string> Distinguished(const RuleInstance& instance, int tries, std::mt19937_64& rng,
                                         int64_t* computed = nullptr);

}  // namespace rewright
