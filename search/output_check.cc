#include "search/output_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/compare.h"
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
  for (int i = 0; i < std::max(1, options_.input_sets); ++i) {
    inputs_.push_back(RandomInputs(original_, options_.seed + static_cast<uint64_t>(i)));
  }
  const bool interpret = runner_ == nullptr || *flops_ <= options_.interpreter_flops;
  absl::StatusOr<std::vector<Outputs>> expected = interpret ? Interpret(original_) : Run(original_);
  if (!expected.ok()) {
    inputs_.clear();
    return expected.status();
  }
  expected_ = *std::move(expected);
  return absl::OkStatus();
}

absl::StatusOr<OutputCheck> OutputChecker::Check(const Graph& candidate) {
  if (!flops_) flops_ = FeaturesOf(original_).flops;
  OutputCheck check;
  if (runner_ == nullptr && *flops_ > options_.interpreter_only_flops) {
    check.text =
        absl::StrCat("not checked: no device runs it, and ", *flops_ * 1e-9, " GFLOP are too many for the interpreter");
    return check;
  }
  if (absl::Status status = Prepare(); !status.ok()) return status;
  absl::StatusOr<std::vector<Outputs>> actual = runner_ == nullptr ? Interpret(candidate) : Run(candidate);
  if (!actual.ok()) return actual.status();
  check.done = true;
  check.equal = true;
  for (size_t set = 0; set < inputs_.size(); ++set) {
    for (size_t i = 0; i < original_.outputs().size(); ++i) {
      const Tensor& expected = expected_[set][i];
      const double largest = LargestMagnitude(expected);
      const double atol = options_.atol >= 0 ? options_.atol : kDefaultAtolScale * largest;
      const Comparison difference = Compare((*actual)[set][i], expected, options_.rtol, atol);
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

}  // namespace rewright
