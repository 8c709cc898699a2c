// Measures the gain of searching a step of training as one graph (docs/decisions/067):
//   joint_bench [--layers N] [--device NAME].. [--profile DB] [--pairs N] [MODEL..]
// For models of the zoo, mlp (784-1024-1024-10, batch 128) and conv_net (three blocks on 64 images of 32x32), and
// described devices, or this processor (`cpu`), costs of a step with AdamW, as the device says:
//   derived    nothing is rewritten
//   forward    the forward pass is rewritten, then gradients are derived of the result
//   one_by_one the whole step is rewritten, with every weight a state of its own
//   joint      the cheaper of one_by_one and of `forward` rewritten as a whole; states may be stored joined
// `gain` is forward over joint, less one. Below stand the stored forms that were tried, with the cost that each led to,
// and the rules on the way with their place: forward (nodes on which the loss depends), update (nodes that depend on
// the optimizer's states), backward (the rest), or the places of the nodes that a rewrite removes or shares. `stored
// forms` are the laws that put together values computed part by part before the search; rewrites before gradients were
// derived are marked. The figures of described devices are the same on every machine. On the processor costs are
// measured, or known from the profile database. Each graph found is timed as a whole before it is taken, forward passes
// and steps, as `rewright train --search-time` does; then steps `forward` and `joint` are run in turn, in as many pairs
// as --pairs says, and told apart by the sign test either way.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/base/stats.h"
#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"
#include "runtime/measure/interleaved.h"
#include "runtime/training/model.h"
#include "runtime/training/step.h"
#include "search/cost_model.h"
#include "search/optimize/optimize.h"
#include "substitutions/lowering.h"
#include "tools/library/optimizer_rules.h"
#include "tools/verbs/train/joint_search.h"

namespace rewright {
namespace {

constexpr double kTimingSeconds = 1;  // of two graphs in turn, at least

using NodeSet = absl::flat_hash_set<NodeId>;
using Counts = std::map<std::pair<std::string, std::string>, int>;  // by rule and place

// `runner`: times what is found; null: costs decide.
absl::StatusOr<OptimizeReport> Searched(const Graph& graph, Device& device, GraphRunner* runner, bool training_rules) {
  RuleSettings settings;
  settings.baseline = true;
  if (training_rules) {
    for (const char* name : {"core.rules", kTrainingRules}) {
      ASSIGN_OR_RETURN(settings.rules.emplace_back(), FindRuleFile(name));
    }
  }
  ASSIGN_OR_RETURN(OptimizerRules rules, LoadOptimizerRules(settings));
  RuleRewriter rewriter(rules.rules);
  OptimizeOptions options;
  options.measure = runner != nullptr;
  options.measuring.seconds = kTimingSeconds;
  options.check = false;
  options.search.candidates = 1;
  options.baseline = &*rules.baseline;
  return Optimize(graph, rewriter, device, runner, options);
}

absl::StatusOr<StepGraphs> StepOf(const TrainableModel& model, const StepOptions& options) {
  ASSIGN_OR_RETURN(StepGraphs graphs, BuildStep(model, options));
  ASSIGN_OR_RETURN(Lowering lowering, LowerGradients(graphs.step));
  graphs.step = std::move(lowering.graph);
  return graphs;
}

void AddCone(const Arena& arena, NodeId id, NodeSet* cone) {
  if (!cone->insert(id).second) return;
  for (Value operand : arena.node(id).operands) AddCone(arena, operand.node, cone);
}

// The parts of the step from which a rewrite removes nodes, or whose nodes it shares.
std::string PlaceOf(const Graph& graph, const TraceStep& step) {
  const Arena& arena = *graph.arena();
  NodeSet forward, before, after;
  for (const Output& output : graph.outputs()) {
    if (output.name == kLossResult) AddCone(arena, output.value.node, &forward);
  }
  NodeSet update;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    bool kept =
        node.leaf == LeafKind::kState && (absl::StartsWith(node.name, "optimizer.") ||
                                          absl::EndsWith(node.name, ".adam_m") || absl::EndsWith(node.name, ".adam_v"));
    for (Value operand : node.operands) kept = kept || update.contains(operand.node);
    if (kept) update.insert(id);
  }
  for (const auto& [from, to] : step.replacement) {
    AddCone(arena, from.node, &before);
    AddCone(arena, to.node, &after);
  }
  std::set<std::string> parts;
  for (NodeId id : graph.nodes()) {
    if (graph.node(id).op == nullptr || before.contains(id) == after.contains(id)) continue;
    parts.insert(forward.contains(id) ? "forward" : update.contains(id) ? "update" : "backward");
  }
  return absl::StrJoin(parts, "+");
}

// `all_in`: where all of them are; empty: PlaceOf says it.
absl::Status CountPlaces(const OptimizeReport& report, const Graph& start, Counts* counts,
                         const std::string& all_in = "") {
  Graph graph = start;
  for (int step : report.path) {
    const TraceStep& taken = report.search.trace[static_cast<size_t>(step)];
    ++(*counts)[{taken.rule, all_in.empty() ? PlaceOf(graph, taken) : all_in}];
    ASSIGN_OR_RETURN(graph, ReplaceValues(graph, ValueMap(taken.replacement.begin(), taken.replacement.end())));
  }
  return absl::OkStatus();
}

void PrintCounts(const Counts& counts) {
  for (const auto& [key, count] : counts) {
    std::printf("  %5d %s  %s\n", count, key.first.c_str(), key.second.c_str());
  }
}

absl::Status PrintForms(const JointStep& joint, const Graph& step, const std::vector<std::string>& trained) {
  for (const FormTrial& trial : joint.trials) {
    const std::string what =
        trial.family.empty()
            ? std::string("every weight by itself, magnitudes together")
            : absl::StrCat(trial.family.size(), " x ", trial.family[0].parts.size(), " weights along axis ",
                           trial.family[0].axis, ", as ", trial.family[0].parts[0]);
    std::printf("  %-9s %8.4f ms  %s%s\n", trial.kept ? "kept" : "left out", trial.seconds * 1e3, what.c_str(),
                trial.measured ? absl::StrCat("; whole ", Describe(*trial.measured)).c_str() : "");
  }
  if (joint.start.arena() == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Graph joined, InStoredForms(step, joint.forms, trained));
  ASSIGN_OR_RETURN(const std::string file, FindRuleFile("stored_forms.rules"));
  ASSIGN_OR_RETURN(const RuleSet rules, RuleSet::FromFiles({file}));
  ASSIGN_OR_RETURN(const Lowering lowering, Lower(joined, rules));
  Counts counts;
  for (const Lowering::Step& one : lowering.steps) ++counts[{one.rule, "stored forms"}];
  PrintCounts(counts);
  return absl::OkStatus();
}

StepOptions OptionsOf(const std::string& name) {
  StepOptions options;
  options.loss = name == "bert_base" ? LossKind::kMeanSquaredError : LossKind::kCrossEntropy;
  if (name == "bert_base") options.output = "last_hidden_state";
  options.optimizer.kind = OptimizerOptions::Kind::kAdamW;
  options.optimizer.weight_decay = 0.01;
  return options;
}

absl::StatusOr<TrainableModel> ModelOf(const std::string& name, int64_t layers) {
  if (name == "mlp") return MakeModel(MlpOptions{{784, 1024, 1024, 10}, "relu"}, 128, 1);
  if (name == "conv_net") {
    return MakeModel(ConvNetOptions{.image = {3, 32, 32}, .channels = {32, 64, 128}, .classes = 10, .dropout = 0}, 64,
                     1);
  }
  ZooOptions zoo;
  zoo.layers = layers;
  zoo.batch = name == "bert_base" ? 4 : 2;
  ASSIGN_OR_RETURN(const Graph model, BuildZooModel(name, zoo));
  return TrainableModel(model);
}

struct Flags {
  int64_t layers = 0;
  std::string profile;
  int pairs = 30;
};

// Both steps from the same states on the same inputs.
absl::StatusOr<Measurement> Measured(const Graph& original, const Graph& candidate, GraphRunner& runner, int pairs) {
  ASSIGN_OR_RETURN(const auto before, runner.Prepare(original));
  ASSIGN_OR_RETURN(const auto after, runner.Prepare(candidate));
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, RandomInputs(original, 1));
  MeasureOptions options;
  options.pairs = pairs;
  options.seconds = kTimingSeconds;
  return MeasureInterleaved(*before, *after, inputs, options);
}

void PrintMeasured(const Measurement& measured) {
  std::printf(
      "  measured  forward %.3f ms, joint %.3f ms, ratio %.4f; joint is faster in %d pairs, slower in %d;"
      " p that it is no faster %.4f, no slower %.4f\n",
      measured.original_seconds * 1e3, measured.candidate_seconds * 1e3, measured.ratio, measured.wins, measured.losses,
      measured.p_value, SignTest(measured.losses, measured.wins));
}

absl::Status Report(const std::string& name, const Flags& flags, const std::string& device_name) {
  const StepOptions options = OptionsOf(name);
  const bool runs = device_name == "cpu";
  DeviceOptions measured;
  ASSIGN_OR_RETURN(measured.profile, ProfileDb::Open(runs ? flags.profile : ""));
  ASSIGN_OR_RETURN(const auto device,
                   MakeDevice(runs ? device_name : absl::StrCat("analytic:", device_name), measured));
  CostModel costs(*device);
  const std::unique_ptr<GraphRunner> runner = runs ? MakeGraphRunner(*device) : nullptr;
  ASSIGN_OR_RETURN(const TrainableModel trainable, ModelOf(name, flags.layers));
  ASSIGN_OR_RETURN(const StepGraphs graphs, StepOf(trainable, options));
  ASSIGN_OR_RETURN(const GraphCost derived, costs.Cost(graphs.step));
  ASSIGN_OR_RETURN(const OptimizeReport rewritten, Searched(trainable.training, *device, runner.get(), false));
  StepOptions in_order = options;
  in_order.order = graphs.trained;
  ASSIGN_OR_RETURN(const StepGraphs of_rewritten,
                   StepOf(TrainableModel(trainable.inference, rewritten.graph), in_order));
  ASSIGN_OR_RETURN(const GraphCost forward, costs.Cost(of_rewritten.step));
  SearchedStep plain{graphs.step}, first{of_rewritten.step};
  ASSIGN_OR_RETURN(plain.report, Searched(plain.step, *device, runner.get(), true));
  ASSIGN_OR_RETURN(first.report, Searched(first.step, *device, runner.get(), true));
  ASSIGN_OR_RETURN(const GraphCost one_by_one, costs.Cost(plain.report.graph));
  WholeSteps time;
  if (runs) {
    time = [&](const Graph& original, const Graph& candidate) {
      return Measured(original, candidate, *runner, flags.pairs);
    };
  }
  ASSIGN_OR_RETURN(const SearchedStep start, FasterStep(first, plain, *device, time));
  ASSIGN_OR_RETURN(const JointStep joint,
                   SearchStep(
                       start, graphs.trained, *device,
                       [&](const Graph& form) { return Searched(form, *device, nullptr, true); }, time));
  std::printf("%s,%s,%.4f,%.4f,%.4f,%.4f,%.2f %%\n", name.c_str(), device_name.c_str(), derived.seconds * 1e3,
              forward.seconds * 1e3, one_by_one.seconds * 1e3, joint.seconds * 1e3,
              100 * (forward.seconds / joint.seconds - 1));
  if (runs) {
    ASSIGN_OR_RETURN(const Measurement measured, Measured(of_rewritten.step, joint.graph, *runner, flags.pairs));
    PrintMeasured(measured);
  }
  RETURN_IF_ERROR(PrintForms(joint, start.step, graphs.trained));
  Counts counts;
  if (start.step.arena() == first.step.arena()) {
    RETURN_IF_ERROR(CountPlaces(rewritten, trainable.training, &counts, "forward, before gradients were derived"));
  }
  if (joint.start.arena() == nullptr) {
    RETURN_IF_ERROR(CountPlaces(start.report, start.step, &counts));
  } else {
    RETURN_IF_ERROR(CountPlaces(joint.report, joint.start, &counts));
  }
  PrintCounts(counts);
  std::fflush(stdout);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::vector<std::string> models, devices;
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--layers" && i + 1 < argc) {
      flags.layers = std::atoi(argv[++i]);
    } else if (arg == "--profile" && i + 1 < argc) {
      flags.profile = argv[++i];
    } else if (arg == "--pairs" && i + 1 < argc) {
      flags.pairs = std::atoi(argv[++i]);
    } else if (arg == "--device" && i + 1 < argc) {
      devices.emplace_back(argv[++i]);
    } else {
      models.push_back(arg);
    }
  }
  if (models.empty()) models = {"bert_base", "gpt2_small"};
  if (devices.empty()) devices = {"h100", "v100-roofline", "h200", "k80"};
  std::printf("model,device,derived_ms,forward_ms,one_by_one_ms,joint_ms,gain\n");
  for (const std::string& model : models) {
    for (const std::string& device : devices) {
      if (const absl::Status status = Report(model, flags, device); !status.ok()) {
        std::fprintf(stderr, "%s on %s: %s\n", model.c_str(), device.c_str(), status.ToString().c_str());
        return 2;
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
