// The plans of a step of training from its graphs, without running it: what `rewright train` would do in a layout, with
// seconds by a described device.
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

namespace rewright {

struct GraphStep {
  distributed::Plan plan;
  int64_t kept_bytes = 0;  // of a rank: states that it keeps, whole or its blocks of them; the most of all ranks
};

// Plans of one step in several layouts.
class StepPlanner {
 public:
  struct Options {
    // Seconds by position in Graph::nodes(); null: by the cluster's device in f32.
    std::function<absl::StatusOr<std::vector<double>>(const Graph&)> seconds;
    // Cuts a graph over `degree` devices by laws; null: layouts with tp are refused.
    std::function<absl::StatusOr<Graph>(const Graph&, const StateAxes&, int degree)> cut;
  };
  // The cluster and the device outlive it; `memory_of` says the memory that graphs take. Errors: fewer than two
  // micro-batches, a device of the cluster that is not described.
  static absl::StatusOr<std::unique_ptr<StepPlanner>> Create(const TrainConfig& config, const TrainableModel& model,
                                                             const distributed::Cluster& cluster, Device& memory_of,
                                                             Options options);

  // The lists are those of a run (parallel_step.h). Weights are cut by `places` where the layout has tp; what ranks
  // exchange within a subgraph is in its seconds. Errors: a layout that does not fit the graphs.
  absl::StatusOr<GraphStep> PlanOf(const RankLayout& layout, const StateAxes& places = {});

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
  StepPlanner(const distributed::Cluster& cluster, Device& memory_of, Options options)
      : cluster_(cluster), memory_of_(memory_of), options_(std::move(options)) {}

  absl::StatusOr<double> CachedSeconds(const Graph& graph);
  // Bytes of a graph, or of a rank's part, whose graph is `graph`.
  template <typename Part>
  absl::StatusOr<SubgraphBytes> CachedBytes(const Part& part, const Graph& graph);
  // A subgraph that ranks along tp run together, where it reads what is placed, or each rank alone.
  absl::Status Describe(const Graph& graph, const StateAxes& axes, int tp, distributed::PlanSubgraph* subgraph);
  absl::StatusOr<GraphStep> PlanOfStages(const RankLayout& layout, const StateAxes& places);
  absl::StatusOr<GraphStep> PlanOfWhole(const RankLayout& layout);
  absl::StatusOr<GraphStep> PlanOfGroups(const RankLayout& layout, const StateAxes& places);
  absl::Status AddUpdate(const RankLayout& layout, const StateAxes& places, GraphStep* made);
  // Replicas do the same for other data where they have equal shares.
  void NoteAlike(distributed::Plan* plan) const;

  const distributed::Cluster& cluster_;
  Device& memory_of_;
  const Options options_;
  std::unique_ptr<Device> device_;
  DeviceCosts costs_;
  int64_t micro_batches_ = 0;
  StateAxes configured_;
  StepGraphs graphs_;
  absl::flat_hash_map<uint64_t, double> seconds_;       // by Graph::CanonicalHash
  absl::flat_hash_map<uint64_t, SubgraphBytes> bytes_;  // likewise
};

}  // namespace rewright
