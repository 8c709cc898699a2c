// What refuted candidates teach: sizes and elements under which the graphs of a false pair differ.
//
// With them among its assignments (Space::counterexamples) a space is searched again from the beginning: what made a
// class with something false, or was left out because of it, comes back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "substitutions/generate/enumerate/fingerprint.h"
#include "substitutions/generate/enumerate/space.h"

namespace rewright::generate {

// How often a space is searched again.
inline constexpr int kMaxRestarts = 3;

// Drawn from the seed until the graphs of each pair differ under one of them, in the order of the pairs; a pair for
// which nothing is found in so many draws is passed over, and not more than a few are given at once, since every graph
// is evaluated under each. All graphs of the space stay legal. Empty where nothing is found.
std::vector<Counterexample> FindCounterexamples(const Space& space, const std::vector<Pair>& refuted, uint64_t seed);

// Those of the space, for the headers of journals: "" where it has none.
std::string CounterexamplesText(const Space& space);

// As numbers, for other processes.
std::vector<uint64_t> ToWords(const std::vector<Counterexample>& counterexamples);
std::vector<Counterexample> FromWords(const Space& space, const std::vector<uint64_t>& words);

}  // namespace rewright::generate
