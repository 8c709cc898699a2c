// How the work of a step is shared by ranks: `dp=2,tp=2`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct Layout {
  int dp = 1;    // groups of ranks that share the micro-batches of a step
  int tp = 1;    // ranks of such a group, which compute one micro-batch together
  int zero = 0;  // 1: what the optimizer keeps is cut over the ranks

  // Rank r is number r mod tp of group r div tp.
  std::vector<int> GroupOfRank(int rank) const;     // those that compute together with it
  std::vector<int> PartnersOfRank(int rank) const;  // those of other groups that have the same part
};

// "dp=4", "tp=2", "dp=2,tp=2", "dp=4,zero=1"; empty: dp of all ranks. Errors: another text, other than `ranks` ranks,
// zero with tp.
absl::StatusOr<Layout> ParseLayout(const std::string& text, int ranks);

// By name, the axis along which a state is cut.
using StateAxes = std::vector<std::pair<std::string, int>>;

// The states of a step, or of its gradients, whose weights the patterns fit: `places` are patterns and axes, the first
// that fits counts. What the optimizer keeps for a weight is cut as that is. Error: a pattern that fits no weight.
absl::StatusOr<StateAxes> PlacedStates(const Graph& graph, const StateAxes& places);

// What the optimizer keeps for weights, each cut along the first axis whose size `degree` divides, and with
// micro-batches the sums of gradients of these weights, which are inputs; what has no such axis is left out.
StateAxes OptimizerStates(const Graph& step, int64_t degree);

}  // namespace rewright
