#include "runtime/parallel/subgraphs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/comm/collectives.h"
#include "runtime/executor.h"
#include "runtime/memory_plan.h"

namespace rewright {
namespace {

// Its result has the elements of its only operand, each at least once: there is nothing to compute.
bool OnlyRearranges(const Graph& graph, const Node& node) {
  return node.op != nullptr && node.operands.size() == 1 && node.outputs.size() == 1 && !node.meaning->IsOpaque() &&
         node.meaning->outputs[0].element->IsRead(0) &&
         node.outputs[0].num_elements() >= graph.type(node.operands[0]).num_elements();
}

class Cutter {
 public:
  Cutter(const Graph& graph, const std::vector<int>& numbers, int count) : graph_(graph), numbers_(numbers) {
    CHECK(numbers.size() == graph.nodes().size()) << numbers.size();
    for (int k = 0; k < count; ++k) building_.push_back({std::make_shared<Arena>(graph.mode()), {}, {}, {}});
    result_.subgraphs.resize(static_cast<size_t>(count));
    // The graph may be a subgraph itself.
    const auto is_taken = [&](NodeId id) { return graph.node(id).name.starts_with(prefix_); };
    while (std::any_of(graph.nodes().begin(), graph.nodes().end(), is_taken)) prefix_.insert(0, "value.");
  }

  Subgraphs Run(const std::vector<Value>& states) {
    for (Value input : graph_.inputs()) Number(input, -1);
    if (graph_.mode() == Mode::kTraining) {
      for (Value state : states) Number(state, -1);
    }
    FindStateOwners();
    for (NodeId id : graph_.nodes()) {
      if (IsComputed(id)) Add(SubgraphOf({id, 0}), id);
    }
    for (const Output& output : graph_.outputs()) {
      const auto owner = state_owners_.find(output.updates);
      if (owner == state_owners_.end()) {
        result_.outputs.push_back(Escaping(output.value));
        continue;
      }
      Building& subgraph = building_[owner->second];
      subgraph.outputs.push_back({In(owner->second, output.value), output.name, In(owner->second, output.updates)});
      result_.outputs.push_back(tensors_.at(output.updates));
      result_.state_owners[result_.outputs.back()] = {static_cast<int>(owner->second),
                                                      graph_.node(output.updates.node).name};
    }
    for (size_t k = 0; k < building_.size(); ++k) {
      Building& subgraph = building_[k];
      for (const auto& [value, here] : subgraph.here) result_.subgraphs[k].origins.emplace(here.node, value.node);
      result_.subgraphs[k].graph = Graph(subgraph.arena, std::move(subgraph.inputs), std::move(subgraph.outputs));
    }
    return std::move(result_);
  }

 private:
  struct Building {
    std::shared_ptr<Arena> arena;
    ValueMap here;
    std::vector<Value> inputs;
    std::vector<Output> outputs;
  };

  bool IsComputed(NodeId id) const {
    const Node& node = graph_.node(id);
    return graph_.IsRun(node) && !OnlyRearranges(graph_, node);
  }

  // A state is kept by the subgraph that makes its next value if no other subgraph reads either of them.
  void FindStateOwners() {
    absl::flat_hash_map<Value, int> uses;  // as outputs
    for (const Output& output : graph_.outputs()) ++uses[output.value];
    for (const Output& output : graph_.outputs()) {
      if (output.updates.node < 0 || !graph_.contains(output.updates.node)) continue;
      if (!IsComputed(output.value.node) || uses[output.value] > 1 || uses.contains(output.updates)) continue;
      const size_t subgraph = SubgraphOf(output.value);
      const auto here = [&](int user) {
        return IsComputed(graph_.nodes()[user]) && numbers_[user] == static_cast<int>(subgraph);
      };
      const auto all_here = [&](Value value) {
        const std::vector<int>& users = graph_.users(graph_.index(value.node));
        return std::all_of(users.begin(), users.end(), here);
      };
      if (all_here(output.value) && all_here(output.updates)) state_owners_[output.updates] = subgraph;
    }
  }

  size_t SubgraphOf(Value value) const { return static_cast<size_t>(numbers_[graph_.index(value.node)]); }

  int Number(Value value, int maker) {
    const auto [found, is_new] = tensors_.try_emplace(value, static_cast<int>(result_.tensors.size()));
    if (is_new) {
      result_.tensors.push_back(graph_.type(value));
      result_.makers.push_back(maker);
    }
    return found->second;
  }

  // The tensor of a value that is needed outside of its subgraph.
  int Escaping(Value value) {
    if (const auto found = tensors_.find(value); found != tensors_.end()) return found->second;
    const size_t subgraph = SubgraphOf(value);
    const Value here = In(subgraph, value);
    const int number = Number(value, static_cast<int>(subgraph));
    building_[subgraph].outputs.push_back({here, absl::StrCat(prefix_, number)});
    result_.subgraphs[subgraph].outputs.push_back(number);
    return number;
  }

  // The value in a subgraph: its own, known before the run, or an input.
  Value In(size_t number, Value value) {
    Building& subgraph = building_[number];
    if (const auto found = subgraph.here.find(value); found != subgraph.here.end()) return found->second;
    const Node& node = graph_.node(value.node);
    if (graph_.IsKnown(value) || state_owners_.contains(value) || OnlyRearranges(graph_, node)) {
      Add(number, value.node);
      return subgraph.here.at(value);
    }
    const int tensor = Escaping(value);
    const int maker = result_.makers[tensor];
    CHECK(maker < static_cast<int>(number)) << "subgraph " << number << " reads what subgraph " << maker << " makes";
    const std::string name = node.name.empty() ? absl::StrCat(prefix_, tensor) : node.name;
    const Value here = subgraph.arena->AddInput(name, graph_.type(value)).value();
    subgraph.inputs.push_back(here);
    result_.subgraphs[number].inputs.push_back(tensor);
    subgraph.here[value] = here;
    return here;
  }

  // The node to a subgraph, and what it reads.
  void Add(size_t number, NodeId id) {
    Building& subgraph = building_[number];
    for (Value operand : graph_.node(id).operands) In(number, operand);
    const absl::Status copied = CopyNode(*graph_.arena(), id, *subgraph.arena, &subgraph.here);
    CHECK(copied.ok()) << copied.ToString();
  }

  const Graph& graph_;
  const std::vector<int>& numbers_;
  std::string prefix_ = "value.";  // of names of what is handed on, which no leaf has
  absl::flat_hash_map<Value, int> tensors_;
  absl::flat_hash_map<Value, size_t> state_owners_;  // of states
  std::vector<Building> building_;
  Subgraphs result_;
};

}  // namespace

Subgraphs SplitGraph(const Graph& graph, const std::vector<int>& numbers, int count, const std::vector<Value>& states) {
  return Cutter(graph, numbers, count).Run(states);
}

absl::Status ViewOwnedStates(const Subgraphs& subgraphs, const SubgraphExecutables& executables,
                             std::vector<Tensor>* tensors) {
  for (const auto& [tensor, owner] : subgraphs.state_owners) {
    if (executables[owner.subgraph] == nullptr) continue;
    ASSIGN_OR_RETURN((*tensors)[tensor], executables[owner.subgraph]->ViewState(owner.state));
  }
  return absl::OkStatus();
}

absl::Status WriteState(const Subgraphs& subgraphs, const SubgraphExecutables& executables, int tensor,
                        const Tensor& value, int axis, int rank, std::vector<Tensor>* tensors) {
  const auto owner = subgraphs.state_owners.find(tensor);
  const bool is_kept = owner != subgraphs.state_owners.end();
  Tensor part = is_kept ? Tensor(subgraphs.tensors[tensor]) : (*tensors)[tensor];
  if (axis < 0) {
    CopyElements(value, &part);
  } else {
    CopyBlock(value, axis, rank, &part);
  }
  if (!is_kept) return absl::OkStatus();
  RETURN_IF_ERROR(executables[owner->second.subgraph]->WriteState(owner->second.state, part));
  return ViewOwnedStates(subgraphs, executables, tensors);
}

absl::Status RunSubgraph(Executable* executable, const Subgraphs::Subgraph& subgraph,
                         const std::function<Tensor&(int)>& at) {
  if (executable == nullptr) return absl::OkStatus();
  std::vector<Tensor> inputs, outputs;
  for (int tensor : subgraph.inputs) inputs.push_back(at(tensor));
  for (int tensor : subgraph.outputs) outputs.push_back(at(tensor));
  RETURN_IF_ERROR(executable->Run(inputs, &outputs));
  for (size_t k = 0; k < outputs.size(); ++k) at(subgraph.outputs[k]) = std::move(outputs[k]);
  return absl::OkStatus();
}

void AddUses(const Subgraphs::Subgraph& subgraph, int time, std::vector<Use>* uses) {
  for (int tensor : subgraph.inputs) (*uses)[tensor].Add(time);
  for (int tensor : subgraph.outputs) (*uses)[tensor].Add(time);
}

absl::StatusOr<SharedMemory> SharedMemory::Place(const std::vector<TensorType>& types, const std::vector<Use>& uses,
                                                 const std::vector<SubgraphRun>& runs, std::vector<Tensor>* tensors) {
  SharedMemory shared;
  std::vector<Lifetime> lifetimes;
  for (size_t k = 0; k < types.size(); ++k) {
    if (uses[k].last < 0) continue;
    shared.planned_.emplace_back(k, types[k]);
    lifetimes.push_back({types[k].num_bytes(), uses[k].first, uses[k].last});
  }
  for (size_t k = 0; k < runs.size(); ++k) {
    if (runs[k].executable == nullptr) continue;
    const auto* const user = dynamic_cast<const ArenaUser*>(runs[k].executable);
    const int64_t bytes = user == nullptr ? 0 : user->shared_bytes();
    shared.own_bytes_ += runs[k].executable->arena_bytes() - bytes;
    if (bytes == 0) continue;
    shared.users_.push_back(k);
    lifetimes.push_back({bytes, runs[k].time, runs[k].time, DeviceMemory::kAlignment});
  }
  Placement placement = PlaceLifetimes(lifetimes);
  shared.offsets_ = std::move(placement.offsets);
  shared.bytes_ = placement.arena_bytes;
  RETURN_IF_ERROR(CheckMemory(shared.bytes_, "what the pieces of a graph compute and hand on"));
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                   AllocateBytes(static_cast<size_t>(shared.bytes_), DeviceMemory::kAlignment));
  shared.MoveTo(std::move(memory), runs, tensors);
  return shared;
}

void SharedMemory::MoveTo(std::shared_ptr<void> memory, const std::vector<SubgraphRun>& runs,
                          std::vector<Tensor>* tensors) {
  char* const begin = static_cast<char*>(memory.get());
  size_t next = 0;
  for (const auto& [k, type] : planned_) (*tensors)[k] = Tensor(type, memory, begin + offsets_[next++]);
  for (size_t k : users_) {
    dynamic_cast<ArenaUser&>(*runs[k].executable).UseArena(std::shared_ptr<void>(memory, begin + offsets_[next++]));
  }
}

}  // namespace rewright
