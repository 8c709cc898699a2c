// Greedy descent, in rounds.
//
// A round judges all rewrites of the graph and picks the ones that promise to pay, the best of those that overlap.
// They are carried out all at once, and kept when the whole graph got cheaper by about the sum of what each promised;
// else half of them are tried, and then the other half, so that a promise that fails is found without building a graph
// for each of the others.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "search/explorer.h"

namespace rewright {
namespace {

std::vector<Proposal> Pick(std::vector<Proposal> proposals) {
  std::erase_if(proposals, [](const Proposal& proposal) { return proposal.estimate.delta >= 0; });
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.estimate.delta < b.estimate.delta; });
  return Disjoint(std::move(proposals));
}

// What rewrites promise together may fall short by so much: a device may fuse over the edges of places.
constexpr double kKept = 0.9;

class Descent {
 public:
  Descent(Explorer& explorer, SearchState* state)
      : explorer_(explorer), state_(*state), graph_(explorer.View(*state)) {}

  void Run() {
    while (Take(Pick(explorer_.Propose(graph_)))) {
    }
  }

 private:
  // True when the graph got cheaper. `proposals` run from the outputs towards the inputs.
  bool Take(absl::Span<const Proposal> proposals) {
    if (proposals.empty() || explorer_.Done()) return false;
    double promise = 0;
    bool apply = true;
    for (const Proposal& proposal : proposals) {
      promise += proposal.estimate.delta;
      apply = apply && Explorer::Applies(graph_, proposal.rewrite);
    }
    const bool one = proposals.size() == 1;
    const double limit = Explorer::JustBelow(state_.cost.total());
    if (apply) {
      std::optional<Explorer::Built> built =
          explorer_.BuildAll(state_, graph_, proposals, one ? limit : std::min(limit, limit + kKept * promise));
      if (built) {
        state_ = std::move(built->state);
        graph_ = std::move(built->graph);
        explorer_.Offer(&state_);
        return true;
      }
    }
    if (one) return false;
    const size_t half = proposals.size() / 2;
    const bool first = Take(proposals.subspan(0, half));
    return Take(proposals.subspan(half)) || first;
  }

  Explorer& explorer_;
  SearchState& state_;
  Graph graph_;
};

}  // namespace

std::vector<Proposal> Disjoint(std::vector<Proposal> proposals) {
  absl::flat_hash_set<NodeId> taken;
  std::vector<Proposal> disjoint;
  for (Proposal& proposal : proposals) {
    const std::vector<NodeId>& matched = proposal.rewrite.matched;
    if (std::any_of(matched.begin(), matched.end(), [&](NodeId id) { return taken.contains(id); })) continue;
    taken.insert(matched.begin(), matched.end());
    disjoint.push_back(std::move(proposal));
  }
  std::stable_sort(disjoint.begin(), disjoint.end(),
                   [](const Proposal& a, const Proposal& b) { return a.position > b.position; });
  return disjoint;
}

void Descend(Explorer& explorer, SearchState* state) { Descent(explorer, state).Run(); }

}  // namespace rewright
