// The part of one rank of a graph that is cut over devices (docs/sharding.md): the device axis is struck out.
//
//   each_f(x, ..)                   f of this rank's parts
//   block_f(x, ..)                  block_f of them, this rank being the only one that is here
//   partition of an input or state  the rank's block, which is an input or state itself
//   partition of what all have      the rank's slice of it
//   replicate                       nothing
//   combine                         an all-gather; where it is only cut again along another axis, an all-to-all
//   reduce_sum.. over the devices   an all-reduce; where it is only cut again, reduce-scatters
//   halo                            an exchange with the neighbours
//   gather_rows                     a look-up in the rank's rows, masked
//   f of what all have              f, on every rank
//
// Where a tensor on devices is used as a whole, with the device as its first axis, it is gathered like that; where one
// that all ranks have is used as one on devices, each takes its part. Tensors on another number of devices than there
// are ranks are tensors like any other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/comm/all_reduce.h"

namespace rewright {

// Communication between two values of a rank's graph: from its output of that name to its input of that name.
struct Collective {
  enum class Kind : uint8_t { kAllGather, kAllReduce, kReduceScatter, kAllToAll, kHalo };
  Kind kind = Kind::kAllGather;
  std::string name;                       // "all-gather.3"
  std::string of;                         // for messages: what makes the operand, "matmul"
  int axis = 0;                           // along which the whole is joined; kReduceScatter, kAllToAll: is cut
  int joined = 0;                         // kAllToAll: the axis that was cut before
  int64_t before = 0;                     // kHalo: elements
  Reduction reduction = Reduction::kSum;  // kAllReduce, kReduceScatter
};
const char* CollectiveName(Collective::Kind kind);  // "all-gather"

// A rank's part of a tensor: its block along the axis, or all of it where that is -1.
struct Shard {
  Tensor tensor;
  int axis = -1;
};

// A leaf of the cut graph.
struct ShardedLeaf {
  std::string name;
  TensorType whole;
  int axis = -1;  // along which the rank has its block; -1: it has all of it
};

struct RankGraph {
  // Inputs: those of the cut graph, in order, whole or blocks, then the collectives' results. Outputs: those of the cut
  // graph, where results are whole and next values are of the types that states have here, then the collectives'
  // operands.
  Graph graph;
  std::vector<ShardedLeaf> inputs;      // of the cut graph, in order
  std::vector<ShardedLeaf> states;      // in training; at inference they are in the graph's arena
  std::vector<Collective> collectives;  // in an order in which they can be run; the same one on every rank

  // The number of a state in `states`. Error: there is none of that name.
  absl::StatusOr<size_t> FindState(const std::string& name) const;
  // The graph's states in the order of `states`.
  std::vector<Value> StatesInOrder() const;
};

// The graph of one rank. Values that depend on weights and constants alone are exchanged here at inference, once: every
// rank has them all. Errors: those of the interpreter on weights.
absl::StatusOr<RankGraph> GraphOfRank(const Graph& cut, int rank, int size);

}  // namespace rewright
