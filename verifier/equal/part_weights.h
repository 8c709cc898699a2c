// Weights that one model has in one piece, and the other in several.
#pragma once

#include "absl/status/statusor.h"
#include "verifier/equal/region.h"

namespace rewright {

// Builds the region in which every known value that is read in parts is the concatenation of these parts, each a leaf
// of its own, or a slice of what the model computes: for split(matmul(x, w), axis=1, sizes=[n1, n2]) these are columns
// of w. Then a part can be found equal to a value that the other side computes. The meanings of the operators between
// tell which parts of a weight become which parts of the split value.
absl::StatusOr<Region> PartWeights(const Region& region);

}  // namespace rewright
