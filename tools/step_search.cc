#include "tools/step_search.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "runtime/train/optimizer.h"
#include "search/optimize.h"
#include "search/rewriter.h"
#include "substitutions/lowering.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/step_memory.h"

namespace rewright {
namespace {

void Report(const OptimizeReport& report, Console& console) {
  console.Note(absl::StrCat("the step: ", report.verdict));
  for (const RewriteCount& rewrite : report.rewrites) {
    console.Detail(absl::StrFormat("  %4d  %s", rewrite.count, rewrite.rule));
  }
  Json rewrites = Json::object();
  for (const RewriteCount& rewrite : report.rewrites) rewrites[rewrite.rule] = rewrite.count;
  Json line = {{"search_seconds", report.search.seconds},
               {"cost_before_ms", report.cost_before * 1e3},
               {"cost_after_ms", report.search.candidates[0].cost.seconds * 1e3},
               {"verdict", report.verdict},
               {"rewrites", rewrites}};
  if (report.rewritten && report.measured) line["speedup"] = report.measured->ratio;
  console.JsonLine(line);
}

void Report(const Recomputation& less, const StepSearchFlags& flags, Console& console) {
  console.Note(
      absl::StrFormat("memory:   %.1f MB -> %.1f MB a step, %+.1f %% of its time (%s): values are computed again, by "
                      "%d uses of the law %s",
                      static_cast<double>(less.bytes_before) / 1e6, static_cast<double>(less.bytes) / 1e6,
                      100 * (less.seconds / less.seconds_before - 1), flags.measured ? "measured" : "a guess",
                      less.replaced, kRecomputationRule));
}

absl::StatusOr<Graph> Faster(const Graph& step, const StepSearchFlags& flags, const Engine& engine, Session& session) {
  ASSIGN_OR_RETURN(OptimizerRules rules, LoadOptimizerRules(flags.rules));
  ASSIGN_OR_RETURN(const Graph checked, AtSmoothStates(step));
  RuleRewriter rewriter(rules.rules);
  Progress progress(session.console, "search");
  const InterruptGuard interrupt;
  OptimizeOptions options;
  options.search.time_limit_seconds = flags.seconds;
  options.search.stop = &InterruptGuard::flag();
  options.search.progress = [&](const SearchProgress& now) {
    progress.Update(
        now.seconds / flags.seconds,
        absl::StrFormat("cost %.4g -> %.4g ms, %d graphs", now.first_cost * 1e3, now.best_cost * 1e3, now.explored));
  };
  options.phase = [&](const std::string& phase) { progress.Update(-1, phase); };
  // A step takes seconds, and few pairs are enough for the sign test where a candidate wins all of them.
  options.measuring = {.warmup = 1, .pairs = 9};
  options.search.candidates = 1;
  options.checking.input_sets = 1;
  options.checking.seed = session.flags.seed;
  if (rules.baseline) options.baseline = &*rules.baseline;
  ASSIGN_OR_RETURN(const OptimizeReport report,
                   Optimize(checked, rewriter, *engine.device(), &engine.runner(), options));
  Report(report, session.console);
  return report.graph;
}

}  // namespace

absl::StatusOr<Graph> RewriteStep(const Graph& step, const StepSearchFlags& flags, const Engine& engine,
                                  Communicator& ranks, Session& session) {
  ASSIGN_OR_RETURN(const Lowering lowering, LowerGradients(step));
  if (engine.device() == nullptr) return lowering.graph;
  Graph faster = lowering.graph;
  if (flags.seconds > 0 && ranks.rank() == 0) {
    ASSIGN_OR_RETURN(faster, Faster(lowering.graph, flags, engine, session));
  }
  if (ranks.size() == 1 && !flags.keep_all) {
    ASSIGN_OR_RETURN(const Recomputation less,
                     WithinMemory(faster, *engine.device(), flags.memory_limit, flags.measured));
    if (less.replaced > 0) Report(less, flags, session.console);
    return less.graph;
  }
  if (flags.seconds <= 0 || ranks.size() == 1) return faster;
  const std::string found = ranks.rank() == 0 ? PrintGraph(faster) : std::string();
  ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(ranks, "the search for a faster step", found));
  return ParseGraph(all[0]);
}

}  // namespace rewright
