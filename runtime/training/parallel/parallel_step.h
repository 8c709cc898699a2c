// The part of a step that a rank runs, by the layout of all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/communicator.h"
#include "runtime/distributed/plan_executor.h"
#include "runtime/distributed/proof/step_proof.h"
#include "runtime/parallel/rank_executable.h"
#include "runtime/training/config.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/parallel/pipeline.h"

namespace rewright {

struct SharingOptions {
  RankLayout layout;
  // Cuts a graph over `degree` devices, its states and inputs along these axes, by laws that keep the bits where
  // `exact_only`; called by all of these ranks, which get the same graph. Needed for tp, cp and zero.
  std::function<absl::StatusOr<Graph>(const Graph&, const StateAxes&, int degree, Communicator&, bool exact_only)> cut;
  // Like `cut`, but by this process alone, without communication: for plans and claims of steps that tp or cp cuts.
  std::function<absl::StatusOr<Graph>(const Graph&, const StateAxes&, int degree)> cut_alone;
  // Gives the graph that a rank runs instead of its part of a graph that tp or cp cuts; null: the part as it is.
  RankExecutable::RewritePart rewrite_part;
  // Knowledge by which the model is cut into layers and stages. Seconds are asked on rank 0 alone, groups are the same
  // on all ranks.
  DeviceCosts device;
  // ParallelStep::claim is wanted. Needs `cut_alone` for tp and cp.
  bool claims = false;
  // Lists that run instead of those of the layout: of a plan with its tensors and subgraphs.
  std::optional<distributed::Plan> lists;
  // Gradients of at least this size are summed over ranks at once, while those before them in the model are computed.
  int64_t bucket_bytes = int64_t{25} << 20;
};

// The ranks of a layout, as this one sees them.
class MeshCommunicators {
 public:
  // REQUIRES: `all` are as many as the layout has.
  MeshCommunicators(Communicator& all, const RankLayout& layout);

  Communicator& all() const { return all_; }
  Communicator& model_parallel() const { return *model_parallel_; }    // RankLayout::ModelParallelGroup
  Communicator& tensor_parallel() const { return *tensor_parallel_; }  // PassGroup
  Communicator& pipeline() const { return *pipeline_; }                // PipelineGroup
  Communicator& data_parallel() const { return *data_parallel_; }      // DataParallelGroup
  Communicator& shards() const { return *shards_; }                    // all, in the order of their shards

 private:
  Communicator& all_;
  const std::unique_ptr<Communicator> model_parallel_, tensor_parallel_, pipeline_, data_parallel_, shards_;
};

// Takes the number of micro-batches from the layout where that says one; cp cuts the inputs along axis 1, the sequence.
// Errors: a configuration that says another number, or whose batch it does not divide, or that has places.
absl::Status ApplyLayout(const RankLayout& layout, TrainConfig* config);

// The states and inputs that tp cuts in the passes of stages (pipeline.h): of all passes, and of one. Error: nothing is
// placed.
absl::StatusOr<StateAxes> PlacesOfPasses(const Graph& gradients, const TrainConfig& config, int tp);
StateAxes PlacesOfPass(const Graph& pass, const StateAxes& placed);
// Replaces after(x, t) by x: laws would cut the trigger t, too. Values that are computed again in a pass stay there.
Graph WithoutTriggers(const Graph& pass);

struct ParallelStep {
  std::unique_ptr<Executable> step;  // its states are read by all ranks together
  // Sums gradients over micro-batches and ranks by the list of a plan; null: a step is one graph. Ends before the step.
  std::unique_ptr<distributed::PlanExecutor> sums;
  // The claim that the lists compute the step of one device; null: it is not wanted, or a step is one graph.
  std::shared_ptr<const distributed::StepClaim> claim;
};

// `gradients` and `step` are StepGraphs'; the former is null where a step is one graph. Groups and the runner's device
// outlive what is made. Errors: a layout that does not fit the graphs, those of the runner and of `cut`.
absl::StatusOr<ParallelStep> MakeParallelStep(const Graph& step, const Graph* gradients,
                                              const std::vector<std::string>& updated, const TrainConfig& config,
                                              const SharingOptions& sharing, const MeshCommunicators& ranks,
                                              GraphRunner& runner);

}  // namespace rewright
