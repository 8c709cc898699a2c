// The states of a step that a layout of ranks (runtime/distributed/rank_layout.h) cuts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/distributed/rank_layout.h"

namespace rewright {

using distributed::ParseLayout;
using distributed::RankLayout;

// By name, the axis along which a state is cut.
using StateAxes = std::vector<std::pair<std::string, int>>;

// The states of a step, or of its gradients, whose weights the patterns fit: `places` are patterns and axes, the first
// that fits counts. The optimizer's states for a weight are cut as the weight is. Inputs whose names are among
// `inputs`, those of the model, are included if the name is a place. Error: a pattern that fits no weight and is no
// such input.
absl::StatusOr<StateAxes> PlacedStates(const Graph& graph, const StateAxes& places,
                                       const std::vector<std::string>& inputs = {});

// Error: no places, where tp cuts weights over `ranks` ranks.
absl::Status CheckPlaces(const StateAxes& places, int ranks);

// The optimizer's states for weights, with zero=3 the weights themselves, each cut along SharedAxis (optimizer.h), or
// where `degree` does not divide its size, along the first axis that it divides; and with micro-batches the sums of
// gradients of these weights, which are inputs. Tensors without such an axis are left out.
StateAxes ZeroAxes(const Graph& step, int64_t degree, int zero);

// The weight that an optimizer keeps the state for; the state itself where it is none of those.
std::string WeightOf(const std::string& state);

}  // namespace rewright
