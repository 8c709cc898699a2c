#include "core/onnx/initializers/initializer_uses.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <regex>
#include <set>

namespace rewright {
namespace {

// Adds the tensors that the graphs of a node read.
void AddReadersOfSubgraphs(const onnx::NodeProto& node, absl::flat_hash_set<std::string>* names) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    std::vector<const onnx::GraphProto*> graphs;
    if (attribute.has_g()) graphs.push_back(&attribute.g());
    for (const onnx::GraphProto& graph : attribute.graphs()) graphs.push_back(&graph);
    for (const onnx::GraphProto* graph : graphs) {
      for (const onnx::NodeProto& inner : graph->node()) {
        names->insert(inner.input().begin(), inner.input().end());
        AddReadersOfSubgraphs(inner, names);
      }
      for (const onnx::ValueInfoProto& output : graph->output()) names->insert(output.name());
    }
  }
}

bool IsNorm(const std::string& op) {
  static const auto* const ops = new std::set<std::string>{
      "BatchNormalization",        "InstanceNormalization", "LayerNormalization",          "GroupNormalization",
      "MeanVarianceNormalization", "RMSNormalization",      "SimplifiedLayerNormalization"};
  return ops->contains(op);
}

// Returns the value of the node's input before operators that only move elements.
const onnx::NodeProto* BeforeMoves(const NodeUses& uses, const std::string& name) {
  const onnx::NodeProto* node = uses.ProducerOf(name);
  while (node != nullptr && MovesOnly(*node, 0)) node = uses.ProducerOf(node->input(0));
  return node;
}

bool IsRoot(const NodeUses& uses, const std::string& name) {
  const onnx::NodeProto* const node = BeforeMoves(uses, name);
  return node != nullptr && node->op_type() == "Sqrt";
}

// True for x / sqrt(v), or x * (1 / sqrt(v)) in either operand order.
bool DividesByRoot(const NodeUses& uses, const onnx::NodeProto& node) {
  if (node.input_size() != 2) return false;
  if (node.op_type() == "Div") return IsRoot(uses, node.input(1));
  if (node.op_type() != "Mul") return false;
  return std::any_of(node.input().begin(), node.input().end(), [&](const std::string& name) {
    const onnx::NodeProto* const factor = BeforeMoves(uses, name);
    if (factor == nullptr) return false;
    if (factor->op_type() == "Reciprocal") return IsRoot(uses, factor->input(0));
    return factor->op_type() == "Div" && factor->input_size() == 2 && IsRoot(uses, factor->input(1));
  });
}

}  // namespace

NodeUses::NodeUses(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    AddReadersOfSubgraphs(node, &in_subgraphs_);
    for (int i = 0; i < node.input_size(); ++i) readers_[node.input(i)].push_back({&node, i});
    for (const std::string& name : node.output()) producers_.emplace(name, &node);
  }
}

const std::vector<Reader>& NodeUses::ReadersOf(const std::string& name) const {
  static const auto* const none = new std::vector<Reader>();
  const auto found = readers_.find(name);
  return found == readers_.end() ? *none : found->second;
}

const onnx::NodeProto* NodeUses::ProducerOf(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? nullptr : found->second;
}

std::string NeverOf(const std::string& op, int input) {
  struct Entry {
    const char* op;
    int first, last;  // inputs
    const char* what;
  };
  static constexpr Entry kEntries[] = {
      {"BatchNormalization", 3, 4, "running averages"},
      {"Pow", 1, 1, "an exponent"},
      {"Clip", 1, 2, "bounds"},
      {"Pad", 1, 3, "padding"},
      {"Dropout", 1, 2, "a ratio"},
      {"Resize", 1, 3, "a scale of sizes"},
      {"Upsample", 1, 1, "a scale of sizes"},
      {"Range", 0, 2, "a bound of a range"},
      {"OneHot", 1, 2, "values of a one-hot"},
      {"RNN", 5, 5, "an initial state"},
      {"GRU", 5, 5, "an initial state"},
      {"LSTM", 5, 6, "an initial state"},
      {"QuantizeLinear", 1, 2, "a scale of quantization"},
      {"DequantizeLinear", 1, 2, "a scale of quantization"},
      {"Mod", 1, 1, "a divisor"},
  };
  for (const Entry& entry : kEntries) {
    if (op == entry.op && input >= entry.first && input <= entry.last) return entry.what;
  }
  return "";
}

bool IsWeightOf(const std::string& op, int input) {
  static const auto* const inputs = new std::map<std::string, std::set<int>>{
      {"MatMul", {0, 1}},
      {"Gemm", {0, 1, 2}},
      {"Conv", {1, 2}},
      {"ConvTranspose", {1, 2}},
      {"Einsum", {0, 1, 2}},
      {"RNN", {1, 2, 3}},
      {"GRU", {1, 2, 3}},
      {"LSTM", {1, 2, 3, 7}},
      {"PRelu", {1}},
      {"Gather", {0}},
      {"BatchNormalization", {1, 2}},
      {"LayerNormalization", {1, 2}},
      {"InstanceNormalization", {1, 2}},
      {"GroupNormalization", {1, 2}},
      {"RMSNormalization", {1}},
      {"SimplifiedLayerNormalization", {1}},
  };
  const auto found = inputs->find(op);
  return found != inputs->end() && found->second.contains(input);
}

bool MovesOnly(const onnx::NodeProto& node, int input) {
  static const auto* const ops = new std::set<std::string>{"Identity", "Transpose", "Reshape", "Unsqueeze",
                                                           "Squeeze",  "Flatten",   "Cast",    "Expand"};
  return input == 0 && ops->contains(node.op_type()) && node.output_size() > 0;
}

bool IsGeneratedName(const std::string& name) {
  static const auto* const pattern = new std::regex(
      "(val_\\d+|onnx::.*|/.*|_?\\d+|.*_output_\\d+|(constant|number|ints|const)_\\d+|\\w+_out_\\d+|const_fold_opt.*|"
      "(.*/)?Const(_\\d+)?(:0)?|.*/[xy]:0|"
      "(_to_copy|abs|add|arange|bitwise_\\w+|cat|clamp|clone|copy|cos|cumsum|detach\\w*|div|einsum|eq|exp|expand|eye|"
      "flip|full\\w*|ge|gt|index\\w*|le|linspace|log|logical_\\w+|lt|masked_fill|matmul|mul|ne|neg|ones\\w*|outer|"
      "permute|pow|reciprocal|repeat|reshape|round|rsqrt|rsub|scalar_tensor\\w*|select|sin|slice|split|sqrt|stack|sub|"
      "tensor|to|transpose|tril|triu|unsqueeze|view|where|zeros\\w*)(_default)?(_\\d+)?)(\\.\\d+_*)?");
  return std::regex_match(name, *pattern);
}

bool IsBehindNorm(const NodeUses& uses, const InitializersByName& initializers, const Reader& reader,
                  const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  if (std::count_if(shape.begin(), shape.end(), [](int64_t size) { return size > 1; }) != 1) return false;
  const auto is_affine = [](const onnx::NodeProto& node) {
    return (node.op_type() == "Mul" || node.op_type() == "Add") && node.input_size() == 2;
  };
  if (!is_affine(*reader.node)) return false;
  const onnx::NodeProto* before = BeforeMoves(uses, reader.node->input(1 - reader.input));
  // A bias follows the scale.
  if (before != nullptr && reader.node->op_type() == "Add" && before->op_type() == "Mul" && is_affine(*before) &&
      !DividesByRoot(uses, *before)) {
    for (int i : {0, 1}) {
      if (!initializers.contains(before->input(i))) continue;
      before = BeforeMoves(uses, before->input(1 - i));
      break;
    }
  }
  return before != nullptr && (IsNorm(before->op_type()) || DividesByRoot(uses, *before));
}

std::optional<double> UniformElement(const Tensor& tensor) {
  const size_t size = DTypeSize(tensor.dtype());
  const char* const bytes = tensor.as<char>();
  for (int64_t i = 1; i < tensor.num_elements(); ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return std::nullopt;
  }
  return tensor.num_elements() > 0 ? std::optional(tensor.At(0)) : std::nullopt;
}

}  // namespace rewright
