// Pipeline parallel: each rank of a group has a stage of the model, its weights and what the optimizer keeps for them.
// Micro-batches go through the stages forwards, their gradients backwards.
//
//   GPipe  All forward passes, then all backward passes (Huang et al. 2019): a stage holds what every micro-batch hands
//          from the one to the other.
//   1F1B   As soon as it can a stage takes a backward pass, so stage s of p holds at most p - s micro-batches
//   (Narayanan
//          et al. 2019, without its stale weights). Bubbles are those of GPipe.
//
// Both make the backward passes in the order of the micro-batches, and gradients are added in the order of their tree
// (runtime/comm/all_reduce.h): the weights have the same bits with any number of stages.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/parallel/layers.h"
#include "runtime/parallel/owned_executable.h"
#include "runtime/train/micro_batches.h"

namespace rewright {

// What a stage does next.
struct StageAction {
  bool forward = true;
  int64_t micro_batch = 0;  // of those that the group has, from 0
};
std::vector<StageAction> StageSchedule(int stage, int stages, int64_t micro_batches, bool gpipe);

struct PipelinePlan {
  // A tensor that a stage sends to another one.
  struct Message {
    int tensor = 0, from = 0, to = 0;
    bool forward = true;  // sent behind the forward pass; otherwise behind the backward pass
  };
  Graph gradients;                                   // unpacked
  Layers layers;                                     // stages
  std::vector<Message> messages;                     // of a micro-batch
  std::vector<std::pair<std::string, int>> weights;  // by input of the step but the first, with the stage that has it
  std::vector<Message> weight_messages;              // of a step: weights that several stages use
  std::map<std::string, int> owners;                 // of states and inputs of the step
  std::vector<double> seconds;                       // by stage, as they were cut

  // What a stage sends in a step, without what the update sends.
  int64_t BytesSent(int stage, int64_t micro_batches) const;
};

// What is known of the device when a graph is cut into layers; each may be null.
struct DeviceKnowledge {
  // What it runs as one.
  std::function<std::vector<Group>(const Graph&)> groups;
  // Seconds that nodes take, by position in Graph::nodes().
  std::function<absl::StatusOr<std::vector<double>>(const Graph&)> seconds;
};

// `gradients` and `step` are StepGraphs'. Errors: those of `device`, more stages than the forward pass can be cut into.
absl::StatusOr<PipelinePlan> PlanPipeline(const Graph& gradients, const Graph& step,
                                          const std::vector<std::string>& trained, int stages,
                                          const DeviceKnowledge& device = {});

class Pipeline : public GradientSums {
 public:
  // `group` are the stages, `partners` have the same stage in other groups, `micro_batches` are shared by the groups.
  // `update` was made by plan.owners. What is passed by reference outlives the pipeline. Errors: those of the runner.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(PipelinePlan plan, int64_t micro_batches, bool gpipe,
                                                          Communicator& group, Communicator& partners,
                                                          GraphRunner& runner, const OwnedExecutable& update);

  absl::Status ReadWeights(Executable& from) override;
  // Inputs of other stages are empty.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) override;

  const PipelinePlan& plan() const { return plan_; }
  // The most micro-batches whose forward pass was begun and whose backward pass was not done.
  int most_in_flight() const { return most_in_flight_; }

 private:
  // What a micro-batch keeps between its passes.
  struct Slot {
    std::vector<Tensor> tensors;
    std::vector<std::unique_ptr<Transfer>> sends;
  };

  Pipeline(PipelinePlan plan, int64_t micro_batches, bool gpipe, Communicator& group, Communicator& partners);
  absl::Status Init(GraphRunner& runner, const OwnedExecutable& update);
  // The messages of a pass that this stage gets before it, and sends behind it.
  absl::Status Receive(const std::string& what, bool forward, Slot* slot);
  absl::Status Send(const std::string& what, bool forward, Slot* slot);
  absl::Status WaitForSends(Slot* slot);
  // For a micro-batch, the `needed`-th in flight.
  absl::StatusOr<std::unique_ptr<Slot>> TakeSlot(size_t needed);
  absl::Status RunPass(bool forward, Slot* slot);
  // Adds this stage's gradients of a micro-batch to the sums.
  void AddGradients(Slot* slot, std::vector<TreeSum>* sums);
  bool IsState(int tensor) const {
    return static_cast<size_t>(tensor) >= first_state_ && static_cast<size_t>(tensor) < first_state_ + states_.size();
  }

  const PipelinePlan plan_;
  const bool gpipe_;
  Communicator& group_;
  Communicator& partners_;
  const std::vector<LeafRange> leaves_;  // micro-batches by group
  std::unique_ptr<Executable> passes_[2];
  size_t first_state_ = 0;
  std::vector<Tensor> states_;              // weights as this stage reads them
  std::deque<std::unique_ptr<Slot>> free_;  // of no micro-batch, in the order in which they were last used
  int most_in_flight_ = 0;
};

}  // namespace rewright
