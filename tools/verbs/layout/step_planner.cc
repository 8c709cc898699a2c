#include "tools/verbs/layout/step_planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/distributed/generate.h"
#include "runtime/parallel/rank_graph.h"
#include "runtime/signature.h"
#include "runtime/training/parallel/layered_plan.h"
#include "runtime/training/parallel/parallel_step.h"
#include "tools/verbs/layout/cluster_cost.h"
#include "tools/verbs/train/ranks.h"
#include "tools/verbs/train/step_memory.h"

namespace rewright {
namespace {

using distributed::Plan;

// By state of the gradients and by input of the step, the axes along which replicas have blocks.
PlanCuts CutsOf(const Graph& gradients, const Graph& step, const StateAxes& axes) {
  const std::map<std::string, int> placed(axes.begin(), axes.end());
  const auto axis_of = [&](const Graph& graph, Value value) {
    const auto found = placed.find(graph.node(value.node).name);
    return found == placed.end() ? -1 : found->second;
  };
  PlanCuts cuts;
  for (Value state : gradients.states()) cuts.weights.push_back(axis_of(gradients, state));
  for (Value input : step.inputs()) cuts.sums.push_back(axis_of(step, input));
  return cuts;
}

// Bytes of the states of the step that a rank keeps, by rank of a replica; those of `axes` are cut in `parts`.
int64_t KeptBytes(const Graph& step, const StateAxes& axes, int parts, const std::map<std::string, int>& owners,
                  int group_size) {
  const std::map<std::string, int> placed(axes.begin(), axes.end());
  std::vector<int64_t> bytes(static_cast<size_t>(group_size), 0);
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    const int64_t here = step.type(state).num_bytes() / (placed.contains(name) ? parts : 1);
    const auto owner = owners.find(name);
    for (size_t rank = 0; rank < bytes.size(); ++rank) {
      if (owner == owners.end() || owner->second == static_cast<int>(rank)) bytes[rank] += here;
    }
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepPlanner>> StepPlanner::Create(const TrainConfig& config, const TrainableModel& model,
                                                                 const distributed::Cluster& cluster, Device& memory_of,
                                                                 Options options) {
  if (config.step.micro_batches < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", config.step.micro_batches, ", expected at least 2"));
  }
  std::unique_ptr<StepPlanner> planner(new StepPlanner(cluster, memory_of, std::move(options)));
  ASSIGN_OR_RETURN(planner->device_, DeviceOfCluster(cluster));
  ASSIGN_OR_RETURN(planner->graphs_, BuildStep(model, config.step));
  planner->micro_batches_ = config.step.micro_batches;
  planner->configured_ = config.places;
  planner->costs_.groups = [device = planner->device_.get()](const Graph& graph) { return device->Partition(graph); };
  planner->costs_.seconds = planner->options_.seconds;
  if (planner->costs_.seconds == nullptr) {
    planner->costs_.seconds = [device = planner->device_.get()](const Graph& graph) {
      return MeasuredSeconds(graph, *device);
    };
  }
  return planner;
}

absl::StatusOr<double> StepPlanner::CachedSeconds(const Graph& graph) {
  const uint64_t key = graph.CanonicalHash();
  const auto found = seconds_.find(key);
  if (found != seconds_.end()) return found->second;
  ASSIGN_OR_RETURN(const std::vector<double> seconds, costs_.seconds(graph));
  return seconds_[key] = std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

template <typename Part>
absl::StatusOr<SubgraphBytes> StepPlanner::CachedBytes(const Part& part, const Graph& graph) {
  const uint64_t key = graph.CanonicalHash();
  const auto found = bytes_.find(key);
  if (found != bytes_.end()) return found->second;
  ASSIGN_OR_RETURN(const SubgraphBytes bytes, BytesOfSubgraph(part, memory_of_));
  return bytes_[key] = bytes;
}

absl::StatusOr<StepPlanner::PartCost> StepPlanner::CostOfPart(const Graph& graph, const StateAxes& axes, int degree,
                                                              bool with_memory) {
  if (options_.cut == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--layout: found tp=", degree, ", expected 1: no laws are at hand that cut graphs"));
  }
  ASSIGN_OR_RETURN(const Graph cut, options_.cut(graph, axes, degree));
  ASSIGN_OR_RETURN(const RankGraph part, GraphOfRank(cut, /*rank=*/0, degree));
  PartCost cost;
  ASSIGN_OR_RETURN(cost.seconds, CachedSeconds(part.graph));
  cost.seconds += ExchangeSeconds(cut, cluster_, degree);
  for (const ShardedLeaf& state : part.states) {
    cost.kept_bytes += state.whole.num_bytes() / (state.axis < 0 ? 1 : degree);
  }
  if (!with_memory) return cost;
  ASSIGN_OR_RETURN(cost.bytes, CachedBytes(part, part.graph));
  return cost;
}

absl::Status StepPlanner::Describe(const Graph& graph, const StateAxes& axes, int tp,
                                   distributed::PlanSubgraph* subgraph) {
  if (graph.outputs().empty()) return absl::OkStatus();
  if (!axes.empty()) {
    ASSIGN_OR_RETURN(const PartCost part, CostOfPart(WithoutTriggers(graph), axes, tp));
    subgraph->seconds = part.seconds;
    subgraph->scratch_bytes = part.bytes.shared;
    subgraph->own_bytes = part.bytes.own + part.kept_bytes;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(subgraph->seconds, CachedSeconds(graph));
  ASSIGN_OR_RETURN(const SubgraphBytes bytes, CachedBytes(graph, graph));
  subgraph->scratch_bytes = bytes.shared;
  subgraph->own_bytes = bytes.own;
  return absl::OkStatus();
}

void StepPlanner::NoteAlike(Plan* plan) const {
  if (micro_batches_ % plan->mesh.replicas() == 0) plan->alike = {0};
}

absl::StatusOr<GraphStep> StepPlanner::PlanOfStages(const RankLayout& layout, const StateAxes& places) {
  ASSIGN_OR_RETURN(const PipelinePlan stages,
                   PlanPipeline(graphs_.gradients, graphs_.step, graphs_.updated, layout.pipeline(), costs_));
  StateAxes placed, axes;
  if (layout.tp > 1) {
    ASSIGN_OR_RETURN(placed, PlacedStates(stages.gradients, places, Signature(stages.gradients).input_names));
  }
  const int zero = layout.dp > 1 ? layout.zero : 0;
  if (zero > 0) axes = PipelineZeroAxes(graphs_.step, stages, layout.dp, zero);
  GraphStep made{stages.Tensors(graphs_.step, layout.dp, micro_batches_, CutsOf(stages.gradients, graphs_.step, axes))};
  for (size_t p = 0; p < made.plan.subgraphs.size(); ++p) {
    const Graph& pass = stages.layers.subgraphs.subgraphs[p].graph;
    if (layout.tp > 1) made.plan.subgraphs[p].over = made.plan.mesh.Find("tp");
    RETURN_IF_ERROR(Describe(pass, PlacesOfPass(pass, placed), layout.tp, &made.plan.subgraphs[p]));
  }
  NoteAlike(&made.plan);
  distributed::WritePipeline(layout.pipeline(), layout.schedule, zero, &made.plan);
  made.kept_bytes = KeptBytes(graphs_.step, axes, layout.dp, stages.owners, layout.group_size());
  return made;
}

absl::StatusOr<GraphStep> StepPlanner::PlanOfWhole(const RankLayout& layout) {
  const int zero = layout.dp > 1 ? layout.zero : 0;
  ASSIGN_OR_RETURN(const LayeredStep cut,
                   CutStep(graphs_.gradients, graphs_.step, graphs_.updated, {.zero = zero, .groups = costs_.groups}));
  const StateAxes axes = zero > 0 ? ZeroAxes(graphs_.step, layout.dp, zero) : StateAxes();
  GraphStep made{PlanOfLayers(cut.gradients, cut.layers, graphs_.step, MeshOf(layout), micro_batches_,
                              CutsOf(cut.gradients, graphs_.step, axes))};
  for (size_t p = 0; p < made.plan.subgraphs.size(); ++p) {
    RETURN_IF_ERROR(Describe(cut.layers.subgraphs.subgraphs[p].graph, /*axes=*/{}, /*tp=*/1, &made.plan.subgraphs[p]));
  }
  NoteAlike(&made.plan);
  distributed::WriteDataParallel(zero, &made.plan);
  made.kept_bytes = KeptBytes(graphs_.step, axes, layout.dp, {}, /*group_size=*/1);
  return made;
}

absl::StatusOr<GraphStep> StepPlanner::PlanOfGroups(const RankLayout& layout, const StateAxes& places) {
  ASSIGN_OR_RETURN(const Graph unpacked, UnpackedGradients());
  ASSIGN_OR_RETURN(const StateAxes placed, PlacedStates(unpacked, places, Signature(unpacked).input_names));
  const auto ranks = static_cast<int>(layout.ranks());
  const StateAxes axes = layout.zero > 0 ? ZeroAxes(graphs_.step, ranks, layout.zero) : StateAxes();
  GraphStep made{
      PlanOfOnePass(unpacked, graphs_.step, MeshOf(layout), micro_batches_, CutsOf(unpacked, graphs_.step, axes).sums)};
  RETURN_IF_ERROR(Describe(unpacked, placed, layout.pass_ranks(), made.plan.subgraphs.data()));
  NoteAlike(&made.plan);
  distributed::WriteDataParallel(layout.zero, &made.plan);
  if (layout.zero > 0) {
    made.kept_bytes = KeptBytes(graphs_.step, axes, ranks, {}, /*group_size=*/1);
    return made;
  }
  ASSIGN_OR_RETURN(const StateAxes states, PlacedStates(graphs_.step, places, Signature(unpacked).input_names));
  made.kept_bytes = KeptBytes(graphs_.step, states, layout.pass_ranks(), {}, /*group_size=*/1);
  return made;
}

absl::Status StepPlanner::AddUpdate(const RankLayout& layout, const StateAxes& places, GraphStep* made) {
  if (layout.pass_ranks() > 1 && layout.pp == 1 && layout.zero == 0) {
    ASSIGN_OR_RETURN(const Graph unpacked, UnpackedGradients());
    ASSIGN_OR_RETURN(const StateAxes states, PlacedStates(graphs_.step, places, Signature(unpacked).input_names));
    ASSIGN_OR_RETURN(const PartCost part, CostOfPart(graphs_.step, states, layout.pass_ranks(), /*with_memory=*/false));
    made->plan.update_seconds = part.seconds;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const double update, CachedSeconds(graphs_.step));
  const int parts = layout.pp > 1 ? layout.group_size() : 1;
  const bool cut = layout.zero > 0 && layout.ranks() > 1;
  made->plan.update_seconds = update / parts /
                              (!cut            ? 1
                               : layout.pp > 1 ? layout.dp
                                               : static_cast<double>(layout.ranks()));
  return absl::OkStatus();
}

absl::StatusOr<GraphStep> StepPlanner::PlanOf(const RankLayout& layout, const StateAxes& places) {
  if (layout.zero < 2 && micro_batches_ < layout.dp) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", micro_batches_, ", expected at least dp, ", layout.dp));
  }
  const StateAxes& used = places.empty() ? configured_ : places;
  if (layout.tp > 1) RETURN_IF_ERROR(CheckPlaces(used, layout.tp));
  ASSIGN_OR_RETURN(GraphStep made, layout.pp > 1             ? PlanOfStages(layout, used)
                                   : layout.pass_ranks() > 1 ? PlanOfGroups(layout, used)
                                                             : PlanOfWhole(layout));
  RETURN_IF_ERROR(AddUpdate(layout, used, &made));
  return made;
}

}  // namespace rewright
