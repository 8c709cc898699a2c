#include "verifier/equal/joint_models.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace rewright {

std::map<std::string, TensorType> InterfaceOf(const Graph& graph) {
  std::map<std::string, TensorType> entries;
  for (Value input : graph.inputs()) entries["input " + graph.node(input.node).name] = graph.type(input);
  for (const Output& output : graph.outputs()) entries["output " + output.name] = graph.type(output.value);
  return entries;
}

namespace {

absl::Status CompareInterfaces(const Graph& a, const Graph& b) {
  const std::map<std::string, TensorType> of_a = InterfaceOf(a), of_b = InterfaceOf(b);
  std::vector<std::string> lines;
  for (const auto& [name, type] : of_a) {
    const auto at = of_b.find(name);
    if (at == of_b.end()) {
      lines.push_back(absl::StrCat(name, ": ", type.ToString(), " in A, missing in B"));
    } else if (at->second != type) {
      lines.push_back(absl::StrCat(name, ": ", type.ToString(), " in A, ", at->second.ToString(), " in B"));
    }
  }
  for (const auto& [name, type] : of_b) {
    if (!of_a.contains(name)) lines.push_back(absl::StrCat(name, ": missing in A, ", type.ToString(), " in B"));
  }
  if (lines.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the models do not have the same inputs and outputs\n  ", absl::StrJoin(lines, "\n  ")));
}

class Joiner {
 public:
  // The graph in the shared arena; `names` gets the names of its values.
  absl::StatusOr<Graph> Add(const Graph& graph, absl::flat_hash_map<Value, std::string>* names) {
    of_a_ = by_elements_;
    ValueMap copies;
    std::vector<Value> inputs;
    for (Value input : graph.inputs()) {
      ASSIGN_OR_RETURN(copies[input], arena_->AddInput(graph.node(input.node).name, graph.type(input)));
      inputs.push_back(copies[input]);
    }
    for (NodeId id : graph.nodes()) {
      const Node& node = graph.node(id);
      if (node.leaf == LeafKind::kState || node.leaf == LeafKind::kConstant) {
        ASSIGN_OR_RETURN(copies[Value(id, 0)], KnownLeaf(graph, id));
      } else {
        RETURN_IF_ERROR(CopyNode(*graph.arena(), id, *arena_, &copies));
      }
      for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
        const std::string& name = graph.arena()->name({id, k});
        if (!name.empty()) names->emplace(copies.at({id, k}), name);
      }
    }
    std::vector<Output> outputs;
    for (const Output& output : graph.outputs()) {
      if (output.updates.node >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("output ", output.name, " is the next value of a state, expected a model for inference"));
      }
      outputs.push_back({copies.at(output.value), output.name});
    }
    return Graph(arena_, std::move(inputs), std::move(outputs));
  }

 private:
  absl::StatusOr<Value> KnownLeaf(const Graph& graph, NodeId id) {
    const Tensor* elements = graph.arena()->Elements(id);
    if (elements == nullptr || elements->data() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", graph.node(id).name, " has no elements"));
    }
    // A model may have the same number as a constant or as a weight.
    if (!IsFloating(elements->dtype()) || elements->num_elements() == 1) return arena_->AddConstant(*elements);
    const uint64_t hash = absl::HashOf(
        absl::string_view(static_cast<const char*>(elements->data()), static_cast<size_t>(elements->num_bytes())));
    ReleasePages(elements->data(), elements->num_bytes());  // the weights of two models may be larger than memory
    for (Value other : by_elements_[hash]) {
      const Tensor& present = *arena_->Elements(other.node);
      const bool same = present.BitEqual(*elements);
      for (const Tensor* read : {&present, elements}) ReleasePages(read->data(), read->num_bytes());
      if (same) return other;
    }
    // A weight of A in another shape: some programs add axes of size one when they move a transpose.
    for (Value other : of_a_[hash]) {
      if (HasElements(*arena_->Elements(other.node), *elements)) {
        return arena_->Apply("reshape", {other}, {{"shape", elements->shape()}});
      }
    }
    std::string name = graph.node(id).name;
    if (name.empty()) name = "constant";
    while (!taken_.emplace(name, 0).second) absl::StrAppend(&name, "'");
    ASSIGN_OR_RETURN(const Value state, arena_->AddState(name, *elements));
    by_elements_[hash].push_back(state);
    return state;
  }

  // The same elements in the same order, not all of them one number: such tensors are anything's.
  static bool HasElements(const Tensor& a, const Tensor& b) {
    if (a.num_elements() == 0) return false;
    const auto bytes = static_cast<size_t>(a.num_bytes());
    const size_t one = bytes / static_cast<size_t>(a.num_elements());
    const auto* data = static_cast<const char*>(a.data());
    return a.dtype() == b.dtype() && a.num_bytes() == b.num_bytes() && std::memcmp(data, b.data(), bytes) == 0 &&
           std::memcmp(data, data + one, bytes - one) != 0;
  }

  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  using ByElements = absl::flat_hash_map<uint64_t, std::vector<Value>>;
  ByElements by_elements_;
  ByElements of_a_;  // those of the model that was added before
  std::map<std::string, int> taken_;
};

}  // namespace

absl::StatusOr<JointModels> JoinModels(const Graph& a, const Graph& b) {
  RETURN_IF_ERROR(CompareInterfaces(a, b));
  JointModels joint;
  Joiner joiner;
  ASSIGN_OR_RETURN(joint.a, joiner.Add(a, &joint.names_a));
  ASSIGN_OR_RETURN(const Graph other, joiner.Add(b, &joint.names_b));
  std::vector<Output> outputs;
  for (const Output& wanted : joint.a.outputs()) {
    const auto found = std::find_if(other.outputs().begin(), other.outputs().end(),
                                    [&](const Output& output) { return output.name == wanted.name; });
    outputs.push_back(*found);
  }
  joint.b = Graph(other.arena(), other.inputs(), std::move(outputs));
  return joint;
}

}  // namespace rewright
