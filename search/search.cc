#include "search/search.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "search/saturation/eqsat.h"
#include "search/strategies/backtrack.h"
#include "search/strategies/descent.h"
#include "search/strategies/explorer.h"
#include "search/windows/windows.h"

namespace rewright {
namespace {

absl::Status CheckOptions(const SearchOptions& options) {
  if (!(options.alpha >= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("alpha is ", options.alpha, "; expected at least 1"));
  }
  if (options.window_nodes < 4 || options.whole_nodes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("windows have ", options.window_nodes, " nodes, graphs that are ",
                                                   "searched whole at most ", options.whole_nodes,
                                                   "; expected at least 4 and 1"));
  }
  if (options.egraph_nodes < 0 || options.extraction_steps < 0) {
    return absl::InvalidArgumentError(absl::StrCat("an e-graph has ", options.egraph_nodes, " nodes, an extraction ",
                                                   options.extraction_steps, " steps; expected at least 0"));
  }
  if (options.budget < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the budget is ", options.budget, " steps; expected at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace

const char* SearchStrategyName(SearchStrategy strategy) {
  switch (strategy) {
    case SearchStrategy::kGreedy: return "greedy";
    case SearchStrategy::kBacktrack: return "backtrack";
    case SearchStrategy::kEqsat: return "eqsat";
  }
  return "";
}

bool ParseSearchStrategy(const std::string& name, SearchStrategy* strategy) {
  for (SearchStrategy candidate : {SearchStrategy::kGreedy, SearchStrategy::kBacktrack, SearchStrategy::kEqsat}) {
    if (name != SearchStrategyName(candidate)) continue;
    *strategy = candidate;
    return true;
  }
  return false;
}

const char* WindowUseName(WindowUse use) {
  switch (use) {
    case WindowUse::kAuto: return "auto";
    case WindowUse::kAlways: return "always";
    case WindowUse::kNever: return "never";
  }
  return "";
}

bool ParseWindowUse(const std::string& name, WindowUse* use) {
  for (WindowUse candidate : {WindowUse::kAuto, WindowUse::kAlways, WindowUse::kNever}) {
    if (name != WindowUseName(candidate)) continue;
    *use = candidate;
    return true;
  }
  return false;
}

const char* SearchEndName(SearchEnd end) {
  switch (end) {
    case SearchEnd::kExhausted: return "exhausted";
    case SearchEnd::kBudget: return "budget";
    case SearchEnd::kTimeLimit: return "time limit";
    case SearchEnd::kMemoryLimit: return "memory limit";
    case SearchEnd::kStopped: return "stopped";
  }
  return "";
}

absl::StatusOr<SearchResult> Search(const Graph& graph, Rewriter& rewriter, CostModel& costs,
                                    const SearchOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const int nodes = graph.num_runtime_nodes();
  const bool large =
      options.windows == WindowUse::kAuto ? nodes > options.whole_nodes : options.windows == WindowUse::kAlways;
  const bool by_windows = options.strategy != SearchStrategy::kGreedy && large;
  SearchOptions scaled = options;
  if (by_windows) {
    const double budget =
        static_cast<double>(options.budget) * std::max(nodes, options.whole_nodes) / options.whole_nodes;
    scaled.budget = static_cast<int64_t>(std::min(budget, 9e18));
  }
  Explorer explorer(graph, rewriter, costs, scaled);
  RETURN_IF_ERROR(explorer.Start());
  if (options.strategy == SearchStrategy::kGreedy) {
    Graph view;
    DescendFromStarts(explorer, &view);
  } else if (by_windows) {
    SearchWindows(explorer);
  } else if (options.strategy == SearchStrategy::kEqsat) {
    SaturateAndExtract(explorer);
  } else {
    Backtrack(explorer);
  }
  return explorer.Finish();
}

SearchResult SecondStartAlone(const Graph& graph, Rewriter& rewriter, CostModel& costs, const SearchOptions& options) {
  Explorer explorer(graph, rewriter, costs, options);
  explorer.RecordSecondStart();
  return explorer.Finish();
}

Graph GraphAt(const SearchResult& result, const Graph& original, int step) {
  Graph graph = original;
  for (int at : PathTo(result.trace, step)) {
    const auto& replacement = result.trace[at].replacement;
    absl::StatusOr<Graph> next = ReplaceValues(graph, ValueMap(replacement.begin(), replacement.end()));
    CHECK(next.ok()) << next.status().ToString();
    graph = *std::move(next);
  }
  return graph;
}

std::vector<int> PathTo(const std::vector<TraceStep>& trace, int step) {
  std::vector<int> path;
  for (int at = step; at >= 0; at = trace[at].parent) path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace rewright
