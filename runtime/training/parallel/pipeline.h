// Pipeline parallel: each rank of a replica has stages of the model. Micro-batches go through the stages forwards,
// their gradients backwards, as runtime/distributed/pipeline_schedule.h says.
//
// All schedules make the backward passes of a stage in the order of the micro-batches, and gradients are added in the
// order of their tree (runtime/comm/all_reduce.h): the weights have the same bits with any number of stages.
//
// A stage may be computed by several ranks together, by laws of tensor parallel (docs/sharding.md). They share the
// optimizer state, tensor by tensor: each weight of a stage is updated by one of them, which sends it to the others.
//
// Tensors of a rank may be cut over the replicas (ZeRO): with zero 1 the optimizer's states, with zero 2 sums of
// gradients, too, and with zero 3 weights that no other rank of the replica reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/plan.h"
#include "runtime/parallel/layers.h"
#include "runtime/training/parallel/layered_plan.h"
#include "runtime/training/parallel/layout.h"

namespace rewright {

// A model in stages, and who updates which weight.
struct PipelinePlan {
  distributed::PipelineShape shape;
  Graph gradients;                                   // unpacked
  Layers layers;                                     // stages
  std::vector<std::pair<std::string, int>> weights;  // by input of the step but the first, with the rank that has it
  std::map<std::string, int> owners;                 // of states and inputs of the step, ranks of the replica
  std::vector<int> adders;                           // by input of the step: the rank that adds it
  std::vector<double> seconds;                       // by stage, as they were cut

  // The plan without lists.
  distributed::Plan Tensors(const Graph& step, int replicas, int64_t micro_batches, const PlanCuts& cuts = {}) const;
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
                                          const std::vector<std::string>& updated,
                                          const distributed::PipelineShape& shape, const DeviceCosts& device = {});

// The states and inputs of the step that ZeRO cuts over `degree` replicas, with their axes.
StateAxes PipelineZeroAxes(const Graph& step, const PipelinePlan& plan, int64_t degree, int zero);

}  // namespace rewright
