#include "search/strategies/backtrack.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "search/strategies/descent.h"
#include "search/strategies/explorer.h"

namespace rewright {
namespace {

// A rewrite that waits for its turn.
struct Entry {
  double priority = 0;
  double detour = 0;  // total cost above the base's, as estimated
  int64_t number = 0;
  int parent = 0;  // in Backtracking::states_
  Proposal proposal;
};

struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    return a.priority != b.priority ? a.priority > b.priority : a.number > b.number;
  }
};

class Backtracking {
 public:
  explicit Backtracking(Explorer& explorer) : explorer_(explorer) {}

  void Run() {
    Graph graph;
    const SearchState state = DescendFromStarts(explorer_, &graph);
    Expand(state, graph);
    while (!queue_.empty() && !explorer_.Done()) {
      std::pop_heap(queue_.begin(), queue_.end(), Later());
      const Entry entry = std::move(queue_.back());
      queue_.pop_back();
      Visit(entry);
    }
  }

 private:
  // The most that a detour may cost above the graph that it set out from.
  double Allowance() const { return (explorer_.options().alpha - 1) * explorer_.best().cost.total(); }

  void Visit(const Entry& entry) {
    const SearchState& parent = states_[entry.parent];
    if (entry.detour >= Allowance()) return;
    const Graph graph = explorer_.View(parent);
    const double limit = parent.base_cost + Allowance();
    std::optional<Explorer::Built> built = explorer_.Build(parent, graph, entry.proposal, limit);
    if (!built) return;
    if (Explorer::Cheaper(built->state.cost.total(), built->state.base_cost)) {
      Arrive(std::move(built->state));
    } else {
      Expand(built->state, built->graph);
    }
  }

  // A detour paid. It may have set out from a graph that was the best then and is no more: only its moves count.
  void Arrive(SearchState state) {
    const std::vector<Explorer::Move> moves = explorer_.MovesBetween(state.base, state.step);
    const int best_before = explorer_.best().step;
    explorer_.Offer(&state);
    SearchState best = explorer_.best();
    if (!ReplayAtOnce(moves, &best)) Replay(moves, &best);
    if (best.step == best_before) return;
    Graph graph = explorer_.View(best);
    Descend(explorer_, &best, &graph);
    Expand(best, graph);
  }

  // Queues the rewrites of a state that a detour may take. From a best graph: one of each signature, and none of a
  // signature that was tried often enough. Further down: those near the rewritten part; a rewrite elsewhere would pay,
  // or lead on, without these steps too.
  void Expand(const SearchState& state, const Graph& graph) {
    if (explorer_.Done() || state.depth >= explorer_.options().detour_steps) return;
    const int index = static_cast<int>(states_.size());
    states_.push_back(state);
    absl::flat_hash_set<uint64_t> signatures;
    for (Proposal& proposal : explorer_.Propose(graph, -1, state.fresh)) {
      const uint64_t signature = proposal.estimate.signature;
      if (!signatures.insert(signature).second) continue;
      if (state.depth == 0 && ++tries_[signature] > kTriesPerSignature) continue;
      Entry entry;
      entry.detour = state.cost.total() + proposal.estimate.delta - state.base_cost;
      if (entry.detour >= Allowance()) continue;
      entry.priority = entry.detour + explorer_.options().step_penalty * state.depth * explorer_.best().cost.total();
      entry.number = count_++;
      entry.parent = index;
      entry.proposal = std::move(proposal);
      queue_.push_back(std::move(entry));
      std::push_heap(queue_.begin(), queue_.end(), Later());
    }
  }

  // Repeats moves that paid at all sites at once: every first move with the same effect, then every second. False if
  // the whole gains less than nearly the sum of the single gains; nothing is changed then.
  bool ReplayAtOnce(const std::vector<Explorer::Move>& moves, SearchState* state) {
    constexpr double kNoLimit = std::numeric_limits<double>::infinity();
    Explorer::Built at{*state, explorer_.View(*state)};
    double promise = 0;
    size_t sites = std::numeric_limits<size_t>::max();
    for (const Explorer::Move& move : moves) {
      if (explorer_.Done()) return false;
      std::vector<Proposal> proposals = explorer_.Propose(at.graph, move.rule);
      std::erase_if(proposals, [&](const Proposal& proposal) { return !SameEffect(proposal, move); });
      proposals = Disjoint(std::move(proposals));
      if (proposals.empty()) return false;
      sites = std::min(sites, proposals.size());
      promise += move.delta;
      std::optional<Explorer::Built> built = explorer_.BuildAll(at.state, at.graph, proposals, kNoLimit);
      if (!built) return false;
      at = *std::move(built);
    }
    const double gain = state->cost.total() - at.state.cost.total();
    if (gain <= 0 || gain < -kKept * promise * static_cast<double>(sites)) return false;
    *state = std::move(at.state);
    explorer_.Offer(state);
    return true;
  }

  // Repeats moves that paid at all sites where the first one has the same effect, from the outputs towards the
  // inputs. (Signatures would be too strict here: each site that is rewritten changes the signature of the next.)
  void Replay(const std::vector<Explorer::Move>& moves, SearchState* state) {
    Graph graph = explorer_.View(*state);
    std::vector<Proposal> sites = explorer_.Propose(graph, moves[0].rule);
    std::stable_sort(sites.begin(), sites.end(),
                     [](const Proposal& a, const Proposal& b) { return a.position > b.position; });
    for (const Proposal& site : sites) {
      if (explorer_.Done()) return;
      if (!SameEffect(site, moves[0]) || !Explorer::Applies(graph, site.rewrite)) continue;
      std::optional<Explorer::Built> end = Follow(moves, *state, graph, site);
      if (!end || !Explorer::Cheaper(end->state.cost.total(), state->cost.total())) continue;
      *state = std::move(end->state);
      graph = std::move(end->graph);
      explorer_.Offer(state);
    }
  }

  std::optional<Explorer::Built> Follow(const std::vector<Explorer::Move>& moves, const SearchState& state,
                                        const Graph& graph, const Proposal& first) {
    // The moves are known to pay at their end: alpha does not count on the way.
    constexpr double kNoLimit = std::numeric_limits<double>::infinity();
    std::optional<Explorer::Built> at = explorer_.Build(state, graph, first, kNoLimit);
    for (size_t i = 1; i < moves.size() && at && !explorer_.Done(); ++i) {
      const std::vector<Proposal> sites = explorer_.Propose(at->graph, moves[i].rule);
      if (sites.empty()) return std::nullopt;
      // One with the same effect, and near the first.
      const auto rank = [&](const Proposal& site) {
        return std::pair(!SameEffect(site, moves[i]), std::abs(site.position - first.position));
      };
      const auto next = std::min_element(sites.begin(), sites.end(),
                                         [&](const Proposal& a, const Proposal& b) { return rank(a) < rank(b); });
      at = explorer_.Build(at->state, at->graph, *next, kNoLimit);
    }
    return at;
  }

  static bool SameEffect(const Proposal& site, const Explorer::Move& move) {
    return std::abs(site.estimate.delta - move.delta) <= 1e-3 * std::abs(move.delta);
  }

  Explorer& explorer_;
  std::vector<Entry> queue_;  // a heap
  std::vector<SearchState> states_;
  absl::flat_hash_map<uint64_t, int> tries_;  // by signature, from best graphs
  int64_t count_ = 0;
};

}  // namespace

void Backtrack(Explorer& explorer) { Backtracking(explorer).Run(); }

}  // namespace rewright
