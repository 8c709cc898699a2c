// A graph in two words, for tables that hold millions of them.
#pragma once

#include <compare>
#include <cstdint>

#include "absl/status/statusor.h"
#include "substitutions/generate/enumerate/walk.h"

namespace rewright::generate {

struct PackedGraph {
  uint64_t high = 0, low = 0;
  friend auto operator<=>(const PackedGraph&, const PackedGraph&) = default;
};

class GraphCode {
 public:
  // Errors: graphs of space.max_ops applications do not fit.
  static absl::StatusOr<GraphCode> For(const Space& space);

  PackedGraph Pack(const SmallGraph& graph) const;
  SmallGraph Unpack(PackedGraph packed) const;

 private:
  explicit GraphCode(const Space& space) : space_(&space) {}

  const Space* space_;
  int num_inputs_ = 0, op_bits_ = 0, ref_bits_ = 0;
};

// How simple a graph is, whatever the names of its inputs: less is simpler. First by the number of applications, then
// by the operators that are used, then by a hash of how they are connected.
struct Simplicity {
  uint64_t rank = UINT64_MAX, form = 0;
  friend auto operator<=>(const Simplicity&, const Simplicity&) = default;
};

// The rank of those applications that are set in `mask`.
uint64_t RankOf(const SmallGraph& graph, uint64_t mask);
// The form of an output of `op`, from those of its operands, which are InputForm(group) for inputs.
uint64_t FormOf(const Space& space, int op, const uint64_t* operands, int output);
uint64_t InputForm(int group);
// `group_of`: of each input.
Simplicity SimplicityOf(const Space& space, const SmallGraph& graph, const int* group_of);

}  // namespace rewright::generate
