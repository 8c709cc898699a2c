// rewright error MODEL.onnx [B.onnx]: how far rounding moves the outputs, and which nodes it comes from.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ir/random_tensors.h"
#include "core/numerics/error_estimate.h"
#include "core/tensor/compare.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"
#include "tools/verbs/error/rounding.h"

namespace rewright {
namespace {

constexpr size_t kShownNodes = 10;

struct ErrorFlags {
  std::string a;
  std::string b;
  std::string precision;
  std::map<std::string, std::string> inputs;
  std::map<std::string, Interval> ranges;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  std::string device = "reference";
  int64_t elements = 1;
  int64_t looks = 0;
  bool measure = false;
};

absl::StatusOr<std::vector<Tensor>> InputsOf(const ErrorFlags& flags, const ImportedModel& model, uint64_t seed) {
  ASSIGN_OR_RETURN(std::vector<Tensor> inputs, LoadInputs(model, flags.inputs, seed));
  RETURN_IF_ERROR(DrawFromRanges(model.graph, flags.ranges, seed, &inputs));
  return inputs;
}

ErrorOptions OptionsOf(const ErrorFlags& flags, const Graph& graph, const Session& session) {
  ErrorOptions options = RoundingOptions(graph, session.flags);
  if (!flags.precision.empty()) options.precision = *ParseRunPrecision(flags.precision);
  options.elements = static_cast<int>(flags.elements);
  if (flags.looks > 0) options.most_looks = static_cast<int>(flags.looks);
  options.measure = flags.measure;
  return options;
}

// "17 %"; of shares that are no numbers nothing can be said.
std::string Percent(double part, double whole) {
  return whole > 0 && std::isfinite(part / whole) ? absl::StrFormat("%.0f %%", 100 * part / whole) : "?";
}

void ReportShares(const OutputError& look, Console& console) {
  const double square = look.typical * look.typical;
  size_t width = 0;
  const size_t shown = std::min(look.shares.size(), kShownNodes);
  for (size_t i = 0; i < shown; ++i) width = std::max(width, look.shares[i].name.size());
  for (size_t i = 0; i < shown; ++i) {
    const ErrorShare& share = look.shares[i];
    if (share.square == 0 && share.worst == 0) break;
    console.Result(absl::StrFormat("  %5s of the squares, %5s of the worst case  %-*s  %s",
                                   Percent(share.square, square), Percent(share.worst, look.worst),
                                   static_cast<int>(width), share.name, share.op));
  }
}

std::string PlaceText(const Graph& graph, const OutputError& look) {
  for (const Output& output : graph.outputs()) {
    if (output.name != look.output) continue;
    return absl::StrCat(look.output, "[", absl::StrJoin(PositionOf(graph.type(output.value).shape, look.element), ","),
                        "]");
  }
  return look.output;
}

void Report(const Graph& graph, const ErrorEstimate& estimate, Console& console) {
  for (const OutputError& look : estimate.looks) {
    const double size = std::abs(look.value);
    console.Result(absl::StrFormat("output:    %s = %.6g: worst %.2g (%.2g of it), typical %.2g (%.2g)%s",
                                   PlaceText(graph, look), look.value, look.worst, look.worst / size, look.typical,
                                   look.typical / size,
                                   look.measured ? absl::StrFormat(", measured %.2g", *look.measured) : ""));
    ReportShares(look, console);
  }
  if (!estimate.without.empty()) {
    console.Result(
        absl::StrCat("no estimate: outputs of integers and truth values: ", absl::StrJoin(estimate.without, ", ")));
  }
  if (!estimate.empty.empty()) {
    console.Result(absl::StrCat("no estimate: outputs without elements: ", absl::StrJoin(estimate.empty, ", ")));
  }
  if (!estimate.unlooked.empty()) {
    console.Result(absl::StrCat("not looked at (--looks): ", absl::StrJoin(estimate.unlooked, ", ")));
  }
  const auto some = [](const std::vector<std::string>& names) {
    const size_t shown = std::min<size_t>(names.size(), 3);
    return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                        shown < names.size() ? ".." : "");
  };
  if (!estimate.decisions.empty()) {
    console.Result(absl::StrCat(Counted(estimate.decisions.size(), "decision"), " behind rounded values: not covered (",
                                some(estimate.decisions), ")"));
  }
  if (!estimate.blocked.empty()) {
    console.Result(absl::StrCat(Counted(estimate.blocked.size(), "node"),
                                " without a derivative: what is rounded before them is not covered (",
                                some(estimate.blocked), ")"));
  }
  if (!estimate.overflows.empty()) {
    console.Warning(absl::StrCat("too large for f16 on these inputs: ", some(estimate.overflows)));
  }
}

Json ToJson(const Graph& graph, const ErrorEstimate& estimate) {
  Json json;
  Json looks = Json::array();
  for (const OutputError& look : estimate.looks) {
    Json one = {{"output", look.output}, {"element", look.element}, {"place", PlaceText(graph, look)},
                {"value", look.value},   {"worst", look.worst},     {"typical", look.typical}};
    if (look.measured) one["measured"] = *look.measured;
    Json nodes = Json::array();
    for (size_t i = 0; i < std::min(look.shares.size(), kShownNodes); ++i) {
      const ErrorShare& share = look.shares[i];
      nodes.push_back({{"name", share.name},
                       {"op", share.op},
                       {"share", share.square / (look.typical * look.typical)},
                       {"worst_share", share.worst / look.worst}});
    }
    one["nodes"] = std::move(nodes);
    looks.push_back(std::move(one));
  }
  json["outputs"] = std::move(looks);
  json["without_estimate"] = estimate.without;
  json["without_elements"] = estimate.empty;
  json["not_looked_at"] = estimate.unlooked;
  json["decisions"] = estimate.decisions.size();
  json["decisions_at"] = estimate.decisions;
  json["without_derivative"] = estimate.blocked;
  json["too_large"] = estimate.overflows;
  json["run_cpu_seconds"] = estimate.run_seconds;
  json["prepare_cpu_seconds"] = estimate.prepare_seconds;
  if (estimate.forward_seconds > 0) json["forward_cpu_seconds"] = estimate.forward_seconds;
  return json;
}

absl::StatusOr<Answer> ErrorOfOne(const ErrorFlags& flags, const ImportedModel& model, Session& session) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, InputsOf(flags, model, session.flags.seed));
  ASSIGN_OR_RETURN(RoundingEngine engine, RoundingEngine::Open(flags.device, session.flags.threads, model));
  ErrorOptions options = OptionsOf(flags, model.graph, session);
  engine.Use(model.graph, &options);
  ASSIGN_OR_RETURN(const ErrorEstimate estimate, EstimateErrors(model.graph, inputs, options));
  Report(model.graph, estimate, session.console);
  session.console.json() = ToJson(model.graph, estimate);
  return Answer::kYes;
}

// Entries of `from` in the order in which `names` has them.
std::vector<Tensor> InOrder(const std::vector<Tensor>& from, const std::vector<std::string>& from_names,
                            const std::vector<std::string>& names) {
  std::vector<Tensor> result;
  for (const std::string& name : names) {
    result.push_back(
        from[static_cast<size_t>(std::find(from_names.begin(), from_names.end(), name) - from_names.begin())]);
  }
  return result;
}

// Both models on the same inputs: whether the largest difference of each output is within what both may be off.
absl::StatusOr<Answer> ErrorOfTwo(const ErrorFlags& flags, const ImportedModel& a, const ImportedModel& b,
                                  Session& session) {
  Console& console = session.console;
  const std::vector<std::string> interface = InterfaceDifferences(a, b);
  if (!interface.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the models cannot be compared (of A and of B)\n  ", absl::StrJoin(interface, "\n  ")));
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, InputsOf(flags, a, session.flags.seed));
  const std::vector<Tensor> inputs_b = InOrder(inputs, InputNames(a.graph), InputNames(b.graph));
  ASSIGN_OR_RETURN(RoundingEngine engine, RoundingEngine::Open(flags.device, session.flags.threads, a));
  ASSIGN_OR_RETURN(const std::vector<Tensor> of_a, engine.Run(a.graph, inputs));
  ASSIGN_OR_RETURN(std::vector<Tensor> of_b, engine.Run(b.graph, inputs_b));
  const std::vector<std::string> names = OutputNames(a.graph);
  of_b = InOrder(of_b, OutputNames(b.graph), names);
  ErrorOptions options = OptionsOf(flags, a.graph, session);
  engine.Use(a.graph, &options);
  std::map<std::string, double> differences;
  bool exact_equal = true;
  for (size_t o = 0; o < names.size(); ++o) {
    if (!IsFloating(of_a[o].dtype())) {
      exact_equal = exact_equal && Compare(of_a[o], of_b[o]).worst < 0;
      continue;
    }
    int64_t furthest = 0;
    double largest = -1;
    for (int64_t i = 0; i < of_a[o].num_elements(); ++i) {
      const double difference = std::abs(of_a[o].At(i) - of_b[o].At(i));
      if (difference <= largest) continue;
      largest = difference;
      furthest = i;
    }
    if (largest < 0) continue;
    options.at[names[o]] = {furthest};
    differences[names[o]] = largest;
  }
  ASSIGN_OR_RETURN(const ErrorEstimate estimate_a, EstimateErrors(a.graph, inputs, options));
  ASSIGN_OR_RETURN(const ErrorEstimate estimate_b, EstimateErrors(b.graph, inputs_b, options));
  console.Result("A:");
  Report(a.graph, estimate_a, console);
  console.Result("B:");
  Report(b.graph, estimate_b, console);
  bool explained = exact_equal;
  Json compared = Json::array();
  for (const OutputError& look_a : estimate_a.looks) {
    for (const OutputError& look_b : estimate_b.looks) {
      if (look_b.output != look_a.output) continue;
      const double difference = differences[look_a.output], worst = look_a.worst + look_b.worst;
      const double typical = std::hypot(look_a.typical, look_b.typical);
      const bool within = !(difference > worst);
      explained = explained && within;
      console.Result(absl::StrFormat("difference: %s: %.2g, %s what both round (worst %.2g, typical %.2g)",
                                     PlaceText(a.graph, look_a), difference, within ? "explained by" : "MORE than",
                                     worst, typical));
      compared.push_back({{"output", look_a.output},
                          {"element", look_a.element},
                          {"difference", difference},
                          {"worst", worst},
                          {"typical", typical},
                          {"explained", within}});
    }
  }
  if (!exact_equal)
    console.Result("difference: outputs of integers or truth values differ, of which there is no estimate");
  Json& json = console.json();
  json["a"] = ToJson(a.graph, estimate_a);
  json["b"] = ToJson(b.graph, estimate_b);
  json["differences"] = std::move(compared);
  json["explained"] = explained;
  return explained ? Answer::kYes : Answer::kNo;
}

absl::StatusOr<Answer> EstimateOf(const ErrorFlags& flags, Session& session) {
  const ImportOptions reading = OptionsToRead(flags.dims, flags.device, flags.fold_defaults);
  if (flags.b.empty()) {
    ASSIGN_OR_RETURN(const ImportedModel model, LoadModel(flags.a, reading, session.console, flags.inputs));
    return ErrorOfOne(flags, model, session);
  }
  ASSIGN_OR_RETURN(const auto pair, LoadPair(flags.a, flags.b, reading, session.console, flags.inputs));
  return ErrorOfTwo(flags, pair.first, pair.second, session);
}

}  // namespace

Action DeclareError(CommandLine& line) {
  auto flags = std::make_shared<ErrorFlags>();
  line.Add("model", &flags->a, "An ONNX file").Required().Type("MODEL.onnx");
  line.Add("other", &flags->b, "Another with the same inputs and outputs: does rounding explain how they differ?")
      .Type("B.onnx");
  line.AddChoice("--precision", &flags->precision, {"f16", "bf16", "tf32", "f32", "f64"},
                 "In which elements are taken to be stored (default: as the model has them)")
      .Map(PrecisionNamed);
  line.AddPairs("--input", &flags->inputs, "An input from a .npy or .pb file (default: random)");
  line.AddRanges("--range", &flags->ranges, "Where the elements of an input lie: it is drawn from there");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddChoice(
      "--device", &flags->device, {"reference", "cpu"},
      "Where it runs: the interpreter (the default), or the processor, which compiles derivatives for seconds");
  line.AddInt("--elements", &flags->elements, 1, 1'000'000,
              "Elements of each output that are looked at: the largest, then drawn ones (default 1)");
  line.AddInt("--looks", &flags->looks, 1, 1'000'000,
              "Elements in all, each of which takes a backward pass (default: 8, of large models 1)");
  line.AddSwitch("--measure", &flags->measure,
                 "Run it by the interpreter as well, as it rounds and in f64, for what the errors are");
  return [flags](Session& session) { return EstimateOf(*flags, session); };
}

}  // namespace rewright
