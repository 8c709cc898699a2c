// Proofs of regions: by equality saturation, else by the prover.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "verifier/equal/equal.h"
#include "verifier/equal/region.h"

namespace rewright {

struct RegionOutcome {
  bool proved = false;
  bool by_rules = false;
  std::vector<std::string> rules;  // by rules: those that made values equal
  std::vector<RegionProof> proof;  // by the prover: one
  std::vector<Folding> foldings;   // known values that are equal but for the rounding of those that are computed
  std::vector<Folding> constants;  // known values that are not, and were taken for equal (EqualOptions)
};

// `name` is the name of the rule that the region becomes.
absl::StatusOr<RegionOutcome> ProveRegion(const Region& region, const std::string& name, const EqualOptions& options);

// Proves pairs of values of `arena` equal, given that those of `cut` are known alike to both sides: in a small region
// first, then in one that reaches further up.
absl::StatusOr<RegionOutcome> ProvePairs(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
                                         const absl::flat_hash_set<Value>& cut, const std::string& name,
                                         const EqualOptions& options, const std::function<bool()>& stopped);

}  // namespace rewright
