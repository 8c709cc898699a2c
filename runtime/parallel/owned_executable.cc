#include "runtime/parallel/owned_executable.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/guarded.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"

namespace rewright {
namespace {

constexpr int kAll = -1;

void CopyElements(const Tensor& from, Tensor* to) {
  if (from.num_bytes() > 0) std::memcpy(to->data(), from.data(), static_cast<size_t>(from.num_bytes()));
}

// Who computes a node, and behind how many exchanges.
struct Place {
  int owner = kAll, level = 0;
};

std::vector<Place> PlacesOf(const Graph& graph, const std::map<std::string, int>& owners) {
  std::vector<Place> places(graph.nodes().size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Node& node = graph.node(graph.nodes()[i]);
    if (const auto owner = owners.find(node.name); node.op == nullptr && owner != owners.end()) {
      places[i].owner = owner->second;
    }
    std::set<int> found;
    for (int producer : graph.producers(static_cast<int>(i))) {
      if (places[producer].owner != kAll) found.insert(places[producer].owner);
    }
    if (found.size() == 1) places[i].owner = *found.begin();
    for (int producer : graph.producers(static_cast<int>(i))) {
      const bool crosses = places[producer].owner != places[i].owner && places[producer].owner != kAll;
      places[i].level = std::max(places[i].level, places[producer].level + (crosses ? 1 : 0));
    }
  }
  return places;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnedExecutable>> OwnedExecutable::Create(const Graph& graph,
                                                                         const std::map<std::string, int>& owners,
                                                                         Communicator& ranks, GraphRunner& runner) {
  std::unique_ptr<OwnedExecutable> executable(new OwnedExecutable(graph, ranks));
  RETURN_IF_ERROR(Guarded([&] { return executable->Init(graph, owners, runner); }));
  return executable;
}

absl::Status OwnedExecutable::Init(const Graph& graph, const std::map<std::string, int>& owners, GraphRunner& runner) {
  const std::vector<Place> places = PlacesOf(graph, owners);
  const auto leaf_of = [&](Value leaf) {
    const auto owner = owners.find(graph.node(leaf.node).name);
    return Leaf{graph.node(leaf.node).name, owner == owners.end() ? kAll : owner->second};
  };
  for (Value input : graph.inputs()) inputs_.push_back(leaf_of(input));
  for (Value state : graph.states()) states_.push_back(leaf_of(state));
  for (const Place& place : places) levels_ = std::max(levels_, place.level + 1);
  std::vector<int> numbers;
  for (const Place& place : places) numbers.push_back(PieceOf(place.level, place.owner));
  pieces_ = PiecesOf(graph, numbers, levels_ * (ranks_.size() + 1), graph.states());
  executables_.resize(pieces_.pieces.size());
  for (int level = 0; level < levels_; ++level) {
    for (int owner : {kAll, ranks_.rank()}) {
      const int piece = PieceOf(level, owner);
      if (pieces_.pieces[static_cast<size_t>(piece)].outputs.empty()) continue;
      ASSIGN_OR_RETURN(executables_[static_cast<size_t>(piece)],
                       runner.Prepare(pieces_.pieces[static_cast<size_t>(piece)].graph));
    }
  }

  // Who has a tensor, behind which level.
  std::vector<Place> makers(pieces_.tensors.size());
  for (size_t k = 0; k < makers.size(); ++k) {
    const int piece = pieces_.makers[k], per_level = ranks_.size() + 1;
    if (piece >= 0) {
      makers[k] = {piece % per_level - 1, piece / per_level};
    } else {
      makers[k].owner = k < inputs_.size() ? inputs_[k].owner : states_[k - inputs_.size()].owner;
    }
  }
  std::vector<std::set<std::pair<int, int>>> shared(static_cast<size_t>(levels_));
  const auto share = [&](int tensor) {
    const Place& maker = makers[static_cast<size_t>(tensor)];
    if (maker.owner != kAll) shared[static_cast<size_t>(maker.level)].emplace(tensor, maker.owner);
  };
  for (int level = 0; level < levels_; ++level) {
    for (int tensor : pieces_.pieces[static_cast<size_t>(PieceOf(level, kAll))].inputs) share(tensor);
  }
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    const Value updates = graph.outputs()[k].updates;
    const int tensor = pieces_.outputs[k];
    if (updates.node < 0) {
      share(tensor);
      results_.push_back(tensor);
      continue;
    }
    ASSIGN_OR_RETURN(const size_t state, Find(graph.node(updates.node).name));
    if (makers[static_cast<size_t>(tensor)].owner != states_[state].owner) share(tensor);
    if (IsMine(states_[state].owner)) updates_.emplace_back(tensor, state);
  }
  for (const auto& tensors : shared) shared_.emplace_back(tensors.begin(), tensors.end());
  return PlanTensors(graph);
}

// Of level l the piece of all ranks runs at time 3l, this rank's at 3l + 1, and messages go at 3l + 2.
absl::Status OwnedExecutable::PlanTensors(const Graph& graph) {
  tensors_.resize(pieces_.tensors.size());
  std::vector<Use> uses(tensors_.size(), Use{3 * levels_, -1});
  const auto use = [&](int tensor, int time) {
    Use& of = uses[static_cast<size_t>(tensor)];
    of = {std::min(of.first, time), std::max(of.last, time)};
  };
  for (int level = 0; level < levels_; ++level) {
    for (int owner : {kAll, ranks_.rank()}) {
      const Pieces::Piece& piece = pieces_.pieces[static_cast<size_t>(PieceOf(level, owner))];
      for (int tensor : piece.inputs) use(tensor, 3 * level + (owner == kAll ? 0 : 1));
      for (int tensor : piece.outputs) use(tensor, 3 * level + (owner == kAll ? 0 : 1));
    }
    for (const auto& [tensor, owner] : shared_[static_cast<size_t>(level)]) use(tensor, 3 * level + 2);
  }
  for (int tensor : results_) use(tensor, 3 * levels_);
  for (const auto& [tensor, state] : updates_) use(tensor, 3 * levels_);
  const std::vector<Value> states = graph.states();
  for (size_t k = 0; k < inputs_.size() + states_.size(); ++k) {
    // What others send of their inputs has memory here.
    const bool is_state = k >= inputs_.size();
    if (IsMine(is_state ? states_[k - inputs_.size()].owner : inputs_[k].owner)) uses[k].last = -1;
  }
  ASSIGN_OR_RETURN(kept_, PlaceTensors(pieces_.tensors, uses, &tensors_));
  for (size_t k = 0; k < states_.size(); ++k) {
    if (!IsMine(states_[k].owner)) continue;
    Tensor& tensor = tensors_[inputs_.size() + k];
    ASSIGN_OR_RETURN(tensor, AllocateTensor(graph.type(states[k]), states_[k].name));
    CopyElements(*graph.arena()->Elements(states[k].node), &tensor);
  }
  return absl::OkStatus();
}

absl::Status OwnedExecutable::Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  return Guarded([&]() -> absl::Status {
    CHECK(inputs.size() == inputs_.size()) << inputs.size();
    ++runs_;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!IsMine(inputs_[k].owner)) continue;
      CHECK(inputs[k].type() == signature_.inputs[k]) << inputs_[k].name << ": " << inputs[k].type().ToString();
      tensors_[k] = inputs[k];
    }
    for (int level = 0; level < levels_; ++level) {
      RETURN_IF_ERROR(RunPiece(PieceOf(level, kAll)));
      RETURN_IF_ERROR(RunPiece(PieceOf(level, ranks_.rank())));
      RETURN_IF_ERROR(Share(level));
    }
    RETURN_IF_ERROR(signature_.PrepareOutputs(inputs, {}, outputs));
    for (size_t k = 0; k < results_.size(); ++k) {
      CopyElements(tensors_[static_cast<size_t>(results_[k])], &(*outputs)[k]);
    }
    return Update();
  });
}

absl::Status OwnedExecutable::RunPiece(int number) {
  if (executables_[static_cast<size_t>(number)] == nullptr) return absl::OkStatus();
  const Pieces::Piece& piece = pieces_.pieces[static_cast<size_t>(number)];
  std::vector<Tensor> inputs, outputs;
  for (int tensor : piece.inputs) inputs.push_back(tensors_[static_cast<size_t>(tensor)]);
  for (int tensor : piece.outputs) outputs.push_back(tensors_[static_cast<size_t>(tensor)]);
  RETURN_IF_ERROR(executables_[static_cast<size_t>(number)]->Run(inputs, &outputs));
  for (size_t k = 0; k < outputs.size(); ++k) tensors_[static_cast<size_t>(piece.outputs[k])] = std::move(outputs[k]);
  return absl::OkStatus();
}

absl::Status OwnedExecutable::Share(int level) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (const auto& [number, owner] : shared_[static_cast<size_t>(level)]) {
    Tensor& tensor = tensors_[static_cast<size_t>(number)];
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

absl::Status OwnedExecutable::Update() {
  std::vector<Tensor> next;
  for (const auto& [number, state] : updates_) {
    Tensor value = tensors_[static_cast<size_t>(number)];
    const auto position = static_cast<size_t>(number);
    if (position >= inputs_.size() && position < inputs_.size() + states_.size()) {  // may be overwritten before
      ASSIGN_OR_RETURN(Tensor copy, AllocateTensor(value.type(), "a next value"));
      CopyElements(value, &copy);
      value = std::move(copy);
    }
    next.push_back(std::move(value));
  }
  for (size_t k = 0; k < next.size(); ++k) CopyElements(next[k], &tensors_[inputs_.size() + updates_[k].second]);
  return absl::OkStatus();
}

absl::StatusOr<size_t> OwnedExecutable::Find(const std::string& name) const {
  for (size_t k = 0; k < states_.size(); ++k) {
    if (states_[k].name == name) return k;
  }
  return absl::NotFoundError("no state " + name);
}

absl::StatusOr<Tensor> OwnedExecutable::LocalState(const std::string& name) const {
  ASSIGN_OR_RETURN(const size_t number, Find(name));
  return IsMine(states_[number].owner) ? tensors_[inputs_.size() + number] : Tensor();
}

absl::StatusOr<Tensor> OwnedExecutable::ReadState(const std::string& name) {
  ASSIGN_OR_RETURN(const size_t number, Find(name));
  const size_t position = inputs_.size() + number;
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(pieces_.tensors[position], name));
  const int owner = states_[number].owner;
  const auto bytes = static_cast<size_t>(value.num_bytes());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  if (IsMine(owner)) CopyElements(tensors_[position], &value);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (owner == ranks_.rank() && rank != owner) out.push_back({rank, value.data(), bytes});
  }
  if (!IsMine(owner)) in.push_back({owner, value.data(), bytes});
  RETURN_IF_ERROR(ranks_.Exchange(absl::StrCat("state ", name), out, in));
  return value;
}

int64_t OwnedExecutable::arena_bytes() const {
  int64_t most = 0;
  for (const auto& executable : executables_) {
    if (executable != nullptr) most = std::max(most, executable->arena_bytes());
  }
  return most + kept_.bytes;
}

int64_t OwnedExecutable::state_bytes() const {
  int64_t bytes = 0;
  for (size_t k = 0; k < states_.size(); ++k) {
    if (IsMine(states_[k].owner)) bytes += pieces_.tensors[inputs_.size() + k].num_bytes();
  }
  return bytes;
}

int64_t OwnedExecutable::bytes_sent() const {
  int64_t bytes = 0;
  for (const auto& level : shared_) {
    for (const auto& [tensor, owner] : level) {
      if (owner == ranks_.rank()) bytes += pieces_.tensors[static_cast<size_t>(tensor)].num_bytes();
    }
  }
  return bytes * (ranks_.size() - 1);
}

}  // namespace rewright
