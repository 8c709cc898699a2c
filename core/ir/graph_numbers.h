// The numbers at which the behaviour of a graph may change, such as the bounds of a clip: inputs are drawn around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Returns the finite numbers other than 0 that the graphs hold, as elements of small constants and weights and as
// attributes, each magnitude once, smallest first: in at most `most` groups, one number in each if there are few.
// Magnitudes that `except` holds are left out.
std::vector<std::vector<double>> NumbersOf(const std::vector<const Graph*>& graphs, size_t most,
                                           const Graph* except = nullptr);

// The number of groups for which checks draw inputs.
inline constexpr size_t kSetsAround = 8;

// Returns inputs as RandomInputs does, but five in six of the elements that index nothing lie around the numbers: at
// them, next to them, within a factor of two below and above, and around their negatives. Numbers that the input's type
// does not reach are left out.
absl::StatusOr<std::vector<Tensor>> InputsAround(const Graph& graph, uint64_t seed, const std::vector<double>& numbers);

}  // namespace rewright
