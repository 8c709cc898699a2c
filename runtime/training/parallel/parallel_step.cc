#include "runtime/training/parallel/parallel_step.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/generate.h"
#include "runtime/distributed/plan_text.h"
#include "runtime/parallel/owner_computes_executable.h"
#include "runtime/parallel/run_collective.h"
#include "runtime/signature.h"
#include "runtime/training/parallel/layered_plan.h"
#include "runtime/training/step.h"

namespace rewright {
namespace {

// Tensor and context parallel: both graphs are run by the group together. `inputs` are those of the model.
absl::StatusOr<std::unique_ptr<RankExecutable>> PrepareInGroup(const Graph& graph,
                                                               const std::vector<std::string>& inputs,
                                                               const TrainConfig& config, const SharingOptions& sharing,
                                                               Communicator& group, GraphRunner& runner) {
  RETURN_IF_ERROR(CheckPlaces(config.places, group.size()));
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

std::vector<int> AxesOfInputs(const RankExecutable& step) {
  std::vector<int> axes;
  for (const ShardedLeaf& input : step.inputs()) axes.push_back(input.axis);
  return axes;
}

// The plan but for its lists and for what was measured.
std::vector<std::string> FrameOf(distributed::Plan plan) {
  for (std::vector<distributed::Action>& list : plan.lists) list.clear();
  plan.update_seconds = 0;
  for (distributed::PlanSubgraph& subgraph : plan.subgraphs) {
    subgraph.scratch_bytes = subgraph.own_bytes = 0;
    subgraph.seconds = 0;
  }
  return absl::StrSplit(distributed::PrintPlan(plan), '\n');
}

// Takes the lists of a plan that is otherwise the same.
absl::Status TakeLists(const distributed::Plan& from, distributed::Plan* plan) {
  std::vector<std::string> found = FrameOf(from), expected = FrameOf(*plan);
  found.resize(std::max(found.size(), expected.size()));
  expected.resize(found.size());
  const auto [is, was] = std::mismatch(found.begin(), found.end(), expected.begin());
  if (is != found.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan: found `", *is, "`, expected `", *was, "` of this run and layout"));
  }
  plan->lists = from.lists;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<distributed::PlanExecutor>> ExecutorOf(distributed::PlanParts parts,
                                                                      const SharingOptions& sharing,
                                                                      const MeshCommunicators& ranks) {
  parts.rank = ranks.all().rank();
  if (sharing.lists) RETURN_IF_ERROR(TakeLists(*sharing.lists, &parts.plan));
  RETURN_IF_ERROR(distributed::CheckPlan(parts.plan));
  return distributed::PlanExecutor::Create(std::move(parts), {ranks.model_parallel(), ranks.data_parallel()});
}

// The weights of gradients, with the axes along which the step has blocks of them. Those that it does not update are
// constants of the graph.
struct StepWeights {
  std::vector<std::string> names;  // by state; empty: not updated
  std::vector<Tensor> constants;   // by state
  std::vector<int> axes;           // by state
};

// `axis_of` gives that of a weight which is updated.
absl::StatusOr<StepWeights> WeightsOf(const Graph& gradients, const std::vector<std::string>& updated,
                                      const std::function<absl::StatusOr<int>(const std::string&)>& axis_of) {
  StepWeights weights;
  for (Value state : gradients.states()) {
    const std::string& name = gradients.node(state.node).name;
    const bool is_updated = std::find(updated.begin(), updated.end(), name) != updated.end();
    weights.names.push_back(is_updated ? name : "");
    weights.constants.push_back(is_updated ? Tensor() : *gradients.arena()->Elements(state.node));
    weights.axes.push_back(-1);
    if (is_updated) {
      ASSIGN_OR_RETURN(weights.axes.back(), axis_of(name));
    }
  }
  return weights;
}

// Reads them at the beginning of a step.
std::function<absl::StatusOr<std::vector<Tensor>>()> Reading(
    StepWeights weights, std::function<absl::StatusOr<Tensor>(const std::string&)> read) {
  return [weights = std::move(weights), read = std::move(read)]() -> absl::StatusOr<std::vector<Tensor>> {
    std::vector<Tensor> tensors = weights.constants;
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (weights.names[k].empty()) continue;
      ASSIGN_OR_RETURN(tensors[k], read(weights.names[k]));
    }
    return tensors;
  };
}

using distributed::CutByLaws;
using distributed::StepClaim;

// The claim of what the lists of a step compute.
class ClaimWriter {
 public:
  ClaimWriter(const SharingOptions& sharing, const Graph& gradients, const Graph& step) : sharing_(sharing) {
    claim_.gradients = gradients;
    claim_.step = step;
  }

  // The next subgraph, which ranks cut along these axes.
  absl::Status Subgraph(const Graph& graph, const StateAxes& axes = {}) {
    if (!axes.empty()) {
      CutByLaws cut{.axes = axes, .degree = sharing_.layout.pass_ranks()};
      ASSIGN_OR_RETURN(cut.graph, sharing_.cut_alone(graph, axes, cut.degree));
      claim_.passes.emplace(static_cast<int>(claim_.subgraphs.size()), std::move(cut));
    }
    claim_.subgraphs.push_back(graph);
    return absl::OkStatus();
  }
  void Update(CutByLaws cut) { claim_.update = std::move(cut); }
  void Owners(const std::map<std::string, int>& owners) { claim_.owners = owners; }

  std::shared_ptr<const StepClaim> Of(const distributed::Plan& plan) {
    claim_.plan = plan;
    for (int replica = 0; replica < plan.mesh.replicas(); ++replica) {
      claim_.loads.push_back(distributed::MicroBatchesOf(sharing_.layout.zero, plan, replica));
    }
    return std::make_shared<const StepClaim>(std::move(claim_));
  }

 private:
  const SharingOptions& sharing_;
  StepClaim claim_;
};

absl::StatusOr<std::shared_ptr<const StepClaim>> ClaimOfPipeline(const Graph& step, const PipelinePlan& stages,
                                                                 const StateAxes& placed,
                                                                 const std::optional<CutByLaws>& update,
                                                                 const SharingOptions& sharing,
                                                                 const distributed::Plan& plan) {
  ClaimWriter claim(sharing, stages.gradients, step);
  for (const Subgraphs::Subgraph& subgraph : stages.layers.subgraphs.subgraphs) {
    const StateAxes axes = PlacesOfPass(subgraph.graph, placed);
    RETURN_IF_ERROR(claim.Subgraph(axes.empty() ? subgraph.graph : WithoutTriggers(subgraph.graph), axes));
  }
  if (update) claim.Update(*update);
  claim.Owners(stages.owners);
  return claim.Of(plan);
}

absl::StatusOr<ParallelStep> MakePipeline(const Graph& step, const Graph& gradients,
                                          const std::vector<std::string>& updated, const TrainConfig& config,
                                          const SharingOptions& sharing, const MeshCommunicators& ranks,
                                          GraphRunner& runner) {
  const RankLayout& layout = sharing.layout;
  StateAxes placed;
  if (layout.tp > 1) {
    ASSIGN_OR_RETURN(placed, PlacesOfPasses(gradients, config, layout.tp));
  }
  const absl::StatusOr<PipelinePlan> stages =
      PlanPipeline(gradients, step, updated, layout.pipeline(), KnownByAll(sharing, ranks));
  if (!stages.ok()) return ErrorAt(absl::StrCat("the layout pp=", layout.pp), stages.status());
  ParallelStep made;
  const int zero = layout.dp > 1 ? layout.zero : 0;
  std::optional<CutByLaws> cut;
  if (zero > 0) {
    cut = CutByLaws{PipelineZeroAxes(step, *stages, layout.dp, zero), layout.dp, /*exact_only=*/true,
                    /*takes_blocks=*/true};
    ASSIGN_OR_RETURN(cut->graph, sharing.cut(step, cut->axes, layout.dp, ranks.all(), cut->exact_only));
  }
  ASSIGN_OR_RETURN(auto update, OwnerComputesExecutable::Create(cut ? cut->graph : step, stages->owners,
                                                                ranks.model_parallel(), ranks.data_parallel(), runner));
  PlanCuts cuts;
  for (size_t k = 0; k < stages->adders.size(); ++k) cuts.sums.push_back(update->AxisOfInput(k));
  ASSIGN_OR_RETURN(StepWeights weights, WeightsOf(stages->gradients, updated,
                                                  [&](const std::string& name) { return update->AxisOfState(name); }));
  cuts.weights = weights.axes;
  distributed::PlanParts parts;
  parts.plan = stages->Tensors(step, layout.dp, config.step.micro_batches, cuts);
  for (distributed::PlanSubgraph& pass : parts.plan.subgraphs)
    pass.over = layout.tp > 1 ? parts.plan.mesh.Find("tp") : -1;
  distributed::WritePipeline(layout.pipeline(), layout.schedule, zero, &parts.plan);
  for (size_t p = 0; p < parts.plan.subgraphs.size(); ++p) {
    const int stage = stages->layers.LayerOf(static_cast<int>(p));
    const Graph& pass = stages->layers.subgraphs.subgraphs[p].graph;
    parts.executables.emplace_back();
    if (stage % layout.pp != ranks.pipeline().rank() || pass.outputs().empty()) continue;
    ASSIGN_OR_RETURN(parts.executables.back(),
                     PrepareTensorParallel(pass, placed, sharing, ranks.tensor_parallel(), runner));
  }
  parts.weights = Reading(std::move(weights), [from = update.get()](const std::string& name) -> absl::StatusOr<Tensor> {
    ASSIGN_OR_RETURN(const Shard own, from->LocalState(name));
    return own.tensor;
  });
  ASSIGN_OR_RETURN(made.sums, ExecutorOf(std::move(parts), sharing, ranks));
  made.step = std::move(update);
  if (sharing.claims) {
    ASSIGN_OR_RETURN(made.claim, ClaimOfPipeline(step, *stages, placed, cut, sharing, made.sums->plan()));
  }
  return made;
}

// The gradients of a micro-batch by one graph that the ranks of a replica run together. Its executable has the weights,
// which are written whole; the step is read by all ranks. Sums are cut as its inputs are. `update` is how it is cut.
absl::Status AddSumsOfOnePass(const Graph& step, const Graph& gradients, const std::vector<std::string>& updated,
                              const TrainConfig& config, const SharingOptions& sharing, const MeshCommunicators& ranks,
                              GraphRunner& runner, int zero, const std::vector<int>& cuts, const CutByLaws& update,
                              ParallelStep* made) {
  ASSIGN_OR_RETURN(const Graph unpacked, Unpacked(gradients, step));
  ASSIGN_OR_RETURN(auto pass, PrepareInGroup(unpacked, Signature(unpacked).input_names, config, sharing,
                                             ranks.model_parallel(), runner));
  distributed::PlanParts parts;
  parts.plan = PlanOfOnePass(unpacked, step, MeshOf(sharing.layout), config.step.micro_batches, cuts);
  distributed::WriteDataParallel(zero, &parts.plan);
  for (const std::string& name : updated) parts.weight_bytes += BytesSentToRead(*made->step, name);
  parts.weights = [updated, from = made->step.get(), to = pass.get()]() -> absl::StatusOr<std::vector<Tensor>> {
    for (const std::string& name : updated) {
      ASSIGN_OR_RETURN(const Tensor value, from->ViewState(name));
      RETURN_IF_ERROR(to->WriteState(name, value));
    }
    return std::vector<Tensor>();
  };
  parts.executables.push_back(std::move(pass));
  ASSIGN_OR_RETURN(made->sums, ExecutorOf(std::move(parts), sharing, ranks));
  if (!sharing.claims) return absl::OkStatus();
  ClaimWriter claim(sharing, unpacked, step);
  ASSIGN_OR_RETURN(const StateAxes axes, PlacedStates(unpacked, config.places, Signature(unpacked).input_names));
  RETURN_IF_ERROR(claim.Subgraph(unpacked, axes));
  claim.Update(update);
  made->claim = claim.Of(made->sums->plan());
  return absl::OkStatus();
}

// Tensor parallel in groups, and the optimizer state cut over all ranks.
absl::StatusOr<ParallelStep> MakeZeroOfGroups(const Graph& step, const Graph& gradients,
                                              const std::vector<std::string>& updated, const TrainConfig& config,
                                              const SharingOptions& sharing, const MeshCommunicators& ranks,
                                              GraphRunner& runner) {
  const int size = ranks.shards().size();
  CutByLaws cut{ZeroAxes(step, size, sharing.layout.zero), size, /*exact_only=*/true, /*takes_blocks=*/true};
  ASSIGN_OR_RETURN(cut.graph, sharing.cut(step, cut.axes, size, ranks.shards(), cut.exact_only));
  ASSIGN_OR_RETURN(auto update,
                   RankExecutable::Create(cut.graph, ranks.shards(), runner, RankExecutable::InputForm::kShards));
  const std::vector<int> axes = AxesOfInputs(*update);
  ParallelStep made;
  made.step = std::move(update);
  RETURN_IF_ERROR(AddSumsOfOnePass(step, gradients, updated, config, sharing, ranks, runner, sharing.layout.zero, axes,
                                   cut, &made));
  return made;
}

// Every rank computes whole micro-batches, layer by layer. `update` is the step where it is cut over the ranks, by
// `step_cut`, else null.
absl::Status AddSumsOfLayers(const Graph& step, const Graph& gradients, const std::vector<std::string>& updated,
                             const TrainConfig& config, const SharingOptions& sharing, const MeshCommunicators& ranks,
                             GraphRunner& runner, int zero, RankExecutable* update,
                             const std::optional<CutByLaws>& step_cut, ParallelStep* made) {
  const LayeredOptions options{.bucket_bytes = sharing.bucket_bytes, .groups = sharing.device.groups};
  ASSIGN_OR_RETURN(const LayeredStep cut, CutStep(gradients, step, updated, options));
  ASSIGN_OR_RETURN(StepWeights weights,
                   WeightsOf(cut.gradients, updated, [&](const std::string& name) -> absl::StatusOr<int> {
                     if (update == nullptr) return -1;
                     ASSIGN_OR_RETURN(const Shard local, update->LocalState(name));
                     return local.axis;
                   }));
  const PlanCuts cuts{weights.axes, update == nullptr ? std::vector<int>() : AxesOfInputs(*update)};
  distributed::PlanParts parts;
  parts.plan = PlanOfLayers(cut.gradients, cut.layers, step, MeshOf(sharing.layout), config.step.micro_batches, cuts);
  distributed::WriteDataParallel(zero, &parts.plan);
  for (const Subgraphs::Subgraph& subgraph : cut.layers.subgraphs.subgraphs) {
    parts.executables.emplace_back();
    if (subgraph.outputs.empty()) continue;
    ASSIGN_OR_RETURN(parts.executables.back(), runner.Prepare(subgraph.graph));
  }
  parts.weights =
      Reading(std::move(weights), [update, from = made->step.get()](const std::string& name) -> absl::StatusOr<Tensor> {
        if (update == nullptr) return from->ViewState(name);
        ASSIGN_OR_RETURN(const Shard local, update->LocalState(name));
        return local.tensor;
      });
  ASSIGN_OR_RETURN(made->sums, ExecutorOf(std::move(parts), sharing, ranks));
  if (!sharing.claims) return absl::OkStatus();
  ClaimWriter claim(sharing, cut.gradients, step);
  for (const Subgraphs::Subgraph& subgraph : cut.layers.subgraphs.subgraphs) {
    RETURN_IF_ERROR(claim.Subgraph(subgraph.graph));
  }
  if (step_cut) claim.Update(*step_cut);
  made->claim = claim.Of(made->sums->plan());
  return absl::OkStatus();
}

}  // namespace

MeshCommunicators::MeshCommunicators(Communicator& all, const RankLayout& layout)
    : all_(all),
      model_parallel_(GroupOf(all, layout.ModelParallelGroup(all.rank()))),
      tensor_parallel_(GroupOf(all, layout.PassGroup(all.rank()))),
      pipeline_(GroupOf(all, layout.PipelineGroup(all.rank()))),
      data_parallel_(GroupOf(all, layout.DataParallelGroup(all.rank()))),
      shards_(GroupOf(all, layout.ShardOrder())) {}

absl::StatusOr<StateAxes> PlacesOfPasses(const Graph& gradients, const TrainConfig& config, int tp) {
  RETURN_IF_ERROR(CheckPlaces(config.places, tp));
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

namespace {

// Places of the inputs, the target among them, along the sequence.
absl::Status PlaceSequences(int cp, TrainConfig* config) {
  if (!config->places.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.places: found placements with the layout cp=", cp, ", expected none: it cuts inputs"));
  }
  constexpr int kSequence = 1;
  for (const auto& [name, column] : config->train.inputs) config->places.emplace_back(name, kSequence);
  config->places.emplace_back("target", kSequence);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyLayout(const RankLayout& layout, TrainConfig* config) {
  if (layout.cp > 1) RETURN_IF_ERROR(PlaceSequences(layout.cp, config));
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
  const bool pipeline = layout.pp > 1, zero_of_groups = !pipeline && layout.pass_ranks() > 1 && layout.zero > 0;
  if (gradients == nullptr && (pipeline || zero_of_groups)) {
    const std::string kind =
        pipeline ? absl::StrCat("pp=", layout.pp)
                 : absl::StrCat(layout.cp > 1 ? "cp=" : "tp=", layout.pass_ranks(), ",zero=", layout.zero);
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", count, ", expected at least 2 with the layout ", kind));
  }
  if (pipeline) return MakePipeline(step, *gradients, updated, config, sharing, ranks, runner);
  if (zero_of_groups) return MakeZeroOfGroups(step, *gradients, updated, config, sharing, ranks, runner);
  ParallelStep made;
  if (layout.pass_ranks() > 1) {
    const std::vector<std::string> inputs = Signature(gradients == nullptr ? step : *gradients).input_names;
    ASSIGN_OR_RETURN(made.step, PrepareInGroup(step, inputs, config, sharing, ranks.model_parallel(), runner));
    if (gradients == nullptr) return made;
    CutByLaws cut{.degree = layout.pass_ranks()};
    if (sharing.claims) {
      ASSIGN_OR_RETURN(cut.axes, PlacedStates(step, config.places, inputs));
      ASSIGN_OR_RETURN(cut.graph, sharing.cut_alone(step, cut.axes, cut.degree));
    }
    RETURN_IF_ERROR(AddSumsOfOnePass(step, *gradients, updated, config, sharing, ranks, runner, /*zero=*/0,
                                     /*cuts=*/{}, cut, &made));
    return made;
  }
  const int size = ranks.all().size(), zero = size > 1 ? layout.zero : 0;
  RankExecutable* update = nullptr;
  std::optional<CutByLaws> cut;
  if (zero > 0) {
    cut = CutByLaws{ZeroAxes(step, size, zero), size, /*exact_only=*/true, /*takes_blocks=*/true};
    ASSIGN_OR_RETURN(cut->graph, sharing.cut(step, cut->axes, size, ranks.all(), cut->exact_only));
    const auto takes = gradients == nullptr ? RankExecutable::InputForm::kWhole : RankExecutable::InputForm::kShards;
    ASSIGN_OR_RETURN(auto cut_step, RankExecutable::Create(cut->graph, ranks.all(), runner, takes));
    update = cut_step.get();
    made.step = std::move(cut_step);
  } else {
    ASSIGN_OR_RETURN(made.step, runner.Prepare(step));
  }
  if (gradients == nullptr) return made;
  RETURN_IF_ERROR(AddSumsOfLayers(step, *gradients, updated, config, sharing, ranks, runner, zero, update, cut, &made));
  return made;
}

}  // namespace rewright
