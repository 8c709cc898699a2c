#include "runtime/distributed/plan_executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/comm/collectives.h"
#include "runtime/distributed/joined_sums.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/distributed/plan_text.h"
#include "runtime/executor.h"
#include "runtime/parallel/run_collective.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

// This rank's block of a tensor along an axis: a view where it lies in one piece.
Tensor BlockOf(const Tensor& whole, int axis, int rank, int size) {
  const TensorType type = BlockType(whole.type(), axis, size);
  if (axis == 0) {
    const auto owner = std::make_shared<Tensor>(whole);
    return Tensor(type, owner, owner->as<char>() + rank * type.num_bytes());
  }
  Tensor block(type);
  CopyBlock(whole, axis, rank, &block);
  return block;
}

}  // namespace

PlanExecutor::PlanExecutor(PlanParts parts, const PlanCommunicators& ranks)
    : parts_(std::move(parts)),
      ranks_(ranks),
      sums_in_order_(parts_.plan.TensorsOf(PlanTensor::Kind::kSum)),
      weights_in_order_(parts_.plan.TensorsOf(PlanTensor::Kind::kWeight)),
      comm_thread_(ranks.replicas) {}

absl::StatusOr<std::unique_ptr<PlanExecutor>> PlanExecutor::Create(PlanParts parts, const PlanCommunicators& ranks) {
  std::unique_ptr<PlanExecutor> made(new PlanExecutor(std::move(parts), ranks));
  RETURN_IF_ERROR(made->Init());
  return made;
}

absl::Status PlanExecutor::Init() {
  const Plan& plan = parts_.plan;
  const auto is_joined = [](const PlanTensor& tensor) { return tensor.over >= 0 || tensor.apart; };
  if (!plan.alike.empty() || std::any_of(plan.tensors.begin(), plan.tensors.end(), is_joined)) {
    return absl::InvalidArgumentError(
        "the plan: found ranks that are alike, values that ranks complete together or weights that are apart, expected "
        "a list of every rank for subgraphs that have their collectives inside");
  }
  CHECK(ranks_.replicas.size() == plan.mesh.replicas()) << ranks_.replicas.size();
  if (plan.micro_batches >= plan.mesh.replicas()) leaves_ = LeavesOfRanks(plan.micro_batches, plan.mesh.replicas());
  for (const Action& action : list()) {
    const bool communicates = action.kind == Kind::kRun && plan.subgraphs[action.target].over >= 0;
    if (communicates || action.kind == Kind::kSend || action.kind == Kind::kReceive) beside_ = false;
  }
  is_leaf_.resize(plan.tensors.size(), false);
  is_read_ = is_shared_ = is_leaf_;
  for (const Action& action : list()) {
    if (action.kind == Kind::kRun) {
      for (int tensor : plan.subgraphs[action.target].reads) is_read_[tensor] = true;
    }
    if (action.kind == Kind::kSend) is_read_[action.tensors[0]] = true;
  }
  for (int sum : sums_in_order_) {
    const int leaf = Of(sum).leaf;
    is_shared_[leaf] =
        is_shared_[leaf] || is_leaf_[leaf] || is_read_[leaf] || Of(leaf).kind != PlanTensor::Kind::kValue;
    is_leaf_[leaf] = true;
  }
  drops_.resize(list().size());
  for (const TensorLife& life : LivesOf(plan, parts_.rank)) {
    if (life.micro_batch >= 0) drops_[life.last].push_back({life.tensor, life.micro_batch});
  }
  RETURN_IF_ERROR(PlanValues());
  return PlanGathers();
}

// Where a micro-batch is over before the next one begins, its values lie in one memory with those of the executables.
absl::Status PlanExecutor::PlanValues() {
  const Plan& plan = parts_.plan;
  bool one_by_one = true;
  int64_t micro_batch = -1;
  int last = -1;
  for (const Action& action : list()) {
    one_by_one = one_by_one && action.kind != Kind::kSend && action.kind != Kind::kReceive &&
                 action.kind != Kind::kOffload && action.kind != Kind::kFetch;
    if (action.kind != Kind::kRun) continue;
    if (std::exchange(micro_batch, action.micro_batch) != action.micro_batch) last = -1;
    one_by_one = one_by_one && action.target > last;
    last = action.target;
  }
  std::vector<TensorType> types;
  for (const PlanTensor& tensor : plan.tensors) types.push_back(tensor.type);
  std::vector<SubgraphRun> runs;
  for (size_t p = 0; p < plan.subgraphs.size(); ++p) {
    runs.push_back({parts_.executables[p].get(), static_cast<int>(p)});
  }
  const std::vector<Use> uses = one_by_one ? UsesOneByOne(plan) : std::vector<Use>(plan.tensors.size());
  planned_.resize(plan.tensors.size());
  ASSIGN_OR_RETURN(memory_, SharedMemory::Place(types, uses, runs, &planned_));
  return absl::OkStatus();
}

absl::Status PlanExecutor::PlanGathers() {
  const GatherPlacement placement = PlaceGathers(parts_.plan, parts_.rank);
  gathered_bytes_ = placement.bytes;
  RETURN_IF_ERROR(CheckMemory(gathered_bytes_, "weights that are gathered"));
  ASSIGN_OR_RETURN(const std::shared_ptr<void> memory,
                   AllocateBytes(static_cast<size_t>(gathered_bytes_), DeviceMemory::kAlignment));
  for (size_t i = 0; i < list().size(); ++i) {
    gathered_.emplace_back();
    for (size_t k = 0; k < placement.offsets[i].size(); ++k) {
      char* const at = static_cast<char*>(memory.get()) + placement.offsets[i][k];
      gathered_.back().emplace_back(Of(list()[i].tensors[k]).type, memory, at);
    }
  }
  return absl::OkStatus();
}

int64_t PlanExecutor::bytes_sent() const {
  int64_t bytes = parts_.weight_bytes;
  for (int64_t to : BytesSent(parts_.plan, parts_.rank)) bytes += to;
  for (const Action& action : list()) {
    if (action.kind == Kind::kRun) bytes += BytesSentBy(*parts_.executables[action.target]);
  }
  return bytes;
}

absl::Status PlanExecutor::ReadWeights() {
  ASSIGN_OR_RETURN(const std::vector<Tensor> given, parts_.weights());
  CHECK(given.size() == weights_in_order_.size()) << given.size();
  for (size_t k = 0; k < given.size(); ++k) {
    const int weight = weights_in_order_[k];
    const bool in_blocks = Of(weight).cut >= 0 && parts_.plan.mesh.replicas() > 1;
    if (given[k].data() != nullptr) (in_blocks ? blocks_ : weights_)[weight] = given[k];
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Run(const std::string& what, const NextBatch& next_batch, const Update& update) {
  next_batch_ = next_batch;
  update_ = update;
  loaded_.clear();
  if (++steps_ <= 2) {  // the first step warms up
    run_timings_.assign(parts_.plan.subgraphs.size(), {});
    update_timing_ = {};
  }
  RETURN_IF_ERROR(ReadWeights());
  for (int i = 0; i < static_cast<int>(list().size()); ++i) {
    RETURN_IF_ERROR(RunAction(i, what));
    for (const Drop& drop : drops_[i]) {
      const auto values = values_.find(drop.micro_batch);
      if (values == values_.end()) continue;
      const auto value = values->second.find(drop.tensor);
      if (value == values->second.end()) continue;
      if (Of(drop.tensor).kind == PlanTensor::Kind::kValue && !is_leaf_[drop.tensor] &&
          planned_[drop.tensor].data() == nullptr) {
        value_bytes_ -= value->second.num_bytes();
      }
      values->second.erase(value);
      if (values->second.empty()) values_.erase(values);
    }
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Timed(Timing* timing, const std::function<absl::Status()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = work();
  timing->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++timing->count;
  return status;
}

Plan PlanExecutor::MeasuredPlan() const {
  Plan plan = parts_.plan;
  const auto mean = [](const Timing& timing) {
    return timing.count == 0 ? 0 : timing.seconds / static_cast<double>(timing.count);
  };
  for (size_t p = 0; p < plan.subgraphs.size(); ++p) {
    const Executable* const executable = parts_.executables[p].get();
    if (executable == nullptr) continue;
    const auto* const user = dynamic_cast<const ArenaUser*>(executable);
    plan.subgraphs[p].scratch_bytes = user == nullptr ? 0 : user->shared_bytes();
    plan.subgraphs[p].own_bytes = executable->arena_bytes() - plan.subgraphs[p].scratch_bytes;
    if (p < run_timings_.size()) plan.subgraphs[p].seconds = mean(run_timings_[p]);
  }
  plan.update_seconds = mean(update_timing_);
  return plan;
}

absl::Status PlanExecutor::RunAction(int number, const std::string& what) {
  const Action& action = list()[number];
  switch (action.kind) {
    case Kind::kRun: return RunSubgraph(action);
    case Kind::kAccumulate:
      for (int sum : action.tensors) sums_[sum].Add(TakeLeaf(sum, action.micro_batch));
      return absl::OkStatus();
    case Kind::kUpdate: {
      std::vector<Tensor> inputs(sums_in_order_.size());
      for (size_t k = 0; k < inputs.size(); ++k) {
        const int sum = sums_in_order_[k];
        if (std::count(action.tensors.begin(), action.tensors.end(), sum) == 0) continue;
        const auto total = totals_.find(sum);
        inputs[k] = total == totals_.end() ? sums_[sum].Take() : std::move(total->second);
      }
      totals_.clear();
      return Timed(&update_timing_, [&] { return update_(inputs); });
    }
    case Kind::kOffload:
      for (int tensor : action.tensors) {
        ASSIGN_OR_RETURN((offloaded_[{tensor, action.micro_batch}]),
                         CopyOf(At(tensor, action.micro_batch), "a value that is offloaded"));
      }
      return absl::OkStatus();
    case Kind::kFetch:
      for (int tensor : action.tensors) {
        const auto stored = offloaded_.find({tensor, action.micro_batch});
        CopyElements(stored->second, &At(tensor, action.micro_batch));
        offloaded_.erase(stored);
      }
      return absl::OkStatus();
    case Kind::kWait: return Wait(action.target);
    default: return Begin(number, what);
  }
}

Tensor& PlanExecutor::At(int tensor, int64_t micro_batch) {
  if (Of(tensor).kind == PlanTensor::Kind::kWeight) {
    Tensor& weight = weights_[tensor];
    if (weight.data() == nullptr) weight = Tensor(Of(tensor).type);  // that another rank sends
    return weight;
  }
  Tensor& value = values_[micro_batch][tensor];
  if (value.data() != nullptr || Of(tensor).kind != PlanTensor::Kind::kValue) return value;
  if (planned_[tensor].data() != nullptr) {
    value = planned_[tensor];
    return value;
  }
  value = ranks_.replicas.memory().Take(Of(tensor).type);
  if (!is_leaf_[tensor]) value_bytes_ += value.num_bytes();
  most_value_bytes_ = std::max(most_value_bytes_, value_bytes_);
  return value;
}

// A rank takes its micro-batches in the order in which it first runs something for them.
absl::Status PlanExecutor::Load(int64_t micro_batch) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> batch, next_batch_());
  size_t next = 0;
  for (int tensor : parts_.plan.TensorsOf(PlanTensor::Kind::kInput)) {
    if (is_read_[tensor]) values_[micro_batch][tensor] = batch[next];
    ++next;
  }
  loaded_.insert(micro_batch);
  return absl::OkStatus();
}

absl::Status PlanExecutor::RunSubgraph(const Action& action) {
  if (!loaded_.contains(action.micro_batch)) RETURN_IF_ERROR(Load(action.micro_batch));
  const PlanSubgraph& subgraph = parts_.plan.subgraphs[action.target];
  std::vector<Tensor> inputs, outputs;
  for (int tensor : subgraph.reads) inputs.push_back(At(tensor, action.micro_batch));
  for (int tensor : subgraph.makes) outputs.push_back(At(tensor, action.micro_batch));
  RETURN_IF_ERROR(
      Timed(&run_timings_[action.target], [&] { return parts_.executables[action.target]->Run(inputs, &outputs); }));
  for (size_t k = 0; k < outputs.size(); ++k) At(subgraph.makes[k], action.micro_batch) = std::move(outputs[k]);
  return absl::OkStatus();
}

Tensor PlanExecutor::TakeLeaf(int sum, int64_t micro_batch) {
  const int leaf = Of(sum).leaf;
  Tensor& value = At(leaf, micro_batch);
  if (value.type() != Of(sum).type) {
    Tensor block(Of(sum).type);
    CopyBlock(value, Of(sum).cut, parts_.plan.mesh.NumberOf(parts_.rank), &block);
    return block;
  }
  if (!is_shared_[leaf]) return std::exchange(value, Tensor());
  Tensor copy(value.type());
  CopyElements(value, &copy);
  return copy;
}

absl::Status PlanExecutor::Begin(int number, const std::string& what) {
  const Action& action = list()[number];
  if (action.kind == Kind::kSend || action.kind == Kind::kReceive) {
    const std::string of = absl::StrCat(what, ", ", PrintAction(parts_.plan, action));
    const int other = parts_.plan.mesh.NumberOf(action.target);
    Tensor& tensor = At(action.tensors[0], action.micro_batch);
    const auto bytes = static_cast<size_t>(tensor.num_bytes());
    if (action.kind == Kind::kReceive) return ranks_.replica.Receive(of, other, tensor.data(), bytes);
    ASSIGN_OR_RETURN(transfers_[number], ranks_.replica.Start(of, {{other, tensor.data(), bytes}}, {}));
    return absl::OkStatus();
  }
  Work work;
  const std::string of_sums = absl::StrCat(what, ", sum of gradients");
  if (action.givers > 0) {
    work = ScatterLeaves(action, of_sums);
  } else if (action.kind != Kind::kAllGather) {
    work = ReduceOverReplicas(action, of_sums);
  } else if (Of(action.tensors[0]).kind == PlanTensor::Kind::kSum) {
    work = GatherShards(action, of_sums);
  } else {
    work = GatherWeights(number, absl::StrCat(what, ", weights"));
  }
  if (!beside_) return work();
  works_[number] = comm_thread_.Start(std::move(work));
  return absl::OkStatus();
}

absl::Status PlanExecutor::Wait(int number) {
  const Action& action = list()[number];
  if (action.kind == Kind::kSend) {
    const std::unique_ptr<Transfer> transfer = std::move(transfers_.at(number));
    transfers_.erase(number);
    return ranks_.replica.Wait(*transfer);
  }
  if (beside_) RETURN_IF_ERROR(comm_thread_.Wait(works_.at(number)));
  for (size_t k = 0; k < gathered_[number].size(); ++k) weights_[action.tensors[k]] = gathered_[number][k];
  return absl::OkStatus();
}

PlanExecutor::Work PlanExecutor::GatherWeights(int number, const std::string& what) {
  const Action& action = list()[number];
  std::vector<GatheredTensor> joined;
  for (size_t k = 0; k < action.tensors.size(); ++k) {
    joined.push_back({blocks_.at(action.tensors[k]), Of(action.tensors[k]).cut, gathered_[number][k]});
  }
  return [this, what, joined = std::move(joined)] { return AllGather(ranks_.replicas, what, joined); };
}

PlanExecutor::Work PlanExecutor::GatherShards(const Action& action, const std::string& what) {
  std::vector<GatheredTensor> joined;
  for (int sum : action.tensors) {
    joined.push_back({sums_[sum].Take(), -1, Tensor(Of(sum).type)});
    totals_[sum] = joined.back().whole;
  }
  return [this, what, joined = std::move(joined)] { return AllGather(ranks_.replicas, what, joined); };
}

PlanExecutor::Work PlanExecutor::ScatterLeaves(const Action& action, const std::string& what) {
  const int place = ranks_.replicas.rank();
  std::vector<Tensor> leaf;
  std::vector<LeafSum> tensors;
  for (int sum : action.tensors) {
    if (place < action.givers) leaf.push_back(TakeLeaf(sum, action.micro_batch + place));
    tensors.push_back({Of(sum).type, Of(sum).cut, &sums_[sum]});
  }
  return [this, what, givers = static_cast<int>(action.givers), tensors, leaf = std::move(leaf)] {
    return ReduceScatterLeaves(ranks_.replicas, what, givers, tensors, leaf);
  };
}

std::vector<Tensor> PlanExecutor::TakeJoined(const std::vector<int>& sums) {
  std::vector<TensorType> types;
  for (int sum : sums) types.push_back(Of(sum).type);
  std::vector<Tensor> vectors;
  for (const std::vector<size_t>& together : JoinedTensors(types)) {
    if (together.size() == 1) {
      vectors.push_back(totals_[sums[together[0]]] = sums_[sums[together[0]]].Take());
      continue;
    }
    int64_t count = 0;
    for (size_t k : together) count += types[k].num_elements();
    const auto vector =
        std::make_shared<Tensor>(ranks_.replicas.memory().Take(TensorType{types[together[0]].dtype, {count}}));
    char* next = vector->as<char>();
    for (size_t k : together) {
      Tensor view(types[k], vector, next);
      CopyElements(sums_[sums[k]].Take(), &view);
      totals_[sums[k]] = std::move(view);
      next += types[k].num_bytes();
    }
    vectors.push_back(*vector);
  }
  return vectors;
}

PlanExecutor::Work PlanExecutor::ReduceOverReplicas(const Action& action, const std::string& what) {
  if (action.kind == Kind::kAllReduce) {
    return [this, what, vectors = TakeJoined(action.tensors)]() -> absl::Status {
      for (Tensor vector : vectors) RETURN_IF_ERROR(AllReduce(ranks_.replicas, what, leaves_, &vector));
      return absl::OkStatus();
    };
  }
  std::vector<std::pair<Tensor*, int>> cut;
  for (int sum : action.tensors) {
    Tensor& total = totals_[sum] = sums_[sum].Take();
    cut.emplace_back(&total, Of(sum).cut);
  }
  return [this, what, cut = std::move(cut)]() -> absl::Status {
    RETURN_IF_ERROR(ReduceScatterInPlace(ranks_.replicas, what, leaves_, cut));
    for (const auto& [total, axis] : cut)
      *total = BlockOf(*total, axis, ranks_.replicas.rank(), ranks_.replicas.size());
    return absl::OkStatus();
  };
}

}  // namespace rewright::distributed
