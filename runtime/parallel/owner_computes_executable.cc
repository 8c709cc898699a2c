#include "runtime/parallel/owner_computes_executable.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/comm/collectives.h"

namespace rewright {
namespace {

constexpr int kAll = -1;

// The graph itself where it is not cut.
absl::StatusOr<RankGraph> PartOf(const Graph& graph, const Communicator& replicas) {
  if (replicas.size() > 1) return GraphOfRank(graph, replicas.rank(), replicas.size());
  RankGraph rank{graph};
  for (Value input : graph.inputs()) rank.inputs.push_back({graph.node(input.node).name, graph.type(input)});
  for (Value state : graph.states()) rank.states.push_back({graph.node(state.node).name, graph.type(state)});
  return rank;
}

}  // namespace

// The place of each node: the rank that computes it, and the number of exchanges before it.
std::vector<OwnerComputesExecutable::Place> OwnerComputesExecutable::PlacesOf(
    const RankGraph& rank, const std::map<std::string, int>& owners) {
  const Graph& graph = rank.graph;
  std::vector<Place> places(graph.nodes().size());
  std::map<NodeId, NodeId> operands;  // of what collectives give
  for (size_t k = 0; k < rank.collectives.size(); ++k) {
    const size_t output = graph.outputs().size() - rank.collectives.size() + k;
    operands[graph.inputs()[rank.inputs.size() + k].node] = graph.outputs()[output].value.node;
  }
  const auto place_of = [&](size_t i) {
    Place place;
    const Node& node = graph.node(graph.nodes()[i]);
    if (const auto operand = operands.find(graph.nodes()[i]); operand != operands.end()) {
      place = places[graph.index(operand->second)];
      ++place.level;
      return place;
    }
    if (const auto owner = owners.find(node.name); node.op == nullptr && owner != owners.end()) {
      place.owner = owner->second;
    }
    std::set<int> found;
    for (int producer : graph.producers(static_cast<int>(i))) {
      if (places[producer].owner != kAll) found.insert(places[producer].owner);
    }
    if (found.size() == 1) place.owner = *found.begin();
    for (int producer : graph.producers(static_cast<int>(i))) {
      const bool crosses = places[producer].owner != place.owner && places[producer].owner != kAll;
      place.level = std::max(place.level, places[producer].level + (crosses ? 1 : 0));
    }
    return place;
  };
  // The result of a collective may stand before its operand in the order of nodes.
  bool changed = true;
  for (size_t round = 0; changed && round <= rank.collectives.size(); ++round) {
    changed = false;
    for (size_t i = 0; i < places.size(); ++i) {
      const Place place = place_of(i);
      changed = changed || !(place == places[i]);
      places[i] = place;
    }
  }
  return places;
}

absl::StatusOr<std::unique_ptr<OwnerComputesExecutable>> OwnerComputesExecutable::Create(
    const Graph& graph, const std::map<std::string, int>& owners, Communicator& ranks, Communicator& replicas,
    GraphRunner& runner) {
  std::unique_ptr<OwnerComputesExecutable> executable(new OwnerComputesExecutable(graph, ranks, replicas));
  RETURN_IF_ERROR(Guarded([&] { return executable->Init(graph, owners, runner); }));
  return executable;
}

absl::Status OwnerComputesExecutable::Init(const Graph& graph, const std::map<std::string, int>& owners,
                                           GraphRunner& runner) {
  ASSIGN_OR_RETURN(rank_, PartOf(graph, replicas_));
  const auto leaf_of = [&](const ShardedLeaf& leaf) {
    const auto owner = owners.find(leaf.name);
    return Leaf{leaf.name, leaf.whole, leaf.axis, owner == owners.end() ? kAll : owner->second};
  };
  for (const ShardedLeaf& input : rank_.inputs) inputs_.push_back(leaf_of(input));
  for (const ShardedLeaf& state : rank_.states) states_.push_back(leaf_of(state));
  RETURN_IF_ERROR(MakeSubgraphs(owners, runner));
  FindExchanges();
  return PlanTensors();
}

absl::Status OwnerComputesExecutable::MakeSubgraphs(const std::map<std::string, int>& owners, GraphRunner& runner) {
  const Graph& graph = rank_.graph;
  const std::vector<Place> places = PlacesOf(rank_, owners);
  for (const Place& place : places) levels_ = std::max(levels_, place.level + 1);
  std::vector<int> numbers;
  for (const Place& place : places) numbers.push_back(SubgraphOf(place.level, place.owner));
  subgraphs_ = SplitGraph(graph, numbers, levels_ * (ranks_.size() + 1), rank_.StatesInOrder());
  executables_.resize(subgraphs_.subgraphs.size());
  for (int level = 0; level < levels_; ++level) {
    for (int owner : {kAll, ranks_.rank()}) {
      const int subgraph = SubgraphOf(level, owner);
      if (subgraphs_.subgraphs[subgraph].graph.outputs().empty()) continue;
      ASSIGN_OR_RETURN(executables_[subgraph], runner.Prepare(subgraphs_.subgraphs[subgraph].graph));
    }
  }
  const size_t first_result = inputs_.size(), first_state = graph.inputs().size();
  for (size_t k = 0; k < subgraphs_.tensors.size(); ++k) {
    const int subgraph = subgraphs_.makers[k], per_level = ranks_.size() + 1;
    if (subgraph >= 0) {
      places_.push_back({subgraph % per_level - 1, subgraph / per_level});
    } else if (k >= first_result && k < first_state) {
      places_.push_back(places[graph.index(graph.inputs()[k].node)]);
    } else {
      places_.push_back({k < first_result ? inputs_[k].owner : states_[k - first_state].owner});
    }
  }
  return absl::OkStatus();
}

// Finds the tensors that ranks get from each other, and the collectives in which they take part.
void OwnerComputesExecutable::FindExchanges() {
  const Graph& graph = rank_.graph;
  std::vector<std::set<std::pair<int, int>>> shared(static_cast<size_t>(levels_));
  const auto share = [&](int tensor) {
    const Place& place = places_[tensor];
    if (place.owner != kAll) shared[place.level].emplace(tensor, place.owner);
  };
  for (int level = 0; level < levels_; ++level) {
    for (int tensor : subgraphs_.subgraphs[SubgraphOf(level, kAll)].inputs) share(tensor);
  }
  const size_t first_operand = graph.outputs().size() - rank_.collectives.size();
  for (size_t k = 0; k < first_operand; ++k) {
    const Value updates = graph.outputs()[k].updates;
    const int tensor = subgraphs_.outputs[k];
    if (updates.node < 0) {
      share(tensor);
      results_.push_back(tensor);
      continue;
    }
    const size_t state = *rank_.FindState(graph.node(updates.node).name);
    if (subgraphs_.state_owners.contains(tensor)) continue;
    if (places_[tensor].owner != states_[state].owner) share(tensor);
    if (IsMine(states_[state].owner)) updates_.emplace_back(tensor, state);
  }
  for (const auto& tensors : shared) shared_.emplace_back(tensors.begin(), tensors.end());
  collectives_.resize(static_cast<size_t>(levels_));
  for (size_t k = 0; k < rank_.collectives.size(); ++k) {
    const size_t result = inputs_.size() + k;
    if (!IsMine(places_[result].owner)) continue;
    collectives_[places_[result].level - 1].push_back(
        {k, subgraphs_.outputs[first_operand + k], static_cast<int>(result)});
  }
}

// Plans time by levels: the subgraph of all ranks runs at time 3l of level l, this rank's at 3l + 1, and messages and
// collectives go at 3l + 2.
absl::Status OwnerComputesExecutable::PlanTensors() {
  const Graph& graph = rank_.graph;
  tensors_.resize(subgraphs_.tensors.size());
  std::vector<Use> uses(tensors_.size());
  std::vector<SubgraphRun> runs;
  for (int level = 0; level < levels_; ++level) {
    for (int owner : {kAll, ranks_.rank()}) {
      const auto number = static_cast<size_t>(SubgraphOf(level, owner));
      const int time = 3 * level + (owner == kAll ? 0 : 1);
      AddUses(subgraphs_.subgraphs[number], time, &uses);
      runs.push_back({executables_[number].get(), time});
    }
    for (const auto& [tensor, owner] : shared_[level]) uses[tensor].Add(3 * level + 2);
    for (const Gather& gather : collectives_[level]) {
      uses[gather.operand].Add(3 * level + 2);
      uses[gather.result].Add(3 * level + 2);
    }
  }
  for (int tensor : results_) uses[tensor].Add(3 * levels_);
  for (const auto& [tensor, state] : updates_) uses[tensor].Add(3 * levels_);
  // Inputs and states that other ranks send have memory here; this rank's own lie elsewhere.
  const size_t first_state = graph.inputs().size();
  for (size_t k = 0; k < inputs_.size(); ++k) {
    if (IsMine(inputs_[k].owner)) uses[k].last = -1;
  }
  for (size_t k = 0; k < states_.size(); ++k) {
    if (IsMine(states_[k].owner)) uses[first_state + k].last = -1;
  }
  ASSIGN_OR_RETURN(memory_, SharedMemory::Place(subgraphs_.tensors, uses, runs, &tensors_));
  for (Value leaf : graph.states()) {
    ASSIGN_OR_RETURN(const size_t k, rank_.FindState(graph.node(leaf.node).name));
    if (!IsMine(states_[k].owner) || subgraphs_.state_owners.contains(static_cast<int>(first_state + k))) continue;
    ASSIGN_OR_RETURN(tensors_[first_state + k], CopyOf(*graph.arena()->Elements(leaf.node), states_[k].name));
  }
  return ViewOwnedStates(subgraphs_, executables_, &tensors_);
}

absl::Status OwnerComputesExecutable::Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  return Guarded([&]() -> absl::Status {
    CHECK(inputs.size() == inputs_.size()) << inputs.size();
    const std::lock_guard<std::mutex> lock(mutex_);
    ++runs_;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!IsMine(inputs_[k].owner)) continue;
      CHECK(inputs[k].type() == subgraphs_.tensors[k]) << inputs_[k].name << ": " << inputs[k].type().ToString();
      tensors_[k] = inputs[k];
    }
    for (int level = 0; level < levels_; ++level) {
      for (int owner : {kAll, ranks_.rank()}) {
        const int subgraph = SubgraphOf(level, owner);
        const auto at = [&](int tensor) -> Tensor& { return tensors_[tensor]; };
        RETURN_IF_ERROR(RunSubgraph(executables_[subgraph].get(), subgraphs_.subgraphs[subgraph], at));
      }
      RETURN_IF_ERROR(Share(level));
      RETURN_IF_ERROR(RunCollectives(level));
    }
    RETURN_IF_ERROR(signature_.PrepareOutputs(inputs, {}, outputs));
    for (size_t k = 0; k < results_.size(); ++k) {
      CopyElements(tensors_[results_[k]], &(*outputs)[k]);
    }
    RETURN_IF_ERROR(Update());
    for (size_t k = 0; k < inputs.size(); ++k) {  // the caller's memory may be freed as soon as this returns
      if (IsMine(inputs_[k].owner)) tensors_[k] = Tensor();
    }
    return absl::OkStatus();
  });
}

absl::Status OwnerComputesExecutable::Share(int level) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (const auto& [number, owner] : shared_[level]) {
    Tensor& tensor = tensors_[number];
    const auto bytes = static_cast<size_t>(tensor.num_bytes());
    if (owner != ranks_.rank()) {
      in.push_back({owner, tensor.data(), bytes});
      continue;
    }
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != owner) out.push_back({rank, tensor.data(), bytes});
    }
  }
  return ranks_.Exchange(absl::StrCat("run ", runs_, ", what the update reads of several stages"), out, in);
}

absl::Status OwnerComputesExecutable::RunCollectives(int level) {
  for (const Gather& gather : collectives_[level]) {
    RETURN_IF_ERROR(RunCollective(replicas_, absl::StrCat("run ", runs_), rank_.collectives[gather.collective],
                                  tensors_[gather.operand], &tensors_[gather.result]));
  }
  return absl::OkStatus();
}

absl::Status OwnerComputesExecutable::Update() {
  std::vector<Tensor> next;
  const size_t first_state = rank_.graph.inputs().size();
  for (const auto& [number, state] : updates_) {
    Tensor value = tensors_[number];
    const auto position = static_cast<size_t>(number);
    if (position >= first_state && position < first_state + states_.size()) {  // may be overwritten before
      ASSIGN_OR_RETURN(value, CopyOf(value, "a next value"));
    }
    next.push_back(std::move(value));
  }
  for (size_t k = 0; k < next.size(); ++k) CopyElements(next[k], &tensors_[first_state + updates_[k].second]);
  return ViewOwnedStates(subgraphs_, executables_, &tensors_);
}

absl::StatusOr<Shard> OwnerComputesExecutable::LocalState(const std::string& name) const {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!IsMine(states_[number].owner)) return Shard{};
  return Shard{tensors_[rank_.graph.inputs().size() + number], states_[number].axis};
}

absl::StatusOr<int> OwnerComputesExecutable::AxisOfState(const std::string& name) const {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  return states_[number].axis;
}

absl::StatusOr<Tensor> OwnerComputesExecutable::ReadState(const std::string& name) {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  const Leaf& leaf = states_[number];
  const Tensor& own = tensors_[rank_.graph.inputs().size() + number];
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(leaf.whole, name));
  const std::string what = absl::StrCat("state ", name);
  const auto bytes = static_cast<size_t>(value.num_bytes());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  if (IsMine(leaf.owner) && leaf.axis >= 0) {
    RETURN_IF_ERROR(AllGather(replicas_, what, own, leaf.axis, &value));
  } else if (IsMine(leaf.owner)) {
    CopyElements(own, &value);
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (leaf.owner == ranks_.rank() && rank != leaf.owner) out.push_back({rank, value.data(), bytes});
  }
  if (!IsMine(leaf.owner)) in.push_back({leaf.owner, value.data(), bytes});
  RETURN_IF_ERROR(ranks_.Exchange(what, out, in));
  return value;
}

absl::Status OwnerComputesExecutable::WriteState(const std::string& name, const Tensor& value) {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  RETURN_IF_ERROR(signature_.CheckState(name, value));
  const Leaf& leaf = states_[number];
  if (!IsMine(leaf.owner)) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto tensor = static_cast<int>(rank_.graph.inputs().size() + number);
  return rewright::WriteState(subgraphs_, executables_, tensor, value, leaf.axis, replicas_.rank(), &tensors_);
}

int64_t OwnerComputesExecutable::state_bytes() const {
  int64_t bytes = 0;
  for (size_t k = 0; k < states_.size(); ++k) {
    if (IsMine(states_[k].owner)) bytes += subgraphs_.tensors[rank_.graph.inputs().size() + k].num_bytes();
  }
  return bytes;
}

int64_t OwnerComputesExecutable::BytesSentToRead(const std::string& name) const {
  const absl::StatusOr<size_t> number = rank_.FindState(name);
  if (!number.ok() || !IsMine(states_[*number].owner)) return 0;
  const Leaf& leaf = states_[*number];
  const int64_t joined = leaf.axis < 0 ? 0 : leaf.whole.num_bytes() / replicas_.size() * (replicas_.size() - 1);
  return joined + (leaf.owner == kAll ? 0 : leaf.whole.num_bytes() * (ranks_.size() - 1));
}

int64_t OwnerComputesExecutable::bytes_sent() const {
  int64_t bytes = 0;
  for (const auto& level : shared_) {
    for (const auto& [tensor, owner] : level) {
      if (owner == ranks_.rank()) bytes += subgraphs_.tensors[tensor].num_bytes();
    }
  }
  bytes *= ranks_.size() - 1;
  for (const auto& level : collectives_) {
    for (const Gather& gather : level) {
      bytes += BytesSent(rank_.collectives[gather.collective], subgraphs_.tensors[gather.operand],
                         subgraphs_.tensors[gather.result], replicas_.rank(), replicas_.size());
    }
  }
  return bytes;
}

}  // namespace rewright
