// Cost-guided backtracking around local optima, see search.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "search/explorer.h"

namespace rewright {
namespace {

// A rewrite that waits for its turn.
struct Entry {
  double priority = 0;
  double estimate = 0;  // total cost of the graph
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
    SearchState state = explorer_.original();
    Descend(explorer_, &state);
    Expand(state, explorer_.View(state));
    if (state.step != -1) Expand(explorer_.original(), explorer_.View(explorer_.original()));
    while (!queue_.empty() && !explorer_.Done()) {
      std::pop_heap(queue_.begin(), queue_.end(), Later());
      const Entry entry = std::move(queue_.back());
      queue_.pop_back();
      if (entry.estimate < Limit()) Visit(entry);
    }
  }

 private:
  double Limit() const { return explorer_.options().alpha * explorer_.best().cost.total(); }

  void Visit(const Entry& entry) {
    const SearchState& parent = states_[static_cast<size_t>(entry.parent)];
    const Graph graph = explorer_.View(parent);
    std::optional<Explorer::Built> built = explorer_.Build(parent, graph, entry.proposal, Limit());
    if (!built) return;
    SearchState state = std::move(built->state);
    if (Explorer::Cheaper(state.cost.total(), explorer_.best().cost.total())) {
      // What led here is worth trying elsewhere.
      const std::vector<Explorer::Move> moves = explorer_.MovesBetween(state.base, state.step);
      explorer_.Offer(&state);
      if (moves.size() > 1) Replay(moves, &state);
      Descend(explorer_, &state);
    }
    Expand(state, explorer_.View(state));
  }

  // Queues the rewrites of a state that stay within the limit, one of each look.
  void Expand(const SearchState& state, const Graph& graph) {
    if (explorer_.Done()) return;
    const int index = static_cast<int>(states_.size());
    states_.push_back(state);
    absl::flat_hash_set<uint64_t> looks;
    for (Proposal& proposal : explorer_.Propose(graph)) {
      if (!looks.insert(proposal.estimate.signature).second) continue;
      Entry entry;
      entry.estimate = state.cost.total() + proposal.estimate.delta;
      if (entry.estimate >= Limit()) continue;
      entry.priority = entry.estimate + explorer_.options().step_penalty * state.depth * explorer_.best().cost.total();
      entry.number = count_++;
      entry.parent = index;
      entry.proposal = std::move(proposal);
      queue_.push_back(std::move(entry));
      std::push_heap(queue_.begin(), queue_.end(), Later());
    }
  }

  // Repeats moves that paid at all places where the first one has the same effect, from the outputs towards the
  // inputs. (Signatures would be too strict here: each place that is rewritten changes the look of the next.)
  void Replay(const std::vector<Explorer::Move>& moves, SearchState* state) {
    Graph graph = explorer_.View(*state);
    std::vector<Proposal> places = explorer_.Propose(graph, moves[0].rule);
    std::stable_sort(places.begin(), places.end(),
                     [](const Proposal& a, const Proposal& b) { return a.position > b.position; });
    for (const Proposal& place : places) {
      if (explorer_.Done()) return;
      if (!SameEffect(place, moves[0]) || !Explorer::Applies(graph, place.rewrite)) continue;
      std::optional<Explorer::Built> end = Follow(moves, *state, graph, place);
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
      const std::vector<Proposal> places = explorer_.Propose(at->graph, moves[i].rule);
      if (places.empty()) return std::nullopt;
      // One with the same effect, and near the first.
      const auto rank = [&](const Proposal& place) {
        return std::pair(!SameEffect(place, moves[i]), std::abs(place.position - first.position));
      };
      const auto next = std::min_element(places.begin(), places.end(),
                                         [&](const Proposal& a, const Proposal& b) { return rank(a) < rank(b); });
      at = explorer_.Build(at->state, at->graph, *next, kNoLimit);
    }
    return at;
  }

  static bool SameEffect(const Proposal& place, const Explorer::Move& move) {
    return std::abs(place.estimate.delta - move.delta) <= 1e-3 * std::abs(move.delta);
  }

  Explorer& explorer_;
  std::vector<Entry> queue_;  // a heap
  std::vector<SearchState> states_;
  int64_t count_ = 0;
};

}  // namespace

void Backtrack(Explorer& explorer) { Backtracking(explorer).Run(); }

}  // namespace rewright
