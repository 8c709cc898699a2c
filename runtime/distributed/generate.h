// Writers of the lists of a plan whose mesh, tensors and subgraphs are there: from the names of a layout to actions.
// Every list passes CheckPlan.
//
// Data parallel: every rank runs all subgraphs, in their order, for one micro-batch after the other.
//
//   zero 0, 1  A rank adds the gradients of its micro-batches itself; behind the last one those behind a subgraph go
//              into a collective as soon as it has run. Zero 1 cuts sums: a rank gets only its blocks. Weights that are
//              cut are gathered at the beginning of the step.
//   zero 2     The ranks take the micro-batches in turns, and behind each subgraph every rank gets its blocks of all
//              ranks' gradients: a rank never has more of them whole than those of two subgraphs.
//   zero 3     Likewise; the weights that a subgraph reads are gathered before it, while the one before runs.
//
// Pipeline: rank s of p of a replica has the subgraphs of the stages s, s + p, .. of p * chunks; the first subgraphs
// are the forward passes of the stages, the others, in the opposite order, their backward passes, of two subgraphs each
// where these are split. A value goes to another rank behind the pass that makes it, and once. Weights that several
// ranks read go from their owner to the others at the beginning of the step; weights that are cut are gathered when a
// rank comes to another of its stages. Zero is as above, by replicas, but nothing overlaps unless the caller says so.
//
// Weights and sums that are apart (PlanTensor) are added by every replica for itself. Where ranks are alike, those with
// lists get one.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/distributed/pipeline_schedule.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

// The micro-batches of a step that are a replica's, of `count`, in the order in which it takes them: with zero 2 and 3
// in turns. REQUIRES: at least one for each replica where zero is less than 2.
std::vector<int64_t> MicroBatchesOf(int zero, int64_t count, int replica, int replicas);
// The same of a plan, whose replicas may be alike.
std::vector<int64_t> MicroBatchesOf(int zero, const Plan& plan, int replica);

// REQUIRES: a value that a subgraph reads is made by an earlier one; no weight or sum has an owner.
void WriteDataParallel(int zero, Plan* plan);

// A weight that a rank of a replica gets from its owner.
struct WeightMessage {
  int weight = 0, from = 0, to = 0;
};
// The weights that ranks other than their owners read.
std::vector<WeightMessage> SharedWeights(const Plan& plan, const PipelineShape& shape);

// REQUIRES: as above, but that every sum has an owner, and weights that the step updates; those that are cut are read
// by their owners alone.
// `beside`: sums over replicas, and with zero less than 3 the first gathers of weights, go on beside the passes.
void WritePipeline(const PipelineShape& shape, PipelineSchedule schedule, int zero, Plan* plan, bool beside = false);

}  // namespace rewright::distributed
