// The layout of ranks, by which they share the work of a step: `dp=2,pp=2,micro=8`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/pipeline_schedule.h"

namespace rewright::distributed {

struct RankLayout {
  int dp = 1;         // groups of ranks that share the micro-batches of a step
  int tp = 1;         // ranks of such a group that compute a micro-batch, or a stage of it, together
  int pp = 1;         // parts of such a group, each of which has stages of the model
  int zero = 0;       // cut over the ranks are 1: the optimizer state, 2: gradients, too, 3: and weights
  int64_t micro = 0;  // micro-batches of a step; 0: as the configuration says
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int chunks = 1;  // stages of a rank; more than one where the schedule is interleaved
  int cp = 1;      // as tp, with the sequence cut instead of weights; goes with dp and zero

  int pass_ranks() const { return tp * cp; }  // that compute a micro-batch, or a stage of it, together
  int group_size() const { return pass_ranks() * pp; }
  int64_t ranks() const { return int64_t{dp} * group_size(); }
  PipelineShape pipeline() const { return {pp, tp, chunks, schedule == PipelineSchedule::kZeroBubble}; }
  // Rank r is number r mod group_size of group r div group_size; there the ranks of a stage are neighbours.
  // Return ranks, this one among them.
  std::vector<int> ModelParallelGroup(int rank) const;  // that work on the same micro-batch
  std::vector<int> PassGroup(int rank) const;           // that also have the same stages: tp or cp
  std::vector<int> PipelineGroup(int rank) const;       // of that micro-batch, with the same part of other stages
  std::vector<int> DataParallelGroup(int rank) const;   // with the same part in other model-parallel groups
  // All ranks in the order in which they have blocks of what ZeRO cuts: the blocks of a data-parallel group are
  // neighbours.
  std::vector<int> ShardOrder() const;
};

// "dp=4", "cp=2", "dp=2,tp=2,zero=1", "pp=2,tp=2,micro=8,schedule=gpipe", "pp=2,schedule=interleaved,chunks=2"; empty:
// dp of all ranks. Errors: another text, other than `ranks` ranks, kinds that do not go together.
absl::StatusOr<RankLayout> ParseLayout(const std::string& text, int ranks);
// The same of any number of ranks.
absl::StatusOr<RankLayout> ParseLayout(const std::string& text);
// A text that parses to the layout: what differs from the defaults, and dp, tp and pp where they are not one.
std::string PrintLayout(const RankLayout& layout);

}  // namespace rewright::distributed
