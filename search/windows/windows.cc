#include "search/windows/windows.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "search/strategies/descent.h"
#include "search/strategies/explorer.h"
#include "search/windows/window.h"
#include "search/windows/window_cuts.h"

namespace rewright {
namespace {

// The result of searching a window: nothing, or the graphs on the way to the best one.
struct Solution {
  struct Step {
    std::string rule;
    double delta = 0;  // seconds
    Graph graph;
  };
  std::vector<Value> leaves;  // of the window that was searched
  std::vector<Step> steps;
};

class WindowSearch {
 public:
  explicit WindowSearch(Explorer& explorer) : explorer_(explorer) {}

  void Run() {
    Graph graph;
    SearchState state = DescendFromStarts(explorer_, &graph);
    // Cuts move every round: nodes that a cut separates are together in the next.
    constexpr double kShifts[] = {0, 0.5, 0.25, 0.75};
    int idle = 0;
    for (size_t round = 0; idle < 2 && !explorer_.Done(); ++round) {
      if (Round(kShifts[round % 4], &state, &graph)) {
        Descend(explorer_, &state, &graph);
        idle = 0;
      } else {
        ++idle;
      }
    }
  }

 private:
  struct Part {
    std::vector<int> positions;
    WindowKey key;
  };

  // Searches every window of the graph that is unlike those searched before; true when the graph got cheaper.
  bool Round(double shift, SearchState* state, Graph* graph) {
    std::vector<Part> parts;
    for (std::vector<int>& positions : CutIntoWindows(*graph, explorer_.options().window_nodes, shift)) {
      WindowKey key = KeyOfWindow(*graph, positions, explorer_.signatures());
      parts.push_back({std::move(positions), std::move(key)});
    }
    std::reverse(parts.begin(), parts.end());  // from the outputs towards the inputs
    SearchNew(*graph, parts);
    std::vector<std::vector<Proposal>> found;
    for (const Part& part : parts) {
      const auto solution = solved_.find(part.key);
      // Not searched: a limit was reached.
      if (solution == solved_.end() || solution->second.steps.empty()) continue;
      std::vector<Proposal> proposals = InPlace(*graph, part, solution->second);
      if (!proposals.empty()) found.push_back(std::move(proposals));
    }
    return explorer_.Take(std::move(found), state, graph);
  }

  void SearchNew(const Graph& graph, const std::vector<Part>& parts) {
    std::vector<const WindowKey*> keys;
    std::vector<GraphWindow> windows;
    std::vector<Graph> graphs;
    absl::flat_hash_set<WindowKey> seen;
    for (const Part& part : parts) {
      if (solved_.contains(part.key) || !seen.insert(part.key).second) continue;
      keys.push_back(&part.key);
      windows.push_back(CutWindow(graph, part.positions));
      graphs.push_back(windows.back().graph);
    }
    const std::vector<std::optional<SearchResult>> results = explorer_.SearchParts(graphs);
    for (size_t i = 0; i < results.size(); ++i) solved_.emplace(*keys[i], SolutionOf(windows[i], results[i]));
  }

  // The graphs on the way to the solution, one rewrite each.
  std::vector<Proposal> InPlace(const Graph& graph, const Part& part, const Solution& solution) const {
    const GraphWindow window = CutWindow(graph, part.positions);
    std::vector<Proposal> proposals;
    std::vector<Value> at = window.escaping;
    for (const Solution::Step& step : solution.steps) {
      const std::vector<Value> next = Splice(step.graph, solution.leaves, window, *graph.arena());
      Proposal proposal;
      proposal.rewrite.rule = explorer_.RuleNumber(step.rule);
      proposal.rewrite.name = step.rule;
      proposal.estimate = {step.delta, absl::HashOf(part.key)};
      proposal.position = graph.index(window.nodes[0]);
      if (proposals.empty()) proposal.rewrite.matched = window.nodes;
      for (size_t k = 0; k < at.size(); ++k) {
        if (at[k] != next[k]) proposal.rewrite.replacement.emplace_back(at[k], next[k]);
      }
      proposals.push_back(std::move(proposal));
      at = next;
    }
    return proposals;
  }

  static Solution SolutionOf(const GraphWindow& window, const std::optional<SearchResult>& result) {
    Solution solution;
    solution.leaves = window.leaves;
    if (!result) return solution;
    double cost = result->original_cost.total();
    const int best = result->candidates[0].step;
    for (int step : PathTo(result->trace, best)) {
      const TraceStep& made = result->trace[step];
      // The last step absorbs the errors of the estimated costs.
      const double after = step == best ? result->candidates[0].cost.total() : made.cost_after;
      solution.steps.push_back({made.rule, after - cost, GraphAt(*result, window.graph, step)});
      cost = after;
    }
    return solution;
  }

  Explorer& explorer_;
  absl::flat_hash_map<WindowKey, Solution> solved_;
};

}  // namespace

void SearchWindows(Explorer& explorer) { WindowSearch(explorer).Run(); }

}  // namespace rewright
