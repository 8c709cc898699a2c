#include "runtime/training/parallel/pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "runtime/distributed/generate.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/training/step.h"

namespace rewright {

using distributed::Plan;
using distributed::PlanTensor;

Plan PipelinePlan::Tensors(const Graph& step, int replicas, int64_t micro_batches, const PlanCuts& cuts) const {
  const RankLayout layout{.dp = replicas, .tp = shape.tensor_parallel, .pp = shape.ranks};
  Plan plan = PlanOfLayers(gradients, layers, step, MeshOf(layout), micro_batches, cuts);
  const std::map<std::string, int> homes(weights.begin(), weights.end());
  const std::vector<Value> states = gradients.states();
  size_t state = 0, sum = 0;
  for (PlanTensor& tensor : plan.tensors) {
    if (tensor.kind == PlanTensor::Kind::kWeight) {
      const auto home = homes.find(gradients.node(states[state++].node).name);
      if (home != homes.end()) tensor.owner = home->second;  // else frozen
    } else if (tensor.kind == PlanTensor::Kind::kSum) {
      tensor.owner = adders[sum++];
    }
  }
  return plan;
}

namespace {

// Chooses the rank of the group that updates each weight: among the ranks of the stage that makes its gradient, the one
// with the least to update.
void ShareWeights(const Graph& step, const std::vector<std::string>& weights, PipelinePlan* plan) {
  const distributed::PipelineShape& shape = plan->shape;
  std::vector<int64_t> bytes(static_cast<size_t>(shape.ranks * shape.tensor_parallel), 0);
  plan->adders.push_back(shape.RankOf(plan->layers.homes[0], 0));
  for (size_t k = 0; k < weights.size(); ++k) {
    const int first = shape.RankOf(plan->layers.homes[k + 1], 0);
    const auto begin = bytes.begin() + first;
    const auto least = std::min_element(begin, begin + shape.tensor_parallel);
    *least += step.type(step.inputs()[k + 1]).num_bytes();
    const auto owner = static_cast<int>(least - bytes.begin());
    plan->weights.emplace_back(weights[k], owner);
    plan->adders.push_back(owner);
  }
  for (size_t k = 0; k < step.inputs().size(); ++k) {
    plan->owners[step.node(step.inputs()[k].node).name] = plan->adders[k];
  }
  const std::map<std::string, int> homes(plan->weights.begin(), plan->weights.end());
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    if (const auto home = homes.find(WeightOf(name)); home != homes.end()) plan->owners[name] = home->second;
  }
}

}  // namespace

absl::StatusOr<PipelinePlan> PlanPipeline(const Graph& gradients, const Graph& step,
                                          const std::vector<std::string>& updated,
                                          const distributed::PipelineShape& shape, const DeviceCosts& device) {
  PipelinePlan plan;
  plan.shape = shape;
  ASSIGN_OR_RETURN(plan.gradients, Unpacked(gradients, step));
  const std::vector<std::string> weights = StatesOfInputs(step, updated);
  std::vector<double> measured;
  if (device.seconds != nullptr) {
    ASSIGN_OR_RETURN(measured, device.seconds(plan.gradients));
  }
  const std::vector<Group> groups = device.groups == nullptr ? std::vector<Group>() : device.groups(plan.gradients);
  const Passes passes = PassesOf(plan.gradients, weights, groups, measured);
  ASSIGN_OR_RETURN(const std::vector<int> layer_of_position, LayersByTime(passes, shape.stages()));
  plan.seconds.assign(static_cast<size_t>(shape.stages()), 0);
  for (size_t i = 0; i < layer_of_position.size(); ++i) {
    plan.seconds[layer_of_position[i]] += passes.seconds[i];
  }
  plan.layers = CutIntoLayers(plan.gradients, passes, layer_of_position, shape.split_backward, groups);
  ShareWeights(step, weights, &plan);
  return plan;
}

StateAxes PipelineZeroAxes(const Graph& step, const PipelinePlan& plan, int64_t degree, int zero) {
  std::set<std::string> read_by_others;
  const std::vector<Value> states = plan.gradients.states();
  const Plan tensors = plan.Tensors(step, /*replicas=*/1, /*micro_batches=*/1);
  for (const distributed::WeightMessage& message : distributed::SharedWeights(tensors, plan.shape)) {
    const size_t state = static_cast<size_t>(message.weight) - plan.gradients.inputs().size();
    read_by_others.insert(plan.gradients.node(states[state].node).name);
  }
  StateAxes axes = ZeroAxes(step, degree, zero);
  std::erase_if(axes, [&](const auto& place) { return read_by_others.contains(place.first); });
  return axes;
}

}  // namespace rewright
