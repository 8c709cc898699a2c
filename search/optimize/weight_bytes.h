// Bytes of weights that the file of a rewritten graph holds.
//
// A weight that a rewrite computes is written beside the one it was computed from where something else reads that
// one: a tied embedding with a scale in it is written twice. A search that knows the bytes can ask for a gain.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"

namespace rewright {

// A file may always become this many bytes larger: the name and the shape of a node take some. Files of quantized
// models may not (FreeGrowth): they are made to be small.
inline constexpr int64_t kFreeGrowth = 1024;
// Returns kFreeGrowth, or 0 if a value of the graph has integers of 8 or 16 bits.
int64_t FreeGrowth(const Graph& graph);

// The growth that rewritten files are allowed by default.
inline constexpr double kDefaultGrowth = 0.01;

// The number of bytes beyond `before` that may be written, where `growth` is the share of them: at least `free`.
int64_t AllowedGrowth(double growth, int64_t before, int64_t free = kFreeGrowth);

// Bytes of states and constants in the memory of this machine.
int64_t BytesOfElements(const Graph& graph);

class WeightBytes {
 public:
  // Only weights of `original` count: its file computes the values that it computes from weights.
  explicit WeightBytes(const Graph& original);

  // Counts the weights of a graph of the same arena. A value that it computes from weights, and the original does not,
  // counts by its own bytes, unless its leaves take next to no bytes: then the file computes it.
  int64_t Of(const Graph& graph) const;

  int64_t original() const { return original_bytes_; }

 private:
  class Count;

  Graph original_;
  int64_t original_bytes_ = 0;
};

// The price of the bytes by which a graph's weights exceed the original's.
struct GrowthPrice {
  double seconds_per_byte = 0;
  int64_t most_bytes = std::numeric_limits<int64_t>::max();
};
// Each share of `original` bytes is worth that share of `seconds`.
GrowthPrice PriceOfGrowth(double growth, int64_t original, double seconds);

}  // namespace rewright
