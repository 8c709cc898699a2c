#include "search/strategies/explorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/threads.h"
#include "search/resources.h"
#include "search/strategies/descent.h"

namespace rewright {
namespace {

std::vector<Value> Roots(const std::vector<Output>& outputs) {
  std::vector<Value> roots;
  for (const Output& output : outputs) roots.push_back(output.value);
  return roots;
}

// Candidates that are timed must differ by more than the noise of timing.
constexpr double kClearlyCheaper = 0.99;

// Composes proposals into one replacement. A proposal may replace values that others put in.
ValueMap Compose(absl::Span<const Proposal> proposals) {
  ValueMap replacement;
  absl::flat_hash_map<Value, std::vector<Value>> origins;  // of values that replace others
  for (const Proposal& proposal : proposals) {
    for (const auto& [from, to] : proposal.rewrite.replacement) {
      std::vector<Value> replaced = {from};
      if (auto it = origins.find(from); it != origins.end()) {
        replaced = std::move(it->second);
        origins.erase(it);
      }
      for (Value value : replaced) {
        replacement[value] = to;
        origins[to].push_back(value);
      }
    }
  }
  absl::erase_if(replacement, [](const auto& entry) { return entry.first == entry.second; });
  return replacement;
}

// The position of the first value that is replaced.
int Position(const Graph& graph, const Rewrite& rewrite) {
  int position = static_cast<int>(graph.nodes().size());
  for (const auto& [from, to] : rewrite.replacement) position = std::min(position, graph.index(from.node));
  return position;
}

// Windows that are searched together at most.
constexpr int64_t kPartsAtOnce = 32;

// Siblings that read one value are two edges apart.
constexpr int kNear = 2;
// The longest distance from a node of a left side to its first output.
constexpr int kLeftSideDepth = 4;

}  // namespace

Explorer::Explorer(const Graph& graph, Rewriter& rewriter, CostModel& costs, const SearchOptions& options)
    : graph_(graph),
      rewriter_(rewriter),
      costs_(costs),
      options_(options),
      estimator_(costs, options.site_radius),
      signatures_(options.signatures != nullptr ? *options.signatures : own_signatures_),
      start_(absl::Now()),
      start_cpu_(ProcessCpuSeconds()) {}

absl::Status Explorer::Start() {
  const absl::StatusOr<GraphCost> cost = costs_.Cost(graph_);
  if (!cost.ok()) return cost.status();
  if (options_.growth_price || !std::isinf(options_.growth)) {
    weights_.emplace(graph_);
    growth_price_ = options_.growth_price ? *options_.growth_price
                                          : PriceOfGrowth(options_.growth, weights_->original(), cost->seconds);
  }
  original_.outputs = graph_.outputs();
  original_.cost = *cost;
  original_.base_cost = cost->total();
  improvements_.push_back(original_);
  known_[Roots(original_.outputs)] = {*cost, /*can_run=*/true, /*returned=*/true};
  return absl::OkStatus();
}

Graph Explorer::View(const SearchState& state) const { return Graph(graph_.arena(), graph_.inputs(), state.outputs); }

std::optional<Proposal> Explorer::Judge(const Graph& graph, Rewrite rewrite) {
  ++explored_;
  const absl::StatusOr<SiteEstimate> estimate = estimator_.Judge(graph, rewrite);
  if (!estimate.ok()) return std::nullopt;
  const int position = Position(graph, rewrite);
  return Proposal{std::move(rewrite), *estimate, position};
}

std::vector<Proposal> Explorer::Propose(const Graph& graph, int rule, const std::vector<NodeId>& near) {
  std::vector<int> roots(graph.nodes().size());
  std::iota(roots.begin(), roots.end(), 0);
  absl::flat_hash_set<NodeId> region;
  if (!near.empty()) {
    roots = NodesAround(graph, near, kNear + kLeftSideDepth);
    for (int position : NodesAround(graph, near, kNear)) region.insert(graph.nodes()[position]);
  }
  const auto is_near = [&](NodeId id) { return region.contains(id); };
  std::vector<Proposal> proposals;
  for (Rewrite& rewrite : rewriter_.Find(graph, rule, roots)) {
    if (Interrupted()) break;
    if (!near.empty() && std::none_of(rewrite.matched.begin(), rewrite.matched.end(), is_near)) continue;
    if (auto proposal = Judge(graph, std::move(rewrite))) proposals.push_back(*std::move(proposal));
  }
  return proposals;
}

std::vector<Proposal> Explorer::ProposePaying(const Graph& graph) {
  // The radius of the region that decides which rules match at a node and what their rewrites do to the cost.
  const int radius = kLeftSideDepth + options_.site_radius + 1;
  const bool large = graph.num_runtime_nodes() > options_.whole_nodes;
  const std::vector<uint64_t> neighbourhoods =
      large ? NeighbourhoodSignatures(graph, signatures_, radius) : std::vector<uint64_t>();
  std::vector<Proposal> paying;
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
    int* idle = large ? &idle_[neighbourhoods[i]] : nullptr;
    if (large && *idle >= kTriesPerSignature) continue;
    if (Interrupted()) break;
    bool pays = false;
    for (Rewrite& rewrite : rewriter_.Find(graph, -1, {i})) {
      std::optional<Proposal> proposal = Judge(graph, std::move(rewrite));
      if (!proposal || proposal->estimate.delta >= 0) continue;
      pays = true;
      paying.push_back(*std::move(proposal));
    }
    if (large && !pays) ++*idle;
  }
  return paying;
}

std::vector<NodeId> Explorer::Fresh(const SearchState& parent, const Graph& before, const Graph& after,
                                    absl::Span<const Proposal> proposals) {
  std::vector<NodeId> fresh;
  for (NodeId id : parent.fresh) {
    if (after.contains(id)) fresh.push_back(id);
  }
  // Goes down from the replacing values to the values that were there before.
  std::vector<NodeId> stack;
  for (const Proposal& proposal : proposals) {
    for (const auto& [from, to] : proposal.rewrite.replacement) stack.push_back(to.node);
  }
  absl::flat_hash_set<NodeId> visited;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    const Node& node = after.node(id);
    if (!after.IsRun(node) || !after.contains(id) || !visited.insert(id).second) continue;
    fresh.push_back(id);
    if (before.contains(id)) continue;
    for (Value operand : node.operands) stack.push_back(operand.node);
  }
  return fresh;
}

bool Explorer::Applies(const Graph& graph, const Rewrite& rewrite) {
  return std::all_of(rewrite.matched.begin(), rewrite.matched.end(), [&](NodeId id) { return graph.contains(id); });
}

std::optional<Explorer::Built> Explorer::BuildAll(const SearchState& state, const Graph& graph,
                                                  absl::Span<const Proposal> proposals, double limit) {
  ++steps_;
  Report();
  const ValueMap replacement = Compose(proposals);
  absl::StatusOr<Graph> next =
      proposals.size() == 1 ? ReplaceValues(graph, replacement) : ReplaceEverywhere(graph, replacement);
  if (!next.ok()) return std::nullopt;
  Known& known = CostOf(*next);
  if (known.returned || !known.can_run || known.cost.total() >= limit) return std::nullopt;
  known.returned = true;
  int step = state.step;
  double cost = state.cost.seconds;
  for (const Proposal& proposal : proposals) {
    const bool last = &proposal == &proposals.back();
    const double after = last ? known.cost.seconds : cost + proposal.estimate.delta;
    step = Record(step, graph, proposal, cost, after);
    cost = after;
  }
  SearchState built;
  built.outputs = next->outputs();
  built.cost = known.cost;
  built.step = step;
  built.base = state.base;
  built.base_cost = state.base_cost;
  built.depth = state.depth + 1;
  built.fresh = Fresh(state, graph, *next, proposals);
  return Built{std::move(built), *std::move(next)};
}

int Explorer::Record(int parent, const Graph& graph, const Proposal& proposal, double cost_before, double cost_after) {
  trace_.push_back({parent, RuleName(proposal.rewrite), PlaceText(graph, proposal.rewrite), cost_before, cost_after,
                    proposal.rewrite.replacement});
  moves_.push_back({proposal.rewrite.rule, proposal.estimate.delta});
  return static_cast<int>(trace_.size()) - 1;
}

void Explorer::RecordSecondStart() { second_start_ = FollowSecondStart(); }

SearchState Explorer::FollowSecondStart() {
  SearchState state = original_;
  const Graph* graph = &graph_;
  const double before = original_.cost.seconds;
  for (const RewriteRound& round : *options_.second_start) {
    std::vector<Proposal> proposals;
    for (const Rewrite& rewrite : round.rewrites) proposals.push_back({rewrite, {}, Position(*graph, rewrite)});
    proposals = Disjoint(std::move(proposals));
    for (const Proposal& proposal : proposals) state.step = Record(state.step, *graph, proposal, before, before);
    graph = &round.after;
  }
  state.outputs = graph->outputs();
  return state;
}

std::optional<SearchState> Explorer::SecondStart() {
  if (options_.second_start == nullptr || options_.second_start->empty()) return std::nullopt;
  SearchState state = FollowSecondStart();
  Known& known = CostOf(View(state));
  if (known.returned || !known.can_run) return std::nullopt;
  known.returned = true;
  state.cost = known.cost;
  trace_.back().cost_after = known.cost.seconds;
  moves_.back().delta = known.cost.seconds - original_.cost.seconds;
  Offer(&state);
  second_start_ = state;
  return state;
}

bool Explorer::Take(std::vector<std::vector<Proposal>> groups, SearchState* state, Graph* graph) {
  const double cost = state->cost.total();
  std::erase_if(groups, [&](const std::vector<Proposal>& group) {
    double promise = 0;
    for (const Proposal& proposal : group) promise += proposal.estimate.delta;
    return !Cheaper(cost + promise, cost);
  });
  Failures failures;
  return TakeSome(groups, state, graph, &failures);
}

bool Explorer::TakeSome(absl::Span<const std::vector<Proposal>> given, SearchState* state, Graph* graph,
                        Failures* failures) {
  std::vector<std::vector<Proposal>> left;
  absl::Span<const std::vector<Proposal>> groups = given;
  if (!failures->empty()) {
    for (const std::vector<Proposal>& group : given) {
      const auto known = failures->find(group[0].estimate.signature);
      if (known == failures->end() || known->second < kTriesPerSignature) left.push_back(group);
    }
    groups = left;
  }
  if (groups.empty() || Done()) return false;
  double promise = 0;
  bool apply = true;
  std::vector<Proposal> all;
  for (const std::vector<Proposal>& group : groups) {
    for (const Proposal& proposal : group) {
      promise += proposal.estimate.delta;
      apply = apply && Applies(*graph, proposal.rewrite);
      all.push_back(proposal);
    }
  }
  if (apply) {
    const double limit = JustBelow(state->cost.total());
    std::optional<Built> built =
        BuildAll(*state, *graph, all, groups.size() == 1 ? limit : std::min(limit, limit + kKept * promise));
    if (built) {
      *state = std::move(built->state);
      *graph = std::move(built->graph);
      Offer(state);
      return true;
    }
  }
  if (groups.size() == 1) {
    ++(*failures)[groups[0][0].estimate.signature];
    return false;
  }
  const size_t half = groups.size() / 2;
  const bool first = TakeSome(groups.subspan(0, half), state, graph, failures);
  return TakeSome(groups.subspan(half), state, graph, failures) || first;
}

std::vector<std::optional<SearchResult>> Explorer::SearchParts(const std::vector<Graph>& parts) {
  std::vector<std::optional<SearchResult>> results;
  while (results.size() < parts.size() && !Done()) {
    // Searches as many graphs at once as may all use up their budgets: the choice of graphs, and how far each is
    // searched, must not depend on how many are searched at once.
    const int64_t left = options_.budget - steps_;
    const int64_t budget = std::min(left, options_.window_budget);
    const int64_t afford = std::clamp<int64_t>(left / std::max<int64_t>(1, options_.window_budget), 1, kPartsAtOnce);
    const size_t first = results.size();
    const size_t count = std::min(static_cast<size_t>(afford), parts.size() - first);
    results.resize(first + count);
    ForEachIndex(count, options_.threads, [&](size_t i) { results[first + i] = SearchPart(parts[first + i], budget); });
    for (size_t i = first; i < first + count; ++i) {
      if (!results[i]) continue;
      steps_ += results[i]->steps;
      explored_ += results[i]->explored;
    }
    Report();
  }
  return results;
}

std::optional<SearchResult> Explorer::SearchPart(const Graph& part, int64_t budget) const {
  SearchOptions options = options_;
  options.windows = WindowUse::kNever;
  options.candidates = 1;
  options.second_start = nullptr;
  options.signatures = nullptr;
  if (weights_) options.growth_price = growth_price_;
  options.progress = nullptr;
  options.budget = budget;
  options.threads = 1;
  // A detour may cost as much as in a graph that is searched as a whole.
  options.alpha = 1 + (options_.alpha - 1) * options_.whole_nodes / options_.window_nodes;
  options.time_limit_seconds = std::max(0.0, options_.time_limit_seconds - absl::ToDoubleSeconds(absl::Now() - start_));
  const std::unique_ptr<Rewriter> rewriter = rewriter_.Fork();
  absl::StatusOr<SearchResult> result = Search(part, *rewriter, costs_, options);
  if (!result.ok()) return std::nullopt;
  return *std::move(result);
}

int Explorer::RuleNumber(const std::string& name) const {
  for (int rule = 0; rule < rewriter_.num_rules(); ++rule) {
    if (rewriter_.rule_name(rule) == name) return rule;
  }
  return -1;
}

std::vector<DirectedRule> Explorer::Rules() const {
  std::vector<DirectedRule> rules;
  for (int rule = 0; rule < rewriter_.num_rules(); ++rule) {
    if (auto matcher = rewriter_.matcher(rule)) rules.push_back({std::move(matcher), nullptr});
  }
  return rules;
}

const std::string& Explorer::RuleName(const Rewrite& rewrite) const {
  return rewrite.rule < 0 ? rewrite.name : rewriter_.rule_name(rewrite.rule);
}

Explorer::Known& Explorer::CostOf(const Graph& graph) {
  const auto [it, fresh] = known_.try_emplace(Roots(graph.outputs()));
  if (fresh) {
    const absl::StatusOr<GraphCost> cost = costs_.Cost(graph);
    const int64_t growth = cost.ok() && weights_ ? weights_->Of(graph) - weights_->original() : 0;
    it->second.can_run = cost.ok() && growth <= growth_price_.most_bytes;
    if (cost.ok()) it->second.cost = *cost;
    const int64_t priced = std::max<int64_t>(0, growth - kFreeGrowth);
    it->second.cost.tie_break += growth_price_.seconds_per_byte * static_cast<double>(priced);
  }
  return it->second;
}

bool Explorer::Interrupted() {
  if (end_) return true;
  if (IsStopped(options_.stop)) {
    end_ = SearchEnd::kStopped;
  } else if (absl::ToDoubleSeconds(absl::Now() - start_) >= options_.time_limit_seconds) {
    end_ = SearchEnd::kTimeLimit;
  }
  return end_.has_value();
}

bool Explorer::Done() {
  if (Interrupted()) return true;
  if (steps_ >= options_.budget) {
    end_ = SearchEnd::kBudget;
  } else if (options_.memory_limit_bytes > 0 && ResidentBytes() >= options_.memory_limit_bytes) {
    end_ = SearchEnd::kMemoryLimit;
  }
  return end_.has_value();
}

bool Explorer::Offer(SearchState* state) {
  if (!Cheaper(state->cost.total(), best().cost.total())) return false;
  state->base = state->step;
  state->base_cost = state->cost.total();
  state->depth = 0;
  state->fresh.clear();
  improvements_.push_back(*state);
  return true;
}

std::vector<Explorer::Move> Explorer::MovesBetween(int ancestor, int step) const {
  std::vector<Move> moves;
  for (int at = step; at >= 0 && at != ancestor; at = trace_[at].parent) {
    moves.push_back(moves_[at]);
  }
  std::reverse(moves.begin(), moves.end());
  return moves;
}

void Explorer::Report() const {
  if (!options_.progress) return;
  options_.progress({steps_, options_.budget, explored_, absl::ToDoubleSeconds(absl::Now() - start_),
                     original_.cost.seconds, best().cost.seconds});
}

SearchResult Explorer::Finish() {
  SearchResult result;
  result.original_cost = original_.cost;
  for (size_t i = improvements_.size(); i-- > 0;) {
    const SearchState& state = improvements_[i];
    const bool full = static_cast<int>(result.candidates.size()) >= options_.candidates;
    // The others are compared with the original, which is a candidate when nothing is cheaper.
    const bool differs = result.candidates.empty() ||
                         (i > 0 && result.candidates.back().cost.seconds < kClearlyCheaper * state.cost.seconds);
    if (differs && (!full || result.candidates.empty())) {
      result.candidates.push_back({View(state), state.cost, state.step});
    }
  }
  if (second_start_) {
    const auto is_it = [&](const Candidate& candidate) { return candidate.step == second_start_->step; };
    auto it = std::find_if(result.candidates.begin(), result.candidates.end(), is_it);
    if (it == result.candidates.end()) {
      it = result.candidates.insert(it, {View(*second_start_), second_start_->cost, second_start_->step});
    }
    it->second_start = true;
  }
  result.trace = std::move(trace_);
  result.steps = steps_;
  result.explored = explored_;
  result.seconds = absl::ToDoubleSeconds(absl::Now() - start_);
  result.cpu_seconds = ProcessCpuSeconds() - start_cpu_;
  result.end = end_.value_or(SearchEnd::kExhausted);
  return result;
}

}  // namespace rewright
