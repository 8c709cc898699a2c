#include "backends/common/group.h"

#include <algorithm>
#include <random>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "core/ir/rewrite.h"
#include "core/tensor/memory.h"

namespace rewright {

namespace {

// All bytes of the operand where there is a reduction, else as many elements as the node's results ask for.
double BytesReadBy(const Graph& graph, const Node& node, size_t operand) {
  const double all = static_cast<double>(graph.type(node.operands[operand]).num_bytes());
  if (node.meaning->IsOpaque()) return all;
  double elements = 0;
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ExprPtr& element = node.meaning->outputs[k].element;
    if (element->Reduces()) return all;
    int reads = 0;
    Visit(element, [&](const ExprPtr& e) { reads += e->IsRead(static_cast<int>(operand)) ? 1 : 0; });
    elements += static_cast<double>(reads) * static_cast<double>(node.outputs[k].num_elements());
  }
  return std::min(all, elements * static_cast<double>(DTypeSize(graph.type(node.operands[operand]).dtype)));
}

}  // namespace

std::vector<double> BytesRead(const Graph& graph, const Group& group) {
  absl::flat_hash_map<Value, double> read;
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    for (size_t k = 0; k < node.operands.size(); ++k) read[node.operands[k]] += BytesReadBy(graph, node, k);
  }
  std::vector<double> bytes;
  for (Value input : group.inputs) {
    bytes.push_back(std::min(read[input], static_cast<double>(graph.type(input).num_bytes())));
  }
  return bytes;
}

std::vector<Value> InputsOf(const Graph& graph, const std::vector<int>& members) {
  std::vector<Value> inputs;
  absl::flat_hash_set<Value> seen;
  for (int i : members) {
    for (Value operand : graph.node(graph.nodes()[i]).operands) {
      const bool inside = std::binary_search(members.begin(), members.end(), graph.index(operand.node));
      if (!inside && seen.insert(operand).second) inputs.push_back(operand);
    }
  }
  return inputs;
}

Group MakeGroup(const Graph& graph, const std::vector<int>& members, std::vector<int> sinks) {
  Group group;
  for (int i : members) group.nodes.push_back(graph.nodes()[i]);
  group.inputs = InputsOf(graph, members);
  if (sinks.empty()) sinks = {members.back()};
  std::sort(sinks.begin(), sinks.end());
  for (int sink : sinks) {
    const NodeId id = graph.nodes()[sink];
    const int outputs = static_cast<int>(graph.node(id).outputs.size());
    for (int output = 0; output < outputs; ++output) group.outputs.push_back({id, output});
  }
  return group;
}

std::string GroupLabel(const Graph& graph, const Group& group) {
  return absl::StrJoin(group.nodes, "+",
                       [&](std::string* out, NodeId id) { absl::StrAppend(out, graph.node(id).op->name); });
}

std::string GroupText(const Graph& graph, const Group& group) {
  const TensorType* largest = nullptr;
  const auto see = [&](Value value) {
    const TensorType& type = graph.type(value);
    if (largest == nullptr || type.num_bytes() > largest->num_bytes()) largest = &type;
  };
  for (Value input : group.inputs) see(input);
  for (Value output : group.outputs) see(output);
  return absl::StrCat(GroupLabel(graph, group), largest == nullptr ? "" : absl::StrCat(" of ", largest->ToString()));
}

const Tensor* SingleConstant(const Graph& graph, Value value) {
  const Tensor* elements = graph.arena()->KnownElements(value.node);
  return elements != nullptr && elements->num_elements() == 1 ? elements : nullptr;
}

void FillTypical(void* data, DType dtype, int64_t elements, int64_t integers) {
  std::minstd_rand random(1);
  VisitDType(dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < elements; ++i) {
      if constexpr (!std::is_integral_v<T>) {
        static_cast<T*>(data)[i] = static_cast<T>(0.5 + static_cast<double>(random() % 1024) / 1024);
      } else {
        const int64_t values = decltype(t)::kDType == DType::kBool ? 2 : integers;
        static_cast<T*>(data)[i] = static_cast<T>(static_cast<int64_t>(random()) % values);
      }
    }
  });
}

int64_t TypicalIntegers(const Graph& graph, Value value) {
  constexpr int64_t kUsual = 64;
  const int64_t indexed = IndexedSize(graph, value);
  return indexed > 0 ? std::min(indexed, kUsual) : kUsual;
}

namespace {

// The nodes, operands before users, that compute a known number from fewer than half of its bytes, as weights of few
// bits are; none for other values. Kernels may read such a value as what it is computed from.
std::vector<NodeId> NarrowSource(const Graph& graph, Value value) {
  if (!graph.IsKnown(value) || graph.node(value.node).op == nullptr) return {};
  absl::flat_hash_set<NodeId> seen = {value.node};
  std::vector<NodeId> nodes = {value.node};
  int64_t bytes = 0;
  for (size_t i = 0; i < nodes.size() && 2 * bytes < graph.type(value).num_bytes(); ++i) {
    const Node& node = graph.node(nodes[i]);
    if (node.op == nullptr) bytes += node.outputs[0].num_bytes();
    for (Value operand : node.operands) {
      if (seen.insert(operand.node).second) nodes.push_back(operand.node);
    }
  }
  std::sort(nodes.begin(), nodes.end());  // an arena has operands before users
  return 2 * bytes < graph.type(value).num_bytes() ? nodes : std::vector<NodeId>();
}

// Adds a weight with typical elements.
absl::StatusOr<Value> AddTypical(const Graph& graph, const Group& group, Value weight, const std::string& name,
                                 Arena& arena) {
  const TensorType& type = graph.type(weight);
  ASSIGN_OR_RETURN(Tensor data, AllocateTensor(type, absl::StrCat("a weight of ", GroupLabel(graph, group))));
  FillTypical(data.data(), type.dtype, type.num_elements(), TypicalIntegers(graph, weight));
  return arena.AddState(name, data);
}

// Adds a known value as it is computed, from leaves with typical elements; constants have their own.
absl::Status AddComputed(const Graph& graph, const Group& group, const std::vector<NodeId>& nodes,
                         const std::string& name, Arena& arena, ValueMap* values) {
  for (NodeId id : nodes) {
    const Value first = {id, 0};
    if (values->contains(first)) continue;
    if (graph.node(id).leaf == LeafKind::kState) {
      ASSIGN_OR_RETURN((*values)[first],
                       AddTypical(graph, group, first, absl::StrCat(name, ".w", values->size()), arena));
    } else {
      RETURN_IF_ERROR(CopyNode(*graph.arena(), id, arena, values));
    }
  }
  return absl::OkStatus();
}

// Adds a copy of the group to the arena; number 0 is the first.
absl::Status AddCopy(const Graph& graph, const Group& group, int copy, Arena& arena, std::vector<Value>* inputs,
                     std::vector<Output>* outputs, GroupGraph* result) {
  ValueMap values;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Value from = group.inputs[i];
    const TensorType& type = graph.type(from);
    const std::string name = copy == 0 ? absl::StrCat("x", i) : absl::StrCat("x", i, ".", copy);
    if (const Tensor* constant = SingleConstant(graph, from); constant != nullptr) {
      values[from] = arena.AddConstant(*constant);
    } else if (const std::vector<NodeId> source = NarrowSource(graph, from); !source.empty()) {
      RETURN_IF_ERROR(AddComputed(graph, group, source, name, arena, &values));
    } else if (graph.IsKnown(from)) {
      ASSIGN_OR_RETURN(values[from], AddTypical(graph, group, from, name, arena));
    } else {
      ASSIGN_OR_RETURN(const Value value, arena.AddInput(name, type));
      values[from] = value;
      inputs->push_back(value);
      result->origin[value] = from;
    }
  }
  for (NodeId id : group.nodes) RETURN_IF_ERROR(CopyNode(*graph.arena(), id, arena, &values));
  for (Value output : group.outputs) outputs->push_back({values.at(output), absl::StrCat("y", outputs->size())});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GroupGraph> ExtractGroup(const Graph& graph, const Group& group, int copies) {
  auto arena = std::make_shared<Arena>(graph.mode());
  std::vector<Value> inputs;
  std::vector<Output> outputs;
  GroupGraph result;
  for (int copy = 0; copy < copies; ++copy) {
    RETURN_IF_ERROR(AddCopy(graph, group, copy, *arena, &inputs, &outputs, &result));
  }
  result.graph = Graph(arena, inputs, outputs);
  return result;
}

std::string GroupSignature(const Graph& graph, const Group& group, const std::function<std::string(Value)>& context) {
  std::string text;
  absl::flat_hash_map<Value, std::string> names;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Value input = group.inputs[i];
    names[input] = absl::StrCat("x", i);
    absl::StrAppend(&text, "x", i, ":", graph.type(input).ToString());
    if (const Tensor* constant = SingleConstant(graph, input); constant != nullptr) {
      absl::StrAppend(&text, "=", constant->At(0));
    } else if (graph.IsKnown(input)) {
      absl::StrAppend(&text, "w");
      for (NodeId id : NarrowSource(graph, input)) {
        const Node& node = graph.node(id);
        absl::StrAppend(&text, ",", node.op == nullptr ? node.outputs[0].ToString() : node.op->name);
      }
    } else {
      absl::StrAppend(&text, context(input));
    }
    text += ";";
  }
  for (size_t i = 0; i < group.nodes.size(); ++i) {
    const Node& node = graph.node(group.nodes[i]);
    absl::StrAppend(&text, node.op->name, "(");
    for (Value operand : node.operands) absl::StrAppend(&text, names.at(operand), ",");
    absl::StrAppend(&text, AttrsString(node.attrs), ");");
    for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
      names[Value{group.nodes[i], k}] = absl::StrCat("t", i, ".", k);
    }
  }
  return text;
}

}  // namespace rewright
