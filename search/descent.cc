// Greedy descent, in rounds.
//
// A round judges all rewrites of the graph and picks the ones that promise to pay, the best of those that overlap.
// They are carried out from the outputs towards the inputs: a rewrite gives new identities to what lies downstream of
// it alone, so those still to come find their places untouched. Each is kept when the whole graph got cheaper.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "search/explorer.h"

namespace rewright {
namespace {

std::vector<Proposal> Pick(std::vector<Proposal> proposals) {
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.estimate.delta < b.estimate.delta; });
  absl::flat_hash_set<NodeId> taken;
  std::vector<Proposal> picked;
  for (Proposal& proposal : proposals) {
    const std::vector<NodeId>& matched = proposal.rewrite.matched;
    if (proposal.estimate.delta >= 0) break;
    if (std::any_of(matched.begin(), matched.end(), [&](NodeId id) { return taken.contains(id); })) continue;
    taken.insert(matched.begin(), matched.end());
    picked.push_back(std::move(proposal));
  }
  std::stable_sort(picked.begin(), picked.end(),
                   [](const Proposal& a, const Proposal& b) { return a.position > b.position; });
  return picked;
}

}  // namespace

void Descend(Explorer& explorer, SearchState* state) {
  Graph graph = explorer.View(*state);
  for (bool improved = true; improved && !explorer.Done();) {
    improved = false;
    for (const Proposal& proposal : Pick(explorer.Propose(graph))) {
      if (explorer.Done()) break;
      if (!Explorer::Applies(graph, proposal.rewrite)) continue;
      const double limit = Explorer::JustBelow(state->cost.total());
      std::optional<Explorer::Built> built = explorer.Build(*state, graph, proposal, limit);
      if (!built) continue;
      *state = std::move(built->state);
      graph = std::move(built->graph);
      explorer.Offer(state);
      improved = true;
    }
  }
}

}  // namespace rewright
