// Collectives on tensors that are cut into blocks along an axis, one block for each rank, in their order.
//
// Every rank of the communicator calls them together. Messages go straight from where elements are to where they are
// needed: with N ranks an all-gather, a reduce-scatter and an all-to-all send (N - 1) / N of the whole, of the whole
// and of a rank's part; the order of messages, and of additions, is this file's own. Errors: those of
// Communicator::Exchange.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "runtime/comm/all_reduce.h"
#include "runtime/comm/communicator.h"

namespace rewright {

// The type of one of `degree` blocks along an axis. REQUIRES: degree divides the size of the axis.
TensorType BlockType(TensorType whole, int axis, int64_t degree);

// Copies the elements of a tensor into another of the same type.
void CopyElements(const Tensor& from, Tensor* to);
// A copy with elements of its own, zeros where the tensor has none. Error: too little memory, for `what`.
absl::StatusOr<Tensor> CopyOf(const Tensor& tensor, const std::string& what);

// Copies `count` positions along an axis, which begin at `from_begin`, to those that begin at `to_begin`. REQUIRES: the
// types are equal but for that axis.
void CopyPositions(const Tensor& from, int axis, int64_t from_begin, int64_t count, Tensor* to, int64_t to_begin);

// Copies block `number` of the whole, as many elements along the axis as `block` has, into it.
void CopyBlock(const Tensor& whole, int axis, int64_t number, Tensor* block);

// Joins the blocks of all ranks to the whole, at all of them.
absl::Status AllGather(Communicator& ranks, const std::string& what, const Tensor& block, int axis, Tensor* whole);

// Reduces the tensors of all ranks to this rank's block of their sum, or of another reduction, in the order of the tree
// of LeavesOfRanks(N, N): the same bits as those of AllReduce.
absl::Status ReduceScatter(Communicator& ranks, const std::string& what, Reduction reduction, const Tensor& part,
                           int axis, Tensor* block);

// Replaces this rank's block of each tensor along its axis by the block of the sum over the ranks, in place, in the
// order of the tree (runtime/comm/all_reduce.h); the other ranks' blocks stay as they are. All tensors go in one
// exchange, which needs as much memory as bytes arrive. REQUIRES: floating-point elements.
absl::Status ReduceScatterInPlace(Communicator& ranks, const std::string& what, const std::vector<LeafRange>& leaves,
                                  const std::vector<std::pair<Tensor*, int>>& tensors);

// The type of a rank's shard of a tensor: its block along the axis; where that is -1 a flat shard, a vector of
// successive elements, so that the shards of all ranks are as even as can be.
TensorType ShardType(const TensorType& whole, int axis, int rank, int size);

// Several tensors in one exchange, from the shards of all ranks to the whole at all of them.
struct GatheredTensor {
  Tensor part;
  int axis = -1;
  Tensor whole;
};
absl::Status AllGather(Communicator& ranks, const std::string& what, const std::vector<GatheredTensor>& tensors);

// One leaf of each of the ranks 0..givers-1, several tensors of it: every rank adds its part of each tensor to the
// sums, leaf by leaf in the order of ranks. `leaf` is empty for a rank that gives none.
struct LeafSum {
  TensorType type;
  int axis = -1;  // ShardType
  TreeSum* sum = nullptr;
};
absl::Status ReduceScatterLeaves(Communicator& ranks, const std::string& what, int givers,
                                 const std::vector<LeafSum>& tensors, const std::vector<Tensor>& leaf);

// Turns blocks along the axis `joined` into blocks along the axis `cut`. REQUIRES: these differ.
absl::Status AllToAll(Communicator& ranks, const std::string& what, const Tensor& part, int joined, int cut,
                      Tensor* block);

// This rank's block with the last `before` elements along the axis of what precedes it in the whole and the first that
// follow, as many as `extended` has room for; zeros outside of the whole. Negative `before` leaves elements out. Edges
// may be longer than blocks.
absl::Status ExchangeHalo(Communicator& ranks, const std::string& what, const Tensor& block, int axis, int64_t before,
                          Tensor* extended);

}  // namespace rewright
