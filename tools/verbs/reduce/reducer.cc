#include "tools/verbs/reduce/reducer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/part.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

// Tensors are the same if no element is further off than this share of the largest one: folded weights are rounded.
constexpr double kSameInF64 = 1e-5;
constexpr double kSameInF32 = 1e-3;
constexpr double kSameIn16Bits = 3e-2;
// The part of the output's difference that the elements of a common input may have.
constexpr double kShareOfDifference = 0.1;
// Pairs of tensors that are tried, the smallest parts first.
constexpr size_t kMostPairs = 200;

bool HasNarrowFloats(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) {
    const auto& types = graph.node(id).outputs;
    return std::any_of(types.begin(), types.end(),
                       [](const TensorType& type) { return IsFloating(type.dtype) && DTypeSize(type.dtype) < 4; });
  });
}

// The greatest difference of two tensors of one type, of the largest element; infinite where one alone is a number.
double Apart(const Tensor& a, const Tensor& b) {
  const double apart = Compare(a, b).max_abs;
  if (apart == 0) return 0;
  const double largest = std::max(LargestMagnitude(a), LargestMagnitude(b));
  return !IsFloating(a.dtype()) ? 1 : largest == 0 ? apart : apart / largest;
}

// A model with what its tensors are on the inputs.
struct Side {
  const ImportedModel& model;
  std::vector<FileNode> nodes;
  std::map<std::string, int> producer;        // of tensors that nodes give
  std::vector<std::string> names;             // of tensors that depend on inputs, in order
  std::map<std::string, Tensor> elements;     // theirs
  std::map<std::string, TensorType> types;    // theirs, in the file
  std::map<std::string, std::string> common;  // those that both models have, by the name that they get
};

absl::StatusOr<Side> RunSide(const ImportedModel& model, const TensorsByName& inputs, const InterpretOptions& how) {
  Side side{.model = model, .nodes = FileNodes(*model.source)};
  const Graph& graph = model.graph;
  std::vector<Output> outputs;
  absl::flat_hash_map<Value, size_t> positions;
  std::vector<std::pair<std::string, size_t>> named;
  const auto add = [&](const std::string& name) {
    const std::optional<Value> value = name.empty() ? std::nullopt : FileValue(*model.source, name);
    if (!value || graph.arena()->IsKnown(*value)) return;
    const auto [found, is_new] = positions.emplace(*value, outputs.size());
    if (is_new) outputs.push_back({*value, name});
    named.emplace_back(name, found->second);
    side.types[name] = graph.type(*value);
  };
  for (Value input : graph.inputs()) add(graph.node(input.node).name);
  for (size_t i = 0; i < side.nodes.size(); ++i) {
    for (const std::string& name : side.nodes[i].outputs) {
      side.producer[name] = static_cast<int>(i);
      add(name);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                   InterpretGraph(Graph(graph.arena(), graph.inputs(), outputs), inputs, how));
  for (const auto& [name, position] : named) {
    side.names.push_back(name);
    side.elements.emplace(name, values[position]);
  }
  return side;
}

// Two tensors that ought to be equal, and the parts that compute them.
struct Target {
  std::string a, b;
  PartOfFile part_a, part_b;
  size_t nodes = 0;
};

class Reducer {
 public:
  Reducer(Side a, Side b, const ReduceOptions& options, double difference)
      : a_(std::move(a)), b_(std::move(b)), options_(options) {
    const bool narrow = HasNarrowFloats(a_.model.graph) || HasNarrowFloats(b_.model.graph);
    const double same = narrow ? kSameIn16Bits : options_.precision == Precision::kFloat64 ? kSameInF64 : kSameInF32;
    same_ = std::min(same, kShareOfDifference * difference);
    MatchTensors();
  }

  absl::StatusOr<ReducedPair> Run(const std::string& output) {
    std::vector<Target> targets = Targets(output);
    for (const Target& target : targets) {
      ASSIGN_OR_RETURN(const bool explains, Explains(target, output));
      if (!explains) continue;
      ASSIGN_OR_RETURN(std::optional<ReducedPair> pair, Tried(target));
      if (pair) return *std::move(pair);
    }
    return absl::FailedPreconditionError("no smaller pair of models keeps the difference");
  }

 private:
  bool Same(const Tensor& a, const Tensor& b) const { return a.type() == b.type() && Apart(a, b) <= same_; }

  // Gives tensors with the same elements one name, that of the first such tensor of A.
  void MatchTensors() {
    std::map<std::pair<DType, Shape>, std::vector<std::string>> of_a;
    std::map<std::string, std::string> first;  // of A with these elements
    for (const std::string& name : a_.names) {
      const Tensor& elements = a_.elements.at(name);
      std::vector<std::string>& others = of_a[{a_.types.at(name).dtype, elements.shape()}];
      const auto found = std::find_if(others.begin(), others.end(),
                                      [&](const std::string& other) { return Same(a_.elements.at(other), elements); });
      first[name] = found == others.end() ? name : *found;
      if (found == others.end()) others.push_back(name);
    }
    std::set<std::string> in_both;
    for (const std::string& name : b_.names) {
      const Tensor& elements = b_.elements.at(name);
      const std::vector<std::string>& others = of_a[{b_.types.at(name).dtype, elements.shape()}];
      const auto named = a_.elements.find(name);
      if (named != a_.elements.end() && a_.types.at(name) == b_.types.at(name) && Same(named->second, elements)) {
        b_.common[name] = first.at(name);
      } else if (const auto found =
                     std::find_if(others.begin(), others.end(),
                                  [&](const std::string& other) { return Same(a_.elements.at(other), elements); });
                 found != others.end()) {
        b_.common[name] = *found;
      } else {
        continue;
      }
      in_both.insert(b_.common.at(name));
    }
    for (const auto& [name, one] : first) {
      if (in_both.contains(one)) a_.common[name] = one;
    }
  }

  // Pairs of tensors of one type that differ and ought to be equal: those of one name, and operands of equal
  // applications that give such a pair. The parts with the fewest nodes first; the output itself is always one.
  std::vector<Target> Targets(const std::string& output) const {
    std::vector<std::pair<std::string, std::string>> pairs = {{output, output}};
    for (const std::string& name : b_.names) {
      if (name != output && a_.elements.contains(name)) pairs.emplace_back(name, name);
    }
    std::set<std::pair<std::string, std::string>> seen;
    std::vector<Target> targets;
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto [a, b] = pairs[i];
      // An input is no part of a model that computes something.
      if (!seen.insert(pairs[i]).second || !a_.producer.contains(a) || !b_.producer.contains(b) ||
          !a_.elements.contains(a) || !b_.elements.contains(b) || a_.types.at(a) != b_.types.at(b) ||
          Same(a_.elements.at(a), b_.elements.at(b))) {
        continue;
      }
      targets.push_back(TargetOf(a, b));
      for (auto& below : OperandPairs(a, b)) pairs.push_back(std::move(below));
    }
    std::stable_sort(targets.begin(), targets.end(),
                     [](const Target& one, const Target& other) { return one.nodes < other.nodes; });
    if (targets.size() > kMostPairs) {
      const auto whole = std::find_if(targets.begin(), targets.end(),
                                      [&](const Target& target) { return target.a == output && target.b == output; });
      std::iter_swap(targets.begin() + kMostPairs - 1, whole);
      targets.resize(kMostPairs);
    }
    return targets;
  }

  std::vector<std::pair<std::string, std::string>> OperandPairs(const std::string& a, const std::string& b) const {
    const auto of_a = a_.producer.find(a), of_b = b_.producer.find(b);
    if (of_a == a_.producer.end() || of_b == b_.producer.end()) return {};
    const FileNode& x = a_.nodes[static_cast<size_t>(of_a->second)];
    const FileNode& y = b_.nodes[static_cast<size_t>(of_b->second)];
    if (x.op != y.op || x.attributes != y.attributes || x.reads.size() != y.reads.size()) return {};
    std::vector<std::pair<std::string, std::string>> pairs;
    for (size_t i = 0; i < x.reads.size(); ++i) {
      if (!Alike(x.reads[i], y.reads[i])) pairs.emplace_back(x.reads[i], y.reads[i]);
    }
    // Several pairs tell nothing about each: x y may be y x.
    if (pairs.size() > 1) pairs.clear();
    return pairs;
  }

  // True if a tensor of A and one of B are the same: common, or known beforehand with the same elements.
  bool Alike(const std::string& a, const std::string& b) const {
    const auto of_a = a_.common.find(a), of_b = b_.common.find(b);
    if (of_a != a_.common.end() && of_b != b_.common.end()) return of_a->second == of_b->second;
    const Tensor *known_a = KnownElements(a_, a), *known_b = KnownElements(b_, b);
    return known_a != nullptr && known_b != nullptr && known_a->type() == known_b->type() &&
           known_a->BitEqual(*known_b);
  }

  static const Tensor* KnownElements(const Side& side, const std::string& tensor) {
    const std::optional<Value> value = FileValue(*side.model.source, tensor);
    const Arena& arena = *side.model.graph.arena();
    return value && arena.node(value->node).op == nullptr ? arena.KnownElements(value->node) : nullptr;
  }

  Target TargetOf(const std::string& a, const std::string& b) const {
    Target target{.a = a, .b = b};
    std::set<std::string> read;
    const auto fill = [&](const Side& side, const std::string& tensor, PartOfFile* part) {
      part->outputs = {{tensor, a}};
      part->begin = side.common;
      part->begin.erase(tensor);
      for (const int i : NodesOfPart(side.nodes, *part)) {
        const FileNode& node = side.nodes[static_cast<size_t>(i)];
        target.nodes += node.op != "Constant";
        for (const std::string& name : node.reads) {
          if (const auto found = part->begin.find(name); found != part->begin.end()) read.insert(found->second);
        }
      }
    };
    fill(a_, a, &target.part_a);
    fill(b_, b, &target.part_b);
    for (const std::string& name : read) {
      target.part_a.inputs.emplace_back(name, a_.types.at(name));
      target.part_b.inputs.emplace_back(name, a_.types.at(name));
    }
    return target;
  }

  absl::StatusOr<std::string> Bytes(const Side& side, const PartOfFile& part) const {
    return PartOfModel(*side.model.source, side.model.metadata, *side.model.graph.arena(), part);
  }

  // True if B gives the output of A once the target has the elements that A has there.
  absl::StatusOr<bool> Explains(const Target& target, const std::string& output) const {
    if (target.a == output && target.b == output) return true;
    PartOfFile rest;
    rest.outputs = {{output, output}};
    TensorsByName inputs;
    const auto begin_at = [&](const std::string& tensor, const Tensor& elements) {
      const std::string name = absl::StrCat("begin ", rest.inputs.size());
      rest.begin[tensor] = name;
      rest.inputs.emplace_back(name, b_.types.at(tensor));
      inputs.emplace(name, elements);
    };
    begin_at(target.b, a_.elements.at(target.a));
    for (Value input : b_.model.graph.inputs()) {
      const std::string& name = b_.model.graph.node(input.node).name;
      if (name != target.b) begin_at(name, b_.elements.at(name));
    }
    ASSIGN_OR_RETURN(const std::string bytes, Bytes(b_, rest));
    ASSIGN_OR_RETURN(const ImportedModel model, ImportOnnxBytes(bytes, "the rest of B", ""));
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, InterpretGraph(model.graph, inputs, How()));
    return Same(a_.elements.at(output), values[0]);
  }

  // The reduced pair of a target, if its outputs differ.
  absl::StatusOr<std::optional<ReducedPair>> Tried(const Target& target) const {
    ReducedPair pair;
    pair.output = target.a;
    TensorsByName inputs;
    for (const auto& [name, type] : target.part_a.inputs) {
      Tensor rounded = RoundedTo(a_.elements.at(name), type.dtype);
      inputs.emplace(name, rounded);
      pair.inputs.emplace_back(name, std::move(rounded));
    }
    ASSIGN_OR_RETURN(pair.a, Reduced(a_, target.part_a));
    ASSIGN_OR_RETURN(pair.b, Reduced(b_, target.part_b));
    ASSIGN_OR_RETURN(const ImportedModel a, ImportOnnxBytes(pair.a.bytes, "the part of A", ""));
    ASSIGN_OR_RETURN(const ImportedModel b, ImportOnnxBytes(pair.b.bytes, "the part of B", ""));
    ASSIGN_OR_RETURN(const std::vector<Tensor> of_a, InterpretGraph(a.graph, inputs, How()));
    ASSIGN_OR_RETURN(const std::vector<Tensor> of_b, InterpretGraph(b.graph, inputs, How()));
    if (Same(of_a[0], of_b[0])) return std::nullopt;
    const int64_t worst = std::max<int64_t>(0, Compare(of_a[0], of_b[0]).worst);
    pair.at = PositionOf(of_a[0].shape(), worst);
    pair.value_a = of_a[0].At(worst);
    pair.value_b = of_b[0].At(worst);
    if (options_.differs) {
      ASSIGN_OR_RETURN(const bool differs, options_.differs(a.graph, b.graph));
      if (!differs) return std::nullopt;
    }
    return pair;
  }

  absl::StatusOr<ReducedModel> Reduced(const Side& side, const PartOfFile& part) const {
    ReducedModel model;
    ASSIGN_OR_RETURN(model.bytes, Bytes(side, part));
    for (const int i : NodesOfPart(side.nodes, part)) {
      const std::string& op = side.nodes[static_cast<size_t>(i)].op;
      if (op != "Constant") model.nodes.push_back(op);
    }
    return model;
  }

  static Tensor RoundedTo(const Tensor& tensor, DType dtype) {
    if (tensor.dtype() == dtype) return tensor;
    Tensor rounded({dtype, tensor.shape()});
    for (int64_t i = 0; i < tensor.num_elements(); ++i) rounded.Set(i, tensor.At(i));
    return rounded;
  }

  InterpretOptions How() const { return {.precision = options_.precision, .threads = options_.threads}; }

  Side a_, b_;
  const ReduceOptions& options_;
  double same_;
};

}  // namespace

absl::StatusOr<ReducedPair> ReducePair(const ImportedModel& a, const ImportedModel& b, const TensorsByName& inputs,
                                       const std::string& output, const ReduceOptions& options) {
  const InterpretOptions how{.precision = options.precision, .threads = options.threads};
  ASSIGN_OR_RETURN(Side side_a, RunSide(a, inputs, how));
  ASSIGN_OR_RETURN(Side side_b, RunSide(b, inputs, how));
  const auto of_a = side_a.elements.find(output), of_b = side_b.elements.find(output);
  if (of_a == side_a.elements.end() || of_b == side_b.elements.end()) {
    return absl::UnimplementedError(absl::StrCat("output ", output, " does not depend on the inputs in both models"));
  }
  const double difference = Apart(of_a->second, of_b->second);
  if (difference == 0) return absl::FailedPreconditionError(absl::StrCat("output ", output, " does not differ"));
  Reducer reducer(std::move(side_a), std::move(side_b), options, difference);
  return reducer.Run(output);
}

}  // namespace rewright
