// Tensors with random elements: for tests, fingerprints and timings, and for the inputs of a graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Returns a tensor of independent elements, uniform in [low, high]: reals for floating types, integers for integer
// types (the interval holds one), fair coins for booleans. Equal sequences of bits give equal tensors on every machine.
Tensor RandomTensor(const TensorType& type, Rng& rng, double low, double high);

// Returns the number of different values that the elements of an input may take as indices: the smallest size of an
// axis in which they select positions (like the indices of gather), read from the meanings of the operators that read
// it. 0: they are no indices.
int64_t IndexedSize(const Graph& graph, Value input);

// Returns random inputs in the order of Graph::inputs(). Floating elements are normal (mean 0, deviation 1), truth
// values are fair coins, integers are uniform over 0..n-1, where n is IndexedSize or else 2 (masks, segment numbers).
// Integers that are no indices begin at `least_integer` instead of 0: 1 for graphs that divide by them. An input's
// elements depend on the seed, its name and its type alone. Error: an input is larger than the memory
// (core/tensor/memory.h).
absl::StatusOr<std::vector<Tensor>> RandomInputs(const Graph& graph, uint64_t seed, int64_t least_integer = 0);

// Magnitudes of the elements of an input, beyond ordinary numbers: 1/16, 1, 32 and up to the largest in f16; 2^-10, 1,
// 2^10 and 2^20 in other floating types, each within a factor of two and of either sign; 0 and 1, -8 to 8, -1000 to
// 1000 and the ends of the type for integers, as far as the type has them.
enum class Magnitude : uint8_t { kSmall, kOrdinary, kLarge, kExtreme };
inline constexpr int kMagnitudes = 4;

// Returns inputs as RandomInputs does, but input i has elements of magnitudes[i]. Truth values are fair coins, and
// indices stay within their axes.
absl::StatusOr<std::vector<Tensor>> StressInputs(const Graph& graph, uint64_t seed,
                                                 const std::vector<Magnitude>& magnitudes);

// Replaces the tensors of the inputs that have these names and types.
void PutGiven(const Graph& graph, const std::map<std::string, Tensor>& given, std::vector<Tensor>* inputs);

}  // namespace rewright
