#include "runtime/training/parallel/layered_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/status_macros.h"
#include "runtime/comm/collectives.h"
#include "runtime/distributed/generate.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/memory_plan.h"
#include "runtime/training/step.h"

namespace rewright {
namespace {

using distributed::Mesh;
using distributed::Plan;
using distributed::PlanTensor;

int AxisAt(const std::vector<int>& axes, size_t number) { return number < axes.size() ? axes[number] : -1; }

// A layer for each position of the passes.
struct LayersOfGraph {
  Layers layers;
  Passes passes;
  std::vector<int> by_position;
  // The subgraph in which a node runs; the last one where it is none of the passes.
  int SubgraphOf(NodeId id) const {
    const auto place = passes.nodes.find(id);
    if (place == passes.nodes.end()) return layers.LastOf(0);
    return layers.SubgraphOf(place->second.forward, by_position[place->second.position]);
  }
};

LayersOfGraph LayersOf(const Graph& unpacked, const Graph& step, const std::vector<std::string>& updated,
                       const LayeredOptions& options) {
  const std::vector<std::string> weights = StatesOfInputs(step, updated);
  const std::vector<Group> groups = options.groups == nullptr ? std::vector<Group>() : options.groups(unpacked);
  LayersOfGraph made;
  made.passes = PassesOf(unpacked, weights, groups);
  const Passes& passes = made.passes;
  std::vector<int64_t> amounts(static_cast<size_t>(passes.length), 0);
  for (const Output& output : unpacked.outputs()) {
    amounts[passes.nodes.at(output.value.node).position] += unpacked.type(output.value).num_bytes();
  }
  made.by_position = LayersByAmount(passes, amounts, options.bucket_bytes);
  made.layers = CutIntoLayers(unpacked, passes, made.by_position);
  return made;
}

}  // namespace

Mesh MeshOf(const RankLayout& layout) {
  return Mesh({{"dp", layout.dp}, {"pp", layout.pp}, {layout.cp > 1 ? "cp" : "tp", layout.pass_ranks()}});
}

Plan PlanOfLayers(const Graph& gradients, const Layers& layers, const Graph& step, Mesh mesh, int64_t micro_batches,
                  const PlanCuts& cuts) {
  Plan plan{std::move(mesh), micro_batches};
  const Subgraphs& cut = layers.subgraphs;
  const size_t first_state = gradients.inputs().size(), end_states = first_state + gradients.states().size();
  for (size_t k = 0; k < cut.tensors.size(); ++k) {
    PlanTensor tensor{PlanTensor::Kind::kValue, cut.tensors[k]};
    if (k < first_state) {
      tensor.kind = PlanTensor::Kind::kInput;
    } else if (k < end_states) {
      tensor.kind = PlanTensor::Kind::kWeight;
      tensor.cut = AxisAt(cuts.weights, k - first_state);
    }
    plan.tensors.push_back(std::move(tensor));
  }
  const std::vector<TensorType> sums = step.types(step.inputs());
  for (size_t k = 0; k < sums.size(); ++k) {
    PlanTensor sum{PlanTensor::Kind::kSum, sums[k], AxisAt(cuts.sums, k)};
    sum.leaf = cut.outputs[k];
    sum.behind = layers.LastOf(layers.homes[k]);
    plan.tensors.push_back(std::move(sum));
  }
  for (const Subgraphs::Subgraph& subgraph : cut.subgraphs)
    plan.subgraphs.push_back({subgraph.inputs, subgraph.outputs});
  return plan;
}

Plan PlanOfOnePass(const Graph& gradients, const Graph& step, Mesh mesh, int64_t micro_batches,
                   const std::vector<int>& cuts) {
  Plan plan{std::move(mesh), micro_batches};
  distributed::PlanSubgraph pass;
  pass.over = static_cast<int>(plan.mesh.axes().size()) - 1;
  const auto add = [&](PlanTensor tensor) {
    plan.tensors.push_back(std::move(tensor));
    return static_cast<int>(plan.tensors.size()) - 1;
  };
  for (const TensorType& type : gradients.types(gradients.inputs())) {
    pass.reads.push_back(add({PlanTensor::Kind::kInput, type}));
  }
  const std::vector<TensorType> sums = step.types(step.inputs());
  for (const TensorType& type : sums) pass.makes.push_back(add({PlanTensor::Kind::kValue, type}));
  const int each = plan.mesh.ranks() / plan.mesh.replicas();
  for (size_t k = 0; k < sums.size(); ++k) {
    const int axis = AxisAt(cuts, k);
    PlanTensor sum{PlanTensor::Kind::kSum, axis < 0 ? sums[k] : BlockType(sums[k], axis, each), axis};
    sum.leaf = pass.makes[k];
    sum.behind = 0;
    add(std::move(sum));
  }
  plan.subgraphs.push_back(std::move(pass));
  return plan;
}

absl::StatusOr<LayeredStep> CutStep(const Graph& gradients, const Graph& step, const std::vector<std::string>& updated,
                                    const LayeredOptions& options) {
  LayeredStep made;
  ASSIGN_OR_RETURN(made.gradients, Unpacked(gradients, step));
  made.layers = LayersOf(made.gradients, step, updated, options).layers;
  return made;
}

absl::StatusOr<LayeredPlan> PlanLayers(const Graph& gradients, const Graph& step,
                                       const std::vector<std::string>& updated, const LayeredOptions& options,
                                       const SubgraphBytesOf& bytes_of) {
  ASSIGN_OR_RETURN(const Graph unpacked, Unpacked(gradients, step));
  const LayersOfGraph found = LayersOf(unpacked, step, updated, options);
  const Plan plan = PlanOfLayers(unpacked, found.layers, step, MeshOf({}), /*micro_batches=*/1);
  const std::vector<Use> uses = distributed::UsesOneByOne(plan);
  std::vector<Lifetime> lifetimes;
  for (size_t k = 0; k < uses.size(); ++k) {
    if (uses[k].last >= 0) lifetimes.push_back({plan.tensors[k].type.num_bytes(), uses[k].first, uses[k].last});
  }
  LayeredPlan made;
  const std::vector<Subgraphs::Subgraph>& subgraphs = found.layers.subgraphs.subgraphs;
  for (int p = 0; p < static_cast<int>(subgraphs.size()); ++p) {
    if (subgraphs[p].outputs.empty()) continue;
    ASSIGN_OR_RETURN(const SubgraphBytes bytes, bytes_of(subgraphs[p].graph));
    made.bytes += bytes.own;
    lifetimes.push_back({bytes.shared, p, p});
  }
  made.bytes += PlaceLifetimes(lifetimes).arena_bytes;
  if (options.groups == nullptr) return made;
  made.groups = options.groups(gradients);
  const auto subgraph_of = [&](const Group& group) { return found.SubgraphOf(group.nodes.back()); };
  std::stable_sort(made.groups.begin(), made.groups.end(),
                   [&](const Group& a, const Group& b) { return subgraph_of(a) < subgraph_of(b); });
  std::vector<int64_t> live = LiveBytes(lifetimes);
  live.resize(subgraphs.size() + 1, 0);
  for (const Group& group : made.groups) made.live.push_back(live[subgraph_of(group)]);
  return made;
}

}  // namespace rewright
