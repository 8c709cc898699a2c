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
#include "runtime/distributed/plan_cost.h"
#include "runtime/parallel/rank_graph.h"
#include "runtime/signature.h"
#include "runtime/training/parallel/layered_plan.h"
#include "runtime/training/parallel/parallel_step.h"
#include "substitutions/lowering.h"
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

int64_t GraphStep::bytes() const {
  int64_t most = 0;
  for (int rank : plan.RanksWithLists()) most = std::max(most, distributed::PeakBytes(plan, rank));
  return most + kept_bytes;
}

absl::StatusOr<std::unique_ptr<StepPlanner>> StepPlanner::Create(const TrainConfig& config, const TrainableModel& model,
                                                                 const distributed::Cluster& cluster, Device& memory_of,
                                                                 Options options) {
  if (config.step.micro_batches < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", config.step.micro_batches, ", expected at least 2"));
  }
  ASSIGN_OR_RETURN(StepGraphs graphs, BuildStep(model, config.step));
  for (Graph* graph : {&graphs.gradients, &graphs.step}) {
    ASSIGN_OR_RETURN(Lowering lowering, LowerGradients(*graph));
    *graph = std::move(lowering.graph);
  }
  auto planner = std::make_unique<StepPlanner>(config, std::move(graphs), memory_of, std::move(options));
  planner->cluster_ = &cluster;
  ASSIGN_OR_RETURN(planner->device_, DeviceOfCluster(cluster));
  Device* const device = planner->device_.get();
  DeviceCosts& costs = planner->costs_;
  costs.seconds = planner->options_.seconds;
  if (costs.seconds == nullptr) costs.seconds = [=](const Graph& graph) { return MeasuredSeconds(graph, *device); };
  costs.groups = [=](const Graph& graph) { return device->Partition(graph); };
  return planner;
}

StepPlanner::StepPlanner(const TrainConfig& config, StepGraphs graphs, Device& memory_of, Options options)
    : memory_of_(memory_of),
      options_(std::move(options)),
      micro_batches_(config.step.micro_batches),
      configured_(config.places),
      graphs_(std::move(graphs)) {}

absl::StatusOr<double> StepPlanner::CachedSeconds(const Graph& graph) {
  if (cluster_ == nullptr) return 0;
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
  if (cluster_ != nullptr) cost.seconds += ExchangeSeconds(cut, *cluster_, degree);
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

absl::StatusOr<GraphStep> StepPlanner::PlanOfStages(const RankLayout& layout, const StateAxes& places,
                                                    const Graph& gradients) {
  ASSIGN_OR_RETURN(const PipelinePlan stages,
                   PlanPipeline(gradients, graphs_.step, graphs_.updated, layout.pipeline(), CutBy()));
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

absl::StatusOr<GraphStep> StepPlanner::PlanOfWhole(const RankLayout& layout, const Graph& gradients) {
  const int zero = layout.dp > 1 ? layout.zero : 0;
  ASSIGN_OR_RETURN(const LayeredStep cut, CutStep(gradients, graphs_.step, graphs_.updated,
                                                  {.bucket_bytes = options_.bucket_bytes, .groups = CutBy().groups}));
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

absl::StatusOr<GraphStep> StepPlanner::PlanOfGroups(const RankLayout& layout, const StateAxes& places,
                                                    const Graph& gradients) {
  ASSIGN_OR_RETURN(const Graph unpacked, Unpacked(gradients, graphs_.step));
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
  if (cluster_ == nullptr) return absl::OkStatus();
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

absl::StatusOr<GraphStep> StepPlanner::PlanOf(const RankLayout& layout, const StateAxes& places,
                                              const Graph& gradients) {
  if (layout.zero < 2 && micro_batches_ < layout.dp) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", micro_batches_, ", expected at least dp, ", layout.dp));
  }
  const StateAxes& used = places.empty() ? configured_ : places;
  if (layout.tp > 1) RETURN_IF_ERROR(CheckPlaces(used, layout.tp));
  ASSIGN_OR_RETURN(GraphStep made, layout.pp > 1             ? PlanOfStages(layout, used, gradients)
                                   : layout.pass_ranks() > 1 ? PlanOfGroups(layout, used, gradients)
                                                             : PlanOfWhole(layout, gradients));
  RETURN_IF_ERROR(AddUpdate(layout, used, &made));
  return made;
}

absl::StatusOr<Rematerialization> StepPlanner::Fit(const RankLayout& layout, const StateAxes& places, int64_t limit,
                                                   bool measured) {
  const auto run_of = [&](const Graph& gradients) -> absl::StatusOr<LayeredPlan> {
    LayeredPlan plan;
    if (layout.pp == 1) {
      const LayeredOptions layers{.bucket_bytes = options_.bucket_bytes, .groups = CutBy().groups};
      ASSIGN_OR_RETURN(plan, PlanLayers(gradients, graphs_.step, graphs_.updated, layers,
                                        [&](const Graph& layer) { return CachedBytes(layer, layer); }));
    }
    const auto made = PlanOf(layout, places, gradients);
    if (!made.ok()) return ErrorAt(absl::StrCat("the layout ", distributed::PrintLayout(layout)), made.status());
    plan.bytes = made->bytes();
    return plan;
  };
  return FitPlan(graphs_.gradients, memory_of_, limit, measured, run_of, /*pointwise_only=*/layout.tp > 1);
}

}  // namespace rewright
