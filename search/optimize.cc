#include "search/optimize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "search/resources.h"

namespace rewright {
namespace {

using Why = DroppedCandidate::Why;

// Searches that are done again without a rule. More rules than that are not wrong by accident.
constexpr size_t kMaxBlamed = 8;

// Of the time that is left: what the search may take, and then timing.
constexpr double kSearchShare = 0.6;
constexpr double kTimingShare = 0.5;

// What an earlier run could not tell is timed again where there is so many times the time of its pairs: compiling and
// warming up takes some of it.
constexpr double kTimesAsLong = 4;

// What was faster in an earlier run is timed for so long, and in so many pairs at least.
constexpr double kConfirmingSeconds = 1;
constexpr double kFewestPairs = 3;

std::vector<RewriteCount> CountRewrites(const std::vector<TraceStep>& trace, const std::vector<int>& path) {
  std::map<std::string, int> counts;
  for (int step : path) {
    for (absl::string_view rule : absl::StrSplit(trace[step].rule, kRuleSeparator)) {
      ++counts[std::string(rule)];
    }
  }
  std::vector<RewriteCount> list;
  for (const auto& [rule, count] : counts) list.push_back({rule, count});
  std::stable_sort(list.begin(), list.end(),
                   [](const RewriteCount& a, const RewriteCount& b) { return a.count > b.count; });
  return list;
}

void ReturnOriginal(const Graph& original, const std::string& why, OptimizeReport* report) {
  report->graph = original;
  report->verdict = absl::StrCat("the original: ", why);
  report->nodes_after = report->nodes_before;
  report->cost_after = report->cost_before;
  if (report->measured) {
    report->latency_before = report->measured->original_seconds;
    report->latency_after = report->measured->original_seconds;
  }
}

class Optimizer {
 public:
  Optimizer(const Graph& graph, Device& device, GraphRunner* runner, const OptimizeOptions& options)
      : graph_(graph),
        device_(device),
        runner_(runner),
        options_(options),
        checker_(std::make_shared<OutputChecker>(graph, runner, WithinSeconds(options.checking, SecondsLeft()))) {}

  absl::StatusOr<OptimizeReport> Run(Rewriter& rewriter) {
    report_.nodes_before = graph_.num_runtime_nodes();
    FilteredRewriter rules(rewriter);
    std::optional<CostModel> costs;
    costs.emplace(device_, [this] { return NoTimeLeft(); });
    ASSIGN_OR_RETURN(report_.repeated, IsRepeated());
    const absl::Cleanup measure_again = [this] { MeasureNew(true); };
    MeasureNew(!report_.repeated);
    for (bool again = true; again;) {
      Phase("searching");
      absl::Status searched = SearchOnce(rules, *costs);
      if (report_.repeated && absl::IsNotFound(searched)) {  // not even the costs of the original are kept any more
        report_.repeated = false;
        MeasureNew(true);
        costs.emplace(device_, [this] { return NoTimeLeft(); });
        searched = SearchOnce(rules, *costs);
      }
      if (absl::IsDeadlineExceeded(searched)) {
        in_time_ = false;
        report_.search.end = SearchEnd::kTimeLimit;
        break;
      }
      RETURN_IF_ERROR(searched);
      absl::StatusOr<bool> blamed = MeasureAndChoose(rules);
      if (!blamed.ok()) return blamed.status();
      again = *blamed && !NoTimeLeft();
    }
    if (EndedByTime()) options_.kept->KeepLimit(graph_, options_.setting, options_.time_limit);
    if (!report_.rewritten) ReturnOriginal(graph_, WhyOriginal(), &report_);
    report_.peak_rss_bytes = PeakResidentBytes();
    report_.checker = checker_;
    return std::move(report_);
  }

 private:
  struct Contender {
    const Candidate* candidate;
    std::optional<Measurement> measured;
    bool earlier = false;             // measured by an earlier run
    std::optional<GraphInFile> file;  // what its file gives, which then stands for it
  };

  void Phase(const std::string& text) const {
    if (options_.phase) options_.phase(text);
  }

  double SecondsLeft() const {
    return options_.seconds_left ? options_.seconds_left() : std::numeric_limits<double>::infinity();
  }
  bool NoTimeLeft() const { return SecondsLeft() <= 0; }

  // Whether an earlier run was ended by a limit as long as this one's.
  absl::StatusOr<bool> IsRepeated() {
    if (options_.kept == nullptr || std::isinf(options_.time_limit)) return false;
    ASSIGN_OR_RETURN(const double ended, options_.kept->LimitThatEnded(graph_, options_.setting));
    return ended >= options_.time_limit;
  }
  void MeasureNew(bool measure) const {
    if (options_.kept != nullptr) options_.kept->MeasureNew(measure);
  }
  // Whether there was more to search or to time, and the costs of the original were known, so that it can be repeated.
  bool EndedByTime() const {
    if (options_.kept == nullptr || std::isinf(options_.time_limit) || !in_time_ || report_.repeated) return false;
    return report_.search.end == SearchEnd::kTimeLimit || too_late_;
  }

  absl::Status SearchOnce(Rewriter& rules, CostModel& costs) {
    const double start_cpu = ProcessCpuSeconds();
    SearchOptions search = options_.search;
    search.time_limit_seconds = std::min(search.time_limit_seconds, kSearchShare * std::max(0.0, SecondsLeft()));
    search.second_start = std::make_shared<const std::vector<RewriteRound>>(BaselineRounds());
    search.signatures = &signatures_;
    absl::StatusOr<SearchResult> found = Search(graph_, rules, costs, search);
    if (!found.ok()) return found.status();
    report_.search = *std::move(found);
    report_.search_cpu_seconds += ProcessCpuSeconds() - start_cpu;
    report_.graphs_explored += report_.search.explored;
    report_.cost_before = report_.search.original_cost.seconds;
    contenders_.clear();
    timed_.reset();
    report_.measured.reset();
    for (const Candidate& candidate : report_.search.candidates) {
      // Where nothing is timed the cost alone speaks for the second start.
      const bool cheaper = candidate.cost.total() < report_.search.original_cost.total();
      if (candidate.step >= 0 && (options_.measure || cheaper)) contenders_.push_back({&candidate});
    }
    return absl::OkStatus();
  }

  // What the baseline does to the original, without rules that were found to be wrong.
  std::vector<RewriteRound> BaselineRounds() {
    std::vector<RewriteRound> rounds;
    if (options_.baseline == nullptr) return rounds;
    std::set<std::string> without;
    for (const std::string& blamed : report_.blamed) {
      for (absl::string_view rule : absl::StrSplit(blamed, kRuleSeparator)) without.emplace(rule);
    }
    absl::StatusOr<BaselineResult> baseline = options_.baseline->Apply(graph_, 0, without, &signatures_);
    if (!baseline.ok()) {
      report_.dropped.push_back({Why::kFailed, std::string(baseline.status().message()), 0, {}, true});
      return rounds;
    }
    for (BaselineRound& round : baseline->rounds) {
      std::vector<Rewrite> rewrites;
      for (const BaselineStep& step : round.steps) rewrites.push_back({-1, step.rule, step.replacement, step.matched});
      rounds.push_back({std::move(rewrites), std::move(round.after)});
    }
    return rounds;
  }

  // True when a rule was found to be wrong and disabled: the search must be done again.
  absl::StatusOr<bool> MeasureAndChoose(FilteredRewriter& rules) {
    reserve_ = (1 - kTimingShare) * std::max(0.0, SecondsLeft());
    if (options_.measure && !contenders_.empty()) {
      RETURN_IF_ERROR(TimeAll());
    }
    for (Contender& contender : contenders_) {
      const bool earlier = contender.earlier;
      if (earlier) {
        ASSIGN_OR_RETURN(const bool runs, CompileFile(&contender));
        if (!runs) continue;
      }
      OutputCheck check;
      if (options_.check) {
        if (NoTimeLeft()) {
          Drop(*contender.candidate, Why::kFailed, "no time was left to compare its outputs");
          continue;
        }
        Phase("comparing outputs");
        const absl::StatusOr<OutputCheck> compared = Compare(contender);
        if (!compared.ok()) {
          Drop(*contender.candidate, Why::kFailed, std::string(compared.status().message()));
          continue;
        }
        check = *compared;
      }
      if (!check.done || check.equal) {
        if (earlier) {
          ASSIGN_OR_RETURN(const bool confirmed, IsConfirmed(&contender));
          if (!confirmed) continue;
        }
        report_.check = check;
        Take(contender);
        return false;
      }
      Drop(*contender.candidate, Why::kOutputsDiffer, check.text);
      const std::string rule = Blame(PathTo(report_.search.trace, contender.candidate->step));
      if (rule.empty()) continue;
      report_.blamed.push_back(rule);
      rules.Disable(rule);
      return report_.blamed.size() < kMaxBlamed;
    }
    return false;
  }

  // The rule of the first step on the path after which outputs differ; empty when there is none.
  std::string Blame(const std::vector<int>& path) {
    Phase("looking for the rewrite at fault");
    size_t right = 0;  // so many steps are right
    size_t wrong = path.size();
    while (wrong - right > 1) {
      const size_t middle = (right + wrong) / 2;
      const absl::StatusOr<OutputCheck> check = checker_->Check(GraphAt(report_.search, graph_, path[middle - 1]));
      if (!check.ok()) return "";
      (check->equal ? right : wrong) = middle;
    }
    return report_.search.trace[path[right]].rule;
  }

  // Times the contenders of which no earlier run tells; those that are not faster are dropped, the others sorted by how
  // much.
  absl::Status TimeAll() {
    tests_ = contenders_.size();
    ASSIGN_OR_RETURN(const bool one_is_faster, OneWasFaster());
    std::vector<Contender> faster;
    for (size_t i = 0; i < contenders_.size(); ++i) {
      Contender& contender = contenders_[i];
      const double share = options_.seconds_left
                               ? (SecondsLeft() - reserve_) / static_cast<double>(contenders_.size() - i)
                               : std::numeric_limits<double>::infinity();
      ASSIGN_OR_RETURN(contender.measured, MeasuredBefore(contender.candidate->graph, one_is_faster ? 0 : share));
      contender.earlier = contender.measured.has_value();
      if (!contender.earlier && report_.repeated) {
        Drop(*contender.candidate, Why::kNotTold, "the earlier run had no time to measure it");
        continue;
      }
      if (!contender.earlier) {
        Phase(absl::StrCat("timing candidate ", i + 1, " of ", contenders_.size()));
        MeasureOptions measuring = options_.measuring;
        measuring.significance = options_.significance / static_cast<double>(tests_);
        if (options_.seconds_left) {
          measuring.stop = [this, until = SecondsLeft() - share] { return SecondsLeft() < until; };
        }
        ASSIGN_OR_RETURN(const bool measured, Measure(measuring, &contender));
        if (!measured) continue;
        Keep(contender);
      }
      // One that was faster in an earlier run will be asked again, alone.
      if (IsFaster(*contender.measured, options_.significance, contender.earlier ? 1 : tests_)) {
        faster.push_back(contender);
      } else {
        DropByTime(contender);
      }
    }
    std::stable_sort(faster.begin(), faster.end(),
                     [](const Contender& a, const Contender& b) { return a.measured->ratio > b.measured->ratio; });
    contenders_ = std::move(faster);
    return absl::OkStatus();
  }

  // Compiles what the file of a contender gives. False where it cannot be, and is dropped.
  absl::StatusOr<bool> CompileFile(Contender* contender) {
    const Candidate& candidate = *contender->candidate;
    contender->file.reset();
    if (options_.as_file) {
      Phase("writing the candidate that was faster in an earlier run");
      ASSIGN_OR_RETURN(contender->file, options_.as_file(candidate.graph, report_.search.trace,
                                                         PathTo(report_.search.trace, candidate.step)));
    }
    RETURN_IF_ERROR(CompileOriginal());
    const absl::Status compiled = Compile(*contender);
    if (!compiled.ok()) Drop(candidate, Why::kFailed, std::string(compiled.message()));
    return compiled.ok();
  }

  // The outputs of a contender or its file with those of the original. An error where only the file is wrong.
  absl::StatusOr<OutputCheck> Compare(const Contender& contender) {
    const Graph& graph = contender.candidate->graph;
    ASSIGN_OR_RETURN(OutputCheck check,
                     checker_->Check(contender.file ? contender.file->graph : graph, CompiledOf(contender)));
    if (!contender.file || !check.done || check.equal) return check;
    ASSIGN_OR_RETURN(const OutputCheck unwritten, checker_->Check(graph));
    if (!unwritten.equal) return unwritten;
    return absl::InternalError(absl::StrCat("the outputs of the model to be written differ: ", check.text));
  }

  // Whether a contender that was faster in an earlier run is so in a few pairs now; else it is dropped.
  absl::StatusOr<bool> IsConfirmed(Contender* contender) {
    Phase("timing the candidate that was faster in an earlier run");
    const double pair = contender->measured->original_seconds + contender->measured->candidate_seconds;
    MeasureOptions measuring = options_.measuring;
    measuring.warmup = options_.check ? 0 : 1;  // the comparison of outputs has run both
    measuring.seconds = 0;
    measuring.significance = 0.5;  // ends with the majority, which decides
    const double most = std::max<double>(kFewestPairs, measuring.pairs);
    measuring.pairs = static_cast<int>(std::clamp<double>(kConfirmingSeconds / pair, kFewestPairs, most));
    ASSIGN_OR_RETURN(const bool measured, Measure(measuring, contender));
    if (!measured) return false;
    if (contender->measured->ratio > 1) return true;
    contender->earlier = false;
    DropByTime(*contender);
    Keep(*contender);
    return false;
  }

  void DropByTime(const Contender& contender) {
    const Measurement& measured = *contender.measured;
    const bool told = measured.ratio_at_most <= kGainThatCounts;
    Drop(*contender.candidate, told ? Why::kNotFaster : Why::kNotTold,
         absl::StrCat(Describe(measured), contender.earlier ? " in an earlier run" : "",
                      told               ? ""
                      : measured.stopped ? ": there was no time to tell whether that is faster"
                                         : ": the machine is too busy to tell whether that is faster"));
  }

  void Keep(const Contender& contender) const {
    if (options_.kept != nullptr) options_.kept->Keep(graph_, contender.candidate->graph, *contender.measured);
  }

  // Whether an earlier run knows a contender that is faster: what it could not tell of others then stays so.
  absl::StatusOr<bool> OneWasFaster() const {
    if (options_.kept == nullptr) return false;
    for (const Contender& contender : contenders_) {
      ASSIGN_OR_RETURN(const std::optional<Measurement> found, options_.kept->Find(graph_, contender.candidate->graph));
      if (found && IsFaster(*found, options_.significance)) return true;
    }
    return false;
  }

  // Nothing where there is no such measurement, or it told nothing and there are seconds for many more pairs.
  absl::StatusOr<std::optional<Measurement>> MeasuredBefore(const Graph& candidate, double seconds) {
    std::optional<Measurement> found;
    if (options_.kept == nullptr) return found;
    ASSIGN_OR_RETURN(found, options_.kept->Find(graph_, candidate));
    if (!found) return found;
    const double measured = (found->original_seconds + found->candidate_seconds) * (found->wins + found->losses);
    const bool tells = found->ratio_at_most <= kGainThatCounts || IsFaster(*found, options_.significance);
    if (!tells && !report_.repeated && seconds >= kTimesAsLong * measured) return std::optional<Measurement>();
    found->stopped = true;  // else it would have told
    Remember(*found);
    return found;
  }

  // False where it cannot be measured, and is dropped. Errors: those of the original.
  absl::StatusOr<bool> Measure(const MeasureOptions& measuring, Contender* contender) {
    const Candidate& candidate = *contender->candidate;
    if (NoTimeLeft()) {
      too_late_ = true;
      Drop(candidate, Why::kFailed, "no time was left to measure it");
      return false;
    }
    RETURN_IF_ERROR(CompileOriginal());
    const absl::StatusOr<Measurement> measured = RunInTurn(*contender, measuring);
    too_late_ |= measured.ok() && measured->stopped;
    if (!measured.ok()) {
      Drop(candidate, Why::kFailed, std::string(measured.status().message()));
      return false;
    }
    contender->measured = *measured;
    Remember(*measured);
    return true;
  }

  absl::Status CompileOriginal() {
    if (original_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(inputs_, RandomInputs(graph_, options_.checking.seed));
    PutGiven(graph_, options_.checking.defaults, &inputs_);
    ASSIGN_OR_RETURN(original_, runner_->Prepare(graph_));
    return absl::OkStatus();
  }

  absl::Status Compile(const Contender& contender) {
    timed_.reset();  // its memory, before another is compiled
    ASSIGN_OR_RETURN(timed_, runner_->Prepare(contender.file ? contender.file->graph : contender.candidate->graph));
    timed_candidate_ = contender.candidate;
    return absl::OkStatus();
  }

  absl::StatusOr<Measurement> RunInTurn(const Contender& contender, const MeasureOptions& measuring) {
    if (!IsCompiled(contender)) RETURN_IF_ERROR(Compile(contender));
    return MeasureInterleaved(*original_, *timed_, inputs_, measuring);
  }

  bool IsCompiled(const Contender& contender) const {
    return timed_ != nullptr && timed_candidate_ == contender.candidate;
  }

  // What was compiled to be timed.
  OutputChecker::Compiled CompiledOf(const Contender& contender) const {
    OutputChecker::Compiled compiled;
    if (contender.file) {
      compiled.written = &contender.candidate->graph;
      compiled.computed = &contender.file->computed;
    }
    if (graph_.mode() == Mode::kTraining) return compiled;
    compiled.original = original_.get();
    if (IsCompiled(contender)) compiled.candidate = timed_.get();
    return compiled;
  }

  // For the report where no candidate is taken: the best one's.
  void Remember(const Measurement& measured) {
    if (!report_.measured || measured.ratio > report_.measured->ratio) report_.measured = measured;
  }

  void Drop(const Candidate& candidate, Why why, std::string text) {
    const std::vector<TraceStep>& trace = report_.search.trace;
    report_.dropped.push_back({why, std::move(text), candidate.cost.seconds,
                               CountRewrites(trace, PathTo(trace, candidate.step)), candidate.second_start});
  }

  void Take(const Contender& contender) {
    const Candidate& candidate = *contender.candidate;
    report_.graph = candidate.graph;
    report_.rewritten = true;
    report_.baseline = candidate.second_start;
    report_.nodes_after = candidate.graph.num_runtime_nodes();
    report_.cost_after = candidate.cost.seconds;
    report_.path = PathTo(report_.search.trace, candidate.step);
    report_.rewrites = CountRewrites(report_.search.trace, report_.path);
    report_.measured = contender.measured;
    report_.as_file = contender.file.has_value();
    if (contender.measured) {
      report_.latency_before = contender.measured->original_seconds;
      report_.latency_after = contender.measured->candidate_seconds;
      report_.verdict = absl::StrFormat("%.3g times faster: ", contender.measured->ratio);
      absl::StrAppend(&report_.verdict, Describe(*contender.measured));
    } else {
      const double gain = candidate.cost.seconds > 0 ? report_.cost_before / candidate.cost.seconds : 1;
      report_.verdict =
          gain < 1.0005 ? "cost lower by less than 0.05 %" : absl::StrFormat("cost lower by %.4g times", gain);
    }
  }

  std::string WhyOriginal() const {
    if (!in_time_) return "the time limit came before the costs of its parts were known";
    if (report_.dropped.empty()) {
      const SearchEnd end = report_.search.end;
      if (end == SearchEnd::kExhausted) return "no rewrite makes it cheaper";
      return absl::StrCat("nothing cheaper was found before the end: ", SearchEndName(end));
    }
    // What cannot be told comes before what is told: that candidate may be faster.
    const auto not_told = std::find_if(report_.dropped.begin(), report_.dropped.end(),
                                       [](const DroppedCandidate& dropped) { return dropped.why == Why::kNotTold; });
    const DroppedCandidate& last = not_told != report_.dropped.end() ? *not_told : report_.dropped.back();
    switch (last.why) {
      case Why::kNotFaster: return "no candidate is measurably faster";
      case Why::kNotTold: return last.text;
      case Why::kOutputsDiffer:
        return absl::StrCat("outputs differ because of rule ", absl::StrJoin(report_.blamed, ", "));
      case Why::kFailed: return absl::StrCat("the candidate could not be run: ", last.text);
    }
    return "";
  }

  const Graph& graph_;
  Device& device_;
  GraphRunner* runner_;
  const OptimizeOptions& options_;
  const std::shared_ptr<OutputChecker> checker_;
  NodeSignatures signatures_;
  OptimizeReport report_;
  std::vector<Contender> contenders_;
  size_t tests_ = 1;            // contenders of the last search
  double reserve_ = 0;          // of the time that is left: what is not for timing; infinite where there is no limit
  std::vector<Tensor> inputs_;  // of what is timed
  std::unique_ptr<Executable> original_;  // likewise
  std::unique_ptr<Executable> timed_;     // the last that was timed
  const Candidate* timed_candidate_ = nullptr;
  bool too_late_ = false;  // for all comparisons
  bool in_time_ = true;    // the costs of the original were known before the limit
};

}  // namespace

std::string Describe(const Measurement& measured) {
  return absl::StrFormat("%.4g ms against %.4g ms, %d of %d pairs faster", 1e3 * measured.candidate_seconds,
                         1e3 * measured.original_seconds, measured.wins, measured.wins + measured.losses);
}

bool IsFaster(const Measurement& measured, double significance, size_t times) {
  return measured.ratio > 1 && measured.p_value <= significance / static_cast<double>(times);
}

void TakeBack(const Graph& original, const std::string& text, OptimizeReport* report) {
  report->dropped.push_back({Why::kNotFaster, text, report->cost_after, report->rewrites, report->baseline});
  report->rewritten = false;
  report->baseline = false;
  report->equal = true;
  report->as_file = false;
  report->check = {};
  report->rewrites.clear();
  report->path.clear();
  ReturnOriginal(original, text, report);
}

absl::StatusOr<OptimizeReport> Optimize(const Graph& graph, Rewriter& rewriter, Device& device, GraphRunner* runner,
                                        const OptimizeOptions& options) {
  if (options.measure && runner == nullptr) {
    return absl::InvalidArgumentError("candidates cannot be timed without a runner");
  }
  return Optimizer(graph, device, runner, options).Run(rewriter);
}

}  // namespace rewright
