// The layout of ranks, by which they share the work of a step: `dp=2,pp=2,micro=8`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/training/parallel/pipeline_schedule.h"

namespace rewright {

struct RankLayout {
  int dp = 1;         // groups of ranks that share the micro-batches of a step
  int tp = 1;         // ranks of such a group that compute a micro-batch, or a stage of it, together
  int pp = 1;         // parts of such a group, each of which has stages of the model
  int zero = 0;       // cut over the ranks are 1: what the optimizer keeps, 2: gradients, too, 3: and weights
  int64_t micro = 0;  // micro-batches of a step; 0: as the configuration says
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int chunks = 1;  // stages of a rank; more than one where the schedule is interleaved

  int group_size() const { return tp * pp; }
  // Rank r is number r mod group_size of group r div group_size; there the ranks of a stage are neighbours.
  std::vector<int> GroupOfRank(int rank) const;     // model-parallel group: ranks that work on the same micro-batch
  std::vector<int> TogetherOfRank(int rank) const;  // tensor-parallel group: those of them with the same stages
  std::vector<int> LineOfRank(int rank) const;      // pipeline: those of them with the same part of other stages
  std::vector<int> PartnersOfRank(int rank) const;  // data-parallel group: the same part in other groups
  // All ranks in the order in which they have blocks of what ZeRO cuts: the blocks of partners are neighbours.
  std::vector<int> BlocksOrder() const;
};

// "dp=4", "dp=2,tp=2", "dp=2,tp=2,zero=1", "pp=2,tp=2,micro=8,schedule=gpipe", "pp=2,schedule=interleaved,chunks=2";
// empty: dp of all ranks. Errors: another text, other than `ranks` ranks, kinds that do not go together.
absl::StatusOr<RankLayout> ParseLayout(const std::string& text, int ranks);

// By name, the axis along which a state is cut.
using StateAxes = std::vector<std::pair<std::string, int>>;

// The states of a step, or of its gradients, whose weights the patterns fit: `places` are patterns and axes, the first
// that fits counts. The optimizer's states for a weight are cut as the weight is. Inputs whose names are among
// `inputs`, those of the model, are included if the name is a place. Error: a pattern that fits no weight and is no
// such input.
absl::StatusOr<StateAxes> PlacedStates(const Graph& graph, const StateAxes& places,
                                       const std::vector<std::string>& inputs = {});

// The optimizer's states for weights, with zero=3 the weights themselves, each cut along SharedAxis (optimizer.h), or
// where `degree` does not divide its size, along the first axis that it divides; and with micro-batches the sums of
// gradients of these weights, which are inputs. Tensors without such an axis are left out.
StateAxes ZeroAxes(const Graph& step, int64_t degree, int zero);

// The weight that an optimizer keeps the state for; the state itself where it is none of those.
std::string WeightOf(const std::string& state);

}  // namespace rewright
