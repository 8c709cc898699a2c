// Estimates the effect of a rewrite on the cost of a graph from its match site.
//
// The site is the rewrite's left side and all nodes within a few edges of it. It is cut out and costed before and after
// the rewrite; the rest of the graph is the same both times. This is only an estimate, since a device may fuse over the
// edge of the site, but it needs neither the rewritten graph nor a new partition of all of it.
//
// Sites that no rule and no cost can tell apart have equal signatures, whatever their weights are called and wherever
// they are.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "search/cost_model.h"
#include "search/rewriter.h"

namespace rewright {

// Applications that run at inference within `radius` edges of `seeds`, by position in graph.nodes(), ascending. Stops
// growing at a few dozen.
std::vector<int> NodesAround(const Graph& graph, const std::vector<NodeId>& seeds, int radius);

struct SiteEstimate {
  double delta = 0;        // total cost after minus before
  uint64_t signature = 0;  // of the rule and the site
};

class SiteEstimator {
 public:
  // Estimates for graphs of one arena.
  SiteEstimator(CostModel& costs, int radius) : costs_(costs), radius_(radius) {}

  // Errors: the site after the rewrite cannot run on the device.
  absl::StatusOr<SiteEstimate> Judge(const Graph& graph, const Rewrite& rewrite);

 private:
  class Cutter;

  absl::StatusOr<SiteEstimate> JudgeNew(const Rewrite& rewrite, Cutter& cutter);
  absl::StatusOr<double> TotalCost(const Graph& site, uint64_t hash);
  uint64_t LocalHash(NodeId id, const Node& node);

  CostModel& costs_;
  int radius_;
  // By signature: most sites equal one that was judged before.
  absl::flat_hash_map<uint64_t, absl::StatusOr<SiteEstimate>> known_;
  absl::flat_hash_map<NodeId, uint64_t> local_hashes_;  // of nodes without their operands
  // Sites are cut out into an arena of their own, which is thrown away when it has grown large.
  std::shared_ptr<Arena> scratch_;
  absl::flat_hash_map<NodeId, NodeId> copied_;        // known nodes, into scratch_
  absl::flat_hash_map<uint64_t, double> total_cost_;  // by canonical hash
};

}  // namespace rewright
