// The ground that strategies share: proposing and judging rewrites, building graphs, limits, trace, the best so far.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "search/search.h"
#include "search/strategies/match_site.h"
#include "substitutions/egraph/saturate.h"
#include "substitutions/match/node_signatures.h"

namespace rewright {

// A graph of the search: its roots say all, the Graph view is made again when it is needed.
struct SearchState {
  std::vector<Output> outputs;
  GraphCost cost;
  int step = -1;  // in the trace
  // The nearest ancestor, or itself, that was the best graph of its time: its step and total cost.
  int base = -1;
  double base_cost = 0;
  int depth = 0;  // steps since that one
  // Nodes that the steps since the base made, as far as they are still there.
  std::vector<NodeId> fresh;
};

// A rewrite with its estimate.
struct Proposal {
  Rewrite rewrite;
  SiteEstimate estimate;
  int position = 0;  // the first replaced value's, in the graph's order
};

// Sites of one signature may differ further away; trying a second one is enough insurance.
inline constexpr int kTriesPerSignature = 2;

// This share of the gains that rewrites promise together must come true: a device may fuse over the edges of sites.
inline constexpr double kKept = 0.9;

class Explorer {
 public:
  // The graph outlives the explorer.
  Explorer(const Graph& graph, Rewriter& rewriter, CostModel& costs, const SearchOptions& options);

  const SearchOptions& options() const { return options_; }
  // Costs the original. To be called first.
  absl::Status Start();
  const Graph& original_graph() const { return graph_; }
  const SearchState& original() const { return original_; }
  // Carries out options().second_start, to be called once. Nothing when there is none or the device cannot run it.
  std::optional<SearchState> SecondStart();
  // The same as Start, without its cost.
  void RecordSecondStart();
  Graph View(const SearchState& state) const;

  // Rewrites of the graph by rule `rule`, or by all (-1), in the order of sites; given `near`, only those whose left
  // side is within a few edges of it. Rewrites that the device cannot run are left out.
  std::vector<Proposal> Propose(const Graph& graph, int rule = -1, const std::vector<NodeId>& near = {});

  // The rewrites of the whole graph that promise to make it cheaper. In a large graph a node is skipped when nothing
  // paid at two nodes with equal neighbourhoods, in this graph or in an earlier one.
  std::vector<Proposal> ProposePaying(const Graph& graph);

  // True if the left side is still there.
  static bool Applies(const Graph& graph, const Rewrite& rewrite);

  // Carries out a rewrite of `graph`, the view of `state`, and costs the result. Nothing when that graph was returned
  // before, cannot run, or costs `limit` or more. Counts one step.
  struct Built {
    SearchState state;
    Graph graph;
  };
  std::optional<Built> Build(const SearchState& state, const Graph& graph, const Proposal& proposal, double limit) {
    return BuildAll(state, graph, {&proposal, 1}, limit);
  }
  // The same with several at once, sorted from the outputs towards the inputs: each gives new identities only to nodes
  // downstream of it, so that the trace has them one after the other. A proposal may replace values that one before it
  // put there; else they do not overlap.
  std::optional<Built> BuildAll(const SearchState& state, const Graph& graph, absl::Span<const Proposal> proposals,
                                double limit);

  // Carries out groups of rewrites, sorted from the outputs towards the inputs, all at once; they are kept when the
  // graph gets cheaper by about the sum of what each promises. Else half of the groups are tried, and then the other
  // half, so that a promise that fails is found without building a graph for each of the others. If two groups whose
  // first rewrites have one signature have failed alone, others with that signature are left out. Groups that promise
  // less than rounding in the cost of the graph are left out, too. True when `state`, of which `graph` is the view, got
  // cheaper.
  bool Take(std::vector<std::vector<Proposal>> groups, SearchState* state, Graph* graph);

  // Searches graphs of arenas of their own, whole, within the rest of the limits, several at once; ends early when a
  // limit is reached. Nothing for a graph that the device cannot run. The number of threads changes nothing.
  std::vector<std::optional<SearchResult>> SearchParts(const std::vector<Graph>& parts);
  // -1: none, or several.
  int RuleNumber(const std::string& name) const;
  // The rules as equality saturation applies them, from left to right.
  std::vector<DirectedRule> Rules() const;
  CostModel& costs() const { return costs_; }
  NodeSignatures& signatures() { return signatures_; }
  // Counts rewrites that were judged otherwise than by Propose().
  void CountExplored(int64_t rewrites) { explored_ += rewrites; }

  // True when a limit is reached.
  bool Done();

  // Makes the graph the best one, and its own base, if it is cheaper than all before; returns true then.
  bool Offer(SearchState* state);
  const SearchState& best() const { return improvements_.back(); }
  // Cheaper by more than rounding.
  static bool Cheaper(double a, double b) { return a < JustBelow(b); }
  static double JustBelow(double cost) { return cost * (1 - 1e-13); }

  // The moves from `ancestor` to `step`, first one first.
  struct Move {
    int rule = 0;
    double delta = 0;  // as estimated
  };
  std::vector<Move> MovesBetween(int ancestor, int step) const;

  SearchResult Finish();

 private:
  // A graph that was built.
  struct Known {
    GraphCost cost;
    bool can_run = false;  // and its weights are not too large
    bool returned = false;
  };
  SearchState FollowSecondStart();
  // Nothing if the device cannot run the rewritten graph.
  std::optional<Proposal> Judge(const Graph& graph, Rewrite rewrite);
  static std::vector<NodeId> Fresh(const SearchState& parent, const Graph& before, const Graph& after,
                                   absl::Span<const Proposal> proposals);
  Known& CostOf(const Graph& graph);
  // Puts a rewrite of `graph` down; gives the number of the step.
  int Record(int parent, const Graph& graph, const Proposal& proposal, double cost_before, double cost_after);
  const std::string& RuleName(const Rewrite& rewrite) const;
  using Failures = absl::flat_hash_map<uint64_t, int>;  // by signature
  bool TakeSome(absl::Span<const std::vector<Proposal>> groups, SearchState* state, Graph* graph, Failures* failures);
  std::optional<SearchResult> SearchPart(const Graph& part, int64_t budget) const;
  bool Interrupted();
  void Report() const;

  const Graph& graph_;
  Rewriter& rewriter_;
  CostModel& costs_;
  SearchOptions options_;
  SiteEstimator estimator_;
  std::optional<WeightBytes> weights_;  // none: their bytes cost nothing
  GrowthPrice growth_price_;
  NodeSignatures own_signatures_;
  NodeSignatures& signatures_;
  absl::flat_hash_map<uint64_t, int> idle_;  // by neighbourhood: nodes at which nothing paid
  SearchState original_;
  std::vector<SearchState> improvements_;  // each cheaper than the one before, the original first
  std::optional<SearchState> second_start_;
  std::vector<TraceStep> trace_;
  // One per step of the trace.
  std::vector<Move> moves_;
  absl::flat_hash_map<std::vector<Value>, Known> known_;  // by roots
  int64_t steps_ = 0;
  int64_t explored_ = 0;
  std::optional<SearchEnd> end_;
  absl::Time start_;
  double start_cpu_;
};

}  // namespace rewright
