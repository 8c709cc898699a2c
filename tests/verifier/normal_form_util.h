// Normal forms against plain evaluation: bound variables are enumerated over a box of integers, elements are computed
// by walking the declarations.
#pragma once

#include <cstdint>

#include "substitutions/instance/instance.h"
#include "verifier/integer/context.h"

namespace rewright::verifier {

struct Counts {
  int compared = 0;
  int skipped = 0;
};

// Compares both sides of the instance at a few assignments and positions, under one strategy. May throw GiveUp.
void CompareAll(const RuleInstance& instance, const Strategy& strategy, uint64_t seed, Counts* counts);

}  // namespace rewright::verifier
