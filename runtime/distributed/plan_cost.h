// Bytes and memory of a plan, from its lists alone.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/distributed/plan.h"
#include "runtime/memory_plan.h"
#include "runtime/parallel/subgraphs.h"

namespace rewright::distributed {

// The bytes that an action of a rank sends, by rank that gets them: those of runtime/comm/collectives.h. Subgraphs that
// several ranks run together, and updates, send what is not in the list.
std::vector<int64_t> BytesSent(const Plan& plan, int rank, const Action& action);
// The same of all actions of a rank.
std::vector<int64_t> BytesSent(const Plan& plan, int rank);

// A tensor in the memory of a rank, from the action that brings it to the last one that uses it.
struct TensorLife {
  int tensor = 0;
  int64_t micro_batch = -1;  // -1: of a weight, or a sum
  int first = 0, last = 0;   // actions
  int64_t bytes = 0;
};
// Inputs, values, and weights that are gathered or received; in the order of `first`. A value that is offloaded begins
// anew when it is fetched; a weight when it is gathered again.
std::vector<TensorLife> LivesOf(const Plan& plan, int rank);

// Bytes of the memory of a rank by action: LivesOf, and what subgraphs take while they run and always; and of its sums.
// Weights that a rank keeps are not counted.
std::vector<int64_t> RunBytesOverTime(const Plan& plan, int rank);
std::vector<int64_t> SumBytesOverTime(const Plan& plan, int rank);
// The most of both together.
int64_t PeakBytes(const Plan& plan, int rank);
// The most bytes at a time of values that are leaves of sums.
int64_t PeakLeafBytes(const Plan& plan, int rank);

// Where subgraphs run one behind the other, for one micro-batch after the other: when values are used, by tensor, if
// subgraph p runs at time p. Leaves of sums, which sums take over, and tensors of other kinds are never used.
std::vector<Use> UsesOneByOne(const Plan& plan);

// One memory for the weights that a rank gathers: where the tensors of each ALL_GATHER of weights lie, in its order.
// Gathers of the same weights for the same subgraph have the same place where their lives permit it.
struct GatherPlacement {
  std::vector<std::vector<int64_t>> offsets;  // by action of the list
  int64_t bytes = 0;
};
GatherPlacement PlaceGathers(const Plan& plan, int rank);

// The most passes that a rank has begun and not ended, where the first half of the subgraphs are forward passes and the
// others, in the opposite order, the backward passes that end them.
int MostInFlight(const Plan& plan, int rank);

// One plan of what several ranks have measured of it: means of the seconds of those that know them, the most memory.
// REQUIRES: at least one; they differ in nothing else.
Plan MeanOf(const std::vector<Plan>& measured);

}  // namespace rewright::distributed
