// Sums over ranks whose bits do not depend on the number of ranks.
//
// The summands are the leaves of one binary tree, which their number alone determines: a node of n > 1 leaves has the
// largest power of two below n in its left child, the rest in its right one. A rank has all leaves of one node and adds
// them itself (TreeSum); AllReduce continues with the nodes above. So every addition is that of the tree, on whichever
// rank it happens, and floating-point numbers give the same bits on any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/tensor/tensor.h"
#include "runtime/comm/communicator.h"

namespace rewright {

// Leaves [first, first + count).
struct LeafRange {
  int64_t first = 0, count = 0;
};

// The node of each rank, in order; together they have every leaf. As even as the tree permits: the largest node is as
// small as it can be, and all are equal where leaves / ranks is a power of two. REQUIRES: 1 <= ranks <= leaves.
std::vector<LeafRange> LeavesOfRanks(int64_t leaves, int ranks);

enum class Reduction : uint8_t { kSum, kProd, kMax, kMin, kAnd, kOr };

// Reduces what the ranks give, one part of `count` elements each, in the order of the tree, into `result`, which may be
// one of the parts; these are overwritten. REQUIRES: `leaves` are LeavesOfRanks; kAnd and kOr are of booleans, the
// others are not.
void ReduceParts(Reduction reduction, DType dtype, const std::vector<LeafRange>& leaves,
                 const std::vector<void*>& parts, int64_t count, void* result);

// a += b, element by element. REQUIRES: the same type, of floating-point elements.
void AddTo(Tensor& a, const Tensor& b);

// The sum of the leaves of one node, given in their order. Keeps at most one tensor for each level of the tree.
class TreeSum {
 public:
  // Takes over the tensor; no other code may use its elements.
  void Add(Tensor leaf);
  // Returns the sum of all leaves given, at least one, and removes them.
  Tensor Take();

 private:
  // Sums of 2^k leaves each, from left to right with ever fewer leaves.
  std::vector<std::pair<int64_t, Tensor>> nodes_;
};

// The bytes of a tensor that AllReduce works on at once: what it needs as much of again, as memory.
inline constexpr int64_t kAllReduceBytes = int64_t{25} << 20;

// Turns the sum of each rank's leaves into that of all leaves, at every rank and in place; likewise for other
// reductions. The tensor is reduced in stretches of kAllReduceBytes. Each rank reduces one part of a stretch, which the
// others send to it, and sends the result to them: with N ranks 2 (N - 1) / N of the tensor's bytes are sent by each,
// as in a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009), up
// to one element for each other rank where N does not divide. REQUIRES: as ReduceParts. Errors: those of
// Communicator::Exchange.
absl::Status AllReduce(Communicator& ranks, const std::string& what, const std::vector<LeafRange>& leaves,
                       Tensor* tensor, Reduction reduction = Reduction::kSum);

}  // namespace rewright
