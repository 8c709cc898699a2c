#include "runtime/training/parallel/pipeline.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/comm/collectives.h"
#include "runtime/training/step.h"

namespace rewright {

int64_t PipelinePlan::BytesSent(int rank, int64_t micro_batches) const {
  int64_t bytes = 0;
  const auto size = [&](int tensor) { return layers.subgraphs.tensors[tensor].num_bytes(); };
  for (const Message& message : messages) {
    if (message.stage % shape.ranks == rank / shape.tensor_parallel) bytes += micro_batches * size(message.tensor);
  }
  for (const WeightMessage& message : weight_messages) {
    if (message.from == rank) bytes += size(message.tensor);
  }
  return bytes;
}

namespace {

// Chooses the rank of the group that updates each weight: among the ranks of the stage that makes its gradient, the one
// with the least to update.
void ShareWeights(const Graph& step, const std::vector<std::string>& weights, PipelinePlan* plan) {
  const PipelineShape& shape = plan->shape;
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

// Finds the values that stages read from other ranks, and the weights that other ranks update. A tensor goes to a rank
// once, for the first pass that reads it.
void FindMessages(PipelinePlan* plan) {
  const PipelineShape& shape = plan->shape;
  const Subgraphs& subgraphs = plan->layers.subgraphs;
  const size_t first_state = plan->gradients.inputs().size();
  const std::vector<Value> states = plan->gradients.states();
  const std::map<std::string, int> homes(plan->weights.begin(), plan->weights.end());
  std::set<std::pair<int, int>> found;  // tensor, rank of the pipeline
  for (int p = 0; p < static_cast<int>(subgraphs.subgraphs.size()); ++p) {
    const int to = plan->layers.LayerOf(p) % shape.ranks;
    for (int tensor : subgraphs.subgraphs[p].inputs) {
      const int maker = subgraphs.makers[tensor];
      if (maker >= 0) {
        const int stage = plan->layers.LayerOf(maker);
        if (stage % shape.ranks == to || !found.emplace(tensor, to).second) continue;
        plan->messages.push_back({tensor, stage, p, to, stage < plan->layers.LayerOf(p)});
      } else if (static_cast<size_t>(tensor) >= first_state && found.emplace(tensor, to).second) {
        const auto home = homes.find(plan->gradients.node(states[tensor - first_state].node).name);
        if (home == homes.end()) continue;
        for (int number = 0; number < shape.tensor_parallel; ++number) {
          const int rank = shape.RankOf(to, number);
          if (rank != home->second) plan->weight_messages.push_back({tensor, home->second, rank});
        }
      }
    }
  }
}

}  // namespace

absl::StatusOr<PipelinePlan> PlanPipeline(const Graph& gradients, const Graph& step,
                                          const std::vector<std::string>& updated, const PipelineShape& shape,
                                          const DeviceCosts& device) {
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
  plan.layers = CutIntoLayers(plan.gradients, passes, layer_of_position);
  ShareWeights(step, weights, &plan);
  FindMessages(&plan);
  return plan;
}

namespace {

// Micro-batches that have begun and not ended on a rank, at most.
int64_t MostBegun(int rank, const PipelineShape& shape, int64_t micro_batches, PipelineSchedule schedule) {
  std::map<int64_t, int> passes_left;  // by micro-batch
  size_t most = 0;
  for (const StageAction& action : StageSchedule(rank, shape, micro_batches, schedule)) {
    int& left = passes_left.try_emplace(action.micro_batch, 2 * shape.chunks).first->second;
    most = std::max(most, passes_left.size());
    if (--left == 0) passes_left.erase(action.micro_batch);
  }
  return static_cast<int64_t>(most);
}

}  // namespace

absl::StatusOr<int64_t> PipelineBytes(const PipelinePlan& plan, int64_t micro_batches, PipelineSchedule schedule,
                                      const SubgraphBytesOf& bytes_of) {
  const Subgraphs& subgraphs = plan.layers.subgraphs;
  const size_t first_state = plan.gradients.inputs().size();
  const std::set<int> results(subgraphs.outputs.begin(), subgraphs.outputs.end());
  int64_t most = 0;
  for (int rank = 0; rank < plan.shape.ranks; ++rank) {
    int64_t bytes = 0, shared = 0;
    std::set<int> weights, kept;
    for (int p = 0; p < static_cast<int>(subgraphs.subgraphs.size()); ++p) {
      if (plan.layers.LayerOf(p) % plan.shape.ranks != rank) continue;
      const Subgraphs::Subgraph& subgraph = subgraphs.subgraphs[p];
      for (int tensor : subgraph.inputs) {
        const bool is_made = subgraphs.makers[tensor] >= 0;
        if (is_made || static_cast<size_t>(tensor) >= first_state) (is_made ? kept : weights).insert(tensor);
      }
      for (int tensor : subgraph.outputs) {
        if (!results.contains(tensor)) kept.insert(tensor);
      }
      if (subgraph.outputs.empty()) continue;
      ASSIGN_OR_RETURN(const SubgraphBytes pass, bytes_of(subgraph.graph));
      bytes += pass.own;
      shared = std::max(shared, pass.shared);
    }
    const auto size = [&](const std::set<int>& tensors) {
      int64_t sum = 0;
      for (int tensor : tensors) sum += subgraphs.tensors[tensor].num_bytes();
      return sum;
    };
    bytes += shared + size(weights) + MostBegun(rank, plan.shape, micro_batches, schedule) * size(kept);
    most = std::max(most, bytes);
  }
  return most;
}

StateAxes PipelineZeroAxes(const Graph& step, const PipelinePlan& plan, int64_t degree, int zero) {
  std::set<std::string> read_by_others;
  const std::vector<Value> states = plan.gradients.states();
  for (const PipelinePlan::WeightMessage& message : plan.weight_messages) {
    const size_t state = static_cast<size_t>(message.tensor) - plan.gradients.inputs().size();
    read_by_others.insert(plan.gradients.node(states[state].node).name);
  }
  StateAxes axes = ZeroAxes(step, degree, zero);
  std::erase_if(axes, [&](const auto& place) { return read_by_others.contains(place.first); });
  return axes;
}

Pipeline::Pipeline(PipelinePlan plan, const PipelineOptions& options, const PipelineCommunicators& ranks,
                   const OwnerComputesExecutable& update)
    : plan_(std::move(plan)),
      options_(options),
      ranks_(ranks),
      update_(update),
      leaves_(LeavesOfRanks(options.micro_batches, ranks.data_parallel.size())) {}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(PipelinePlan plan, const PipelineOptions& options,
                                                           const PipelineCommunicators& ranks,
                                                           const PreparePass& prepare,
                                                           const OwnerComputesExecutable& update) {
  std::unique_ptr<Pipeline> made(new Pipeline(std::move(plan), options, ranks, update));
  RETURN_IF_ERROR(made->Init(prepare));
  return made;
}

int64_t Pipeline::ScheduledMicroBatches() const {
  const int groups = ranks_.data_parallel.size();
  return InTurns() ? (options_.micro_batches + groups - 1) / groups : leaves_[ranks_.data_parallel.rank()].count;
}

int Pipeline::GroupsWith(int64_t micro_batch) const {
  const int groups = ranks_.data_parallel.size();
  if (!InTurns()) return groups;
  return static_cast<int>(std::min<int64_t>(groups, options_.micro_batches - micro_batch * groups));
}

const Subgraphs::Subgraph& Pipeline::SubgraphOf(bool forward, int stage) const {
  return plan_.layers.subgraphs.subgraphs[plan_.layers.SubgraphOf(forward, stage)];
}

absl::Status Pipeline::Init(const PreparePass& prepare) {
  for (int chunk = 0; chunk < plan_.shape.chunks; ++chunk) {
    for (int forward : {0, 1}) {
      passes_[forward].emplace_back();
      const Subgraphs::Subgraph& subgraph = SubgraphOf(forward != 0, StageOf(ranks_.pipeline.rank(), chunk));
      if (subgraph.outputs.empty()) continue;
      ASSIGN_OR_RETURN(passes_[forward].back(), prepare(subgraph.graph));
    }
  }
  std::vector<SubgraphRun> runs;
  for (const auto& passes : passes_) {
    for (const auto& pass : passes) runs.push_back({pass.get(), static_cast<int>(runs.size())});
  }
  ASSIGN_OR_RETURN(passes_memory_, SharedMemory::Place({}, {}, runs, nullptr));
  for (size_t k = 0; k < plan_.adders.size(); ++k) axes_.push_back(update_.AxisOfInput(k));
  first_state_ = plan_.gradients.inputs().size();
  RETURN_IF_ERROR(InitStates());
  return PlanGathers();
}

absl::Status Pipeline::InitStates() {
  const std::map<std::string, int> homes(plan_.weights.begin(), plan_.weights.end());
  for (Value state : plan_.gradients.states()) {
    const std::string& name = plan_.gradients.node(state.node).name;
    const auto home = homes.find(name);
    states_.emplace_back();
    if (home == homes.end()) {
      states_.back() = *plan_.gradients.arena()->Elements(state.node);  // frozen
    } else if (home->second == ranks_.model_parallel.rank()) {
      own_.push_back(states_.size() - 1);
    }
  }
  RETURN_IF_ERROR(ViewWeights());
  for (const PipelinePlan::WeightMessage& message : plan_.weight_messages) {
    if (message.to != ranks_.model_parallel.rank()) continue;
    states_[message.tensor - first_state_] = Tensor(plan_.layers.subgraphs.tensors[message.tensor]);
  }
  return absl::OkStatus();
}

absl::Status Pipeline::ViewWeights() {
  const std::vector<Value> states = plan_.gradients.states();
  for (size_t state : own_) {
    ASSIGN_OR_RETURN(Shard own, update_.LocalState(plan_.gradients.node(states[state].node).name));
    if (own.axis >= 0) {
      blocks_[state] = std::move(own);
    } else {
      states_[state] = own.tensor;
    }
  }
  return absl::OkStatus();
}

// The weights of one stage at a time, in one memory.
absl::Status Pipeline::PlanGathers() {
  std::vector<TensorType> types;
  std::vector<Use> uses;
  for (int chunk = 0; chunk < plan_.shape.chunks; ++chunk) {
    std::set<size_t> needed;
    for (bool forward : {false, true}) {
      for (int tensor : SubgraphOf(forward, StageOf(ranks_.pipeline.rank(), chunk)).inputs) {
        const size_t state = static_cast<size_t>(tensor) - first_state_;
        if (IsState(tensor) && blocks_.contains(state)) needed.insert(state);
      }
    }
    gathers_.emplace_back();
    for (size_t state : needed) {
      gathers_.back().emplace_back(state, Tensor());
      types.push_back(plan_.layers.subgraphs.tensors[first_state_ + state]);
      uses.push_back({chunk, chunk});
    }
  }
  std::vector<Tensor> views(types.size());
  ASSIGN_OR_RETURN(gathered_memory_, SharedMemory::Place(types, uses, {}, &views));
  size_t next = 0;
  for (auto& gather : gathers_) {
    for (auto& [state, whole] : gather) whole = views[next++];
  }
  return absl::OkStatus();
}

absl::Status Pipeline::GatherWeights(const std::string& what, int chunk) {
  if (gathered_ == chunk) return absl::OkStatus();
  gathered_ = chunk;
  std::vector<GatheredTensor> joined;
  for (const auto& [state, whole] : gathers_[chunk]) {
    const Shard& block = blocks_.at(state);
    joined.push_back({block.tensor, block.axis, whole});
    states_[state] = whole;
  }
  return AllGather(ranks_.data_parallel, absl::StrCat(what, ", weights"), joined);
}

void Pipeline::ExpectMessages(int64_t count) {
  const int ranks = plan_.shape.ranks;
  pending_receives_.assign(static_cast<size_t>(ranks), {});
  expected_.clear();
  seen_.assign(static_cast<size_t>(ranks), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<StageAction> actions = StageSchedule(rank, plan_.shape, count, options_.schedule);
    for (size_t i = 0; i < actions.size(); ++i) {
      const StageAction& action = actions[i];
      if (ranks_.data_parallel.rank() >= GroupsWith(action.micro_batch)) continue;
      action_of_[{rank, action.forward, action.chunk, action.micro_batch}] = i;
      for (const PipelinePlan::Message& message : plan_.messages) {
        const bool sends = message.stage == StageOf(rank, action.chunk) && message.forward == action.forward;
        if (!sends || message.to != ranks_.pipeline.rank()) continue;
        pending_receives_[rank].push_back({message.tensor, action.micro_batch, i});
        expected_.insert({rank, message.tensor, action.micro_batch});
      }
    }
  }
}

absl::Status Pipeline::ReadWeights(Executable&) {
  gathered_ = -1;
  RETURN_IF_ERROR(ViewWeights());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (const PipelinePlan::WeightMessage& message : plan_.weight_messages) {
    Tensor& weight = states_[message.tensor - first_state_];
    const auto bytes = static_cast<size_t>(weight.num_bytes());
    if (message.from == ranks_.model_parallel.rank()) out.push_back({message.to, weight.data(), bytes});
    if (message.to == ranks_.model_parallel.rank()) in.push_back({message.from, weight.data(), bytes});
  }
  return ranks_.model_parallel.Exchange("weights that several ranks use", out, in);
}

int64_t Pipeline::BytesSent(const Executable&) const {
  const int rank = ranks_.data_parallel.rank(), size = ranks_.data_parallel.size();
  int64_t own = 0;
  for (int64_t i = 0; i < ScheduledMicroBatches(); ++i) own += rank < GroupsWith(i) ? 1 : 0;
  int64_t bytes = plan_.BytesSent(ranks_.model_parallel.rank(), own);
  for (const auto& passes : passes_) {
    for (const auto& pass : passes) bytes += pass == nullptr ? 0 : own * BytesSentBy(*pass);
  }
  int whole = -1;
  for (const StageAction& action :
       StageSchedule(ranks_.pipeline.rank(), plan_.shape, ScheduledMicroBatches(), options_.schedule)) {
    if (std::exchange(whole, action.chunk) == action.chunk) continue;
    for (const auto& [state, tensor] : gathers_[action.chunk]) {
      bytes += blocks_.at(state).tensor.num_bytes() * (size - 1);
    }
  }
  std::vector<TensorType> types;
  std::vector<int> axes;
  for (size_t k = 0; k < plan_.adders.size(); ++k) {
    if (plan_.adders[k] != ranks_.model_parallel.rank()) continue;
    types.push_back(SumType(k));
    axes.push_back(axes_[k]);
  }
  return bytes +
         (InTurns() ? BytesOfTurns(types, axes, rank, size, own) : BytesOfSumOverRanks(types, axes, rank, size));
}

int64_t Pipeline::arena_bytes() const {
  int64_t bytes = gathered_memory_.bytes() + passes_memory_.bytes();
  for (const auto& slot : free_) {  // behind a step all of them are
    for (const Tensor& tensor : slot->tensors) bytes += tensor.data() == nullptr ? 0 : tensor.num_bytes();
  }
  return bytes;
}

Pipeline::Slot& Pipeline::SlotOf(int64_t micro_batch) {
  std::unique_ptr<Slot>& slot = slots_[micro_batch];
  if (slot == nullptr) {
    if (free_.empty()) {
      slot = std::make_unique<Slot>();
    } else {
      slot = std::move(free_.back());
      free_.pop_back();
    }
    slot->tensors.resize(plan_.layers.subgraphs.tensors.size());
    slot->chunks_left = plan_.shape.chunks;
  }
  return *slot;
}

absl::Status Pipeline::ReceiveNext(const std::string& what, int from) {
  const PendingReceive next = pending_receives_[from].front();
  Tensor& tensor = SlotOf(next.micro_batch).tensors[next.tensor];
  if (tensor.data() == nullptr) tensor = Tensor(plan_.layers.subgraphs.tensors[next.tensor]);
  RETURN_IF_ERROR(ranks_.pipeline.Receive(what, from, tensor.data(), static_cast<size_t>(tensor.num_bytes())));
  pending_receives_[from].pop_front();
  expected_.erase({from, next.tensor, next.micro_batch});
  seen_[from] = next.action + 1;
  return absl::OkStatus();
}

// Messages arrive in the order in which they are sent, which need not be that in which they are read: those before are
// received, too.
absl::Status Pipeline::Receive(const std::string& what, const Subgraphs::Subgraph& subgraph, int64_t micro_batch) {
  for (const PipelinePlan::Message& message : plan_.messages) {
    if (message.to != ranks_.pipeline.rank()) continue;
    if (std::count(subgraph.inputs.begin(), subgraph.inputs.end(), message.tensor) == 0) continue;
    const int from = message.stage % plan_.shape.ranks;
    const std::tuple it(from, message.tensor, micro_batch);
    while (expected_.contains(it)) RETURN_IF_ERROR(ReceiveNext(what, from));
  }
  return absl::OkStatus();
}

absl::Status Pipeline::Send(const std::string& what, const StageAction& action) {
  PendingSend pending;
  std::vector<Outgoing> out;
  for (const PipelinePlan::Message& message : plan_.messages) {
    if (message.stage != StageOf(ranks_.pipeline.rank(), action.chunk) || message.forward != action.forward) continue;
    pending.tensors.push_back(SlotOf(action.micro_batch).tensors[message.tensor]);
    const Tensor& tensor = pending.tensors.back();
    out.push_back({message.to, tensor.data(), static_cast<size_t>(tensor.num_bytes())});
    const bool forward = message.reader < plan_.layers.count;
    const int chunk = plan_.layers.LayerOf(message.reader) / plan_.shape.ranks;
    pending.actions.emplace_back(message.to, action_of_.at({message.to, forward, chunk, action.micro_batch}));
  }
  if (out.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(pending.transfer, ranks_.pipeline.Start(what, out, {}));
  pending_sends_.push_back(std::move(pending));
  return absl::OkStatus();
}

absl::Status Pipeline::EndSends(bool all) {
  std::vector<PendingSend> left;
  for (PendingSend& pending : pending_sends_) {
    const bool arrived = std::all_of(pending.actions.begin(), pending.actions.end(),
                                     [&](const auto& needs) { return seen_[needs.first] > needs.second; });
    if (all || arrived) {
      RETURN_IF_ERROR(ranks_.pipeline.Wait(*pending.transfer));
    } else {
      left.push_back(std::move(pending));
    }
  }
  pending_sends_ = std::move(left);
  return absl::OkStatus();
}

absl::Status Pipeline::RunPass(const StageAction& action, Slot* slot) {
  return RunSubgraph(
      passes_[action.forward][action.chunk].get(),
      SubgraphOf(action.forward, StageOf(ranks_.pipeline.rank(), action.chunk)),
      [&](int tensor) -> Tensor& { return IsState(tensor) ? states_[tensor - first_state_] : slot->tensors[tensor]; });
}

absl::Status Pipeline::AddGradients(const std::string& what, int stage, int64_t micro_batch,
                                    std::vector<TreeSum>* sums) {
  const int givers = GroupsWith(micro_batch);
  const bool gives = ranks_.data_parallel.rank() < givers;
  std::vector<Tensor> leaf;
  std::vector<LeafSum> tensors;
  for (size_t k = 0; k < sums->size(); ++k) {
    if (plan_.layers.homes[k] != stage || plan_.adders[k] != ranks_.model_parallel.rank()) continue;
    if (gives) leaf.push_back(TakeOutput(plan_.layers.subgraphs, k, &SlotOf(micro_batch).tensors));
    tensors.push_back({SumType(k), axes_[k], &(*sums)[k]});
  }
  if (InTurns()) return ReduceScatterLeaves(ranks_.data_parallel, what, givers, tensors, leaf);
  for (size_t k = 0; k < tensors.size(); ++k) tensors[k].sum->Add(std::move(leaf[k]));
  return absl::OkStatus();
}

void Pipeline::Release(int64_t micro_batch) {
  const auto found = slots_.find(micro_batch);
  for (const PipelinePlan::Message& message : plan_.messages) {  // what is sent may be on its way still
    if (message.stage % plan_.shape.ranks != ranks_.pipeline.rank()) continue;
    found->second->tensors[message.tensor] = Tensor();
  }
  free_.push_back(std::move(found->second));
  slots_.erase(found);
}

absl::Status Pipeline::RunAction(const std::string& what, const StageAction& action) {
  const int stage = StageOf(ranks_.pipeline.rank(), action.chunk);
  Slot& slot = SlotOf(action.micro_batch);
  in_flight_ += action.forward ? 1 : -1;
  most_in_flight_ = std::max(most_in_flight_, in_flight_);
  RETURN_IF_ERROR(Receive(what, SubgraphOf(action.forward, stage), action.micro_batch));
  RETURN_IF_ERROR(EndSends(/*all=*/false));
  RETURN_IF_ERROR(RunPass(action, &slot));
  return Send(what, action);
}

absl::StatusOr<std::vector<Tensor>> Pipeline::Sums(const std::string& what, Prefetcher& batches) {
  const int64_t count = ScheduledMicroBatches();
  const std::string of_gradients = absl::StrCat(what, ", sum of gradients");
  ExpectMessages(count);
  std::vector<TreeSum> sums(plan_.layers.homes.size());
  for (const StageAction& action : StageSchedule(ranks_.pipeline.rank(), plan_.shape, count, options_.schedule)) {
    const int stage = StageOf(ranks_.pipeline.rank(), action.chunk);
    const bool is_there = ranks_.data_parallel.rank() < GroupsWith(action.micro_batch);
    const std::string of = absl::StrCat(what, action.forward ? ", forward" : ", backward", " pass of micro-batch ",
                                        action.micro_batch + 1, " of ", count, ", stage ", stage);
    RETURN_IF_ERROR(GatherWeights(of, action.chunk));
    if (is_there && action.forward && action.chunk == 0) {
      ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
      std::copy(batch.begin(), batch.end(), SlotOf(action.micro_batch).tensors.begin());
    }
    if (is_there) RETURN_IF_ERROR(RunAction(of, action));
    if (action.forward) continue;
    RETURN_IF_ERROR(AddGradients(of_gradients, stage, action.micro_batch, &sums));
    if (is_there && --SlotOf(action.micro_batch).chunks_left == 0) Release(action.micro_batch);
  }
  RETURN_IF_ERROR(EndSends(/*all=*/true));
  return Totals(of_gradients, &sums);
}

absl::StatusOr<std::vector<Tensor>> Pipeline::Totals(const std::string& what, std::vector<TreeSum>* sums) {
  std::vector<size_t> own;
  std::vector<Tensor> totals;
  std::vector<TensorType> types;
  std::vector<int> axes;
  for (size_t k = 0; k < sums->size(); ++k) {
    if (plan_.adders[k] != ranks_.model_parallel.rank()) continue;
    own.push_back(k);
    totals.push_back((*sums)[k].Take());
    types.push_back(SumType(k));
    axes.push_back(axes_[k]);
  }
  if (InTurns()) {
    ASSIGN_OR_RETURN(totals, GatherShards(ranks_.data_parallel, what, types, axes, std::move(totals)));
  } else {
    ASSIGN_OR_RETURN(totals, SumOverRanks(ranks_.data_parallel, what, leaves_, std::move(totals), axes));
  }
  std::vector<Tensor> inputs(sums->size());
  for (size_t k = 0; k < own.size(); ++k) inputs[own[k]] = totals[k];
  return inputs;
}

}  // namespace rewright
