#include "search/optimize/output_check.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/graph_numbers.h"
#include "core/ir/random_tensors.h"
#include "core/ops/foreign.h"
#include "core/tensor/compare.h"
#include "search/optimize/weight_bytes.h"

namespace rewright {
namespace {

// A candidate's rounding errors are its own, of the size of the original's.
constexpr double kRoundingErrors = 8;
// They excuse no more than this part of the largest element, in graphs whose reals have 32 bits.
constexpr double kMostExcused = 1e-3;
// Sets of inputs of other magnitudes, as many as the interpreter runs in this part of the operations that it may; one
// at least.
constexpr int kStressSets = 64;
constexpr double kStressShare = 0.05;
constexpr size_t kSetsOfCandidate = 2;  // around numbers that the original does not have

// The graph that gives next values of states as results, and changes none.
Graph WithoutUpdates(const Graph& graph) {
  std::vector<Output> outputs = graph.outputs();
  for (Output& output : outputs) {
    if (output.updates.node < 0) continue;
    output.name = absl::StrCat("the next ", output.name);
    output.updates = {};
  }
  return Graph(graph.arena(), graph.inputs(), std::move(outputs));
}

// The rounding of the narrowest floating type in the graph.
double CoarsestRounding(const Graph& graph) {
  double rounding = 0;
  const auto look = [&](const TensorType& type) {
    if (IsFloating(type.dtype)) rounding = std::max(rounding, RoundingOf(type.dtype));
  };
  for (Value input : graph.inputs()) look(graph.type(input));
  for (NodeId id : graph.nodes()) {
    for (const TensorType& type : graph.node(id).outputs) look(type);
  }
  return rounding;
}

// The magnitudes of all inputs in each of at most `most` sets: every combination if there are few, else some of them.
std::vector<std::vector<Magnitude>> Combinations(size_t inputs, int most, uint64_t seed) {
  std::vector<std::vector<Magnitude>> sets;
  double all = std::pow(kMagnitudes, static_cast<double>(inputs));
  std::mt19937_64 rng(seed);
  const int count = all <= most ? static_cast<int>(all) : most;
  for (int i = 0; i < count; ++i) {
    std::vector<Magnitude> set;
    for (size_t k = 0, rest = static_cast<size_t>(i); k < inputs; ++k, rest /= kMagnitudes) {
      // Inputs of one magnitude first.
      const uint64_t digit = all <= most ? rest : i < kMagnitudes ? static_cast<uint64_t>(i) : rng();
      set.push_back(static_cast<Magnitude>(digit % kMagnitudes));
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

// Element i is infinite or NaN where the original's is a number.
bool IsLost(const Tensor& actual, const Tensor& expected, int64_t i) {
  return std::isfinite(expected.At(i)) && !std::isfinite(actual.At(i));
}

// True if some element is not finite, or none is a normal number.
bool IsSuspicious(const Tensor& weights) {
  if (weights.dtype() == DType::kFloat32) {  // weights are many; without the sign bits are ordered as magnitudes are
    constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000, kSmallestNormal = 0x00800000;
    const auto* const bits = static_cast<const uint32_t*>(weights.data());
    uint32_t largest = 0;
    const int64_t count = weights.num_elements();
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, bits[i] & kMagnitude);
    return largest >= kInfinity || largest < kSmallestNormal;
  }
  const double smallest = SmallestNormalOf(weights.dtype());
  bool vanished = true;
  for (int64_t i = 0; i < weights.num_elements(); ++i) {
    const double element = weights.At(i);
    if (!std::isfinite(element)) return true;
    vanished &= std::abs(element) < smallest;
  }
  return vanished;
}

// Describes the fault of suspicious weights, judged by f64: some are too large for their type, or all too small. Empty:
// none.
std::string FaultOf(const Tensor& computed, const Tensor& exact) {
  bool finite = true;
  double largest = 0;
  for (int64_t i = 0; i < computed.num_elements(); ++i) {
    if (!std::isfinite(computed.At(i))) {
      if (std::isfinite(exact.At(i))) return "overflow";
      finite = false;
    }
    largest = std::max(largest, std::abs(exact.At(i)));
  }
  return finite && largest > 0 && largest < SmallestNormalOf(computed.dtype()) ? "vanish" : "";
}

}  // namespace

OutputCheckOptions WithinSeconds(OutputCheckOptions options, double seconds) {
  constexpr double kFlopsPerSecond = 1e7;  // it does about ten times as much
  options.interpreter_flops = std::min(options.interpreter_flops, kFlopsPerSecond * std::max(0.0, seconds));
  return options;
}

OutputChecker::OutputChecker(const Graph& original, GraphRunner* runner, const OutputCheckOptions& options)
    : original_(WithoutUpdates(original)), coarsest_(CoarsestRounding(original_)), runner_(runner), options_(options) {}

absl::StatusOr<OutputChecker::Outputs> OutputChecker::InterpretOn(const Graph& graph, const std::vector<Tensor>& inputs,
                                                                  Precision precision) const {
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t i = 0; i < inputs.size(); ++i) by_name[original_.node(original_.inputs()[i].node).name] = inputs[i];
  return InterpretGraph(graph, by_name, {.precision = precision, .threads = options_.threads});
}

absl::StatusOr<std::vector<OutputChecker::Outputs>> OutputChecker::Interpret(const Graph& graph,
                                                                             Precision precision) const {
  std::vector<Outputs> results;
  for (const std::vector<Tensor>& set : inputs_) {
    ASSIGN_OR_RETURN(results.emplace_back(), InterpretOn(graph, set, precision));
  }
  return results;
}

absl::StatusOr<std::unique_ptr<Executable>> OutputChecker::CompileUnlessGiven(const Graph& graph,
                                                                              Executable** compiled) const {
  std::unique_ptr<Executable> own;
  if (*compiled != nullptr) return own;
  ASSIGN_OR_RETURN(own, runner_->PrepareSparing(graph));
  *compiled = own.get();
  return own;
}

absl::StatusOr<std::vector<OutputChecker::Outputs>> OutputChecker::Run(Executable* compiled) const {
  std::vector<Outputs> results;
  for (const std::vector<Tensor>& set : inputs_) {
    Outputs outputs;
    RETURN_IF_ERROR(compiled->Run(set, &outputs));
    results.push_back(std::move(outputs));
  }
  return results;
}

absl::Status OutputChecker::Prepare(Executable* compiled) {
  if (!inputs_.empty()) return absl::OkStatus();
  std::unique_ptr<Executable> own;
  if (!IsInterpreted()) {
    ASSIGN_OR_RETURN(own, CompileUnlessGiven(original_, &compiled));
  }
  absl::Cleanup undo = [this] { inputs_.clear(); };
  const auto draw = [&](int64_t least_integer) -> absl::Status {
    inputs_.clear();
    for (int i = 0; i < std::max(1, options_.input_sets); ++i) {
      ASSIGN_OR_RETURN(std::vector<Tensor> inputs,
                       RandomInputs(original_, options_.seed + static_cast<uint64_t>(i), least_integer));
      PutGiven(original_, options_.defaults, &inputs);
      inputs_.push_back(std::move(inputs));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(draw(0));
  interpreted_ = IsInterpreted();
  absl::StatusOr<std::vector<Outputs>> expected = interpreted_ ? Interpret(original_) : Run(compiled);
  if (absl::IsOutOfRange(expected.status())) {  // an integer was divided by 0
    RETURN_IF_ERROR(draw(1));
    expected = Interpret(original_);
  }
  RETURN_IF_ERROR(expected.status());
  expected_ = *std::move(expected);
  RETURN_IF_ERROR(PrepareStress(compiled));
  std::move(undo).Cancel();
  return absl::OkStatus();
}

absl::StatusOr<std::string> OutputChecker::FaultOfWeights(const Graph& candidate,
                                                          const ComputedWeights* computed) const {
  const auto computed_before = [&](Value value) -> const Tensor* {
    if (computed == nullptr) return nullptr;
    const auto found = computed->find(value);
    return found == computed->end() ? nullptr : &found->second;
  };
  absl::flat_hash_set<Value> known;
  if (candidate.arena() == original_.arena()) {
    for (Value value : FoldedValues(original_)) known.insert(value);
  }
  std::vector<Value> weights;
  for (Value value : FoldedValues(candidate)) {
    if (known.contains(value) || ComputedDType(candidate.type(value).dtype) != DType::kFloat32) continue;
    weights.push_back(value);
  }
  for (const std::vector<Value>& part : IndependentParts(*candidate.arena(), weights)) {
    std::vector<Value> open;
    for (Value value : part) {
      if (computed_before(value) == nullptr) open.push_back(value);
    }
    ASSIGN_OR_RETURN(const Outputs others, ComputeKnown(candidate.arena(), open, options_.threads));
    auto other = others.begin();  // which are in the order of the part
    for (Value value : part) {
      const Tensor* const before = computed_before(value);
      ASSIGN_OR_RETURN(const std::string fault,
                       FaultOfWeight(candidate, value, before != nullptr ? *before : *other++));
      if (!fault.empty()) return fault;
    }
  }
  return "";
}

absl::StatusOr<std::string> OutputChecker::FaultOfWeight(const Graph& candidate, Value value,
                                                         const Tensor& weight) const {
  if (!IsSuspicious(weight)) return "";
  const InterpretOptions in_f64{.precision = Precision::kFloat64, .threads = options_.threads};
  ASSIGN_OR_RETURN(const Outputs exact, InterpretGraph(Graph(candidate.arena(), {}, {{value, ""}}), {}, in_f64));
  const std::string fault = FaultOf(weight, exact[0]);
  if (fault.empty()) return "";
  return absl::StrCat("weights of type ", weight.type().ToString(), " computed beforehand ", fault);
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
      double atol = options_.atol;
      if (atol < 0) {
        const double rounding = rounding_.empty() ? 0 : rounding_[set][i];
        const double most = std::max(kMostExcused, kRoundingErrors * coarsest_);
        atol = DefaultDistance(expected.dtype(), largest) + std::min(kRoundingErrors * rounding, most * largest);
      }
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

absl::StatusOr<OutputChecker::Outputs> OutputChecker::StressedOutputs(const Graph& graph,
                                                                      const std::vector<Tensor>& inputs,
                                                                      Executable* compiled) {
  if (IsInterpreted()) return InterpretOn(graph, inputs, Precision::kNative);
  Outputs outputs;
  RETURN_IF_ERROR(compiled->Run(inputs, &outputs));
  return outputs;
}

bool OutputChecker::IsInterpreted() const {
  return runner_ == nullptr || (*flops_ <= options_.interpreter_flops && CountForeign(original_) == 0);
}

absl::Status OutputChecker::AddStress(std::vector<Tensor> inputs, bool compares, Executable* compiled,
                                      std::vector<StressSet>* sets) {
  absl::StatusOr<Outputs> outputs = StressedOutputs(original_, inputs, compiled);
  if (outputs.ok()) sets->push_back({std::move(inputs), *std::move(outputs), compares});
  return absl::OkStatus();
}

// Leaves out sets that the original does not take (for example, because it divides by 0).
absl::Status OutputChecker::PrepareStress(Executable* compiled) {
  stress_.clear();
  const double affordable = kStressShare * options_.interpreter_flops / std::max(*flops_, 1.0);
  const int most = static_cast<int>(std::clamp<double>(affordable, 1, kStressSets));
  std::vector<std::vector<Magnitude>> sets = Combinations(original_.inputs().size(), most, options_.seed);
  if (most == 1) sets.assign(1, std::vector<Magnitude>(original_.inputs().size(), Magnitude::kLarge));
  for (const std::vector<Magnitude>& magnitudes : sets) {
    ASSIGN_OR_RETURN(std::vector<Tensor> inputs, StressInputs(original_, options_.seed, magnitudes));
    RETURN_IF_ERROR(AddStress(std::move(inputs), /*compares=*/false, compiled, &stress_));
  }
  return AddSetsAround(NumbersOf({&original_}, std::min(kSetsAround, static_cast<size_t>(most))), &stress_);
}

// Models that are too large for the interpreter get none: f64 has to decide.
absl::Status OutputChecker::AddSetsAround(const std::vector<std::vector<double>>& groups,
                                          std::vector<StressSet>* sets) {
  if (*flops_ > options_.interpreter_flops || CountForeign(original_) > 0) return absl::OkStatus();
  for (const std::vector<double>& numbers : groups) {
    ASSIGN_OR_RETURN(std::vector<Tensor> inputs, InputsAround(original_, options_.seed, numbers));
    RETURN_IF_ERROR(AddStress(std::move(inputs), /*compares=*/true, /*compiled=*/nullptr, sets));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> OutputChecker::FaultAround(const StressSet& set, const Graph& candidate,
                                                       const Outputs& actual) const {
  const auto worst = [&](const Outputs& expected, const Outputs& found) -> std::string {
    for (size_t i = 0; i < expected.size(); ++i) {
      const double distance =
          DefaultDistance(original_.type(original_.outputs()[i].value).dtype, LargestMagnitude(expected[i]));
      const double atol = options_.atol < 0 ? distance : options_.atol;
      const Comparison difference = Compare(WhereNumbersAre(expected[i], found[i]), expected[i], options_.rtol, atol);
      if (!difference.close) {
        return absl::StrCat("output ", original_.outputs()[i].name, ": ", difference.text,
                            ", for inputs around the graph's own numbers");
      }
    }
    return "";
  };
  const std::string fault = worst(set.expected, actual);
  if (fault.empty()) return fault;
  const auto exact = InterpretOn(original_, set.inputs, Precision::kFloat64);
  const auto of_candidate = InterpretOn(candidate, set.inputs, Precision::kFloat64);
  return exact.ok() && of_candidate.ok() ? worst(*exact, *of_candidate) : "";
}

absl::StatusOr<std::string> OutputChecker::FaultOn(const StressSet& set, const Graph& candidate, Executable* compiled) {
  ASSIGN_OR_RETURN(const Outputs actual, StressedOutputs(candidate, set.inputs, compiled));
  const std::vector<Tensor>& expected = set.expected;
  const bool has_reals = coarsest_ > 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string name = original_.outputs()[i].name;
    if (!has_reals) {
      const Comparison difference = Compare(actual[i], expected[i]);
      if (!difference.close) return absl::StrCat("output ", name, ": ", difference.text);
    }
    if (!IsFloating(expected[i].dtype())) continue;
    int64_t lost = 0, first = -1;
    for (int64_t k = 0; k < expected[i].num_elements(); ++k) {
      if (!IsLost(actual[i], expected[i], k)) continue;
      if (lost++ == 0) first = k;
    }
    if (lost == 0) continue;
    return absl::StrCat("output ", name, ": ", lost, " of ", expected[i].num_elements(),
                        " elements are no numbers where the original's are, the first at ",
                        ShapeString(PositionOf(expected[i].shape(), first)), ": ", actual[i].At(first), " and ",
                        expected[i].At(first), ", for inputs of other magnitudes");
  }
  return set.compares ? FaultAround(set, candidate, actual) : "";
}

absl::StatusOr<std::string> OutputChecker::Stress(const Graph& candidate, Executable* compiled) {
  std::vector<StressSet> own;
  RETURN_IF_ERROR(AddSetsAround(NumbersOf({&candidate}, kSetsOfCandidate, &original_), &own));
  for (const std::vector<StressSet>* sets : {&stress_, &own}) {
    for (const StressSet& set : *sets) {
      ASSIGN_OR_RETURN(const std::string fault, FaultOn(set, candidate, compiled));
      if (!fault.empty()) return fault;
    }
  }
  return "";
}

absl::Status OutputChecker::MeasureRounding() {
  ASSIGN_OR_RETURN(const std::vector<Outputs> exact, Interpret(original_, Precision::kFloat64));
  for (size_t set = 0; set < inputs_.size(); ++set) {
    rounding_.emplace_back();
    for (size_t i = 0; i < original_.outputs().size(); ++i) {
      double greatest = 0;
      for (int64_t k = 0; k < expected_[set][i].num_elements(); ++k) {
        const double error = std::abs(expected_[set][i].At(k) - exact[set][i].At(k));
        if (std::isfinite(error)) greatest = std::max(greatest, error);
      }
      rounding_.back().push_back(greatest);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputCheck> OutputChecker::Check(const Graph& rewritten, const Compiled& compiled) {
  const Graph candidate = WithoutUpdates(rewritten);
  if (!flops_) flops_ = FeaturesOf(original_).flops;
  OutputCheck check;
  if (runner_ == nullptr && *flops_ > options_.interpreter_only_flops) {
    check.text =
        absl::StrCat("not checked: no device runs it, and ", *flops_ * 1e-9, " GFLOP are too many for the interpreter");
    return check;
  }
  if (const int foreign = CountForeign(original_); runner_ == nullptr && foreign > 0) {
    check.text =
        absl::StrCat("not checked: no device runs it, and what ", foreign, " of its nodes compute is not known");
    return check;
  }
  ASSIGN_OR_RETURN(check.text,
                   FaultOfWeights(compiled.written == nullptr ? candidate : *compiled.written, compiled.computed));
  check.done = !check.text.empty();
  if (check.done) return check;
  RETURN_IF_ERROR(Prepare(compiled.original));
  Executable* rewritten_compiled = compiled.candidate;
  std::unique_ptr<Executable> own;
  if (runner_ != nullptr) {
    ASSIGN_OR_RETURN(own, CompileUnlessGiven(candidate, &rewritten_compiled));
  }
  ASSIGN_OR_RETURN(const std::vector<Outputs> actual,
                   runner_ == nullptr ? Interpret(candidate) : Run(rewritten_compiled));
  ASSIGN_OR_RETURN(check, HeldWithRounding(actual, compiled.original));
  if (!check.equal) return check;
  ASSIGN_OR_RETURN(const std::string lost, Stress(candidate, rewritten_compiled));
  if (!lost.empty()) {
    check.equal = false;
    check.text = lost;
  }
  return check;
}

absl::StatusOr<OutputCheck> OutputChecker::HeldWithRounding(const std::vector<Outputs>& actual, Executable* compiled) {
  OutputCheck check = Held(actual);
  if (check.equal || *flops_ > options_.interpreter_flops || CountForeign(original_) > 0) return check;
  if (rounding_.empty() && options_.atol < 0) {
    RETURN_IF_ERROR(MeasureRounding());
    check = Held(actual);
  }
  if (check.equal || runner_ == nullptr || !interpreted_) return check;
  interpreted_ = false;
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> own, CompileUnlessGiven(original_, &compiled));
  ASSIGN_OR_RETURN(std::vector<Outputs> original, Run(compiled));
  if (const OutputCheck device = Held(original); !device.equal) {
    device_fault_ = device.text;
    expected_ = std::move(original);
    check = Held(actual);
  }
  return check;
}

}  // namespace rewright
