#include "search/windows/window.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"

namespace rewright {
namespace {

// True if something outside of the nodes reads the value: another node, or the caller, as an output.
template <typename Nodes>
bool IsReadOutside(const Graph& graph, Value value, const Nodes& nodes) {
  if (graph.is_output(value)) return true;
  for (int user : graph.users(graph.index(value.node))) {
    const NodeId id = graph.nodes()[user];
    if (nodes.contains(id)) continue;
    const std::vector<Value>& operands = graph.node(id).operands;
    if (std::find(operands.begin(), operands.end(), value) != operands.end()) return true;
  }
  return false;
}

// Names values inside of a window by their place in its arena, so that equal windows have the same names.
constexpr char kPlaceFormat[] = "node %d output %d";

std::string PlaceName(size_t node, int32_t output) { return absl::StrFormat(kPlaceFormat, node, output); }

// The value of the graph that the window was cut from; no node where the name is none of these.
Value ValueAt(const GraphWindow& window, const std::string& name) {
  int node = -1, output = -1;
  if (std::sscanf(name.c_str(), kPlaceFormat, &node, &output) != 2) return {};
  const bool is_there = node >= 0 && static_cast<size_t>(node) < window.nodes.size();
  return is_there ? Value{window.nodes[static_cast<size_t>(node)], output} : Value{};
}

class Cutter {
 public:
  explicit Cutter(const Graph& graph) : graph_(graph), arena_(std::make_shared<Arena>(graph.mode())) {}

  GraphWindow Cut(const std::vector<int>& positions) {
    std::vector<Output> outputs;
    for (int i : positions) {
      const NodeId id = graph_.nodes()[i];
      window_.nodes.push_back(id);
      Copy(id);
      for (int32_t k = 0; k < static_cast<int32_t>(graph_.node(id).outputs.size()); ++k) {
        arena_->SetName({copies_.at(id), k}, PlaceName(window_.nodes.size() - 1, k));
      }
    }
    for (NodeId id : window_.nodes) {
      for (int32_t k = 0; k < static_cast<int32_t>(graph_.node(id).outputs.size()); ++k) {
        const Value value{id, k};
        if (!IsReadOutside(graph_, value, copies_)) continue;
        window_.escaping.push_back(value);
        outputs.push_back({{copies_.at(id), k}, ""});
      }
    }
    window_.graph = Graph(arena_, inputs_, std::move(outputs));
    for (NodeId id : window_.graph.nodes()) {
      const Node& node = window_.graph.node(id);
      if (node.leaf != LeafKind::kInput && node.leaf != LeafKind::kState) continue;
      window_.leaves.push_back({id, 0});
      window_.outer.push_back(outer_.at({id, 0}));
    }
    return std::move(window_);
  }

 private:
  Value Operand(Value value) {
    const Node& node = graph_.node(value.node);
    if (graph_.IsKnown(node)) {
      if (!copies_.contains(value.node)) CopyWeightOnly(value.node);
      return {copies_.at(value.node), value.output};
    }
    // Operands inside come before their users.
    if (copies_.contains(value.node)) return {copies_.at(value.node), value.output};
    if (auto it = inputs_of_.find(value); it != inputs_of_.end()) return it->second;
    const auto input = arena_->AddInput(absl::StrCat("x", inputs_.size()), graph_.type(value));
    CHECK(input.ok()) << input.status().ToString();
    inputs_.push_back(*input);
    outer_[*input] = value;
    return inputs_of_[value] = *input;
  }

  void Copy(NodeId id) {
    std::vector<Value> operands;
    for (Value operand : graph_.node(id).operands) operands.push_back(Operand(operand));
    copies_[id] = arena_->AddLike(graph_.node(id), std::move(operands));
  }

  // Copies the computation of a weight, operands first.
  void CopyWeightOnly(NodeId root) {
    std::vector<NodeId> stack = {root};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      const Node& node = graph_.node(id);
      const size_t before = stack.size();
      for (Value operand : node.operands) {
        if (!copies_.contains(operand.node)) stack.push_back(operand.node);
      }
      if (stack.size() > before) continue;
      stack.pop_back();
      if (copies_.contains(id)) continue;
      if (node.op != nullptr) {
        Copy(id);
      } else if (node.leaf == LeafKind::kConstant) {
        copies_[id] = arena_->AddConstant(node.data).node;
      } else {
        const auto weight = arena_->AddState(absl::StrCat("w", copies_.size()), *graph_.arena()->Elements(id));
        CHECK(weight.ok()) << weight.status().ToString();
        copies_[id] = weight->node;
        outer_[*weight] = {id, 0};
      }
    }
  }

  const Graph& graph_;
  GraphWindow window_;
  std::shared_ptr<Arena> arena_;
  absl::flat_hash_map<NodeId, NodeId> copies_;  // of nodes inside and known ones
  std::vector<Value> inputs_;
  ValueMap inputs_of_;
  ValueMap outer_;  // of leaves
};

// Nodes are numbered by first use; a value computed outside is known by its number and type alone.
class KeyWriter {
 public:
  KeyWriter(const Graph& graph, NodeSignatures& signatures) : graph_(graph), signatures_(signatures) {}

  WindowKey Write(const std::vector<int>& positions) {
    for (int i : positions) PutNode(graph_.nodes()[i]);
    for (int i : positions) {
      const NodeId id = graph_.nodes()[i];
      for (int32_t k = 0; k < static_cast<int32_t>(graph_.node(id).outputs.size()); ++k) {
        if (IsReadOutside(graph_, {id, k}, numbers_)) Put(numbers_.at(id), static_cast<uint64_t>(k));
      }
    }
    return std::move(key_);
  }

 private:
  void Put(uint64_t a, uint64_t b) {
    key_.push_back(a);
    key_.push_back(b);
  }

  // Operands inside come before their users.
  void PutNode(NodeId id) {
    const Node& node = graph_.node(id);
    for (Value operand : node.operands) {
      if (graph_.IsKnown(operand)) PutWeightOnly(operand.node);
    }
    constexpr uint64_t kOutside = uint64_t{1} << 63;
    Put(signatures_.Of(graph_, id), node.operands.size());
    for (Value operand : node.operands) {
      if (const auto known = numbers_.find(operand.node); known != numbers_.end()) {
        Put(known->second, static_cast<uint64_t>(operand.output));
        continue;
      }
      const auto [input, fresh] = inputs_.try_emplace(operand, inputs_.size());
      Put(kOutside + input->second, fresh ? signatures_.Of(graph_.type(operand)) : 0);
    }
    numbers_.emplace(id, numbers_.size());
  }

  void PutWeightOnly(NodeId root) {
    std::vector<NodeId> stack = {root};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      const size_t before = stack.size();
      for (Value operand : graph_.node(id).operands) {
        if (!numbers_.contains(operand.node)) stack.push_back(operand.node);
      }
      if (stack.size() > before) continue;
      stack.pop_back();
      if (!numbers_.contains(id)) PutNode(id);
    }
  }

  const Graph& graph_;
  NodeSignatures& signatures_;
  WindowKey key_;
  absl::flat_hash_map<NodeId, uint64_t> numbers_;  // of nodes inside and known ones
  absl::flat_hash_map<Value, uint64_t> inputs_;
};

}  // namespace

GraphWindow CutWindow(const Graph& graph, const std::vector<int>& positions) { return Cutter(graph).Cut(positions); }

WindowKey KeyOfWindow(const Graph& graph, const std::vector<int>& positions, NodeSignatures& signatures) {
  return KeyWriter(graph, signatures).Write(positions);
}

std::vector<Value> Splice(const Graph& solution, const std::vector<Value>& leaves, const GraphWindow& window,
                          Arena& outer) {
  CHECK(leaves.size() == window.outer.size()) << leaves.size() << " leaves for " << window.outer.size();
  ValueMap leaf;
  for (size_t i = 0; i < leaves.size(); ++i) leaf[leaves[i]] = window.outer[i];
  ValueMap values;
  for (NodeId id : solution.nodes()) {
    const Node& node = solution.node(id);
    if (node.op == nullptr) {
      const auto it = leaf.find({id, 0});
      CHECK(it != leaf.end() || node.leaf == LeafKind::kConstant) << "a leaf that the window does not have";
      values[{id, 0}] = it != leaf.end() ? it->second : outer.AddConstant(node.data);
      continue;
    }
    std::vector<Value> operands;
    for (Value operand : node.operands) operands.push_back(values.at(operand));
    const NodeId copy = outer.AddLike(node, std::move(operands));
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      values[{id, k}] = {copy, k};
      const Value stood = ValueAt(window, solution.arena()->name({id, k}));
      const bool is_named = stood.node >= 0 && !outer.name(stood).empty() && outer.type(stood) == outer.type({copy, k});
      if (is_named && outer.name({copy, k}).empty()) outer.SetName({copy, k}, outer.name(stood));
    }
  }
  std::vector<Value> outputs;
  for (const Output& output : solution.outputs()) outputs.push_back(values.at(output.value));
  return outputs;
}

}  // namespace rewright
