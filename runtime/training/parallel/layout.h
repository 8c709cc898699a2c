// The layout of ranks, by which they share the work of a step: `dp=2,pp=2,micro=8`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/distributed/pipeline_schedule.h"

namespace rewright {

struct RankLayout {
  int dp = 1;         // groups of ranks that share the micro-batches of a step
  int tp = 1;         // ranks of such a group that compute a micro-batch, or a stage of it, together
  int pp = 1;         // parts of such a group, each of which has stages of the model
  int zero = 0;       // cut over the ranks are 1: the optimizer state, 2: gradients, too, 3: and weights
  int64_t micro = 0;  // micro-batches of a step; 0: as the configuration says
  distributed::PipelineSchedule schedule = distributed::PipelineSchedule::k1F1B;
  int chunks = 1;  // stages of a rank; more than one where the schedule is interleaved

  int group_size() const { return tp * pp; }
  // Rank r is number r mod group_size of group r div group_size; there the ranks of a stage are neighbours.
  // The ranks, this one among them, that
  std::vector<int> ModelParallelGroup(int rank) const;   // work on the same micro-batch
  std::vector<int> TensorParallelGroup(int rank) const;  // and have the same stages
  std::vector<int> PipelineGroup(int rank) const;        // and have the same part of other stages
  std::vector<int> DataParallelGroup(int rank) const;    // have the same part in other model-parallel groups
  // All ranks in the order in which they have blocks of what ZeRO cuts: the blocks of a data-parallel group are
  // neighbours.
  std::vector<int> ShardOrder() const;
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
