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
absl::StatusOr<RankGraph> PartOf(const Graph& graph, const Communicator& partners) {
  if (partners.size() > 1) return GraphOfRank(graph, partners.rank(), partners.size());
  RankGraph rank{graph};
  for (Value input : graph.inputs()) rank.inputs.push_back({graph.node(input.node).name, graph.type(input)});
  for (Value state : graph.states()) rank.states.push_back({graph.node(state.node).name, graph.type(state)});
  return rank;
}

}  // namespace

// The place of each node: the rank that computes it, and the number of exchanges before it.
std::vector<OwnedExecutable::Place> OwnedExecutable::PlacesOf(const RankGraph& rank,
                                                              const std::map<std::string, int>& owners) {
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

absl::StatusOr<std::unique_ptr<OwnedExecutable>> OwnedExecutable::Create(const Graph& graph,
                                                                         const std::map<std::string, int>& owners,
                                                                         Communicator& ranks, Communicator& partners,
                                                                         GraphRunner& runner) {
  std::unique_ptr<OwnedExecutable> executable(new OwnedExecutable(graph, ranks, partners));
  RETURN_IF_ERROR(Guarded([&] { return executable->Init(graph, owners, runner); }));
  return executable;
}

absl::Status OwnedExecutable::Init(const Graph& graph, const std::map<std::string, int>& owners, GraphRunner& runner) {
  ASSIGN_OR_RETURN(rank_, PartOf(graph, partners_));
  const auto leaf_of = [&](const RankLeaf& leaf) {
    const auto owner = owners.find(leaf.name);
    return Leaf{leaf.name, leaf.whole, leaf.axis, owner == owners.end() ? kAll : owner->second};
  };
  for (const RankLeaf& input : rank_.inputs) inputs_.push_back(leaf_of(input));
  for (const RankLeaf& state : rank_.states) states_.push_back(leaf_of(state));
  RETURN_IF_ERROR(MakePieces(owners, runner));
  FindExchanges();
  return PlanTensors();
}

absl::Status OwnedExecutable::MakePieces(const std::map<std::string, int>& owners, GraphRunner& runner) {
  const Graph& graph = rank_.graph;
  const std::vector<Place> places = PlacesOf(rank_, owners);
  for (const Place& place : places) levels_ = std::max(levels_, place.level + 1);
  std::vector<int> numbers;
  for (const Place& place : places) numbers.push_back(PieceOf(place.level, place.owner));
  pieces_ = PiecesOf(graph, numbers, levels_ * (ranks_.size() + 1), rank_.StatesInOrder());
  executables_.resize(pieces_.pieces.size());
  for (int level = 0; level < levels_; ++level) {
    for (int owner : {kAll, ranks_.rank()}) {
      const int piece = PieceOf(level, owner);
      if (pieces_.pieces[piece].graph.outputs().empty()) continue;
      ASSIGN_OR_RETURN(executables_[piece], runner.Prepare(pieces_.pieces[piece].graph));
    }
  }
  const size_t first_result = inputs_.size(), first_state = graph.inputs().size();
  for (size_t k = 0; k < pieces_.tensors.size(); ++k) {
    const int piece = pieces_.makers[k], per_level = ranks_.size() + 1;
    if (piece >= 0) {
      places_.push_back({piece % per_level - 1, piece / per_level});
    } else if (k >= first_result && k < first_state) {
      places_.push_back(places[graph.index(graph.inputs()[k].node)]);
    } else {
      places_.push_back({k < first_result ? inputs_[k].owner : states_[k - first_state].owner});
    }
  }
  return absl::OkStatus();
}

// Finds the tensors that ranks get from each other, and the collectives in which they take part.
void OwnedExecutable::FindExchanges() {
  const Graph& graph = rank_.graph;
  std::vector<std::set<std::pair<int, int>>> shared(static_cast<size_t>(levels_));
  const auto share = [&](int tensor) {
    const Place& place = places_[tensor];
    if (place.owner != kAll) shared[place.level].emplace(tensor, place.owner);
  };
  for (int level = 0; level < levels_; ++level) {
    for (int tensor : pieces_.pieces[PieceOf(level, kAll)].inputs) share(tensor);
  }
  const size_t first_operand = graph.outputs().size() - rank_.collectives.size();
  for (size_t k = 0; k < first_operand; ++k) {
    const Value updates = graph.outputs()[k].updates;
    const int tensor = pieces_.outputs[k];
    if (updates.node < 0) {
      share(tensor);
      results_.push_back(tensor);
      continue;
    }
    const size_t state = *rank_.FindState(graph.node(updates.node).name);
    if (pieces_.keepers.contains(tensor)) continue;
    if (places_[tensor].owner != states_[state].owner) share(tensor);
    if (IsMine(states_[state].owner)) updates_.emplace_back(tensor, state);
  }
  for (const auto& tensors : shared) shared_.emplace_back(tensors.begin(), tensors.end());
  collectives_.resize(static_cast<size_t>(levels_));
  for (size_t k = 0; k < rank_.collectives.size(); ++k) {
    const size_t result = inputs_.size() + k;
    if (!IsMine(places_[result].owner)) continue;
    collectives_[places_[result].level - 1].push_back(
        {k, pieces_.outputs[first_operand + k], static_cast<int>(result)});
  }
}

// Plans time by levels: the piece of all ranks runs at time 3l of level l, this rank's at 3l + 1, and messages and
// collectives go at 3l + 2.
absl::Status OwnedExecutable::PlanTensors() {
  const Graph& graph = rank_.graph;
  tensors_.resize(pieces_.tensors.size());
  std::vector<Use> uses(tensors_.size());
  std::vector<PieceRun> runs;
  for (int level = 0; level < levels_; ++level) {
    for (int owner : {kAll, ranks_.rank()}) {
      const auto number = static_cast<size_t>(PieceOf(level, owner));
      const int time = 3 * level + (owner == kAll ? 0 : 1);
      AddUses(pieces_.pieces[number], time, &uses);
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
  ASSIGN_OR_RETURN(memory_, SharedMemory::Place(pieces_.tensors, uses, runs, &tensors_));
  for (Value leaf : graph.states()) {
    ASSIGN_OR_RETURN(const size_t k, rank_.FindState(graph.node(leaf.node).name));
    if (!IsMine(states_[k].owner) || pieces_.keepers.contains(static_cast<int>(first_state + k))) continue;
    ASSIGN_OR_RETURN(tensors_[first_state + k], CopyOf(*graph.arena()->Elements(leaf.node), states_[k].name));
  }
  return ViewKept(pieces_, executables_, &tensors_);
}

absl::Status OwnedExecutable::Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  return Guarded([&]() -> absl::Status {
    CHECK(inputs.size() == inputs_.size()) << inputs.size();
    const std::lock_guard<std::mutex> lock(mutex_);
    ++runs_;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!IsMine(inputs_[k].owner)) continue;
      CHECK(inputs[k].type() == pieces_.tensors[k]) << inputs_[k].name << ": " << inputs[k].type().ToString();
      tensors_[k] = inputs[k];
    }
    for (int level = 0; level < levels_; ++level) {
      for (int owner : {kAll, ranks_.rank()}) {
        const int piece = PieceOf(level, owner);
        const auto at = [&](int tensor) -> Tensor& { return tensors_[tensor]; };
        RETURN_IF_ERROR(RunPiece(executables_[piece].get(), pieces_.pieces[piece], at));
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

absl::Status OwnedExecutable::Share(int level) {
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

absl::Status OwnedExecutable::RunCollectives(int level) {
  for (const Gather& gather : collectives_[level]) {
    RETURN_IF_ERROR(RunCollective(partners_, absl::StrCat("run ", runs_), rank_.collectives[gather.collective],
                                  tensors_[gather.operand], &tensors_[gather.result]));
  }
  return absl::OkStatus();
}

absl::Status OwnedExecutable::Update() {
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
  return ViewKept(pieces_, executables_, &tensors_);
}

absl::StatusOr<RankPart> OwnedExecutable::LocalState(const std::string& name) const {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!IsMine(states_[number].owner)) return RankPart{};
  return RankPart{tensors_[rank_.graph.inputs().size() + number], states_[number].axis};
}

absl::StatusOr<Tensor> OwnedExecutable::ReadState(const std::string& name) {
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
    RETURN_IF_ERROR(AllGather(partners_, what, own, leaf.axis, &value));
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

absl::Status OwnedExecutable::WriteState(const std::string& name, const Tensor& value) {
  ASSIGN_OR_RETURN(const size_t number, rank_.FindState(name));
  RETURN_IF_ERROR(signature_.CheckState(name, value));
  const Leaf& leaf = states_[number];
  if (!IsMine(leaf.owner)) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto tensor = static_cast<int>(rank_.graph.inputs().size() + number);
  return rewright::WriteState(pieces_, executables_, tensor, value, leaf.axis, partners_.rank(), &tensors_);
}

int64_t OwnedExecutable::state_bytes() const {
  int64_t bytes = 0;
  for (size_t k = 0; k < states_.size(); ++k) {
    if (IsMine(states_[k].owner)) bytes += pieces_.tensors[rank_.graph.inputs().size() + k].num_bytes();
  }
  return bytes;
}

int64_t OwnedExecutable::BytesSentToRead(const std::string& name) const {
  const absl::StatusOr<size_t> number = rank_.FindState(name);
  if (!number.ok() || !IsMine(states_[*number].owner)) return 0;
  const Leaf& leaf = states_[*number];
  const int64_t joined = leaf.axis < 0 ? 0 : leaf.whole.num_bytes() / partners_.size() * (partners_.size() - 1);
  return joined + (leaf.owner == kAll ? 0 : leaf.whole.num_bytes() * (ranks_.size() - 1));
}

int64_t OwnedExecutable::bytes_sent() const {
  int64_t bytes = 0;
  for (const auto& level : shared_) {
    for (const auto& [tensor, owner] : level) {
      if (owner == ranks_.rank()) bytes += pieces_.tensors[tensor].num_bytes();
    }
  }
  bytes *= ranks_.size() - 1;
  for (const auto& level : collectives_) {
    for (const Gather& gather : level) {
      bytes += BytesSent(rank_.collectives[gather.collective], pieces_.tensors[gather.operand],
                         pieces_.tensors[gather.result], partners_.rank(), partners_.size());
    }
  }
  return bytes;
}

}  // namespace rewright
