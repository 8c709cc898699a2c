// rewright reduce A.onnx B.onnx -o DIR: the smallest pair of models that keeps the difference of two models.

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/tensor/compare.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"
#include "tools/verbs/diff/tensor_diff.h"
#include "tools/verbs/equal/equal_settings.h"
#include "tools/verbs/reduce/reducer.h"

namespace rewright {
namespace {

// Seconds of proof for a smaller pair: one that differs is told by its first run.
constexpr double kProofOfPart = 5;

struct ReduceFlags {
  std::string a;
  std::string b;
  std::string output;
  std::string by = "equal";
  std::map<std::string, std::string> inputs;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  Tolerance tolerance;
};

// Inputs at which the models differ, and the output that does.
struct Witness {
  TensorsByName inputs;
  std::string output;  // empty: the models do not differ
  std::string answer;  // then
};

absl::StatusOr<Witness> WitnessOfProof(const ImportedModel& a, const ImportedModel& b, const EqualOptions& options) {
  ASSIGN_OR_RETURN(const EqualResult result, ProveEqual(a.graph, b.graph, options));
  Witness witness{.answer = EqualityName(result.equality)};
  if (!result.difference) return witness;
  witness.output = result.difference->output;
  for (const auto& [name, tensor] : result.difference->inputs) witness.inputs.emplace(name, tensor);
  return witness;
}

// The output that differs most when both models run in their own types.
absl::StatusOr<Witness> WitnessOfRun(const ReduceFlags& flags, const ImportedModel& a, const ImportedModel& b,
                                     const CommonFlags& common) {
  const std::vector<std::string> interface = InterfaceDifferences(a, b);
  if (!interface.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the models do not have the same inputs and outputs\n  ", absl::StrJoin(interface, "\n  ")));
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, LoadInputs(a, flags.inputs, common.seed));
  Witness witness{.answer = "within tolerance"};
  const std::vector<std::string> names = InputNames(a.graph);
  for (size_t i = 0; i < names.size(); ++i) witness.inputs.emplace(names[i], tensors[i]);
  const InterpretOptions how{.threads = NumThreads(common.threads)};
  ASSIGN_OR_RETURN(const std::vector<Tensor> of_a, InterpretGraph(a.graph, witness.inputs, how));
  ASSIGN_OR_RETURN(const std::vector<Tensor> of_b, InterpretGraph(b.graph, witness.inputs, how));
  const std::vector<std::string> outputs_a = OutputNames(a.graph), outputs_b = OutputNames(b.graph);
  double most = -1;
  for (size_t i = 0; i < outputs_a.size(); ++i) {
    const auto other = std::find(outputs_b.begin(), outputs_b.end(), outputs_a[i]) - outputs_b.begin();
    const TensorDiff diff = DiffTensors(of_a[i], of_b[static_cast<size_t>(other)], flags.tolerance);
    if (diff.equal || diff.max_rel_diff <= most) continue;
    most = diff.max_rel_diff;
    witness.output = outputs_a[i];
  }
  return witness;
}

void Report(const ReduceFlags& flags, const ImportedModel& a, const ImportedModel& b, const ReducedPair& pair,
            double seconds, Console& console) {
  console.Result(absl::StrFormat("reduced  %s and %s: %d and %d applications to %s and %s (%.1f s)", flags.a, flags.b,
                                 a.graph.num_applications(), b.graph.num_applications(),
                                 Counted(pair.a.nodes.size(), "node"), Counted(pair.b.nodes.size(), "node"), seconds));
  console.Result("A:         " + absl::StrJoin(pair.a.nodes, ", "));
  console.Result("B:         " + absl::StrJoin(pair.b.nodes, ", "));
  console.Result(absl::StrFormat("output:    %s at [%s]: %.9g in A, %.9g in B", pair.output,
                                 absl::StrJoin(pair.at, ","), pair.value_a, pair.value_b));
  Json& json = console.json();
  json["reduced"] = true;
  json["nodes_a"] = pair.a.nodes;
  json["nodes_b"] = pair.b.nodes;
  json["output"] = pair.output;
  json["at"] = pair.at;
  json["a"] = absl::StrFormat("%.9g", pair.value_a);
  json["b"] = absl::StrFormat("%.9g", pair.value_b);
  json["seconds"] = seconds;
}

absl::StatusOr<Answer> Reduce(const ReduceFlags& flags, Session& session) {
  Console& console = session.console;
  RETURN_IF_ERROR(MakeFolder(flags.output));
  const ImportOptions reading = {.dims = flags.dims, .fold_defaults = flags.fold_defaults, .keep_source = true};
  ASSIGN_OR_RETURN(const auto models, ReadWhereSizesTell(reading, [&](const ImportOptions& options) {
                     return LoadPair(flags.a, flags.b, options, console, flags.inputs);
                   }));
  const auto& [a, b] = models;
  ASSIGN_OR_RETURN(const OptimizerRules rules, LoadEqualRules({}));
  const InterruptGuard interrupt;
  EqualOptions proof = OptionsOfProof(rules, session);
  proof.own_precision = false;
  proof.stop = &InterruptGuard::flag();
  ReduceOptions options{.threads = proof.threads};
  const absl::Time start = absl::Now();
  Witness witness;
  if (flags.by == "equal") {
    ASSIGN_OR_RETURN(witness, WitnessOfProof(a, b, proof));
    proof.time_limit_s = kProofOfPart;
    options.differs = [&](const Graph& one, const Graph& other) -> absl::StatusOr<bool> {
      if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");
      ASSIGN_OR_RETURN(const EqualResult result, ProveEqual(one, other, proof));
      return result.equality == Equality::kDifferent;
    };
  } else {
    options.precision = Precision::kNative;
    ASSIGN_OR_RETURN(witness, WitnessOfRun(flags, a, b, session.flags));
  }
  if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");
  if (witness.output.empty()) {
    console.Result(absl::StrFormat("nothing to reduce: %s and %s are %s", flags.a, flags.b, witness.answer));
    console.json() = {{"reduced", false}, {"answer", witness.answer}};
    return Answer::kNo;
  }
  ASSIGN_OR_RETURN(const ReducedPair pair, ReducePair(a, b, witness.inputs, witness.output, options));
  Report(flags, a, b, pair, absl::ToDoubleSeconds(absl::Now() - start), console);
  const std::filesystem::path folder = flags.output;
  RETURN_IF_ERROR(WriteText((folder / "a.onnx").string(), pair.a.bytes));
  RETURN_IF_ERROR(WriteText((folder / "b.onnx").string(), pair.b.bytes));
  RETURN_IF_ERROR(WriteInputs((folder / "inputs").string(), pair.inputs));
  console.Result("written:   " + (folder / "a.onnx").string() + ", b.onnx, inputs/");
  return Answer::kYes;
}

}  // namespace

Action DeclareReduce(CommandLine& line) {
  auto flags = std::make_shared<ReduceFlags>();
  line.Add("a", &flags->a, "One model").Required().Type("A.onnx");
  line.Add("b", &flags->b, "The other, with the same inputs and outputs").Required().Type("B.onnx");
  line.AddOutputPath("-o,--output", &flags->output,
                     "The folder for a.onnx and b.onnx, the reduced pair, and its inputs, one .npy file each. For "
                     "example: rewright reduce model.onnx fused.onnx -o reduced")
      .Required()
      .Type("DIR");
  line.AddChoice("--by", &flags->by, {"equal", "run"},
                 "How the models differ: rewright equal calls them different (default), or they are apart when they "
                 "run in their own types");
  line.AddPairs("--input", &flags->inputs, "With --by run: an input from a .npy or .pb file (default: random)");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  const Flag rtol =
      line.AddReal("--rtol", &flags->tolerance.rtol, 0, 1e9, "With --by run: relative tolerance (default 1e-3)");
  const Flag atol = line.AddReal("--atol", &flags->tolerance.atol, 0, 1e300,
                                 "With --by run: absolute tolerance (default: 1e-4 times the largest element; 8 "
                                 "roundings of it in 16 bits)");
  return [flags, rtol, atol](Session& session) -> absl::StatusOr<Answer> {
    if (flags->by != "run" && (rtol.given() || atol.given())) {
      return absl::InvalidArgumentError("--rtol and --atol: found --by equal, expected --by run");
    }
    return Reduce(*flags, session);
  };
}

}  // namespace rewright
