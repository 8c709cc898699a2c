#include "runtime/parallel/rank_executable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/comm/collectives.h"

namespace rewright {

absl::StatusOr<std::unique_ptr<RankExecutable>> RankExecutable::Create(const Graph& cut, Communicator& ranks,
                                                                       GraphRunner& runner, InputForm takes,
                                                                       const RewritePart& rewrite) {
  std::unique_ptr<RankExecutable> executable(new RankExecutable(cut, ranks));
  RETURN_IF_ERROR(Guarded([&] { return executable->Init(cut, runner, rewrite); }));
  if (takes == InputForm::kShards) {
    executable->takes_shards_ = true;
    for (size_t k = 0; k < executable->rank_.inputs.size(); ++k) {
      executable->signature_.inputs[k] = executable->segments_.subgraphs.tensors[k];
    }
  }
  return executable;
}

absl::Status RankExecutable::Init(const Graph& cut, GraphRunner& runner, const RewritePart& rewrite) {
  ASSIGN_OR_RETURN(rank_, GraphOfRank(cut, ranks_.rank(), ranks_.size()));
  if (rewrite != nullptr) {
    ASSIGN_OR_RETURN(rank_.graph, rewrite(rank_));
  }
  ASSIGN_OR_RETURN(segments_, SegmentsOf(rank_));
  for (const Subgraphs::Subgraph& segment : segments_.subgraphs.subgraphs) {
    executables_.emplace_back();
    if (segment.graph.outputs().empty()) continue;
    ASSIGN_OR_RETURN(executables_.back(), runner.Prepare(segment.graph));
  }
  tensors_.resize(segments_.subgraphs.tensors.size());
  for (Value leaf : rank_.graph.states()) {
    if (rank_.graph.mode() != Mode::kTraining) break;
    const std::string& name = rank_.graph.node(leaf.node).name;
    ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
    if (segments_.subgraphs.state_owners.contains(NumberOf(number))) continue;
    ASSIGN_OR_RETURN(state(number), CopyOf(*rank_.graph.arena()->Elements(leaf.node), name));
  }
  RETURN_IF_ERROR(PlanTensors());
  return ViewOwnedStates(segments_.subgraphs, executables_, &tensors_);
}

absl::Status RankExecutable::PlanTensors() {
  SegmentUses uses = UsesOf(rank_, segments_);
  has_next_ = std::move(uses.has_next);
  for (size_t k = 0; k < has_next_.size(); ++k) {
    if (!has_next_[k]) continue;
    ASSIGN_OR_RETURN(tensors_[k], AllocateTensor(segments_.subgraphs.tensors[k], "the next value of a state"));
    next_bytes_ += tensors_[k].num_bytes();
  }
  ASSIGN_OR_RETURN(memory_, SharedMemory::Place(segments_.subgraphs.tensors, uses.uses, Runs(), &tensors_));
  return absl::OkStatus();
}

std::vector<SubgraphRun> RankExecutable::Runs() const {
  std::vector<SubgraphRun> runs;
  for (size_t s = 0; s < executables_.size(); ++s) runs.push_back({executables_[s].get(), 2 * static_cast<int>(s)});
  return runs;
}

void RankExecutable::UseArena(std::shared_ptr<void> arena) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_.MoveTo(std::move(arena), Runs(), &tensors_);
}

absl::Status RankExecutable::Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  return Guarded([&]() -> absl::Status {
    RETURN_IF_ERROR(signature_.CheckInputs(inputs));
    const std::lock_guard<std::mutex> lock(mutex_);
    ++runs_;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const ShardedLeaf& leaf = rank_.inputs[k];
      const TensorType& type = segments_.subgraphs.tensors[k];
      if (!IsGivenInPlace(leaf)) {
        if (tensors_[k].data() == nullptr) tensors_[k] = Tensor(type);
        CopyBlock(inputs[k], leaf.axis, ranks_.rank(), &tensors_[k]);
      } else if (leaf.axis == 0 && !takes_shards_) {
        const auto whole = std::make_shared<Tensor>(inputs[k]);
        tensors_[k] = Tensor(type, whole, whole->as<char>() + ranks_.rank() * type.num_bytes());
      } else {
        tensors_[k] = inputs[k];
      }
    }
    for (size_t s = 0; s < executables_.size(); ++s) {
      RETURN_IF_ERROR(RunSubgraph(executables_[s].get(), segments_.subgraphs.subgraphs[s],
                                  [&](int tensor) -> Tensor& { return tensors_[tensor]; }));
      for (int collective : segments_.collectives[s]) {
        RETURN_IF_ERROR(RunCollective(static_cast<size_t>(collective)));
      }
    }
    RETURN_IF_ERROR(signature_.PrepareOutputs(inputs, {}, outputs));
    size_t result = 0;
    for (size_t k = 0; k < segments_.outputs.size(); ++k) {
      if (rank_.graph.outputs()[k].updates.node >= 0) continue;
      CopyElements(tensors_[segments_.outputs[k]], &(*outputs)[result++]);
    }
    RETURN_IF_ERROR(Update());
    for (size_t k = 0; k < inputs.size(); ++k) {  // the caller's memory may be freed as soon as this returns
      if (IsGivenInPlace(rank_.inputs[k])) tensors_[k] = Tensor();
    }
    return absl::OkStatus();
  });
}

absl::Status RankExecutable::RunCollective(size_t number) {
  const Tensor& operand = tensors_[segments_.operands[number]];
  return rewright::RunCollective(ranks_, absl::StrCat("run ", runs_), rank_.collectives[number], operand,
                                 &tensors_[rank_.inputs.size() + number]);
}

// States take their next values, all of them as they were at the end of the run.
absl::Status RankExecutable::Update() {
  const size_t first_state = rank_.graph.inputs().size(), end_states = first_state + rank_.states.size();
  std::vector<std::pair<size_t, Tensor>> copied;
  std::vector<std::pair<size_t, size_t>> exchanged;
  std::vector<bool> taken(tensors_.size(), false);
  for (size_t k = 0; k < segments_.outputs.size(); ++k) {
    const Value updates = rank_.graph.outputs()[k].updates;
    if (updates.node < 0) continue;
    ASSIGN_OR_RETURN(const size_t number, rank_.FindState(rank_.graph.node(updates.node).name));
    const auto from = static_cast<size_t>(segments_.outputs[k]);
    if (segments_.subgraphs.state_owners.contains(segments_.outputs[k])) continue;
    if (has_next_[from] && !taken[from]) {
      taken[from] = true;
      exchanged.emplace_back(number, from);
      continue;
    }
    Tensor value = tensors_[from];
    if (from >= first_state && from < end_states) {  // another state, which may be overwritten before
      ASSIGN_OR_RETURN(value, CopyOf(value, "a next value"));
    }
    copied.emplace_back(number, std::move(value));
  }
  for (const auto& [number, value] : copied) CopyElements(value, &state(number));
  for (const auto& [number, from] : exchanged) std::swap(tensors_[from], state(number));
  return ViewOwnedStates(segments_.subgraphs, executables_, &tensors_);
}

absl::StatusOr<Shard> RankExecutable::LocalState(const std::string& name) {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  return Shard{state(number), rank_.states[number].axis};
}

absl::StatusOr<Tensor> RankExecutable::ReadState(const std::string& name) {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  const ShardedLeaf& leaf = rank_.states[number];
  if (leaf.axis < 0) return CopyOf(state(number), name);
  ASSIGN_OR_RETURN(Tensor whole, AllocateTensor(leaf.whole, name));
  RETURN_IF_ERROR(AllGather(ranks_, absl::StrCat("state ", name), state(number), leaf.axis, &whole));
  return whole;
}

absl::Status RankExecutable::WriteState(const std::string& name, const Tensor& value) {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  RETURN_IF_ERROR(signature_.CheckState(name, value));
  const std::lock_guard<std::mutex> lock(mutex_);
  return rewright::WriteState(segments_.subgraphs, executables_, NumberOf(number), value, rank_.states[number].axis,
                              ranks_.rank(), &tensors_);
}

int64_t RankExecutable::state_bytes() const {
  int64_t bytes = 0;
  for (size_t k = 0; k < rank_.states.size(); ++k) {
    bytes += segments_.subgraphs.tensors[rank_.graph.inputs().size() + k].num_bytes();
  }
  return bytes;
}

int64_t RankExecutable::BytesSentToRead(const std::string& name) const {
  const absl::StatusOr<size_t> number = rank_.FindState(name);
  if (!number.ok() || rank_.states[*number].axis < 0) return 0;
  return segments_.subgraphs.tensors[rank_.graph.inputs().size() + *number].num_bytes() * (ranks_.size() - 1);
}

int64_t RankExecutable::bytes_sent() const {
  int64_t bytes = 0;
  for (size_t k = 0; k < rank_.collectives.size(); ++k) {
    const TensorType& operand = segments_.subgraphs.tensors[segments_.operands[k]];
    const TensorType& result = segments_.subgraphs.tensors[rank_.inputs.size() + k];
    bytes += BytesSent(rank_.collectives[k], operand, result, ranks_.rank(), ranks_.size());
  }
  return bytes;
}

}  // namespace rewright
