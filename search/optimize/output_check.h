// Checks that a rewritten graph computes what the original does, on seeded inputs: its results and, in a graph for
// training, the next values of the states from their first ones.
//
// Small graphs are compared with the reference interpreter. Large ones are compared with the original run by the same
// runner, which is as good as the runner but fast. Without a runner the interpreter runs both, up to a size. If the
// runner differs from the interpreter on the original already (a NaN that a fused activation loses, a 0 of the other
// sign), the runner's result for the original is the reference, and the text says so.
//
// Outputs that the original itself gives with large rounding errors (deep graphs may amplify them) may differ by a
// small multiple of those errors, which are found by interpreting the original in f64. The difference may be at most
// 1e-3 of the largest element, or 8 roundings of the narrowest floating type of the graph. This does not apply if a
// tolerance was asked for.
//
// Inputs of several magnitudes, up to the ends of narrow types, show faults that ordinary numbers do not: elements that
// are finite in the original have to be finite, and integers that depend on integers alone have to be equal. Inputs
// around the numbers that either graph holds (core/ir/graph_numbers.h) have to give equal outputs: a bound does nothing
// anywhere else. Where they do not, f64 decides if rounding is the reason.
//
// Weights of type f32 that the candidate computes beforehand are checked themselves. If they overflow, or all fall
// below the least normal number, and in f64 do not, outputs may be equal on the inputs that were drawn, and on no
// others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/interpreter/interpreter.h"

namespace rewright {

struct OutputCheckOptions {
  // |candidate - original| <= atol + rtol * |original|. A negative atol means DefaultDistance of the output.
  double rtol = 1e-3;
  double atol = -1;
  int input_sets = 2;
  uint64_t seed = 1;
  // The most operations for which the interpreter is the reference.
  double interpreter_flops = 3e8;
  // The most operations for which the interpreter runs the candidate too if there is no runner. Larger graphs are not
  // checked.
  double interpreter_only_flops = 2e9;
  int threads = 1;
  std::map<std::string, Tensor> defaults;  // inputs that are not drawn, by name
};

// The same options, with the interpreter as the reference only for work that it does in a part of `seconds`.
OutputCheckOptions WithinSeconds(OutputCheckOptions options, double seconds);

struct OutputCheck {
  bool done = false;  // else the text says why nothing was checked
  bool equal = false;
  double max_abs_diff = 0;
  double max_rel_diff = 0;   // of the largest magnitude in the original's output
  std::string text;          // the worst element, or the weights at fault
  std::string device_fault;  // where the runner leaves the interpreter on the original; empty: nowhere
};

using ComputedWeights = absl::flat_hash_map<Value, Tensor>;

class OutputChecker {
 public:
  // `runner` may be null; it outlives the checker.
  OutputChecker(const Graph& original, GraphRunner* runner, const OutputCheckOptions& options);

  // Executables that the runner has compiled already, of graphs without states that change; null: they are compiled for
  // the check, for a few runs (GraphRunner::PrepareSparing). `written`: the graph whose weights are checked, if the
  // candidate was read from its file, which holds them computed; null: the candidate. `computed`: the elements of some
  // of these weights; null: of none.
  struct Compiled {
    Executable* original = nullptr;
    Executable* candidate = nullptr;
    const Graph* written = nullptr;
    const ComputedWeights* computed = nullptr;
  };
  // Errors: the original or the candidate cannot be run.
  absl::StatusOr<OutputCheck> Check(const Graph& candidate, const Compiled& compiled);
  absl::StatusOr<OutputCheck> Check(const Graph& candidate) { return Check(candidate, {}); }

 private:
  using Outputs = std::vector<Tensor>;
  // Inputs of other magnitudes, and what the original gives.
  struct StressSet {
    std::vector<Tensor> inputs;
    Outputs expected;
    bool compares = false;  // outputs have to be equal, within what rounding explains
  };

  absl::StatusOr<Outputs> InterpretOn(const Graph& graph, const std::vector<Tensor>& inputs, Precision precision) const;
  // One vector per set of inputs.
  absl::StatusOr<std::vector<Outputs>> Interpret(const Graph& graph, Precision precision = Precision::kNative) const;
  absl::StatusOr<std::vector<Outputs>> Run(Executable* compiled) const;
  // Gives the executable, for a few runs, that it puts into `*compiled`; null where there is one already.
  absl::StatusOr<std::unique_ptr<Executable>> CompileUnlessGiven(const Graph& graph, Executable** compiled) const;
  // Finds what the original gives, once. `compiled`: the original, or null.
  absl::Status Prepare(Executable* compiled);
  // Holds the candidate's outputs against `expected_`.
  OutputCheck Held(const std::vector<Outputs>& actual) const;
  // The same where the original's own rounding is known, as far as it excuses, or against the runner's original, of
  // which `compiled` is one or null.
  absl::StatusOr<OutputCheck> HeldWithRounding(const std::vector<Outputs>& actual, Executable* compiled);
  // Finds where inputs of other magnitudes tell the candidate from the original; empty: nowhere. Errors: it cannot run.
  absl::StatusOr<std::string> Stress(const Graph& candidate, Executable* compiled);
  absl::Status PrepareStress(Executable* compiled);
  absl::Status AddSetsAround(const std::vector<std::vector<double>>& groups, std::vector<StressSet>* sets);
  // Adds a set if the original takes it.
  absl::Status AddStress(std::vector<Tensor> inputs, bool compares, Executable* compiled,
                         std::vector<StressSet>* sets);
  // Describes how the outputs on a set differ from the original's; empty: as they may.
  absl::StatusOr<std::string> FaultOn(const StressSet& set, const Graph& candidate, Executable* compiled);
  absl::StatusOr<std::string> FaultAround(const StressSet& set, const Graph& candidate, const Outputs& actual) const;
  // Returns whether the original is small enough for the interpreter to be the reference.
  bool IsInterpreted() const;
  // Runs the graph on one set of inputs, by the interpreter or by `compiled`.
  absl::StatusOr<Outputs> StressedOutputs(const Graph& graph, const std::vector<Tensor>& inputs, Executable* compiled);
  // Finds `rounding_`.
  absl::Status MeasureRounding();
  // Describes the fault of weights that the candidate computes and the original does not; empty: none. `computed`: as
  // in Compiled.
  absl::StatusOr<std::string> FaultOfWeights(const Graph& candidate, const ComputedWeights* computed) const;
  absl::StatusOr<std::string> FaultOfWeight(const Graph& candidate, Value value, const Tensor& weight) const;

  const Graph original_;   // all outputs are results
  const double coarsest_;  // the rounding of its narrowest floating type; 0: it has none
  GraphRunner* runner_;
  OutputCheckOptions options_;
  std::optional<double> flops_;  // of the original
  std::vector<std::vector<Tensor>> inputs_;
  std::vector<Outputs> expected_;
  bool interpreted_ = false;  // expected_ is the interpreter's, and the runner has not been held against it
  std::string device_fault_;
  std::vector<StressSet> stress_;
  std::vector<std::vector<double>> rounding_;  // by set and output: greatest error of expected_; empty: not measured
};

}  // namespace rewright
