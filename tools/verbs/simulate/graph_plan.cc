#include "tools/verbs/simulate/graph_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/analytic.h"
#include "core/base/status_macros.h"
#include "runtime/distributed/generate.h"
#include "runtime/training/parallel/layered_plan.h"
#include "runtime/training/parallel/pipeline.h"
#include "tools/verbs/train/ranks.h"
#include "tools/verbs/train/step_memory.h"

namespace rewright {
namespace {

using distributed::Plan;

// The device of a cluster for graphs in f32, at the rates that it reaches.
absl::StatusOr<std::unique_ptr<Device>> DeviceOf(const distributed::Cluster& cluster) {
  if (!cluster.device) return absl::InvalidArgumentError("cluster: device: is missing, expected a described device");
  const distributed::ClusterDevice& device = *cluster.device;
  const auto rate = device.flops_per_second.find("f32");
  const auto reached = device.efficiency.find("f32"), memory = device.efficiency.find("memory");
  if (rate == device.flops_per_second.end() || reached == device.efficiency.end() ||
      memory == device.efficiency.end()) {
    return absl::InvalidArgumentError(
        "cluster: device: expected f32 in flops_per_second, and f32 and memory in efficiency");
  }
  RooflineSpec spec{.name = device.name, .flops_per_second = rate->second * reached->second};
  spec.bytes_per_second = spec.cache_bytes_per_second = device.bytes_per_second * memory->second;
  spec.launch_seconds = device.launch_seconds;
  spec.processors = spec.tile_elements = 1;
  return MakeRooflineDevice(spec);
}

absl::StatusOr<double> SecondsOf(const Graph& graph, Device& device) {
  ASSIGN_OR_RETURN(const std::vector<double> seconds, MeasuredSeconds(graph, device));
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

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

// Bytes of the states of the step that a rank keeps, by rank of a replica.
int64_t KeptBytes(const Graph& step, const StateAxes& axes, const std::map<std::string, int>& owners,
                  const RankLayout& layout) {
  const std::map<std::string, int> placed(axes.begin(), axes.end());
  std::vector<int64_t> bytes(static_cast<size_t>(layout.group_size()), 0);
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    const int64_t here = step.type(state).num_bytes() / (placed.contains(name) ? layout.dp : 1);
    const auto owner = owners.find(name);
    for (size_t rank = 0; rank < bytes.size(); ++rank) {
      if (owner == owners.end() || owner->second == static_cast<int>(rank)) bytes[rank] += here;
    }
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace

absl::StatusOr<GraphStep> PlanOfGraphs(const TrainConfig& config, const TrainableModel& model, const RankLayout& layout,
                                       const distributed::Cluster& cluster, Device& memory_of) {
  if (layout.tp > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--layout: found tp=", layout.tp,
                                                   ", expected 1 for a configuration: collectives inside of its ",
                                                   "subgraphs are those of a run (rewright train --plan)"));
  }
  const int64_t count = config.step.micro_batches;
  if (count < 2 || count % layout.dp != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", count, ", expected at least 2, and a multiple of dp"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, DeviceOf(cluster));
  ASSIGN_OR_RETURN(const StepGraphs graphs, BuildStep(model, config.step));
  const int zero = layout.dp > 1 ? layout.zero : 0;
  const DeviceCosts costs{.groups = [&](const Graph& graph) { return device->Partition(graph); },
                          .seconds = [&](const Graph& graph) { return MeasuredSeconds(graph, *device); }};
  GraphStep made;
  const Subgraphs* subgraphs = nullptr;
  StateAxes axes;
  std::map<std::string, int> owners;
  LayeredStep cut;
  PipelinePlan stages;
  if (layout.pp > 1) {
    const bool split = layout.schedule == distributed::PipelineSchedule::kZeroBubble;
    const distributed::PipelineShape shape{layout.pp, 1, layout.chunks, split};
    ASSIGN_OR_RETURN(stages, PlanPipeline(graphs.gradients, graphs.step, graphs.updated, shape, costs));
    if (zero > 0) axes = PipelineZeroAxes(graphs.step, stages, layout.dp, zero);
    made.plan = stages.Tensors(graphs.step, layout.dp, count, CutsOf(stages.gradients, graphs.step, axes));
    subgraphs = &stages.layers.subgraphs;
    owners = stages.owners;
    made.plan.alike = {0};
    distributed::WritePipeline(shape, layout.schedule, zero, &made.plan);
  } else {
    ASSIGN_OR_RETURN(cut,
                     CutStep(graphs.gradients, graphs.step, graphs.updated, {.zero = zero, .groups = costs.groups}));
    if (zero > 0) axes = ZeroAxes(graphs.step, layout.dp, zero);
    made.plan = PlanOfLayers(cut.gradients, cut.layers, graphs.step, MeshOf(layout), count,
                             CutsOf(cut.gradients, graphs.step, axes));
    subgraphs = &cut.layers.subgraphs;
    made.plan.alike = {0};
    distributed::WriteDataParallel(zero, &made.plan);
  }
  for (size_t p = 0; p < made.plan.subgraphs.size(); ++p) {
    const Graph& graph = subgraphs->subgraphs[p].graph;
    if (graph.outputs().empty()) continue;
    distributed::PlanSubgraph& subgraph = made.plan.subgraphs[p];
    ASSIGN_OR_RETURN(subgraph.seconds, SecondsOf(graph, *device));
    ASSIGN_OR_RETURN(const SubgraphBytes bytes, BytesOfSubgraph(graph, memory_of));
    subgraph.scratch_bytes = bytes.shared;
    subgraph.own_bytes = bytes.own;
  }
  ASSIGN_OR_RETURN(const double update, SecondsOf(graphs.step, *device));
  made.plan.update_seconds = update / layout.pp / (zero > 0 ? layout.dp : 1);
  made.kept_bytes = KeptBytes(graphs.step, axes, owners, layout);
  return made;
}

}  // namespace rewright
