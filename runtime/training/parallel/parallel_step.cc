#include "runtime/training/parallel/parallel_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "runtime/signature.h"
#include "runtime/training/parallel/layered_gradients.h"

namespace rewright {
namespace {

absl::Status CheckPlaces(const TrainConfig& config, int size) {
  if (!config.places.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.places: is missing; the layout tp=", size, " cuts weights as it says"));
}

// Tensor parallel: both graphs are run by the group together. `inputs` are those of the model.
absl::StatusOr<std::unique_ptr<RankExecutable>> PrepareInGroup(const Graph& graph,
                                                               const std::vector<std::string>& inputs,
                                                               const TrainConfig& config, const SharingOptions& sharing,
                                                               Communicator& group, GraphRunner& runner) {
  RETURN_IF_ERROR(CheckPlaces(config, group.size()));
  ASSIGN_OR_RETURN(const StateAxes axes, PlacedStates(graph, config.places, inputs));
  ASSIGN_OR_RETURN(const Graph cut, sharing.cut(graph, axes, group.size(), group, /*exact_only=*/false));
  return RankExecutable::Create(cut, group, runner, RankExecutable::InputForm::kWhole, sharing.rewrite_part);
}

// With the seconds that rank 0 says, for all: they have to cut alike.
DeviceCosts KnownByAll(const SharingOptions& sharing, const MeshCommunicators& ranks) {
  DeviceCosts device = sharing.device;
  if (device.seconds == nullptr) return device;
  device.seconds = [&](const Graph& graph) -> absl::StatusOr<std::vector<double>> {
    ASSIGN_OR_RETURN(
        const std::string bytes, FromRankZero(ranks.all(), "the times of stages", [&]() -> absl::StatusOr<std::string> {
          ASSIGN_OR_RETURN(const std::vector<double> measured, sharing.device.seconds(graph));
          return std::string(reinterpret_cast<const char*>(measured.data()), measured.size() * sizeof(double));
        }));
    std::vector<double> seconds(graph.nodes().size());
    CHECK(bytes.size() == seconds.size() * sizeof(double)) << bytes.size();
    std::memcpy(seconds.data(), bytes.data(), bytes.size());
    return seconds;
  };
  return device;
}

// A pass of a stage, cut over those that compute it together where it reads weights that are placed.
absl::StatusOr<std::unique_ptr<Executable>> PrepareTensorParallel(const Graph& pass, const StateAxes& placed,
                                                                  const SharingOptions& sharing, Communicator& ranks,
                                                                  GraphRunner& runner) {
  const StateAxes axes = PlacesOfPass(pass, placed);
  if (axes.empty()) return runner.Prepare(pass);
  ASSIGN_OR_RETURN(const Graph cut,
                   sharing.cut(WithoutTriggers(pass), axes, ranks.size(), ranks, /*exact_only=*/false));
  return RankExecutable::Create(cut, ranks, runner);
}

absl::StatusOr<ParallelStep> MakePipeline(const Graph& step, const Graph& gradients,
                                          const std::vector<std::string>& updated, const TrainConfig& config,
                                          const SharingOptions& sharing, const MeshCommunicators& ranks,
                                          GraphRunner& runner) {
  const RankLayout& layout = sharing.layout;
  const int64_t micro_batches = config.step.micro_batches;
  StateAxes placed;
  if (layout.tp > 1) {
    ASSIGN_OR_RETURN(placed, PlacesOfPasses(gradients, config, layout.tp));
  }
  const PipelineShape shape{.ranks = layout.pp, .tensor_parallel = layout.tp, .chunks = layout.chunks};
  absl::StatusOr<PipelinePlan> plan = PlanPipeline(gradients, step, updated, shape, KnownByAll(sharing, ranks));
  if (!plan.ok()) return ErrorAt(absl::StrCat("the layout pp=", layout.pp), plan.status());
  ParallelStep made;
  const int zero = layout.dp > 1 ? layout.zero : 0;
  Graph cut = step;
  if (zero > 0) {
    ASSIGN_OR_RETURN(cut, sharing.cut(step, PipelineZeroAxes(step, *plan, layout.dp, zero), layout.dp, ranks.all(),
                                      /*exact_only=*/true));
  }
  ASSIGN_OR_RETURN(auto update, OwnerComputesExecutable::Create(cut, plan->owners, ranks.model_parallel(),
                                                                ranks.data_parallel(), runner));
  const PreparePass prepare = [&](const Graph& pass) {
    return PrepareTensorParallel(pass, placed, sharing, ranks.tensor_parallel(), runner);
  };
  ASSIGN_OR_RETURN(
      made.sums, Pipeline::Create(*std::move(plan), {micro_batches, layout.schedule, zero},
                                  {ranks.model_parallel(), ranks.pipeline(), ranks.data_parallel()}, prepare, *update));
  made.step = std::move(update);
  return made;
}

// Tensor parallel in groups, and the optimizer state cut over all ranks.
absl::StatusOr<ParallelStep> MakeZeroOfGroups(const Graph& step, const Graph& gradients,
                                              const std::vector<std::string>& updated, const TrainConfig& config,
                                              const SharingOptions& sharing, const MeshCommunicators& ranks,
                                              GraphRunner& runner) {
  const RankLayout& layout = sharing.layout;
  const int64_t count = config.step.micro_batches;
  ASSIGN_OR_RETURN(auto passes, PrepareInGroup(gradients, Signature(gradients).input_names, config, sharing,
                                               ranks.model_parallel(), runner));
  const StateAxes blocks = ZeroAxes(step, ranks.shards().size(), layout.zero);
  ASSIGN_OR_RETURN(const Graph cut, sharing.cut(step, blocks, ranks.shards().size(), ranks.shards(), true));
  ASSIGN_OR_RETURN(auto update,
                   RankExecutable::Create(cut, ranks.shards(), runner, RankExecutable::InputForm::kShards));
  std::vector<TensorType> sums;
  std::vector<int> axes;
  for (const ShardedLeaf& input : update->inputs()) {
    sums.push_back(input.whole);
    axes.push_back(input.axis);
  }
  ParallelStep made;
  made.sums =
      std::make_unique<ModelParallelGradients>(std::move(passes), updated, std::move(sums), std::move(axes),
                                               layout.zero, count, ranks.model_parallel(), ranks.data_parallel());
  made.step = std::move(update);
  return made;
}

}  // namespace

MeshCommunicators::MeshCommunicators(Communicator& all, const RankLayout& layout)
    : all_(all),
      model_parallel_(GroupOf(all, layout.ModelParallelGroup(all.rank()))),
      tensor_parallel_(GroupOf(all, layout.TensorParallelGroup(all.rank()))),
      pipeline_(GroupOf(all, layout.PipelineGroup(all.rank()))),
      data_parallel_(GroupOf(all, layout.DataParallelGroup(all.rank()))),
      shards_(GroupOf(all, layout.ShardOrder())) {}

absl::StatusOr<StateAxes> PlacesOfPasses(const Graph& gradients, const TrainConfig& config, int tp) {
  RETURN_IF_ERROR(CheckPlaces(config, tp));
  return PlacedStates(gradients, config.places, Signature(gradients).input_names);
}

StateAxes PlacesOfPass(const Graph& pass, const StateAxes& placed) {
  StateAxes axes;
  for (Value input : pass.inputs()) {
    const auto is_it = [&](const auto& place) { return place.first == pass.node(input.node).name; };
    const auto found = std::find_if(placed.begin(), placed.end(), is_it);
    if (found != placed.end()) axes.push_back(*found);
  }
  return axes;
}

Graph WithoutTriggers(const Graph& pass) {
  absl::flat_hash_map<Value, Value> here;
  for (NodeId id : pass.nodes()) {
    const Node& node = pass.node(id);
    std::vector<Value> operands = node.operands;
    for (Value& operand : operands) operand = here.at(operand);
    if (node.op == ops::After()) {
      here[{id, 0}] = operands[0];
      continue;
    }
    const NodeId made = operands == node.operands ? id : pass.arena()->AddLike(node, std::move(operands));
    for (int k = 0; k < static_cast<int>(pass.node(id).outputs.size()); ++k) here[{id, k}] = {made, k};
  }
  std::vector<Output> outputs = pass.outputs();
  for (Output& output : outputs) output.value = here.at(output.value);
  return Graph(pass.arena(), pass.inputs(), std::move(outputs));
}

absl::Status ApplyLayout(const RankLayout& layout, TrainConfig* config) {
  if (layout.micro == 0) return absl::OkStatus();
  nlohmann::ordered_json& data = config->identity["data"];
  if (data.contains("micro_batches") && config->step.micro_batches != layout.micro) {
    return absl::InvalidArgumentError(absl::StrCat("--layout micro: found ", layout.micro,
                                                   ", expected data.micro_batches, ", config->step.micro_batches));
  }
  if (config->batch % layout.micro != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--layout micro: found ", layout.micro, ", expected a divisor of data.batch, ", config->batch));
  }
  config->step.micro_batches = layout.micro;
  if (layout.micro > 1) data["micro_batches"] = layout.micro;
  return absl::OkStatus();
}

absl::StatusOr<ParallelStep> MakeParallelStep(const Graph& step, const Graph* gradients,
                                              const std::vector<std::string>& updated, const TrainConfig& config,
                                              const SharingOptions& sharing, const MeshCommunicators& ranks,
                                              GraphRunner& runner) {
  const RankLayout& layout = sharing.layout;
  const int64_t count = config.step.micro_batches;
  const bool pipeline = layout.pp > 1, zero_of_groups = !pipeline && layout.tp > 1 && layout.zero > 0;
  if (gradients == nullptr && (pipeline || zero_of_groups)) {
    const std::string kind =
        pipeline ? absl::StrCat("pp=", layout.pp) : absl::StrCat("tp=", layout.tp, ",zero=", layout.zero);
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", count, ", expected at least 2 with the layout ", kind));
  }
  if (pipeline) return MakePipeline(step, *gradients, updated, config, sharing, ranks, runner);
  if (zero_of_groups) return MakeZeroOfGroups(step, *gradients, updated, config, sharing, ranks, runner);
  ParallelStep made;
  if (layout.tp > 1) {
    ASSIGN_OR_RETURN(made.step, PrepareInGroup(step, Signature(gradients == nullptr ? step : *gradients).input_names,
                                               config, sharing, ranks.model_parallel(), runner));
    if (gradients == nullptr) return made;
    ASSIGN_OR_RETURN(auto passes, PrepareInGroup(*gradients, Signature(*gradients).input_names, config, sharing,
                                                 ranks.model_parallel(), runner));
    made.sums = std::make_unique<MicroBatchGradients>(std::move(passes), updated, step.types(step.inputs()), count,
                                                      ranks.data_parallel());
    return made;
  }
  const int zero = ranks.all().size() > 1 ? layout.zero : 0;
  RankExecutable* update = nullptr;
  LayeredOptions layers{.zero = zero, .bucket_bytes = sharing.bucket_bytes, .micro_batches = count};
  layers.groups = sharing.device.groups;
  if (zero > 0) {
    const int size = ranks.all().size();
    ASSIGN_OR_RETURN(const Graph cut, sharing.cut(step, ZeroAxes(step, size, zero), size, ranks.all(), true));
    const auto takes = zero > 1 ? RankExecutable::InputForm::kShards : RankExecutable::InputForm::kWhole;
    ASSIGN_OR_RETURN(auto passes, RankExecutable::Create(cut, ranks.all(), runner, takes));
    for (const ShardedLeaf& input : passes->inputs()) layers.block_axes.push_back(input.axis);
    update = passes.get();
    made.step = std::move(passes);
  } else {
    ASSIGN_OR_RETURN(made.step, runner.Prepare(step));
  }
  if (gradients == nullptr) return made;
  ASSIGN_OR_RETURN(made.sums, LayeredGradients::Create(*gradients, step, updated, layers, ranks.all(), runner, update));
  return made;
}

}  // namespace rewright
