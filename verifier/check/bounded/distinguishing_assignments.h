// Draws sizes and attributes that tell a law from a coincidence.
//
// A false rule often holds where two sizes are equal, a stride is one or an offset is zero. Few draws can share such a
// coincidence by chance, and then the rule seems true. So a pool of legal assignments is drawn, and a few are taken
// from it that together break every coincidence that any of the pool breaks, or as many as that number of draws can.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "substitutions/instance/instance.h"

namespace rewright::verifier {

struct DistinguishingOptions {
  int pool = 60;                // assignments among which is chosen
  int tries = 10;               // further ones for each coincidence that none of these breaks
  int draws = 4;                // to choose at most
  int64_t most_elements = 600;  // of all values of both sides together
};

struct DistinguishingAssignments {
  std::vector<std::vector<int64_t>> chosen;  // of few elements where others break no more
  std::vector<std::vector<int64_t>> all;     // from which they were chosen, larger ones with them
};

// Legal assignments of the instance's symbols. A coincidence is a relation that holds by chance: two symbols are equal
// or in order, or one is zero, one or not negative. Before these, an attribute of an operator that is computed from
// symbols is drawn with both signs, so that a rule whose condition on it is missing meets a draw that breaks it.
// Nothing if no legal assignment is found.
DistinguishingAssignments DrawTelling(const RuleInstance& instance, const DistinguishingOptions& options,
                                      std::mt19937_64& rng);

}  // namespace rewright::verifier
