#include "search/strategies/descent.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "search/strategies/explorer.h"

namespace rewright {
namespace {

// Graphs of more than this number times `whole_nodes` nodes are descended from one start.
constexpr int kBothStarts = 5;

std::vector<Proposal> Pick(std::vector<Proposal> proposals) {
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.estimate.delta < b.estimate.delta; });
  return Disjoint(std::move(proposals));
}

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

SearchState DescendFromStarts(Explorer& explorer, Graph* graph) {
  std::vector<SearchState> starts = {explorer.original()};
  if (std::optional<SearchState> second = explorer.SecondStart()) starts.push_back(*std::move(second));
  // The cheaper start comes first: a limit may leave time for no more. In a very large graph it is the only one, since
  // there the time that grows with the graph matters.
  std::stable_sort(starts.begin(), starts.end(), [](const SearchState& a, const SearchState& b) {
    return Explorer::Cheaper(a.cost.total(), b.cost.total());
  });
  if (explorer.original_graph().num_runtime_nodes() > kBothStarts * explorer.options().whole_nodes) starts.resize(1);
  *graph = explorer.View(starts[0]);
  Descend(explorer, &starts[0], graph);
  for (size_t i = 1; i < starts.size() && !explorer.Done(); ++i) {
    Graph view = explorer.View(starts[i]);
    Descend(explorer, &starts[i], &view);
    if (!Explorer::Cheaper(starts[i].cost.total(), starts[0].cost.total())) continue;
    starts[0] = std::move(starts[i]);
    *graph = std::move(view);
  }
  return starts[0];
}

void Descend(Explorer& explorer, SearchState* state, Graph* graph) {
  for (bool cheaper = true; cheaper;) {
    std::vector<std::vector<Proposal>> groups;
    for (Proposal& proposal : Pick(explorer.ProposePaying(*graph))) groups.push_back({std::move(proposal)});
    cheaper = explorer.Take(std::move(groups), state, graph);
  }
}

}  // namespace rewright
