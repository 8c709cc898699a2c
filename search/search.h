// Search: from a graph to the cheapest equal one that the rules reach within a budget.
//
// Three strategies stand behind one function.
//
// `greedy` is descent alone: in rounds, every rewrite that makes the graph cheaper is taken, the best of those that
// overlap, all at once. Fifty batch norms fold in one or two rounds, at the price of one estimate for each.
//
// `backtrack` descends first and then looks for detours around the optimum, as TASO does (Jia et al., SOSP'19, section
// 5): a rewrite that costs something may open the way to one that pays, so graphs are queued by cost and expanded while
// they cost less than alpha times the best. It scales by these means (docs/decisions/010-search-detours.md):
//
//   - Candidates are judged before they are built. The effect of a rewrite on the cost is read from its match site
//     (search/strategies/match_site.h), a few dozen nodes before and after; a graph is built, costed exactly and looked
//     up among those known only when its turn comes.
//   - One or two of the sites with equal signatures are tried. Rewrites that pay there are replayed at all others where
//     their first step has the same effect. After an improvement only sites whose signature has changed are tried
//     again.
//   - A detour stays in one place: each step is near those before it. Detours in different places need not be combined.
//   - The queue orders detours by what they have cost so far and a little per step: else rewrites that change nothing
//     (an exchange of operands) would be combined without end before any that costs something is tried.
//
// Graphs of more than `whole_nodes` nodes are not searched for detours as a whole but by windows
// (search/windows/window.h): each is searched as a graph of its own, the gains are put in place in all windows at once,
// and the cuts move from round to round until nothing improves. A window that a search cannot tell from one that was
// searched is not searched again, so that a hundred layers cost about as much as a few (docs/decisions/013-windows.md).
//
// `eqsat` descends first and then applies all rules at once, to an e-graph (substitutions/egraph), from which the
// cheapest graph is extracted, as TENSAT does (Yang et al., MLSys'21; docs/decisions/014-equality-saturation.md). Large
// graphs are searched by the same windows.
//
// Given the costs and a budget in steps, the result is the same in every run, whatever the number of threads and the
// load of the machine: nothing random is used, ties are broken by the order of rules and nodes, and windows that are
// searched at once know nothing of each other.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "core/ir/graph.h"
#include "search/cost_model.h"
#include "search/optimize/weight_bytes.h"
#include "search/rewriter.h"
#include "substitutions/match/node_signatures.h"

namespace rewright {

enum class SearchStrategy : uint8_t { kGreedy, kBacktrack, kEqsat };
// "greedy", "backtrack", "eqsat".
const char* SearchStrategyName(SearchStrategy strategy);
bool ParseSearchStrategy(const std::string& name, SearchStrategy* strategy);

// Selects the graphs that are searched by windows: those with more than `whole_nodes` nodes that run, all, or none.
enum class WindowUse : uint8_t { kAuto, kAlways, kNever };
// "auto", "always", "never".
const char* WindowUseName(WindowUse use);
bool ParseWindowUse(const std::string& name, WindowUse* use);

enum class SearchEnd : uint8_t {
  kExhausted,  // nothing left below alpha times the best
  kBudget,
  kTimeLimit,
  kMemoryLimit,
  kStopped,
};
const char* SearchEndName(SearchEnd end);

struct SearchProgress {
  int64_t steps = 0;
  int64_t budget = 0;
  int64_t explored = 0;
  double seconds = 0;
  double first_cost = 0;  // seconds
  double best_cost = 0;
};

// Rewrites that do not overlap, and the graph that they make, carried out all at once.
struct RewriteRound {
  std::vector<Rewrite> rewrites;
  Graph after;
};

struct SearchOptions {
  SearchStrategy strategy = SearchStrategy::kBacktrack;
  // A detour may cost (alpha - 1) times the best cost on its way.
  double alpha = 1.05;
  // The most graphs that are built, greedy descent included; with windows, for every `whole_nodes` nodes.
  int64_t budget = 1000;
  double time_limit_seconds = std::numeric_limits<double>::infinity();
  // Limit of the memory of the whole process; 0: none.
  int64_t memory_limit_bytes = 0;
  // The amount that each step of a detour adds to its place in the queue, relative to the best cost.
  double step_penalty = 0.005;
  // How many steps a detour may take.
  int detour_steps = 6;
  // How far around a rewrite its effect on the cost is looked at, in edges.
  int site_radius = 3;
  // Graphs with more nodes that run than `whole_nodes` are searched by windows of about `window_nodes`.
  WindowUse windows = WindowUse::kAuto;
  int whole_nodes = 200;
  int window_nodes = 48;
  // Graphs built for one window at most.
  int64_t window_budget = 200;
  // Windows that are searched at once. 1 where the device measures: others would disturb it.
  int threads = 1;
  // Limits of eqsat: e-nodes that one saturation may add, and branchings of one extraction.
  int egraph_nodes = 2000;
  int64_t extraction_steps = 20000;
  // The most that the weights of a graph may exceed the original's, as a share of them. Growth has to be gained, share
  // for share (search/optimize/weight_bytes.h). Infinite: they may be of any size.
  double growth = std::numeric_limits<double>::infinity();
  // Replaces `growth` for a graph that is a part of another.
  std::optional<GrowthPrice> growth_price = std::nullopt;
  // How many candidates SearchResult keeps, apart from the second start.
  int candidates = 3;
  // Rounds of rewrites of the original that lead to another graph to start from; null: none. Descent starts from both
  // graphs (of more than 5 * `whole_nodes` nodes: from the cheaper one), the search goes on from the cheaper end.
  std::shared_ptr<const std::vector<RewriteRound>> second_start = nullptr;
  // Signatures of the nodes of the graph's arena, if others have them already; null: the search makes its own.
  NodeSignatures* signatures = nullptr;
  // Ends the search with the best graph so far.
  StopFlag stop = nullptr;
  std::function<void(const SearchProgress&)> progress;
};

// One rewrite that was carried out: an edge of the tree of graphs.
struct TraceStep {
  int parent = -1;    // the step that made the graph it starts from; -1: the original
  std::string rule;   // or several, with kRuleSeparator between them
  std::string place;  // names of the replaced values, or operator and number where they have none
  // Seconds; within a round of descent as estimated. The last step to the second start answers for the cost of all.
  double cost_before = 0;
  double cost_after = 0;
  std::vector<std::pair<Value, Value>> replacement;  // of the graph before, in the original's arena
};

struct Candidate {
  Graph graph;
  GraphCost cost;
  int step = -1;  // the last step of its path; -1: the original
  bool second_start = false;
};

struct SearchResult {
  GraphCost original_cost;
  // The cheapest graph first, then the ones it came by that are clearly different in cost. Never empty: the original
  // stands last where nothing is cheaper. Behind these the second start, whatever it costs, where none of them is it.
  std::vector<Candidate> candidates;
  std::vector<TraceStep> trace;
  int64_t steps = 0;     // graphs built
  int64_t explored = 0;  // rewrites judged
  double seconds = 0;
  double cpu_seconds = 0;
  SearchEnd end = SearchEnd::kExhausted;
};

// Errors: those of the device. A graph that the device cannot run is such an error; a rewrite to one is not, it is
// left out.
absl::StatusOr<SearchResult> Search(const Graph& graph, Rewriter& rewriter, CostModel& costs,
                                    const SearchOptions& options);

// The second start by itself, at no cost: candidates[0] with its path. REQUIRES: there is one.
SearchResult SecondStartAlone(const Graph& graph, Rewriter& rewriter, CostModel& costs, const SearchOptions& options);

// The graph that a step made, by carrying out the steps that lead to it; -1: the original.
Graph GraphAt(const SearchResult& result, const Graph& original, int step);

// The steps from the original to `step`, first one first.
std::vector<int> PathTo(const std::vector<TraceStep>& trace, int step);

}  // namespace rewright
