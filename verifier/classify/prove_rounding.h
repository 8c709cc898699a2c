// Proves the laws of rounding of an instance (rounding_laws.h), and measures what is not proved.
#pragma once

#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {

// Facts of an instance's rounding, for every size where they are said to be proved.
struct RoundingOfInstance {
  bool same_operations = false;  // proved
  bool same_magnitudes = false;  // proved
  // The largest element of an output under magnitudes, on the right side over that on the left side, and the other way
  // round: the greatest found, at small sizes and at large ones, where leaves, and elements of one leaf, are of very
  // different sizes or 0. Both 1 where same_magnitudes.
  double growth = 1;
  double loss = 1;
};

// The instance is one that is proved: if nothing in it rounds, the law of operations is that proof. `same_bits`:
// whether measurement has found no difference; otherwise the law of operations is not tried. Limits are
// those of `options`; no counterexample is searched for, but nothing is tried that fails at some sizes.
RoundingOfInstance ProveRounding(const RuleInstance& instance, bool same_bits, const ProofOptions& options);

// The same where elements are of 16 bits.
struct RoundingOnHalves {
  bool same_operations = false;  // proved, with every value stored
  // Applications of the right side, ascending, that may have elements larger than all of the left side and of the other
  // applications: the law of ranges is not proved for them, and they do not just choose among elements.
  std::vector<int> new_values;
};

// `same_operations`: those of wider elements; without them the law of operations is not tried.
RoundingOnHalves ProveRoundingOnHalves(const RuleInstance& instance, bool same_operations, const ProofOptions& options);

}  // namespace rewright
