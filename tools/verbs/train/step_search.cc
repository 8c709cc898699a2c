#include "tools/verbs/train/step_search.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "runtime/training/optimizer.h"
#include "runtime/training/step.h"
#include "search/optimize/optimize.h"
#include "search/rewriter.h"
#include "substitutions/lowering.h"
#include "tools/program/interrupt.h"
#include "tools/program/progress.h"
#include "tools/verbs/layout/step_planner.h"
#include "tools/verbs/train/joint_search.h"
#include "tools/verbs/train/step_memory.h"

namespace rewright {
namespace {

void Report(const std::string& what, const OptimizeReport& report, Console& console) {
  console.Note(absl::StrCat(what, ": ", report.verdict));
  for (const RewriteCount& rewrite : report.rewrites) {
    console.Detail(absl::StrFormat("  %4d  %s", rewrite.count, rewrite.rule));
  }
  Json rewrites = Json::object();
  for (const RewriteCount& rewrite : report.rewrites) rewrites[rewrite.rule] = rewrite.count;
  Json line = {{"searched", what},
               {"search_seconds", report.search.seconds},
               {"cost_before_ms", report.cost_before * 1e3},
               {"cost_after_ms", report.search.candidates[0].cost.seconds * 1e3},
               {"verdict", report.verdict},
               {"rewrites", rewrites}};
  if (report.rewritten && report.measured) line["speedup"] = report.measured->ratio;
  console.JsonLine(line);
}

void Report(const Rematerialization& less, const Graph& step, const StepSearchFlags& flags, Console& console) {
  const int offloaded = static_cast<int>(less.offloaded.size());
  const std::string time = less.seconds_before > 0 ? absl::StrFormat(", %+.1f %% of its time (%s)",
                                                                     100 * (less.seconds / less.seconds_before - 1),
                                                                     flags.measured ? "measured" : "a guess")
                                                   : "";  // costs were not asked for
  console.Note(
      absl::StrFormat("memory:   %.1f MB -> %.1f MB a step%s: values are computed again, by %d uses of the law %s",
                      static_cast<double>(less.bytes_before) / 1e6, static_cast<double>(less.bytes) / 1e6, time,
                      less.replaced - offloaded, kRecomputationRule));
  if (offloaded == 0) return;
  console.Note(
      absl::StrFormat("          and %d values are offloaded to %.1f MB of the second tier, by uses of the law %s",
                      offloaded, static_cast<double>(less.stored_bytes) / 1e6, kOffloadRule));
  const std::vector<std::string> texts = OffloadedTexts(less, step);
  for (const std::string& text : texts) console.Detail("  " + text);
  console.JsonLine({{"offloaded", texts}, {"stored_bytes", less.stored_bytes}});
}

// The rules of a step: beside those of `optimize` the ones about forward pass, backward pass and update together.
absl::StatusOr<OptimizerRules> RulesOf(const StepSearchFlags& flags) {
  RuleSettings settings = flags.rules;
  if (settings.rules.empty()) {
    for (const char* name : {"core.rules", kTrainingRules}) {
      ASSIGN_OR_RETURN(settings.rules.emplace_back(), FindRuleFile(name));
    }
    settings.baseline = settings.baseline.value_or(true);
  }
  return LoadOptimizerRules(settings);
}

class StepOptimizer {
 public:
  StepOptimizer(OptimizerRules rules, const StepSearchFlags& flags, const Engine& engine, Session& session)
      : rules_(std::move(rules)), engine_(engine), session_(session), progress_(session.console, "search") {
    options_.search.stop = &InterruptGuard::flag();
    options_.search.progress = [this](const SearchProgress& now) {
      progress_.Update(
          now.seconds / options_.search.time_limit_seconds,
          absl::StrFormat("cost %.4g -> %.4g ms, %d graphs", now.first_cost * 1e3, now.best_cost * 1e3, now.steps));
    };
    options_.phase = [this](const std::string& phase) { progress_.Update(-1, phase); };
    options_.measuring = {
        .warmup = timing::kStepWarmupRuns, .pairs = timing::kStepPairs, .seconds = timing::kStepSeconds};
    options_.search.candidates = 1;
    options_.search.time_limit_seconds = flags.seconds;
    options_.checking.input_sets = 1;
    options_.checking.seed = session.flags.seed;
    if (rules_.baseline) options_.baseline = &*rules_.baseline;
  }

  // Timed and checked.
  absl::StatusOr<OptimizeReport> Faster(const char* what, const Graph& graph) {
    ASSIGN_OR_RETURN(OptimizeReport report, Run(graph, options_));
    Report(what, report, session_.console);
    return report;
  }

  // The step as it is derived, or as it is derived of a forward pass that was rewritten alone, with what a search makes
  // of it.
  absl::StatusOr<SearchedStep> Faster(const WholeStep& whole, const Graph& step) {
    SearchedStep found{step};
    ASSIGN_OR_RETURN(found.report, Faster("the step", step));
    ASSIGN_OR_RETURN(const OptimizeReport forward, Faster("the forward pass", whole.forward));
    if (!forward.rewritten) return found;
    ASSIGN_OR_RETURN(const Graph derived, whole.derive(forward.graph));
    // A weight on which nothing depends any more, such as a bias before a softmax, is trained in the other one alone.
    if (!CheckSameInterface(derived, whole.step).ok()) return found;
    SearchedStep other;
    ASSIGN_OR_RETURN(other.step, StartOf(derived));
    ASSIGN_OR_RETURN(other.report, Faster("the step of that pass", other.step));
    ASSIGN_OR_RETURN(const bool equal, AreEqual(step, other.report.graph, "the step of the rewritten forward pass"));
    if (!equal) return found;
    return FasterStep(std::move(other), std::move(found), *engine_.device(), Timing(step));
  }

  // The step in stored forms, where that is faster than without.
  absl::StatusOr<StoredStep> InForms(const SearchedStep& faster, const std::vector<std::string>& trained) {
    OptimizeOptions only_search = options_;
    only_search.measure = only_search.check = false;
    ASSIGN_OR_RETURN(const JointStep joint,
                     SearchStep(
                         faster, trained, *engine_.device(),
                         [&](const Graph& start) { return Run(start, only_search); }, Timing(faster.step)));
    ReportForms(joint);
    if (joint.start.arena() == nullptr) return StoredStep{joint.graph, {}};
    ASSIGN_OR_RETURN(const Graph expected, InStoredForms(faster.step, joint.forms, trained));
    ASSIGN_OR_RETURN(const bool equal, AreEqual(expected, joint.graph, "the step in stored forms"));
    if (!equal) return StoredStep{faster.report.graph, {}};
    return StoredStep{joint.graph, joint.forms};
  }

  // Lowered, with states at which it can be compared.
  static absl::StatusOr<Graph> StartOf(const Graph& derived) {
    ASSIGN_OR_RETURN(const Lowering lowering, LowerGradients(derived));
    return AtSmoothStates(lowering.graph);
  }

 private:
  absl::StatusOr<OptimizeReport> Run(const Graph& step, const OptimizeOptions& options) {
    RuleRewriter rewriter(rules_.rules);
    const InterruptGuard interrupt;
    return Optimize(step, rewriter, *engine_.device(), &engine_.runner(), options);
  }

  // On the inputs of this step.
  WholeSteps Timing(const Graph& step) {
    return [this, step](const Graph& original, const Graph& candidate) -> absl::StatusOr<Measurement> {
      progress_.Update(-1, "timing whole steps");
      ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, RandomInputs(step, options_.checking.seed));
      ASSIGN_OR_RETURN(const auto before, engine_.runner().Prepare(original));
      ASSIGN_OR_RETURN(const auto after, engine_.runner().Prepare(candidate));
      return MeasureInterleaved(*before, *after, inputs, options_.measuring);
    };
  }

  // Warns where `what` is left out because its outputs are others.
  absl::StatusOr<bool> AreEqual(const Graph& expected, const Graph& graph, const std::string& what) {
    progress_.Update(-1, absl::StrCat("comparing outputs of ", what));
    OutputChecker checker(expected, &engine_.runner(), options_.checking);
    ASSIGN_OR_RETURN(const OutputCheck check, checker.Check(graph));
    if (!check.done || check.equal) return true;
    session_.console.Warning(absl::StrCat(what, " is left out: outputs differ: ", check.text));
    return false;
  }

  void ReportForms(const JointStep& joint) {
    for (const FormTrial& trial : joint.trials) {
      if (!trial.measured) continue;
      size_t parts = 0;
      for (const StoredForm& form : trial.family) parts += form.parts.size();
      const std::string what = trial.family.empty()
                                   ? std::string("magnitudes of gradients together")
                                   : absl::StrFormat("%d weights as %d states", parts, trial.family.size());
      session_.console.Note(
          absl::StrCat("stored:   ", what, " are ",
                       trial.kept ? "faster: " : "not faster, and not taken: ", Describe(*trial.measured)));
      session_.console.JsonLine({{"stored_forms", StoredFormsJson(trial.family)},
                                 {"stored_forms_taken", trial.kept},
                                 {"stored_forms_speedup", trial.measured->ratio}});
    }
  }

  const OptimizerRules rules_;
  const Engine& engine_;
  Session& session_;
  Progress progress_;
  OptimizeOptions options_;
};

}  // namespace

absl::StatusOr<StoredStep> RewriteWholeStep(const WholeStep& step, const StepSearchFlags& flags, const Engine& engine,
                                            Session& session) {
  ASSIGN_OR_RETURN(OptimizerRules rules, RulesOf(flags));
  ASSIGN_OR_RETURN(const Graph start, StepOptimizer::StartOf(step.step));
  StepOptimizer optimizer(std::move(rules), flags, engine, session);
  ASSIGN_OR_RETURN(const SearchedStep faster, optimizer.Faster(step, start));
  ASSIGN_OR_RETURN(StoredStep found, optimizer.InForms(faster, step.trained));
  if (flags.keep_all) return found;
  ASSIGN_OR_RETURN(const Rematerialization less,
                   FitMemory(found.graph, *engine.device(), flags.memory_limit, flags.measured));
  if (less.replaced > 0) Report(less, found.graph, flags, session.console);
  found.graph = less.graph;
  return found;
}

namespace {

// Chooses the values that are kept; null: all of them.
using Keeping = std::function<absl::StatusOr<Rematerialization>(const Graph&)>;

absl::StatusOr<Graph> Rewritten(const Graph& step, const StepSearchFlags& flags, const Keeping& keeping,
                                const Engine& engine, Communicator& ranks, Session& session) {
  ASSIGN_OR_RETURN(const Lowering lowering, LowerGradients(step));
  const bool chosen = keeping != nullptr && !flags.keep_all;
  if (engine.device() == nullptr || (flags.seconds <= 0 && !chosen)) return lowering.graph;
  const auto rewrite = [&]() -> absl::StatusOr<Graph> {
    Graph faster = lowering.graph;
    if (flags.seconds > 0) {
      ASSIGN_OR_RETURN(OptimizerRules rules, RulesOf(flags));
      ASSIGN_OR_RETURN(const Graph checked, AtSmoothStates(lowering.graph));
      ASSIGN_OR_RETURN(const OptimizeReport report,
                       StepOptimizer(std::move(rules), flags, engine, session).Faster("the step", checked));
      faster = report.graph;
    }
    if (!chosen) return faster;
    ASSIGN_OR_RETURN(const Rematerialization less, keeping(faster));
    if (less.replaced > 0) Report(less, faster, flags, session.console);
    return less.graph;
  };
  if (ranks.size() == 1) return rewrite();
  ASSIGN_OR_RETURN(const std::string found,
                   FromRankZero(ranks, "a better form of the step", [&]() -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(const Graph graph, rewrite());
                     return PrintGraph(graph);
                   }));
  return ParseGraph(found);
}

}  // namespace

absl::StatusOr<Graph> RewriteStep(const Graph& step, const StepSearchFlags& flags, const RankLayout& layout,
                                  const Engine& engine, Communicator& ranks, Session& session) {
  Keeping keeping;
  if (layout.group_size() == 1) {
    const int64_t limit = layout.zero == 0 ? flags.memory_limit : 0;  // else no rank has all states
    keeping = [&, limit](const Graph& graph) { return FitMemory(graph, *engine.device(), limit, flags.measured); };
  }
  return Rewritten(step, flags, keeping, engine, ranks, session);
}

absl::StatusOr<Graph> RewriteGradients(const Graph& gradients, const Graph& step,
                                       const std::vector<std::string>& updated, const TrainConfig& config,
                                       const SharingOptions& sharing, const StepSearchFlags& flags,
                                       const Engine& engine, Communicator& ranks, Session& session) {
  Keeping keeping;
  if (sharing.layout.pass_ranks() == 1 || sharing.layout.pp > 1) {
    keeping = [&](const Graph& graph) -> absl::StatusOr<Rematerialization> {
      StepPlanner planner(config, {.step = step, .gradients = graph, .updated = updated}, *engine.device(),
                          {.cut = sharing.cut_alone, .stages = sharing.device, .bucket_bytes = sharing.bucket_bytes});
      ASSIGN_OR_RETURN(Rematerialization less, planner.Fit(sharing.layout, {}, flags.memory_limit, flags.measured));
      if (flags.memory_limit <= 0 || less.bytes <= flags.memory_limit) return less;
      return Unreachable(less, *engine.device(), flags.memory_limit);
    };
  }
  return Rewritten(gradients, flags, keeping, engine, ranks, session);
}

absl::StatusOr<Graph> RewritePart(const RankGraph& part, const StepSearchFlags& flags, const Engine& engine,
                                  Session& session) {
  if (engine.device() == nullptr || flags.keep_all) return part.graph;
  ASSIGN_OR_RETURN(const Rematerialization less, FitMemory(part, *engine.device(), flags.memory_limit));
  if (less.replaced > 0) Report(less, part.graph, flags, session.console);
  return less.graph;
}

}  // namespace rewright
