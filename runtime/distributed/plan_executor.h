// Runs a rank's list of a plan over its communicators.
//
// Collectives go on beside the list on a thread of their own, in their order, where nothing else of the list
// communicates; otherwise each holds the list up. Messages of a pipeline need no thread: a SEND goes on by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/all_reduce.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/worker_thread.h"
#include "runtime/distributed/plan.h"
#include "runtime/parallel/subgraphs.h"

namespace rewright::distributed {

// The communicators of a rank; they outlive the executor.
struct PlanCommunicators {
  Communicator& replica;   // the ranks of its replica, by number
  Communicator& replicas;  // those along axis 0
};

// The parts that a list runs on.
struct PlanParts {
  Plan plan;  // that CheckPlan accepts
  int rank = 0;
  // By subgraph, what runs it, with the inputs and outputs of its `reads` and `makes`; null where the list does not.
  SubgraphExecutables executables;
  // Gives the weights of the plan at the beginning of a step, in their order: all of them, or this rank's blocks where
  // they are cut; empty where another rank of the replica owns them.
  std::function<absl::StatusOr<std::vector<Tensor>>()> weights;
  int64_t weight_bytes = 0;  // that `weights` sends
};

class PlanExecutor {
 public:
  // Errors: too little memory.
  static absl::StatusOr<std::unique_ptr<PlanExecutor>> Create(PlanParts parts, const PlanCommunicators& ranks);

  // The inputs of the rank's next micro-batch.
  using NextBatch = std::function<absl::StatusOr<std::vector<Tensor>>()>;
  // Gets the sums of the step, in the order of the plan: empty where another rank of the replica owns them, blocks
  // where they are cut.
  using Update = std::function<absl::Status(const std::vector<Tensor>& sums)>;
  // Runs the list once. `what` names the step in errors: those of executables, of data, of ranks and of the update.
  absl::Status Run(const std::string& what, const NextBatch& next_batch, const Update& update);

  const Plan& plan() const { return parts_.plan; }
  // The plan with what this rank knows of its subgraphs: their memory, and the mean seconds that they and the update
  // took, without the first step if there were others.
  Plan MeasuredPlan() const;
  int rank() const { return parts_.rank; }
  // Bytes that this rank sends in a step, but for the update.
  int64_t bytes_sent() const;
  // Memory of this rank for its list, beside sums and the weights that it keeps, as far as it was needed until now.
  int64_t arena_bytes() const { return memory_.bytes() + gathered_bytes_ + most_value_bytes_; }
  // The part of it for weights that are gathered.
  int64_t gathered_bytes() const { return gathered_bytes_; }

 private:
  using Work = std::function<absl::Status()>;
  // A value of a micro-batch that nothing behind a place of the list needs.
  struct Drop {
    int tensor = 0;
    int64_t micro_batch = 0;
  };

  PlanExecutor(PlanParts parts, const PlanCommunicators& ranks);
  absl::Status Init();
  absl::Status PlanValues();
  absl::Status PlanGathers();
  const std::vector<Action>& list() const { return parts_.plan.lists[parts_.rank]; }
  const PlanTensor& Of(int tensor) const { return parts_.plan.tensors[tensor]; }

  absl::Status ReadWeights();
  absl::Status RunAction(int number, const std::string& what);
  // Calls `work` and adds the time that it takes.
  struct Timing {
    double seconds = 0;
    int64_t count = 0;
  };
  static absl::Status Timed(Timing* timing, const std::function<absl::Status()>& work);
  absl::Status RunSubgraph(const Action& action);
  absl::Status Load(int64_t micro_batch);
  absl::Status Begin(int number, const std::string& what);
  absl::Status Wait(int number);
  // The tensor of a weight, of an input, or of a value, which has memory then.
  Tensor& At(int tensor, int64_t micro_batch);
  // The leaf of a sum, for the sum to change.
  Tensor TakeLeaf(int sum, int64_t micro_batch);
  // The work of a collective, with all that it needs.
  Work GatherWeights(int number, const std::string& what);
  Work GatherShards(const Action& action, const std::string& what);
  Work ScatterLeaves(const Action& action, const std::string& what);
  Work ReduceOverReplicas(const Action& action, const std::string& what);
  // Takes sums, for an all-reduce of the tensors that are returned.
  std::vector<Tensor> TakeJoined(const std::vector<int>& sums);

  const PlanParts parts_;
  const PlanCommunicators ranks_;
  const std::vector<int> sums_in_order_, weights_in_order_;
  std::vector<LeafRange> leaves_;         // micro-batches by replica, where each adds its own
  bool beside_ = true;                    // collectives go on beside the list
  std::vector<bool> is_leaf_;             // by tensor
  std::vector<bool> is_shared_;           // by tensor: a leaf that is read, too, or of several sums
  std::vector<bool> is_read_;             // by tensor: by a subgraph of the list
  std::vector<std::vector<Drop>> drops_;  // by action
  SharedMemory memory_;
  std::vector<Tensor> planned_;                // values that lie there, by number
  std::vector<std::vector<Tensor>> gathered_;  // by action, where weights are gathered to
  int64_t gathered_bytes_ = 0;

  int64_t steps_ = 0;
  std::vector<Timing> run_timings_;  // by subgraph
  Timing update_timing_;

  // The state of a run.
  NextBatch next_batch_;
  Update update_;
  std::map<int, Tensor> weights_;                    // as they are read
  std::map<int, Tensor> blocks_;                     // of weights that are cut
  std::map<int64_t, std::map<int, Tensor>> values_;  // by micro-batch and number; inputs among them
  std::set<int64_t> loaded_;                         // micro-batches
  std::map<std::pair<int, int64_t>, Tensor> offloaded_;
  std::map<int, TreeSum> sums_;
  std::map<int, Tensor> totals_;
  std::map<int, std::unique_ptr<Transfer>> transfers_;  // by action
  std::map<int, int64_t> works_;                        // by action, numbers of comm_thread_
  int64_t value_bytes_ = 0, most_value_bytes_ = 0;
  WorkerThread comm_thread_;  // ends before what it uses
};

}  // namespace rewright::distributed
