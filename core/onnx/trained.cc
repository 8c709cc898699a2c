#include "core/onnx/trained.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

// Weights are smaller; the lowest number of a type stands for minus infinity in masks.
constexpr double kLargestWeight = 1e18;
// Tables that are equal up to the order of elements by chance have fewer.
constexpr int64_t kLeastTied = 17;

struct Reader {
  const onnx::NodeProto* node = nullptr;
  int input = 0;
};
using ReadersByName = absl::flat_hash_map<std::string, std::vector<Reader>>;

// What an input never holds a weight for; empty: it may.
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

// Inputs that hold weights in nearly every file.
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

// The output has the elements of input 0 and no others.
bool MovesOnly(const onnx::NodeProto& node, int input) {
  static const auto* const ops = new std::set<std::string>{"Identity", "Transpose", "Reshape", "Unsqueeze",
                                                           "Squeeze",  "Flatten",   "Cast",    "Expand"};
  return input == 0 && ops->contains(node.op_type()) && node.output_size() > 0;
}

// Names that PyTorch's two exporters, tf2onnx and this program give to what no model names; with the number of a part,
// where an initializer became several.
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

std::optional<double> UniformElement(const Tensor& tensor) {
  const size_t size = DTypeSize(tensor.dtype());
  const char* const bytes = tensor.as<char>();
  for (int64_t i = 1; i < tensor.num_elements(); ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return std::nullopt;
  }
  return tensor.num_elements() > 0 ? std::optional(tensor.At(0)) : std::nullopt;
}

bool HoldsWeights(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (!(std::abs(tensor.At(i)) < kLargestWeight)) return false;
  }
  return true;
}

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

class RoleFinder {
 public:
  RoleFinder(const ImportOptions& options, onnx::GraphProto& graph, InitializersByName& initializers)
      : options_(options), graph_(graph), initializers_(initializers) {}

  InitializerRoles Run() {
    for (const onnx::NodeProto& node : graph_.node()) AddReadersOfSubgraphs(node, &in_subgraphs_);
    std::vector<std::string> names;
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const auto found = initializers_.find(proto.name());
      if (found != initializers_.end() && IsFloating(found->second.dtype())) names.push_back(proto.name());
    }
    if (AreWrittenOnce(names)) {
      for (const std::string& name : names) PartByUse(name);
    }
    FindReaders();
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const auto found = initializers_.find(proto.name());
      if (found == initializers_.end() || !IsFloating(found->second.dtype())) continue;
      const std::string why = options_.trains && options_.trains(proto.name()) ? "" : WhyLeft(proto.name());
      if (!why.empty()) roles_.left.emplace(proto.name(), why);
    }
    NoteTied();
    return std::move(roles_);
  }

 private:
  void FindReaders() {
    readers_.clear();
    for (const onnx::NodeProto& node : graph_.node()) {
      for (int i = 0; i < node.input_size(); ++i) readers_[node.input(i)].push_back({&node, i});
    }
  }

  // Whether no two initializers of one number are equal. In a file that has such, what is shared is so by intent.
  bool AreWrittenOnce(const std::vector<std::string>& names) const {
    std::set<std::string> seen;
    for (const std::string& name : names) {
      const Tensor& tensor = initializers_.at(name);
      const std::optional<double> element = UniformElement(tensor);
      if (element && !seen.insert(absl::StrCat(tensor.type().ToString(), " ", *element)).second) return false;
    }
    return true;
  }

  // Initializers of one number that several nodes read become several; an Identity, which exporters write for the
  // second name, becomes an initializer of that name.
  void PartByUse(const std::string& name) {
    const Tensor tensor = initializers_.at(name);
    if (in_subgraphs_.contains(name) || (options_.shares && options_.shares(name)) || !UniformElement(tensor)) return;
    std::vector<std::pair<int, int>> uses;  // node, input
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (int k = 0; k < graph_.node(i).input_size(); ++k) {
        if (graph_.node(i).input(k) == name) uses.emplace_back(i, k);
      }
    }
    if (uses.size() < 2 || AreOneLayer(uses)) return;
    std::vector<std::string> parts = {name};
    std::vector<int> gone;
    bool first = true;
    for (const auto& [i, k] : uses) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      const bool renames = node.op_type() == "Identity" && node.output_size() == 1 && !IsOutput(node.output(0));
      if (!renames && std::exchange(first, false)) continue;
      const std::string part = renames ? node.output(0) : FreeName(name, parts.size());
      renames ? gone.push_back(i) : node.set_input(k, part);
      graph_.add_initializer()->set_name(part);
      initializers_[part] = tensor;
      parts.push_back(part);
    }
    for (auto at = gone.rbegin(); at != gone.rend(); ++at) graph_.mutable_node()->DeleteSubrange(*at, 1);
    roles_.notes.push_back(absl::StrCat("initializer ", name, ", all of whose elements are ", tensor.At(0),
                                        ", is read ", uses.size(), " times: taken for ", parts.size(),
                                        " tensors that the exporter wrote once (model.shared keeps it one)"));
  }

  // Whether nodes share other numbers, too, that are not equal by chance: one layer, used several times.
  bool AreOneLayer(const std::vector<std::pair<int, int>>& uses) const {
    std::map<std::string, int> readers;
    for (const auto& [i, k] : uses) {
      const onnx::NodeProto& node = graph_.node(i);
      for (const std::string& name : std::set<std::string>(node.input().begin(), node.input().end())) {
        const auto found = initializers_.find(name);
        if (found == initializers_.end() || UniformElement(found->second)) continue;
        if (++readers[absl::StrCat(k, " ", name)] > 1) return true;
      }
    }
    return false;
  }

  bool IsOutput(const std::string& name) const {
    return std::any_of(graph_.output().begin(), graph_.output().end(),
                       [&](const onnx::ValueInfoProto& output) { return output.name() == name; });
  }

  std::string FreeName(const std::string& name, size_t number) const {
    std::string free = absl::StrCat(name, ".", number + 1);
    while (initializers_.contains(free)) free += "_";
    return free;
  }

  std::string WhyLeft(const std::string& name) {
    if (!HoldsWeights(initializers_.at(name))) return "holds numbers that no weight is: a mask";
    std::string never;
    bool weight = false, other = in_subgraphs_.contains(name);
    std::set<std::string> seen;
    Look(name, IsGeneratedName(name), &seen, &never, &weight, &other);
    if (weight) return "";
    if (!other && !never.empty()) return never;
    if (IsGeneratedName(name)) return "named by an exporter, and read as no weight: a constant";
    return "";
  }

  // Exporters put constants that they made here: the first state of a recurrence that is written out is the left factor
  // of its products, and a norm in groups is one by instances with ones and zeros.
  static bool TakesMadeConstants(const onnx::NodeProto& node, int input) {
    if (node.op_type() == "InstanceNormalization") return true;
    return input == 0 && (node.op_type() == "MatMul" || node.op_type() == "Gemm");
  }

  void Look(const std::string& name, bool generated, std::set<std::string>* seen, std::string* never, bool* weight,
            bool* other) {
    if (!seen->insert(name).second) return;
    const auto found = readers_.find(name);
    if (found == readers_.end()) return;
    for (const auto& [node, input] : found->second) {
      const std::string what = NeverOf(node->op_type(), input);
      if (!what.empty()) {
        *never = what;
      } else if (MovesOnly(*node, input)) {
        Look(node->output(0), generated, seen, never, weight, other);
      } else if (IsWeightOf(node->op_type(), input) && !(generated && TakesMadeConstants(*node, input))) {
        *weight = true;
      } else {
        *other = true;
      }
    }
  }

  // Equal matrices, also turned: tied weights that were written twice.
  void NoteTied() {
    std::map<std::pair<int64_t, uint64_t>, std::vector<std::string>> alike;
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const auto found = initializers_.find(proto.name());
      if (found == initializers_.end() || roles_.left.contains(proto.name())) continue;
      const Tensor& tensor = found->second;
      if (!IsFloating(tensor.dtype()) || tensor.num_elements() < kLeastTied || UniformElement(tensor)) continue;
      alike[{tensor.num_elements(), Fingerprint(tensor)}].push_back(proto.name());
    }
    for (const auto& [key, names] : alike) {
      for (size_t i = 1; i < names.size(); ++i) {
        const Tensor &a = initializers_.at(names[0]), &b = initializers_.at(names[i]);
        const bool same = a.shape() == b.shape() && a.BitEqual(b), turned = !same && IsTransposed(a, b);
        if (!same && !turned) continue;
        roles_.notes.push_back(absl::StrCat("initializers ", names[0], " and ", names[i], " hold the same numbers",
                                            turned ? ", transposed" : "",
                                            ": a tied weight that was written twice? They are trained one by one"));
      }
    }
  }

  // Of the elements in any order.
  static uint64_t Fingerprint(const Tensor& tensor) {
    uint64_t sum = 0;
    const size_t size = DTypeSize(tensor.dtype());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, tensor.as<char>() + static_cast<size_t>(i) * size, size);
      bits = (bits + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
      sum += (bits ^ (bits >> 29)) * 0x94d049bb133111eb;
    }
    return sum;
  }

  static bool IsTransposed(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || a.shape().size() != 2 || b.shape() != Shape{a.shape()[1], a.shape()[0]}) return false;
    const size_t size = DTypeSize(a.dtype());
    for (int64_t row = 0; row < a.shape()[0]; ++row) {
      for (int64_t column = 0; column < a.shape()[1]; ++column) {
        const auto at = static_cast<size_t>(row * a.shape()[1] + column) * size;
        const auto turned = static_cast<size_t>(column * a.shape()[0] + row) * size;
        if (std::memcmp(a.as<char>() + at, b.as<char>() + turned, size) != 0) return false;
      }
    }
    return true;
  }

  const ImportOptions& options_;
  onnx::GraphProto& graph_;
  InitializersByName& initializers_;
  absl::flat_hash_set<std::string> in_subgraphs_;
  ReadersByName readers_;
  InitializerRoles roles_;
};

}  // namespace

InitializerRoles RolesOfInitializers(const ImportOptions& options, onnx::GraphProto& graph,
                                     InitializersByName& initializers) {
  return RoleFinder(options, graph, initializers).Run();
}

}  // namespace rewright
