#include "search/output_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/compare.h"
#include "core/folded_values.h"
#include "core/interpreter.h"
#include "core/random_inputs.h"

namespace rewright {
namespace {

constexpr double kDefaultAtolScale = 1e-4;

double LargestMagnitude(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double size = std::abs(tensor.At(i));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  return largest;
}

bool AllFinite(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype())) return true;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (!std::isfinite(tensor.At(i))) return false;
  }
  return true;
}

bool Vanishes(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype())) return false;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double element = tensor.At(i);
    if (tensor.dtype() == DType::kFloat32 ? std::isnormal(static_cast<float>(element)) : std::isnormal(element)) {
      return false;
    }
  }
  return tensor.num_elements() > 0;
}

// The leaves that a value is computed from.
std::vector<const Tensor*> LeavesOf(const Graph& graph, Value value) {
  std::vector<const Tensor*> leaves;
  std::vector<NodeId> stack = {value.node};
  absl::flat_hash_set<NodeId> seen = {value.node};
  while (!stack.empty()) {
    const Node& node = graph.node(stack.back());
    stack.pop_back();
    if (node.op == nullptr) leaves.push_back(&node.data);
    for (Value operand : node.operands) {
      if (seen.insert(operand.node).second) stack.push_back(operand.node);
    }
  }
  return leaves;
}

}  // namespace

OutputChecker::OutputChecker(const Graph& original, GraphRunner* runner, const OutputCheckOptions& options)
    : original_(original), runner_(runner), options_(options) {}

absl::StatusOr<std::vector<OutputChecker::Outputs>> OutputChecker::Interpret(const Graph& graph) const {
  InterpretOptions options;
  options.threads = options_.threads;
  std::vector<Outputs> results;
  for (const std::vector<Tensor>& set : inputs_) {
    absl::flat_hash_map<std::string, Tensor> by_name;
    for (size_t i = 0; i < set.size(); ++i) by_name[original_.node(original_.inputs()[i].node).name] = set[i];
    absl::StatusOr<Outputs> outputs = InterpretGraph(graph, by_name, options);
    if (!outputs.ok()) return outputs.status();
    results.push_back(*std::move(outputs));
  }
  return results;
}

absl::StatusOr<std::vector<OutputChecker::Outputs>> OutputChecker::Run(const Graph& graph) const {
  absl::StatusOr<std::unique_ptr<Executable>> executable = runner_->Prepare(graph);
  if (!executable.ok()) return executable.status();
  std::vector<Outputs> results;
  for (const std::vector<Tensor>& set : inputs_) {
    Outputs outputs;
    if (absl::Status status = (*executable)->Run(set, &outputs); !status.ok()) return status;
    results.push_back(std::move(outputs));
  }
  return results;
}

absl::Status OutputChecker::Prepare() {
  if (!inputs_.empty()) return absl::OkStatus();
  const auto draw = [&](int64_t least_integer) {
    inputs_.clear();
    for (int i = 0; i < std::max(1, options_.input_sets); ++i) {
      inputs_.push_back(RandomInputs(original_, options_.seed + static_cast<uint64_t>(i), least_integer));
    }
  };
  draw(0);
  interpreted_ = runner_ == nullptr || *flops_ <= options_.interpreter_flops;
  absl::StatusOr<std::vector<Outputs>> expected = interpreted_ ? Interpret(original_) : Run(original_);
  if (absl::IsOutOfRange(expected.status())) {  // an integer was divided by 0
    draw(1);
    expected = Interpret(original_);
  }
  if (!expected.ok()) {
    inputs_.clear();
    return expected.status();
  }
  expected_ = *std::move(expected);
  return absl::OkStatus();
}

absl::StatusOr<std::string> OutputChecker::FaultOfWeights(const Graph& candidate) const {
  absl::flat_hash_set<Value> known;
  if (candidate.arena() == original_.arena()) {
    for (Value value : FoldedValues(original_)) known.insert(value);
  }
  std::vector<Output> computed;
  for (Value value : FoldedValues(candidate)) {
    if (!known.contains(value) && IsFloating(candidate.type(value).dtype)) computed.push_back({value, ""});
  }
  if (computed.empty()) return "";
  for (size_t i = 0; i < computed.size(); ++i) computed[i].name = absl::StrCat("weight_", i);
  const Graph weights(candidate.arena(), {}, computed);
  Outputs tensors;
  if (runner_ == nullptr) {
    absl::StatusOr<Outputs> interpreted = InterpretGraph(weights, {});
    if (!interpreted.ok()) return interpreted.status();
    tensors = *std::move(interpreted);
  } else {
    absl::StatusOr<std::unique_ptr<Executable>> executable = runner_->Prepare(weights);
    if (!executable.ok()) return executable.status();
    if (absl::Status status = (*executable)->Run({}, &tensors); !status.ok()) return status;
  }
  for (size_t i = 0; i < computed.size(); ++i) {
    const bool finite = AllFinite(tensors[i]);
    if (finite && !Vanishes(tensors[i])) continue;
    const std::vector<const Tensor*> leaves = LeavesOf(candidate, computed[i].value);
    if (std::all_of(leaves.begin(), leaves.end(),
                    [&](const Tensor* leaf) { return finite ? !Vanishes(*leaf) : AllFinite(*leaf); })) {
      return absl::StrCat("weights of type ", candidate.type(computed[i].value).ToString(), " computed beforehand ",
                          finite ? "vanish" : "are not finite");
    }
  }
  return "";
}

OutputCheck OutputChecker::Held(const std::vector<Outputs>& actual) const {
  OutputCheck check;
  check.done = true;
  check.equal = true;
  check.device_fault = device_fault_;
  for (size_t set = 0; set < inputs_.size(); ++set) {
    for (size_t i = 0; i < original_.outputs().size(); ++i) {
      const Tensor& expected = expected_[set][i];
      const double largest = LargestMagnitude(expected);
      const double atol = options_.atol >= 0 ? options_.atol : kDefaultAtolScale * largest;
      const Comparison difference = Compare(actual[set][i], expected, options_.rtol, atol);
      check.equal &= difference.close;
      if (check.text.empty() || difference.max_abs > check.max_abs_diff) {
        check.text = absl::StrCat("output ", original_.outputs()[i].name, ": ", difference.text);
      }
      check.max_abs_diff = std::max(check.max_abs_diff, difference.max_abs);
      const double relative = difference.max_abs == 0 ? 0 : difference.max_abs / largest;
      check.max_rel_diff = std::max(check.max_rel_diff, relative);
    }
  }
  return check;
}

absl::StatusOr<OutputCheck> OutputChecker::Check(const Graph& candidate) {
  if (!flops_) flops_ = FeaturesOf(original_).flops;
  OutputCheck check;
  if (runner_ == nullptr && *flops_ > options_.interpreter_only_flops) {
    check.text =
        absl::StrCat("not checked: no device runs it, and ", *flops_ * 1e-9, " GFLOP are too many for the interpreter");
    return check;
  }
  const absl::StatusOr<std::string> fault = FaultOfWeights(candidate);
  if (!fault.ok()) return fault.status();
  if (!fault->empty()) {
    check.done = true;
    check.text = *fault;
    return check;
  }
  if (absl::Status status = Prepare(); !status.ok()) return status;
  absl::StatusOr<std::vector<Outputs>> actual = runner_ == nullptr ? Interpret(candidate) : Run(candidate);
  if (!actual.ok()) return actual.status();
  check = Held(*actual);
  if (check.equal || runner_ == nullptr || !interpreted_) return check;
  interpreted_ = false;
  absl::StatusOr<std::vector<Outputs>> original = Run(original_);
  if (!original.ok()) return original.status();
  if (const OutputCheck device = Held(*original); !device.equal) {
    device_fault_ = device.text;
    expected_ = *std::move(original);
    check = Held(*actual);
  }
  return check;
}

}  // namespace rewright
