// The plans of a step of training from its graphs, without running it: what `rewright train` would do in a layout, with
// its memory, and with seconds by a described device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/plan.h"
#include "runtime/training/config.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/parallel/pipeline.h"
#include "runtime/training/step.h"
#include "search/memory/rematerialization.h"

namespace rewright {

struct GraphStep {
  distributed::Plan plan;
  int64_t kept_bytes = 0;  // of a rank: states that it keeps, whole or its blocks of them; the most of all ranks

  int64_t bytes() const;  // of the fullest rank, states included
};

// Plans of one step in several layouts.
class StepPlanner {
 public:
  struct Options {
    // Seconds by position in Graph::nodes(); null: by the cluster's device in f32.
    std::function<absl::StatusOr<std::vector<double>>(const Graph&)> seconds;
    // Cuts a graph over `degree` devices by laws; null: layouts with tp are refused.
    std::function<absl::StatusOr<Graph>(const Graph&, const StateAxes&, int degree)> cut;
    DeviceCosts stages;  // by which a run cuts the model; without groups: by the cluster's device
    int64_t bucket_bytes = LayeredOptions().bucket_bytes;
  };
  // The cluster and the device outlive it; `memory_of` says the memory that graphs take. Errors: fewer than two
  // micro-batches, a device of the cluster that is not described.
  static absl::StatusOr<std::unique_ptr<StepPlanner>> Create(const TrainConfig& config, const TrainableModel& model,
                                                             const distributed::Cluster& cluster, Device& memory_of,
                                                             Options options);
  // For memory alone: subgraphs have no seconds.
  StepPlanner(const TrainConfig& config, StepGraphs graphs, Device& memory_of, Options options);

  // The lists are those of a run (parallel_step.h), which computes `gradients` in the place of the step's own. Weights
  // are cut by `places` where the layout has tp; what ranks exchange within a subgraph is in its seconds. Errors: a
  // layout that does not fit the graphs.
  absl::StatusOr<GraphStep> PlanOf(const RankLayout& layout, const StateAxes& places, const Graph& gradients);
  absl::StatusOr<GraphStep> PlanOf(const RankLayout& layout, const StateAxes& places = {}) {
    return PlanOf(layout, places, graphs_.gradients);
  }

  // Gradients of which as much is computed again as it takes for GraphStep::bytes not to exceed the limit, or to exceed
  // it least; limit 0: what is free (FitPlan). REQUIRES: one rank computes a pass, or the layout has stages.
  absl::StatusOr<Rematerialization> Fit(const RankLayout& layout, const StateAxes& places, int64_t limit,
                                        bool measured);

  const StepGraphs& graphs() const { return graphs_; }
  // The gradients of a micro-batch, one by one.
  absl::StatusOr<Graph> UnpackedGradients() const { return Unpacked(graphs_.gradients, graphs_.step); }

  // The part of a device of a graph that is cut over `degree` ones: with its exchanges, and its states and inputs.
  struct PartCost {
    double seconds = 0;
    SubgraphBytes bytes;
    int64_t kept_bytes = 0;
  };
  absl::StatusOr<PartCost> CostOfPart(const Graph& graph, const StateAxes& axes, int degree, bool with_memory = true);

 private:
  // By which the model is cut into layers and stages.
  const DeviceCosts& CutBy() const { return options_.stages.groups == nullptr ? costs_ : options_.stages; }
  absl::StatusOr<double> CachedSeconds(const Graph& graph);
  // Bytes of a graph, or of a rank's part, whose graph is `graph`.
  template <typename Part>
  absl::StatusOr<SubgraphBytes> CachedBytes(const Part& part, const Graph& graph);
  // A subgraph that ranks along tp run together, where it reads what is placed, or each rank alone.
  absl::Status Describe(const Graph& graph, const StateAxes& axes, int tp, distributed::PlanSubgraph* subgraph);
  absl::StatusOr<GraphStep> PlanOfStages(const RankLayout& layout, const StateAxes& places, const Graph& gradients);
  absl::StatusOr<GraphStep> PlanOfWhole(const RankLayout& layout, const Graph& gradients);
  absl::StatusOr<GraphStep> PlanOfGroups(const RankLayout& layout, const StateAxes& places, const Graph& gradients);
  absl::Status AddUpdate(const RankLayout& layout, const StateAxes& places, GraphStep* made);
  // Replicas do the same for other data where they have equal shares.
  void NoteAlike(distributed::Plan* plan) const;

  const distributed::Cluster* cluster_ = nullptr;  // null: of memory alone
  Device& memory_of_;
  const Options options_;
  std::unique_ptr<Device> device_;
  DeviceCosts costs_;
  const int64_t micro_batches_;
  const StateAxes configured_;
  const StepGraphs graphs_;
  absl::flat_hash_map<uint64_t, double> seconds_;       // by Graph::CanonicalHash
  absl::flat_hash_map<uint64_t, SubgraphBytes> bytes_;  // likewise
};

}  // namespace rewright
