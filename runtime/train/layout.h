// How the work of a step is shared by ranks: `dp=2,pp=2,micro=8`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct Layout {
  int dp = 1;          // groups of ranks that share the micro-batches of a step
  int tp = 1;          // ranks of such a group, which compute one micro-batch together
  int pp = 1;          // ranks of such a group, each of which has a stage of the model
  int zero = 0;        // cut over the ranks are 1: what the optimizer keeps, 2: gradients, too, 3: and weights
  int64_t micro = 0;   // micro-batches of a step; 0: as the configuration says
  bool gpipe = false;  // of a pipeline: all forward passes, then all backward passes; otherwise 1F1B

  int group_size() const { return tp * pp; }  // one of them is 1
  // Rank r is number r mod group_size of group r div group_size.
  std::vector<int> GroupOfRank(int rank) const;     // those that compute together with it
  std::vector<int> PartnersOfRank(int rank) const;  // those of other groups that have the same part
};

// "dp=4", "tp=2", "dp=2,tp=2", "dp=4,zero=1", "pp=2,micro=8,schedule=gpipe"; empty: dp of all ranks. Errors: another
// text, other than `ranks` ranks, kinds that do not go together.
absl::StatusOr<Layout> ParseLayout(const std::string& text, int ranks);

// By name, the axis along which a state is cut.
using StateAxes = std::vector<std::pair<std::string, int>>;

// The states of a step, or of its gradients, whose weights the patterns fit: `places` are patterns and axes, the first
// that fits counts. What the optimizer keeps for a weight is cut as that is. Error: a pattern that fits no weight.
absl::StatusOr<StateAxes> PlacedStates(const Graph& graph, const StateAxes& places);

// What the optimizer keeps for weights, with zero=3 the weights themselves, each cut along the first axis whose size
// `degree` divides, and with micro-batches the sums of gradients of these weights, which are inputs; what has no such
// axis is left out.
StateAxes ZeroAxes(const Graph& step, int64_t degree, int zero);

// The weight that an optimizer keeps the state for; the state itself where it is none of those.
std::string WeightOf(const std::string& state);

}  // namespace rewright
