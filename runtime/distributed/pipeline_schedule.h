// The order of the passes of each rank of a pipeline.
//
//   GPipe        All forward passes, then all backward passes (Huang et al. 2019): a rank holds what every micro-batch
//                hands from the one to the other.
//   1F1B         As soon as it can a rank takes a backward pass, so rank s of p holds at most p - s micro-batches
//                (Narayanan et al. 2019, without its stale weights). Bubbles are those of GPipe.
//   interleaved  Rank s has the stages s, s + p, .. of p * chunks, and takes them in turns, p micro-batches at a time
//                (Narayanan et al. 2021): bubbles are shorter by the number of chunks, messages more by it.
#pragma once

#include <cstdint>
#include <vector>

namespace rewright::distributed {

enum class PipelineSchedule : uint8_t { k1F1B, kGPipe, kInterleaved };

// The number of ranks that have stages, of ranks that compute each stage together, and of stages of each rank.
struct PipelineShape {
  int ranks = 1, tensor_parallel = 1, chunks = 1;

  int stages() const { return ranks * chunks; }
  // The rank within a group of ranks * tensor_parallel; ranks that compute a stage together are neighbours.
  int RankOf(int stage, int number) const { return stage % ranks * tensor_parallel + number; }
};

// The next action of a rank.
struct StageAction {
  bool forward = true;
  int64_t micro_batch = 0;  // of those that the group has, from 0
  int chunk = 0;            // of the rank's: stage chunk * ranks + rank
};
// The actions of rank `rank` of those that have stages.
std::vector<StageAction> StageSchedule(int rank, const PipelineShape& shape, int64_t micro_batches,
                                       PipelineSchedule schedule);

}  // namespace rewright::distributed
