#include "runtime/distributed/generate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "runtime/comm/all_reduce.h"

namespace rewright::distributed {

std::vector<int64_t> MicroBatchesOf(int zero, int64_t count, int replica, int replicas) {
  std::vector<int64_t> own;
  if (zero >= 2) {
    for (int64_t i = replica; i < count; i += replicas) own.push_back(i);
  } else {
    const LeafRange range = LeavesOfRanks(count, replicas)[replica];
    for (int64_t i = 0; i < range.count; ++i) own.push_back(range.first + i);
  }
  return own;
}

std::vector<int64_t> MicroBatchesOf(int zero, const Plan& plan, int replica) {
  if (zero >= 2 || !plan.IsAlike(0)) return MicroBatchesOf(zero, plan.micro_batches, replica, plan.mesh.replicas());
  std::vector<int64_t> own;
  for (int64_t i = 0; i < plan.micro_batches / plan.mesh.replicas(); ++i) own.push_back(i);
  return own;
}

namespace {

using Kind = Action::Kind;

// The list of a rank while it is written.
class Writer {
 public:
  Writer(const Plan& plan, int rank) : plan_(plan), replica_(plan.mesh.PlaceOf(rank, 0)) {}

  int Add(Action action) {
    list_.push_back(std::move(action));
    return static_cast<int>(list_.size()) - 1;
  }
  void Wait(int number) {
    if (number >= 0) Add({Kind::kWait, number});
  }
  // Nothing where there are no tensors; the number to wait for, or -1.
  int Collective(Kind kind, std::vector<int> tensors) {
    if (tensors.empty()) return -1;
    return Add({kind, -1, std::move(tensors), -1, 0, 0});
  }
  void Run(int subgraph, int64_t micro_batch) {
    if (!plan_.subgraphs[subgraph].makes.empty()) Add({Kind::kRun, subgraph, {}, micro_batch});
  }
  void Accumulate(std::vector<int> sums, int64_t micro_batch) {
    if (!sums.empty()) Add({Kind::kAccumulate, -1, std::move(sums), micro_batch});
  }
  // The leaves of the turn of micro-batches that begins with `first`.
  int ScatterLeaves(std::vector<int> sums, int64_t first) {
    const int64_t givers = std::min<int64_t>(plan_.mesh.replicas(), plan_.micro_batches - first);
    sums = WithApart(sums, false);
    return sums.empty() ? -1 : Add({Kind::kReduceScatter, -1, std::move(sums), first, givers, 0});
  }
  // Sums over replicas of what each has added: the numbers to wait for.
  std::vector<int> SumOverReplicas(const std::vector<int>& sums) {
    if (plan_.mesh.replicas() == 1) return {};
    const std::vector<int> shared = WithApart(sums, false);
    return {Collective(Kind::kAllReduce, WithCut(shared, false)),
            Collective(Kind::kReduceScatter, WithCut(shared, true))};
  }
  // Completes what ScatterLeaves left in flat shards.
  void GatherShards(const std::vector<int>& sums) {
    Wait(Collective(Kind::kAllGather, WithApart(WithCut(sums, false), false)));
  }
  void Update(std::vector<int> sums) { Add({Kind::kUpdate, -1, std::move(sums)}); }

  std::vector<int> WithCut(std::vector<int> tensors, bool cut) const {
    std::erase_if(tensors, [&](int tensor) { return (plan_.tensors[tensor].cut >= 0) != cut; });
    return tensors;
  }
  std::vector<int> WithApart(std::vector<int> tensors, bool apart) const {
    std::erase_if(tensors, [&](int tensor) { return plan_.tensors[tensor].apart != apart; });
    return tensors;
  }
  // The weights in blocks that subgraphs read.
  std::vector<int> CutReads(const std::vector<int>& subgraphs) const {
    std::set<int> found;
    for (int subgraph : subgraphs) {
      for (int tensor : plan_.subgraphs[subgraph].reads) {
        if (IsCutWeight(tensor)) found.insert(tensor);
      }
    }
    return {found.begin(), found.end()};
  }
  bool IsCutWeight(int tensor) const {
    const PlanTensor& of = plan_.tensors[tensor];
    return of.kind == PlanTensor::Kind::kWeight && of.cut >= 0 && plan_.mesh.replicas() > 1;
  }
  int replica() const { return replica_; }
  std::vector<Action> Take() { return std::move(list_); }

 private:
  const Plan& plan_;
  const int replica_;
  std::vector<Action> list_;
};

// By subgraph, the sums whose leaves are added behind it.
std::vector<std::vector<int>> SumsBehind(const Plan& plan) {
  std::vector<std::vector<int>> sums(plan.subgraphs.size());
  for (int sum : plan.TensorsOf(PlanTensor::Kind::kSum)) sums[plan.tensors[sum].behind].push_back(sum);
  return sums;
}

// True if subgraphs communicate while they run: then nothing else may.
bool RunsTogether(const Plan& plan) {
  return std::any_of(plan.subgraphs.begin(), plan.subgraphs.end(), [](const PlanSubgraph& it) { return it.over >= 0; });
}

class DataParallelWriter {
 public:
  DataParallelWriter(int zero, const Plan& plan, int rank)
      : zero_(zero), plan_(plan), sums_(SumsBehind(plan)), beside_(!RunsTogether(plan)), writer_(plan, rank) {}

  std::vector<Action> Run() {
    const std::vector<int> sums = plan_.TensorsOf(PlanTensor::Kind::kSum);
    if (zero_ < 3) GatherOnce();
    if (zero_ >= 2 && plan_.mesh.replicas() > 1) {
      InTurns();
      writer_.GatherShards(sums);
    } else {
      OwnMicroBatches();
    }
    writer_.Update(sums);
    return writer_.Take();
  }

 private:
  int count() const { return static_cast<int>(plan_.subgraphs.size()); }

  // Weights that are cut are gathered once, in the order in which subgraphs read them.
  void GatherOnce() {
    std::set<int> gathered;
    for (int p = 0; p < count(); ++p) {
      std::vector<int> weights = writer_.CutReads({p});
      std::erase_if(weights, [&](int weight) { return !gathered.insert(weight).second; });
      gathers_.push_back(writer_.Collective(Kind::kAllGather, weights));
    }
    if (beside_) return;
    for (int& gather : gathers_) writer_.Wait(std::exchange(gather, -1));
  }
  void Run(int subgraph, int64_t micro_batch) {
    if (!gathers_.empty()) writer_.Wait(std::exchange(gathers_[subgraph], -1));
    writer_.Run(subgraph, micro_batch);
  }

  void OwnMicroBatches() {
    const std::vector<int64_t> own = MicroBatchesOf(0, plan_, writer_.replica());
    std::vector<int> begun;
    const auto wait = [&] {
      for (int number : std::exchange(begun, {})) writer_.Wait(number);
    };
    for (int64_t micro_batch : own) {
      for (int p = 0; p < count(); ++p) {
        Run(p, micro_batch);
        writer_.Accumulate(sums_[p], micro_batch);
        if (micro_batch != own.back()) continue;
        for (int number : writer_.SumOverReplicas(sums_[p])) begun.push_back(number);
        if (!beside_) wait();
      }
    }
    wait();
  }

  int Gather(int subgraph) {
    if (zero_ < 3 || subgraph >= count()) return -1;
    return writer_.Collective(Kind::kAllGather, writer_.CutReads({subgraph}));
  }

  void InTurns() {
    int last_sum = -1;
    for (int64_t first = 0; first < plan_.micro_batches; first += plan_.mesh.replicas()) {
      const int64_t own = first + writer_.replica();
      int gathered = Gather(0);
      for (int p = 0; p < count(); ++p) {
        const int next = Gather(p + 1);
        writer_.Wait(std::exchange(gathered, next));
        if (own < plan_.micro_batches) {
          Run(p, own);
          writer_.Accumulate(writer_.WithApart(sums_[p], true), own);
        }
        if (sums_[p].empty()) continue;
        // Whole are those that were made just now, and those that were on their way meanwhile.
        writer_.Wait(last_sum);
        last_sum = writer_.ScatterLeaves(sums_[p], first);
        if (!beside_) writer_.Wait(std::exchange(last_sum, -1));
      }
    }
    writer_.Wait(last_sum);
  }

  const int zero_;
  const Plan& plan_;
  const std::vector<std::vector<int>> sums_;
  const bool beside_;
  std::vector<int> gathers_;  // by subgraph that reads their weights first
  Writer writer_;
};

// A value that ranks of a pipeline get from a stage.
struct ValueMessage {
  int tensor = 0, stage = 0;  // that makes it
  int reader = 0;             // the first subgraph there that reads it
  int to = 0;                 // rank of those that have stages
  bool forward = true;        // sent behind the forward pass; otherwise behind the backward pass
};

int Parts(const PipelineShape& shape) { return shape.split_backward ? 2 : 1; }  // of a backward pass
int StageOf(const PipelineShape& shape, int subgraph) {
  const int stages = shape.stages();
  return subgraph < stages ? subgraph : stages - 1 - (subgraph - stages) / Parts(shape);
}
int SubgraphOf(const PipelineShape& shape, const StageAction& action, int stage) {
  if (action.forward) return stage;
  return shape.stages() + Parts(shape) * (shape.stages() - 1 - stage) + (action.of_weights ? 1 : 0);
}

std::vector<ValueMessage> MessagesOf(const Plan& plan, const PipelineShape& shape) {
  std::vector<int> makers(plan.tensors.size(), -1);
  for (size_t p = 0; p < plan.subgraphs.size(); ++p) {
    for (int tensor : plan.subgraphs[p].makes) makers[tensor] = static_cast<int>(p);
  }
  std::vector<ValueMessage> messages;
  std::set<std::pair<int, int>> found;  // tensor, rank of the pipeline
  for (int p = 0; p < static_cast<int>(plan.subgraphs.size()); ++p) {
    const int stage = StageOf(shape, p), to = stage % shape.ranks;
    for (int tensor : plan.subgraphs[p].reads) {
      if (makers[tensor] < 0) continue;
      const int from = StageOf(shape, makers[tensor]);
      if (from % shape.ranks == to || !found.emplace(tensor, to).second) continue;
      messages.push_back({tensor, from, p, to, from < stage});
    }
  }
  return messages;
}

class PipelineWriter {
 public:
  PipelineWriter(const PipelineShape& shape, PipelineSchedule schedule, int zero, const Plan& plan, bool beside,
                 const std::vector<ValueMessage>& messages, int rank)
      : shape_(shape),
        schedule_(schedule),
        gathers_once_(beside && zero < 3),
        beside_(beside),
        in_turns_(zero >= 2 && plan.mesh.replicas() > 1),
        plan_(plan),
        messages_(messages),
        number_(plan.mesh.NumberOf(rank)),
        first_rank_(rank - number_),
        place_(number_ / shape.tensor_parallel),
        writer_(plan, rank),
        pending_receives_(static_cast<size_t>(shape.ranks)),
        seen_(static_cast<size_t>(shape.ranks), 0) {
    const int replicas = plan.mesh.replicas();
    if (in_turns_) {
      count_ = (plan.micro_batches + replicas - 1) / replicas;
    } else {
      own_ = MicroBatchesOf(0, plan, writer_.replica());
      count_ = static_cast<int64_t>(own_.size());
    }
  }

  std::vector<Action> Run(const std::vector<WeightMessage>& weights) {
    std::vector<int> sums = plan_.TensorsOf(PlanTensor::Kind::kSum);
    std::erase_if(sums, [&](int sum) { return plan_.tensors[sum].owner != number_; });
    ExchangeWeights(weights);
    if (gathers_once_) {
      for (int chunk = 0; chunk < shape_.chunks; ++chunk) gathers_.push_back(BeginGather(chunk));
    }
    Expect();
    for (const StageAction& action : StageSchedule(place_, shape_, count_, schedule_)) Pass(action, sums);
    EndSends(/*all=*/true);
    if (in_turns_) {
      writer_.Wait(last_sum_);
      writer_.GatherShards(sums);
    } else {
      if (!beside_) sums_begun_ = writer_.SumOverReplicas(sums);
      for (int number : sums_begun_) writer_.Wait(number);
    }
    writer_.Update(std::move(sums));
    return writer_.Take();
  }

 private:
  // A message that another rank sends, in the order in which it does.
  struct PendingReceive {
    int tensor = 0;
    int64_t micro_batch = 0;
    size_t action = 0;  // of its schedule, behind which it is sent
  };
  // A message on its way. It has certainly arrived once the other rank has sent a message behind `needed_by` of its own
  // schedule.
  struct PendingSend {
    int number = 0;  // of the SEND
    int to = 0;
    size_t needed_by = 0;
  };

  // Numbers in a schedule are those of the replica, in the plan those of the step.
  int64_t InStep(int64_t micro_batch) const {
    return in_turns_ ? micro_batch * plan_.mesh.replicas() + writer_.replica() : own_[micro_batch];
  }
  bool IsThere(int64_t micro_batch) const { return !in_turns_ || InStep(micro_batch) < plan_.micro_batches; }
  // The rank of the plan with the same part of stages at a place of the pipeline.
  int RankAt(int place) const {
    return first_rank_ + place * shape_.tensor_parallel + number_ % shape_.tensor_parallel;
  }
  int StageHere(int chunk) const { return chunk * shape_.ranks + place_; }

  void ExchangeWeights(const std::vector<WeightMessage>& weights) {
    std::vector<int> sends;
    for (const WeightMessage& message : weights) {
      if (message.from == number_)
        sends.push_back(writer_.Add({Kind::kSend, first_rank_ + message.to, {message.weight}}));
    }
    for (const WeightMessage& message : weights) {
      if (message.to == number_)
        writer_.Wait(writer_.Add({Kind::kReceive, first_rank_ + message.from, {message.weight}}));
    }
    for (int number : sends) writer_.Wait(number);
  }

  void Expect() {
    for (int place = 0; place < shape_.ranks; ++place) {
      const std::vector<StageAction> actions = StageSchedule(place, shape_, count_, schedule_);
      for (size_t i = 0; i < actions.size(); ++i) {
        const StageAction& action = actions[i];
        if (!IsThere(action.micro_batch)) continue;
        action_of_[{place, SubgraphOf(shape_, action, action.chunk * shape_.ranks + place), action.micro_batch}] = i;
        for (const ValueMessage& message : messages_) {
          const bool sends = message.stage == action.chunk * shape_.ranks + place &&
                             message.forward == action.forward && !action.of_weights;
          if (!sends || message.to != place_) continue;
          pending_receives_[place].push_back({message.tensor, action.micro_batch, i});
          expected_.insert({place, message.tensor, action.micro_batch});
        }
      }
    }
  }

  void Pass(const StageAction& action, const std::vector<int>& sums) {
    const int subgraph = SubgraphOf(shape_, action, StageHere(action.chunk));
    GatherWeights(action.chunk);
    if (IsThere(action.micro_batch)) {
      Receive(subgraph, action.micro_batch);
      EndSends(/*all=*/false);
      writer_.Run(subgraph, InStep(action.micro_batch));
      if (!action.of_weights) Send(action);
    }
    if (action.forward || action.of_weights != shape_.split_backward) return;
    std::vector<int> made = sums;
    std::erase_if(made, [&](int sum) { return plan_.tensors[sum].behind != subgraph; });
    if (in_turns_) {
      if (IsThere(action.micro_batch)) {
        writer_.Accumulate(writer_.WithApart(made, true), InStep(action.micro_batch));
      }
      writer_.Wait(std::exchange(last_sum_, -1));
      last_sum_ = writer_.ScatterLeaves(made, action.micro_batch * plan_.mesh.replicas());
      if (!beside_) writer_.Wait(std::exchange(last_sum_, -1));
    } else {
      writer_.Accumulate(made, InStep(action.micro_batch));
      if (!beside_ || action.micro_batch + 1 < count_) return;
      for (int number : writer_.SumOverReplicas(made)) sums_begun_.push_back(number);
    }
  }

  // The weights of a stage are whole when it begins.
  void GatherWeights(int chunk) {
    if (gathers_once_) return writer_.Wait(std::exchange(gathers_[chunk], -1));
    if (std::exchange(gathered_, chunk) != chunk) writer_.Wait(BeginGather(chunk));
  }
  int BeginGather(int chunk) {
    std::vector<int> subgraphs;
    for (int p = 0; p < static_cast<int>(plan_.subgraphs.size()); ++p) {
      if (StageOf(shape_, p) == StageHere(chunk)) subgraphs.push_back(p);
    }
    return writer_.Collective(Kind::kAllGather, writer_.CutReads(subgraphs));
  }

  // Messages arrive in the order in which they are sent, which need not be that in which they are read: those before
  // are received, too.
  void Receive(int subgraph, int64_t micro_batch) {
    const std::vector<int>& reads = plan_.subgraphs[subgraph].reads;
    for (const ValueMessage& message : messages_) {
      if (message.to != place_ || std::count(reads.begin(), reads.end(), message.tensor) == 0) continue;
      const int from = message.stage % shape_.ranks;
      while (expected_.contains({from, message.tensor, micro_batch})) {
        const PendingReceive next = pending_receives_[from].front();
        pending_receives_[from].pop_front();
        expected_.erase({from, next.tensor, next.micro_batch});
        seen_[from] = next.action + 1;
        writer_.Wait(writer_.Add({Kind::kReceive, RankAt(from), {next.tensor}, InStep(next.micro_batch)}));
      }
    }
  }

  void Send(const StageAction& action) {
    for (const ValueMessage& message : messages_) {
      if (message.stage != StageHere(action.chunk) || message.forward != action.forward) continue;
      pending_sends_.push_back(
          {writer_.Add({Kind::kSend, RankAt(message.to), {message.tensor}, InStep(action.micro_batch)}), message.to,
           action_of_.at({message.to, message.reader, action.micro_batch})});
    }
  }

  void EndSends(bool all) {
    std::vector<PendingSend> left;
    for (const PendingSend& pending : pending_sends_) {
      if (all || seen_[pending.to] > pending.needed_by) {
        writer_.Wait(pending.number);
      } else {
        left.push_back(pending);
      }
    }
    pending_sends_ = std::move(left);
  }

  const PipelineShape& shape_;
  const PipelineSchedule schedule_;
  const bool gathers_once_, beside_;
  const bool in_turns_;
  const Plan& plan_;
  const std::vector<ValueMessage>& messages_;
  const int number_, first_rank_, place_;  // in the replica; its first rank; of those that have stages
  Writer writer_;
  std::vector<int64_t> own_;  // micro-batches, where the replicas take no turns
  int64_t count_ = 0;         // of micro-batches in the schedule; the same for all replicas where they take turns
  int gathered_ = -1;         // the chunk whose weights are whole
  std::vector<int> gathers_;  // by chunk, where weights are gathered once
  std::vector<int> sums_begun_;
  int last_sum_ = -1;                                         // where the replicas take turns
  std::vector<std::deque<PendingReceive>> pending_receives_;  // by place
  std::set<std::tuple<int, int, int64_t>> expected_;          // the same: place, tensor, micro-batch
  std::vector<size_t> seen_;  // by place: actions of its schedule that are known to be done
  // By place, subgraph and micro-batch: the number of the action.
  std::map<std::tuple<int, int, int64_t>, size_t> action_of_;
  std::vector<PendingSend> pending_sends_;
};

}  // namespace

void WriteDataParallel(int zero, Plan* plan) {
  plan->lists.resize(static_cast<size_t>(plan->mesh.ranks()));
  for (int rank : plan->RanksWithLists()) {
    plan->lists[rank] = DataParallelWriter(zero, *plan, rank).Run();
  }
}

std::vector<WeightMessage> SharedWeights(const Plan& plan, const PipelineShape& shape) {
  std::vector<WeightMessage> messages;
  std::set<std::pair<int, int>> found;  // weight, rank of the pipeline
  // Ranks of a stage that are alike have their own parts of it.
  const int numbers = plan.IsAlike(plan.mesh.Find("tp")) ? 1 : shape.tensor_parallel;
  for (int p = 0; p < static_cast<int>(plan.subgraphs.size()); ++p) {
    const int to = StageOf(shape, p) % shape.ranks;
    for (int tensor : plan.subgraphs[p].reads) {
      const PlanTensor& of = plan.tensors[tensor];
      if (of.kind != PlanTensor::Kind::kWeight || of.owner < 0 || !found.emplace(tensor, to).second) continue;
      for (int number = 0; number < numbers; ++number) {
        const int rank = shape.RankOf(to, number);
        if (rank != of.owner) messages.push_back({tensor, of.owner, rank});
      }
    }
  }
  return messages;
}

void WritePipeline(const PipelineShape& shape, PipelineSchedule schedule, int zero, Plan* plan, bool beside) {
  CHECK(plan->subgraphs.size() == static_cast<size_t>((1 + Parts(shape)) * shape.stages())) << plan->subgraphs.size();
  CHECK(plan->mesh.ranks() == plan->mesh.replicas() * shape.ranks * shape.tensor_parallel) << plan->mesh.ranks();
  const std::vector<ValueMessage> messages = MessagesOf(*plan, shape);
  const std::vector<WeightMessage> weights = SharedWeights(*plan, shape);
  plan->lists.resize(static_cast<size_t>(plan->mesh.ranks()));
  for (int rank : plan->RanksWithLists()) {
    plan->lists[rank] = PipelineWriter(shape, schedule, zero, *plan, beside, messages, rank).Run(weights);
  }
}

}  // namespace rewright::distributed
