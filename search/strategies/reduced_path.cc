#include "search/strategies/reduced_path.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

// Steps times nodes times rules: about a second.
constexpr int64_t kMostWork = 10'000'000;

// Bytes of weights that a run reads and the original does not compute.
int64_t NewWeights(const Graph& graph, const Graph& original) {
  absl::flat_hash_set<Value> read;
  for (NodeId id : graph.nodes()) {
    if (!graph.IsRun(graph.node(id))) continue;
    for (Value operand : graph.node(id).operands) {
      if (graph.IsKnown(operand) && !original.contains(operand.node)) read.insert(operand);
    }
  }
  int64_t bytes = 0;
  for (Value value : read) bytes += graph.type(value).num_bytes();
  return bytes;
}

}  // namespace

absl::StatusOr<ReducedPath> WithoutSteps(const Graph& original, const Replay& made,
                                         const std::vector<ReplayStep>& steps, const std::set<int>& without,
                                         const std::vector<TraceStep>& trace, const std::vector<int>& path,
                                         const RuleIndex& rules, Numerics& numerics) {
  ASSIGN_OR_RETURN(const Resized left,
                   ReplayResized(made, steps, original, rules, without, /*on_others=*/true, &numerics));
  ReducedPath reduced{left.graph, {}};
  for (size_t i = 0; i < left.taken.size(); ++i) {
    const ReplayStep& step = steps[left.taken[i]];
    TraceStep made_step = trace[path[step.made_by]];
    made_step.parent = static_cast<int>(i) - 1;
    made_step.rule = step.rule;
    made_step.replacement.assign(left.replacements[i].begin(), left.replacements[i].end());
    std::sort(made_step.replacement.begin(), made_step.replacement.end());
    reduced.steps.push_back(std::move(made_step));
  }
  return reduced;
}

std::set<int> StepsForNothing(const Graph& original, const Replay& made, const std::vector<ReplayStep>& steps,
                              const RuleIndex& rules, CostModel& costs, Numerics& numerics) {
  std::set<int> without;
  std::set<std::string> names;
  for (const ReplayStep& step : steps) {
    if (!step.replacement.empty()) return without;
    names.insert(step.rule);
  }
  const Graph whole = made.At(made.num_steps());
  const auto work = static_cast<int64_t>(names.size() * steps.size() * whole.nodes().size());
  if (work > kMostWork) return without;
  const absl::StatusOr<GraphCost> cost = costs.Cost(whole);
  if (!cost.ok()) return without;
  const WeightBytes weights(original);
  // A step that saves less than a file may grow by saves nothing: a norm's scale that goes into the next weight.
  const int64_t most_bytes = weights.Of(whole) + AllowedGrowth(kDefaultGrowth, weights.original());
  Graph best = whole;
  for (const std::string& name : names) {
    std::set<int> more = without;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].rule == name) more.insert(static_cast<int>(i));
    }
    const absl::StatusOr<Resized> left =
        ReplayResized(made, steps, original, rules, more, /*on_others=*/true, &numerics);
    if (!left.ok()) continue;
    const Graph& graph = left->graph;
    const absl::StatusOr<GraphCost> without_it = costs.Cost(graph);
    const bool saves_weights = NewWeights(graph, original) + kFreeGrowth < NewWeights(best, original);
    const double nothing = saves_weights && costs.device().runs() ? kGainOfNewWeights : kGainOfNothing;
    if (!without_it.ok() || without_it->seconds > cost->seconds * (1 + nothing)) continue;
    const bool simpler = saves_weights || graph.num_runtime_nodes() <= best.num_runtime_nodes();
    if (!simpler || weights.Of(graph) > most_bytes) continue;
    without = std::move(more);
    best = graph;
  }
  return without;
}

}  // namespace rewright
