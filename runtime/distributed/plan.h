// A step on several ranks as data: a list of actions for each rank. The list is what runs (plan_executor.h); it prints
// and parses (plan_text.h), is checked (check_plan.h) and tells its bytes and memory (plan_cost.h) without a kernel.
//
// Actions of a list begin in their order. RUN, ACCUMULATE, UPDATE, OFFLOAD and FETCH end before the next one begins.
// SEND, RECEIVE and collectives only begin, and have ended behind the WAIT that names them; until then nothing else may
// use their tensors. Communication of a rank goes on in the order of its list.
//
// A sum takes its leaves, one for each micro-batch, in the order of the tree over micro-batches
// (runtime/comm/all_reduce.h), so its bits are those of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace rewright::distributed {

struct MeshAxis {
  std::string name;
  int size = 1;
};

// The ranks as an array with named axes, the outermost first. Ranks at the same place of axis 0 are a replica: they
// share the work of a micro-batch.
class Mesh {
 public:
  Mesh() = default;
  // REQUIRES: at least one axis; sizes are positive.
  explicit Mesh(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int ranks() const;
  int replicas() const { return axes_[0].size; }
  // The number of a rank within its replica.
  int NumberOf(int rank) const { return rank % (ranks() / replicas()); }
  // The place of a rank along an axis, and the ranks that differ from it along that axis alone, in order.
  int PlaceOf(int rank, int axis) const;
  std::vector<int> GroupOf(int rank, int axis) const;
  // The axis of that name; -1: there is none.
  int Find(const std::string& name) const;

 private:
  int StepOf(int axis) const;  // between neighbours
  std::vector<MeshAxis> axes_;
};

struct PlanTensor {
  // An input or a value exists once for each micro-batch, a weight and a sum once for the step.
  enum class Kind : uint8_t { kInput, kWeight, kValue, kSum };
  Kind kind = Kind::kValue;
  TensorType type;
  // Weights: the axis along which replicas have blocks. Sums: the axis along which replicas need only blocks. -1: all.
  int cut = -1;
  // The rank of a replica, by number, that updates a weight or adds a sum; -1: every one.
  int owner = -1;
  // Sums: the value that is added for a micro-batch. Where its type is larger, the block along `cut` that this rank has
  // among those of its replica is added.
  int leaf = -1;
  int behind = -1;  // sums: the subgraph behind which the value is added
  // Values: the axis along which ranks complete it together, each having made a summand, a block, or a part for each of
  // them. A collective does that; the tensor has the bytes of the whole. -1: a rank's own is all there is.
  int over = -1;
  enum class Join : uint8_t { kSum, kBlocks, kExchange };
  Join join = Join::kSum;
  bool apart = false;  // weights and sums: every replica has another one, of its own micro-batches
};

struct PlanSubgraph {
  std::vector<int> reads, makes;  // tensors
  // The axis whose ranks run it together, with exchanges of their own; -1: each rank runs it alone.
  int over = -1;
  int64_t scratch_bytes = 0;  // of memory while it runs
  int64_t own_bytes = 0;      // of memory that it always has
  double seconds = 0;         // that it takes; 0: not known
};

struct Action {
  enum class Kind : uint8_t {
    kRun,            // a subgraph for a micro-batch
    kSend,           // a tensor to a rank of the same replica
    kReceive,        // the next tensor that a rank sent
    kAllGather,      // weights, values: from blocks; sums: from flat shards, of which kReduceScatter left one here
    kReduceScatter,  // sums over ranks: a rank gets its blocks. With `givers`: leaves of this and the next
                     // micro-batches
    kAllReduce,      // sums over ranks: every rank gets all of them
    kAllToAll,       // values of parts for each rank
    kAccumulate,     // adds the leaves of a micro-batch to sums
    kUpdate,         // of weights, by these sums; by all ranks together
    kOffload,        // a value goes to the second tier of memory
    kFetch,          // and comes back
    kWait,           // until an action has ended
  };
  Kind kind = Kind::kRun;
  int target = -1;           // a subgraph; another rank; the number of an action
  std::vector<int> tensors;  // not of kRun and kWait
  int64_t micro_batch = -1;  // -1: of the step
  int64_t givers = 0;        // kReduceScatter: micro-batches, one for each of the first ranks of the group
  int axis = -1;             // collectives: of the mesh

  friend bool operator==(const Action&, const Action&) = default;
};
bool IsCollective(Action::Kind kind);
// Begins only, and needs a WAIT.
bool IsCommunication(Action::Kind kind);

struct Plan {
  Mesh mesh;
  int64_t micro_batches = 1;
  double update_seconds = 0;  // that an update takes; 0: not known
  std::vector<PlanTensor> tensors;
  std::vector<PlanSubgraph> subgraphs;
  std::vector<std::vector<Action>> lists;  // by rank
  // Axes along which ranks do the same for other data: only those at place 0 have lists, which stand for all. Replicas
  // that are alike have equal shares, in the order of their places, or in turns where micro-batches are given in turns.
  std::vector<int> alike;

  // The axes in the order in which they give devices to ranks, the outermost first; empty: that of the mesh, with which
  // a rank runs on the device of its number.
  std::vector<int> order;

  int DeviceOf(int rank) const;
  int RankAt(int device) const;
  bool IsAlike(int axis) const;
  std::vector<int> RanksWithLists() const;
  // Those with lists among the ranks that differ from one along an axis alone.
  std::vector<int> GroupWithLists(int rank, int axis) const;

  TensorType LeafType(int sum) const { return tensors[tensors[sum].leaf].type; }
  // Numbers of the tensors of a kind, in order.
  std::vector<int> TensorsOf(PlanTensor::Kind kind) const;
};

// By action of the list, the number of the action that waits for it; its own where it ends at once, or where none does.
std::vector<int> EndsOf(const std::vector<Action>& list);

}  // namespace rewright::distributed
