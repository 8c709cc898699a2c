#include "search/window.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace rewright {
namespace {

// As far as conditions look at elements one by one (substitutions/match_scope.cc).
constexpr int64_t kMaxLookedAt = 1 << 16;

class Cutter {
 public:
  Cutter(const Graph& graph, LeafContents& contents) : graph_(graph), contents_(contents) {}

  GraphWindow Cut(const std::vector<int>& positions) {
    std::vector<Output> outputs;
    for (int i : positions) {
      const NodeId id = graph_.nodes()[static_cast<size_t>(i)];
      window_.nodes.push_back(id);
      Copy(id);
    }
    for (NodeId id : window_.nodes) {
      for (int32_t k = 0; k < static_cast<int32_t>(graph_.node(id).outputs.size()); ++k) {
        const Value value{id, k};
        if (!IsReadOutside(value)) continue;
        window_.escaping.push_back(value);
        outputs.push_back({{copies_.at(id), k}, ""});
      }
    }
    window_.graph = Graph(arena_, inputs_, std::move(outputs));
    for (NodeId id : window_.graph.nodes()) {
      const Node& node = window_.graph.node(id);
      if (node.leaf != LeafKind::kInput && node.leaf != LeafKind::kWeight) continue;
      window_.leaves.push_back({id, 0});
      window_.outer.push_back(outer_.at({id, 0}));
    }
    window_.key = Key();
    return std::move(window_);
  }

 private:
  bool IsReadOutside(Value value) const {
    if (graph_.is_output(value)) return true;
    for (int user : graph_.users(graph_.index(value.node))) {
      const NodeId id = graph_.nodes()[static_cast<size_t>(user)];
      if (copies_.contains(id)) continue;
      const std::vector<Value>& operands = graph_.node(id).operands;
      if (std::find(operands.begin(), operands.end(), value) != operands.end()) return true;
    }
    return false;
  }

  Value Operand(Value value) {
    const Node& node = graph_.node(value.node);
    if (node.weight_only) {
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

  // What a weight is computed from, operands first.
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
        const auto weight = arena_->AddWeight(absl::StrCat("w", copies_.size()), node.data);
        CHECK(weight.ok()) << weight.status().ToString();
        copies_[id] = weight->node;
        outer_[*weight] = {id, 0};
      }
    }
  }

  std::string Key() {
    std::string key;
    for (NodeId id : window_.graph.nodes()) {
      const Node& node = window_.graph.node(id);
      if (node.op != nullptr) {
        absl::StrAppend(&key, node.op->name, "(");
        for (Value operand : node.operands) absl::StrAppend(&key, window_.graph.index(operand.node), ".", operand.output, ",");
        absl::StrAppend(&key, AttrsString(node.attrs), ")");
      } else {
        absl::StrAppend(&key, static_cast<int>(node.leaf), node.outputs[0].ToString());
        if (node.leaf != LeafKind::kInput) key += contents_.Of(node);
      }
      key += ";";
    }
    for (const Output& output : window_.graph.outputs()) {
      absl::StrAppend(&key, window_.graph.index(output.value.node), ".", output.value.output, ",");
    }
    return key;
  }

  const Graph& graph_;
  LeafContents& contents_;
  GraphWindow window_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  absl::flat_hash_map<NodeId, NodeId> copies_;  // of nodes inside and weight-only ones
  std::vector<Value> inputs_;
  ValueMap inputs_of_;
  ValueMap outer_;  // of leaves
};

}  // namespace

const std::string& LeafContents::Of(const Node& leaf) {
  std::string& text = known_[std::pair(leaf.data.data(), leaf.leaf)];
  if (!text.empty() || leaf.data.data() == nullptr) return text;
  const Tensor& data = leaf.data;
  const int64_t count = data.num_elements();
  if (leaf.leaf == LeafKind::kConstant) {
    text.assign(static_cast<const char*>(data.data()), static_cast<size_t>(data.num_bytes()));
    return text;
  }
  bool equal = true, positive = count <= kMaxLookedAt, finite = positive;
  for (int64_t i = 0; i < count && (equal || positive || finite); ++i) {
    const double element = data.At(i);
    equal = equal && element == data.At(0);
    positive = positive && element > 0;
    finite = finite && std::isfinite(element);
  }
  text = absl::StrCat(count > 0 && equal ? absl::StrCat("=", data.At(0)) : "", positive ? "+" : "", finite ? "f" : "", ".");
  return text;
}

GraphWindow CutWindow(const Graph& graph, const std::vector<int>& positions, LeafContents& contents) {
  return Cutter(graph, contents).Cut(positions);
}

std::vector<Value> Splice(const Graph& solution, const std::vector<Value>& leaves, const GraphWindow& window, Arena& outer) {
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
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) values[{id, k}] = {copy, k};
  }
  std::vector<Value> outputs;
  for (const Output& output : solution.outputs()) outputs.push_back(values.at(output.value));
  return outputs;
}

}  // namespace rewright
