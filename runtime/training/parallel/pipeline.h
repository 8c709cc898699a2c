// Pipeline parallel: each rank of a group has stages of the model. Micro-batches go through the stages forwards, their
// gradients backwards, as pipeline_schedule.h says.
//
// All schedules make the backward passes of a stage in the order of the micro-batches, and gradients are added in the
// order of their tree (runtime/comm/all_reduce.h): the weights have the same bits with any number of stages.
//
// A stage may be computed by several ranks together, by laws of tensor parallel (docs/sharding.md). They share the
// optimizer state, tensor by tensor: each weight of a stage is updated by one of them, which sends it to the others.
//
// Tensors of a rank may be cut over its replicas, the ranks that have the same ones in other groups (ZeRO):
//
//   zero 1  the optimizer's states; behind the last micro-batch each replica gets only its blocks of the sums
//   zero 2  and sums of gradients: the groups take the micro-batches in turns, and behind each backward pass the
//           replicas add theirs, so that none keeps whole sums
//   zero 3  and weights that no other rank of the group reads: they are gathered for a stage, and kept until the rank
//           comes to another of its stages
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/parallel/layers.h"
#include "runtime/parallel/owner_computes_executable.h"
#include "runtime/training/parallel/gradient_sums.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/parallel/pipeline_schedule.h"

namespace rewright {

struct PipelinePlan {
  // A tensor that ranks get from a stage.
  struct Message {
    int tensor = 0, stage = 0;  // that makes it
    int reader = 0;             // the first subgraph there that reads it
    int to = 0;                 // rank of those that have stages
    bool forward = true;        // sent behind the forward pass; otherwise behind the backward pass
  };
  // A weight that a rank of the group gets from the one that updates it.
  struct WeightMessage {
    int tensor = 0, from = 0, to = 0;
  };
  PipelineShape shape;
  Graph gradients;                                   // unpacked
  Layers layers;                                     // stages
  std::vector<Message> messages;                     // of a micro-batch
  std::vector<std::pair<std::string, int>> weights;  // by input of the step but the first, with the rank that has it
  std::vector<WeightMessage> weight_messages;        // of a step
  std::map<std::string, int> owners;                 // of states and inputs of the step, ranks of the group
  std::vector<int> adders;                           // by input of the step: the rank that adds it
  std::vector<double> seconds;                       // by stage, as they were cut

  // Bytes that a rank of the group sends in a step, without those of the update and of ranks that compute together.
  int64_t BytesSent(int rank, int64_t micro_batches) const;
};

// Knowledge of the device for cutting a graph into layers; each function may be null.
struct DeviceCosts {
  // The groups of nodes that the device runs as one; they stay in one stage.
  std::function<std::vector<Group>(const Graph&)> groups;
  // Seconds that nodes take, by position in Graph::nodes().
  std::function<absl::StatusOr<std::vector<double>>(const Graph&)> seconds;
};

// `gradients` and `step` are StepGraphs'. Errors: those of `device`, more stages than the forward pass can be cut into.
absl::StatusOr<PipelinePlan> PlanPipeline(const Graph& gradients, const Graph& step,
                                          const std::vector<std::string>& updated, const PipelineShape& shape,
                                          const DeviceCosts& device = {});

// The most bytes that a rank takes of those that have stages: for the weights that they read, for its passes, one at a
// time, and what micro-batches keep between these. Errors: those of `bytes_of`.
absl::StatusOr<int64_t> PipelineBytes(const PipelinePlan& plan, int64_t micro_batches, PipelineSchedule schedule,
                                      const SubgraphBytesOf& bytes_of);

// The states and inputs of the step that ZeRO cuts over `degree` replicas, with their axes.
StateAxes PipelineZeroAxes(const Graph& step, const PipelinePlan& plan, int64_t degree, int zero);

// The ranks of a pipeline, as one of them sees them. Communicators outlive the pipeline.
struct PipelineCommunicators {
  Communicator& model_parallel;  // all of them
  Communicator& pipeline;        // those that have stages, with the same part of them
  Communicator& data_parallel;   // those of other groups that do the same
};

// Makes what runs a pass of a stage, with whole inputs and results.
using PreparePass = std::function<absl::StatusOr<std::unique_ptr<Executable>>(const Graph& pass)>;

struct PipelineOptions {
  int64_t micro_batches = 1;  // of a step, of all groups together
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int zero = 0;
};

class Pipeline : public GradientSums {
 public:
  // `update` was made by plan.owners, of a step that was cut over the replicas by PipelineZeroAxes, and outlives the
  // pipeline. Errors: those of `prepare`.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(PipelinePlan plan, const PipelineOptions& options,
                                                          const PipelineCommunicators& ranks,
                                                          const PreparePass& prepare,
                                                          const OwnerComputesExecutable& update);

  absl::Status ReadWeights(Executable& from) override;
  // Inputs that other ranks add are empty; of what is cut there are this rank's blocks.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) override;
  int64_t BytesSent(const Executable& from) const override;
  int64_t arena_bytes() const override;

  const PipelinePlan& plan() const { return plan_; }
  // The most micro-batches whose forward pass was begun and whose backward pass was not done; of each chunk.
  int most_in_flight() const { return most_in_flight_; }
  // Memory of this rank for weights that are gathered.
  int64_t gathered_bytes() const { return gathered_memory_.bytes(); }

 private:
  // The tensors that a micro-batch keeps between its passes.
  struct Slot {
    std::vector<Tensor> tensors;
    int chunks_left = 0;  // whose backward pass is not done
  };
  // A message that another rank sends, in the order in which it does.
  struct PendingReceive {
    int tensor = 0;
    int64_t micro_batch = 0;
    size_t action = 0;  // of its schedule, behind which it is sent
  };
  // A message on its way to another rank. It has certainly arrived once that rank has sent a message behind `action` of
  // its own.
  struct PendingSend {
    std::unique_ptr<Transfer> transfer;
    std::vector<Tensor> tensors;
    std::vector<std::pair<int, size_t>> actions;  // rank, action that needs it
  };

  Pipeline(PipelinePlan plan, const PipelineOptions& options, const PipelineCommunicators& ranks,
           const OwnerComputesExecutable& update);
  absl::Status Init(const PreparePass& prepare);
  absl::Status InitStates();
  // Takes over the weights that this rank updates, as the update has them now.
  absl::Status ViewWeights();
  absl::Status PlanGathers();
  bool InTurns() const { return options_.zero >= 2; }
  // The micro-batches of a group's schedule; all groups have as many where they take turns.
  int64_t ScheduledMicroBatches() const;
  // The number of groups, the first ones, whose schedules have a micro-batch of this number.
  int GroupsWith(int64_t micro_batch) const;
  int StageOf(int rank, int chunk) const { return chunk * plan_.shape.ranks + rank; }
  // The subgraph of a pass of a stage.
  const Subgraphs::Subgraph& SubgraphOf(bool forward, int stage) const;
  // Prepares for the messages of a step at its beginning: pending_receives_, action_of_ and seen_.
  void ExpectMessages(int64_t count);
  // The micro-batch's slot, which is made at the first call.
  Slot& SlotOf(int64_t micro_batch);
  // Receives the tensors that the pass reads and other ranks send.
  absl::Status Receive(const std::string& what, const Subgraphs::Subgraph& subgraph, int64_t micro_batch);
  absl::Status ReceiveNext(const std::string& what, int from);
  absl::Status Send(const std::string& what, const StageAction& action);
  // Ends the messages that have arrived; with `all` it waits for the others, too.
  absl::Status EndSends(bool all);
  // The weights of a stage are whole when it begins.
  absl::Status GatherWeights(const std::string& what, int chunk);
  absl::Status RunAction(const std::string& what, const StageAction& action);
  absl::Status RunPass(const StageAction& action, Slot* slot);
  // Adds the gradients of a micro-batch that a stage made to the sums that are this rank's, with those of its replicas
  // where groups take turns.
  absl::Status AddGradients(const std::string& what, int stage, int64_t micro_batch, std::vector<TreeSum>* sums);
  // The inputs of the step, of all groups.
  absl::StatusOr<std::vector<Tensor>> Totals(const std::string& what, std::vector<TreeSum>* sums);
  const TensorType& SumType(size_t sum) const {
    return plan_.layers.subgraphs.tensors[plan_.layers.subgraphs.outputs[sum]];
  }
  // Its memory is free for others.
  void Release(int64_t micro_batch);
  bool IsState(int tensor) const {
    return static_cast<size_t>(tensor) >= first_state_ && static_cast<size_t>(tensor) < first_state_ + states_.size();
  }

  const PipelinePlan plan_;
  const PipelineOptions options_;
  const PipelineCommunicators ranks_;
  const OwnerComputesExecutable& update_;
  const std::vector<LeafRange> leaves_;                 // micro-batches by group
  std::vector<std::unique_ptr<Executable>> passes_[2];  // by chunk
  size_t first_state_ = 0;
  std::vector<Tensor> states_;  // weights as this rank reads them
  std::vector<size_t> own_;     // of these, what it updates
  std::vector<int> axes_;       // of the inputs of the step
  // Weights of which there are blocks here, by state; and which of them a stage needs whole, by chunk.
  std::map<size_t, Shard> blocks_;
  std::vector<std::vector<std::pair<size_t, Tensor>>> gathers_;
  SharedMemory gathered_memory_, passes_memory_;
  int gathered_ = -1;  // the chunk whose weights are whole
  std::map<int64_t, std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::vector<std::deque<PendingReceive>> pending_receives_;  // by rank of the pipeline
  std::set<std::tuple<int, int, int64_t>> expected_;          // the same: rank, tensor, micro-batch
  std::vector<size_t> seen_;  // likewise: actions of that rank that are known to be done
  // By rank of the pipeline, direction, chunk and micro-batch: the number of the action.
  std::map<std::tuple<int, bool, int, int64_t>, size_t> action_of_;
  std::vector<PendingSend> pending_sends_;
  int in_flight_ = 0, most_in_flight_ = 0;
};

}  // namespace rewright
