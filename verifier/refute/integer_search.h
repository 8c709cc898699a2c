// Search for a counterexample of a rule instance at integers near the ends of their types, where sums and products wrap
// around.
//
// The search in counterexample.h computes with doubles, which cannot tell such integers apart; here the reference
// interpreter computes both sides.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/refute/witness.h"

namespace rewright::verifier {

// True if some leaf of the instance holds integers that are not given.
bool HasIntegers(const RuleInstance& instance);

// Compares the sides at `draws` drawings of the leaves, at each of the first few assignments of the symbols that make
// the left side legal.
std::optional<Counterexample> SearchIntegers(const RuleInstance& instance,
                                             const std::vector<std::vector<int64_t>>& assignments, int draws,
                                             std::mt19937_64* rng);

// Compares the sides at sizes just beyond those where positions and counts of 8 and 16 bits wrap around. Each of the
// first few assignments gets such a size in place of one of its values, or of all. Nothing if the instance has no such
// positions or counts.
std::optional<Counterexample> SearchPositions(const RuleInstance& instance,
                                              const std::vector<std::vector<int64_t>>& assignments,
                                              std::mt19937_64* rng);

}  // namespace rewright::verifier
