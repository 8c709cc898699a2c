// Weights that one model has in one piece, and the other in several.
#pragma once

#include "absl/status/statusor.h"
#include "verifier/equal/region.h"

namespace rewright {

// The region in which every known value that is read in parts is the concatenation of these parts, each a leaf of its
// own: of split(matmul(x, w), axis=1, sizes=[n1, n2]) the columns of w. Then a part can be found equal to what the
// other side computes. Which parts of a weight become which parts of what is split is read from the meanings of the
// operators between. Errors: a known value cannot be computed.
absl::StatusOr<Region> PartWeights(const Region& region, int threads);

}  // namespace rewright
