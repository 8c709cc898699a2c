// The axes along which tensors of a graph are cut over devices, chosen by the estimated time of a device's part.
//
// A descent: each tensor in turn is placed where the time is the shortest, the others being as they are, until nothing
// changes; then two at a time. It goes from each of several starts, and the best end is taken. So the choice is never
// worse than a start.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/distributed/cluster.h"
#include "substitutions/sharding/shard.h"

namespace rewright {

// The part of one device.
struct PlacementCost {
  double seconds = 0;
  int64_t bytes = 0;  // of its weights and inputs
};

// Tensors that are placed alike.
struct TensorGroup {
  std::vector<std::string> names;
  std::vector<int> axes;  // along which they may be cut
};

// One group for each tensor; where these are many, one for those that differ only by numbers in their names.
std::vector<TensorGroup> GroupsOf(const Graph& graph, const std::vector<Value>& leaves, int degree);

struct PlacementChoice {
  struct Placed {
    TensorGroup group;
    int axis = -1;              // -1: every device has all of it
    int second_axis = -1;       // the best other place, the rest being as it is
    PlacementCost second_cost;  // with that
  };
  std::vector<Placed> tensors;
  PlacementCost cost;
  int64_t tried = 0;

  std::vector<sharding::Placement> Placements() const;
  // A line for each group: "layer0.weight: along axis 1; whole on every device would take 1.2e-3 s (+3.1 %)".
  std::vector<std::string> Reasons() const;
};

struct PlacementSearchOptions {
  int64_t memory_bytes = 0;              // that a part may have; 0: any number
  int64_t most_tried = 400;              // costs that are asked for
  std::vector<std::vector<int>> starts;  // axes by group; empty: nothing is cut
};

// Errors: those of `cost_of`.
absl::StatusOr<PlacementChoice> ChoosePlacements(
    const std::vector<TensorGroup>& groups,
    const std::function<absl::StatusOr<PlacementCost>(const std::vector<sharding::Placement>&)>& cost_of,
    const PlacementSearchOptions& options);

// Costs of parts of a model on the first `degree` devices of a cluster, which outlives it.
class ModelCosts {
 public:
  ModelCosts(const Graph& model, int degree, const distributed::Cluster& cluster, sharding::LawSource laws);

  const Graph& graph() const { return graph_; }
  // Groups of its inputs and weights.
  const std::vector<TensorGroup>& groups() const { return groups_; }
  // Errors: those of sharding::Shard; a device of the cluster that is not described.
  absl::StatusOr<PlacementCost> Of(const std::vector<sharding::Placement>& placements) const;

 private:
  const Graph graph_;  // in training, where weights have no values, which parts would copy
  const int degree_;
  const distributed::Cluster& cluster_;
  const sharding::LawSource laws_;
  const std::vector<TensorGroup> groups_;
  const absl::StatusOr<std::unique_ptr<Device>> device_;
};

// The placements of a model's inputs and weights on the first `degree` devices of a cluster. It is not slower by the
// estimate than all of it on each device, and than its inputs cut along axis 0. Errors: a device of the cluster that is
// not described; a part that exceeds the memory of a device wherever tensors lie.
absl::StatusOr<PlacementChoice> PlacementsOfModel(const Graph& model, int degree, const distributed::Cluster& cluster,
                                                  const sharding::LawSource& laws);

}  // namespace rewright
