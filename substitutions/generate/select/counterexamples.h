// Finds sizes and elements under which the graphs of a refuted pair differ.
//
// A space takes them into its assignments (Space::counterexamples) and is searched again from the beginning: graphs
// that shared a class with something false, or were left out because of it, come back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "substitutions/generate/enumerate/fingerprint.h"
#include "substitutions/generate/enumerate/space.h"

namespace rewright::generate {

// How often a space is searched again.
inline constexpr int kMaxRestarts = 3;

// Draws from the seed until the graphs of each pair differ under some draw, in the order of the pairs. It passes over a
// pair after a fixed number of draws and gives only a few counterexamples at once, since every graph is evaluated under
// each. All graphs of the space stay legal. The result is empty if it finds none.
std::vector<Counterexample> FindCounterexamples(const Space& space, const std::vector<Pair>& refuted, uint64_t seed);

// The counterexamples of the space as text, for the headers of journals: "" if it has none.
std::string CounterexamplesText(const Space& space);

// Encodes them as numbers, for other processes.
std::vector<uint64_t> ToWords(const std::vector<Counterexample>& counterexamples);
std::vector<Counterexample> FromWords(const Space& space, const std::vector<uint64_t>& words);

}  // namespace rewright::generate
