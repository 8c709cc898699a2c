#include "runtime/distributed/pipeline_schedule.h"

#include <algorithm>

namespace rewright::distributed {
namespace {

// All passes of one direction, in order: `each` micro-batches at a time; the last turn also takes the fewer than `each`
// that are left.
std::vector<StageAction> PassesInTurns(bool forward, int chunks, int64_t micro_batches, int64_t each) {
  std::vector<StageAction> actions;
  for (int64_t first = 0; first < micro_batches;) {
    const int64_t end = micro_batches - first < 2 * each ? micro_batches : first + each;
    for (int k = 0; k < chunks; ++k) {
      for (int64_t i = first; i < end; ++i) actions.push_back({forward, i, forward ? k : chunks - 1 - k});
    }
    first = end;
  }
  return actions;
}

// Forward passes as far ahead as 1F1B has them, then a backward pass, the gradients of weights of `rank` backward
// passes before, and a forward pass in turn.
std::vector<StageAction> ZeroBubble(int rank, int ranks, int64_t micro_batches) {
  const int64_t ahead = std::min<int64_t>(ranks - rank, micro_batches);
  std::vector<StageAction> actions;
  for (int64_t i = 0; i < ahead; ++i) actions.push_back({true, i});
  for (int64_t i = 0; i < micro_batches + rank; ++i) {
    if (i < micro_batches) actions.push_back({false, i});
    if (i >= rank) actions.push_back({false, i - rank, 0, true});
    if (i + ahead < micro_batches) actions.push_back({true, i + ahead});
  }
  return actions;
}

}  // namespace

std::vector<StageAction> StageSchedule(int rank, const PipelineShape& shape, int64_t micro_batches,
                                       PipelineSchedule schedule) {
  const int64_t ranks = shape.ranks;
  if (schedule == PipelineSchedule::kZeroBubble) return ZeroBubble(rank, shape.ranks, micro_batches);
  const auto forward = PassesInTurns(true, shape.chunks, micro_batches, ranks);
  const auto backward = PassesInTurns(false, shape.chunks, micro_batches, ranks);
  const auto all = static_cast<int64_t>(forward.size());
  // Forward passes before the first backward pass. Interleaved, twice as many as there are ranks behind this one: there
  // are two passes between two that it makes of a chunk.
  int64_t ahead = all;
  if (schedule == PipelineSchedule::k1F1B) ahead = std::min(all, ranks - rank);
  if (schedule == PipelineSchedule::kInterleaved) {
    const int64_t last_turn = micro_batches < ranks ? micro_batches : ranks + micro_batches % ranks;
    ahead = std::min(all, 2 * (ranks - rank - 1) + (shape.chunks - 1) * last_turn + 1);
  }
  std::vector<StageAction> actions;
  for (int64_t i = 0; i < all + ahead; ++i) {
    if (i < all) actions.push_back(forward[i]);
    if (i + 1 >= ahead && i + 1 - ahead < all) actions.push_back(backward[i + 1 - ahead]);
  }
  return actions;
}

}  // namespace rewright::distributed
