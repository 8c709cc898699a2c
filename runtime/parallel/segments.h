// A rank's graph in segments: graphs that run between collectives: as few, one after the other, as the collectives'
// order allows.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/parallel/rank_graph.h"
#include "runtime/parallel/subgraphs.h"

namespace rewright {

struct Segments {
  // The subgraphs of RankGraph::graph; states in the order of RankGraph::states. Its outputs end with the collectives'
  // operands.
  Subgraphs subgraphs;
  std::vector<std::vector<int>> collectives;  // that follow a subgraph: numbers of RankGraph::collectives
  std::vector<int> outputs;                   // of RankGraph::graph, in order, without the operands
  std::vector<int> operands;                  // of the collectives
};

// Errors: a collective that waits for itself.
absl::StatusOr<Segments> SegmentsOf(const RankGraph& rank);

// The uses by tensor of the subgraphs. Segment s runs at time 2s, the collectives behind it at 2s + 1.
struct SegmentUses {
  std::vector<Use> uses;       // of those that share memory: neither inputs nor states, nor what follows
  std::vector<bool> has_next;  // a next value with memory of its own, which a run exchanges for the state's
};
SegmentUses UsesOf(const RankGraph& rank, const Segments& segments);

}  // namespace rewright
