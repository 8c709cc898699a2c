// The order of the passes of each rank of a pipeline.
//
//   GPipe        All forward passes, then all backward passes (Huang et al. 2019): a rank holds what every micro-batch
//                hands from the one to the other.
//   1F1B         As soon as it can a rank takes a backward pass, so rank s of p holds at most p - s micro-batches
//                (Narayanan et al. 2019, without its stale weights). Bubbles are those of GPipe.
//   interleaved  Rank s has the stages s, s + p, .. of p * chunks, and takes them in turns, p micro-batches at a time
//                (Narayanan et al. 2021): bubbles are shorter by the number of chunks, messages more by it.
//   zero bubble  As 1F1B, but a backward pass has two parts: what earlier stages wait for, and the gradients of
//                weights, which rank s makes s backward passes later (ZB-H1 of Qi et al. 2023): bubbles are those of
//                one of three parts, and every rank holds p micro-batches.
#pragma once

#include <cstdint>
#include <vector>

namespace rewright::distributed {

enum class PipelineSchedule : uint8_t { k1F1B, kGPipe, kInterleaved, kZeroBubble };

// The number of ranks that have stages, of ranks that compute each stage together, and of stages of each rank.
struct PipelineShape {
  int ranks = 1, tensor_parallel = 1, chunks = 1;
  bool split_backward = false;  // a backward pass is two subgraphs; with zero bubble

  int stages() const { return ranks * chunks; }
  // The rank within a group of ranks * tensor_parallel; ranks that compute a stage together are neighbours.
  int RankOf(int stage, int number) const { return stage % ranks * tensor_parallel + number; }
};

// The next action of a rank.
struct StageAction {
  bool forward = true;
  int64_t micro_batch = 0;  // of those that the group has, from 0
  int chunk = 0;            // of the rank's: stage chunk * ranks + rank
  bool of_weights = false;  // the second part of a backward pass that is split
};
// The actions of rank `rank` of those that have stages. REQUIRES: with zero bubble one chunk and split backward passes,
// which other schedules have not.
std::vector<StageAction> StageSchedule(int rank, const PipelineShape& shape, int64_t micro_batches,
                                       PipelineSchedule schedule);

}  // namespace rewright::distributed
