// Proofs of regions: by equality saturation, else by the prover.
#pragma once

#include <string>
#include <vector>

#include "verifier/equal.h"
#include "verifier/region.h"

namespace rewright {

struct RegionOutcome {
  bool proved = false;
  bool by_rules = false;
  std::vector<std::string> rules;  // by rules: those that made values equal
  std::vector<RegionProof> proof;  // by the prover: one
  std::vector<Folding> foldings;   // known values that were taken for equal
};

// `name`: of the rule that the region becomes.
absl::StatusOr<RegionOutcome> ProveRegion(const Region& region, const std::string& name, const EqualOptions& options);

}  // namespace rewright
