#include "search/optimize/optimize.h"

#include <algorithm>
#include <atomic>
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
#include "runtime/measure/timing_policy.h"
#include "search/optimize/decisions.h"
#include "search/resources.h"
#include "search/strategies/reduced_path.h"

namespace rewright {
namespace {

using Why = DroppedCandidate::Why;

// Searches that are done again without a rule. More rules than that are not wrong by accident.
constexpr size_t kMaxBlamed = 8;
// Bytes of weights, as kernels read them, that are not kept where they may be compiled again.
constexpr int64_t kMuchMemory = int64_t{256} << 20;

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
    if (options_.keep_roundings) report_.kept_roundings = KeepRoundings(graph_);
    FilteredRewriter rules(rewriter);
    std::optional<CostModel> costs;
    costs.emplace(device_, [this] { return SecondsLeft() <= search_ends_; });
    ASSIGN_OR_RETURN(report_.repeated, IsRepeated());
    const absl::Cleanup measure_again = [this] { MeasureNew(true); };
    MeasureNew(!report_.repeated);
    for (bool again = true; again;) {
      Phase("searching");
      absl::Status searched = SearchOnce(rules, *costs);
      if (report_.repeated && absl::IsNotFound(searched)) {  // not even the costs of the original are kept any more
        report_.repeated = false;
        MeasureNew(true);
        costs.emplace(device_, [this] { return SecondsLeft() <= search_ends_; });
        searched = SearchOnce(rules, *costs);
      }
      if (absl::IsDeadlineExceeded(searched)) {
        in_time_ = false;
        report_.search = SearchResult();
        report_.search.end = SearchEnd::kTimeLimit;
        contenders_.clear();
        if (!timed_baseline_) break;
      } else {
        RETURN_IF_ERROR(searched);
      }
      ASSIGN_OR_RETURN(const bool blamed, MeasureAndChoose(rules));
      again = blamed && in_time_ && !NoTimeLeft();
    }
    if (EndedByTime()) options_.kept->KeepLimit(graph_, options_.setting, options_.time_limit);
    if (!report_.rewritten) RevertToOriginal(graph_, WhyOriginal(), &report_);
    report_.moved_comparisons = ComparisonsAfter(graph_, report_.graph);
    report_.peak_rss_bytes = PeakResidentBytes();
    report_.checker = checker_;
    return std::move(report_);
  }

 private:
  struct TimedCandidate {
    const Candidate* candidate;
    std::optional<Measurement> measured;
    bool earlier = false;             // measured by an earlier run
    std::optional<GraphInFile> file;  // the graph that its file gives, which then stands for it
  };

  // The baseline's graph, from which the search starts, timed before the search in case its time runs out.
  struct TimedBaseline {
    SearchResult search;
    TimedCandidate timed;
    const Graph& graph() const { return search.candidates[0].graph; }
  };

  void Phase(const std::string& text) const {
    if (options_.phase) options_.phase(text);
  }

  double SecondsLeft() const {
    if (options_.stop_discards && IsStopped(options_.search.stop)) return 0;
    return options_.seconds_left ? options_.seconds_left() : std::numeric_limits<double>::infinity();
  }
  bool NoTimeLeft() const { return SecondsLeft() <= 0; }

  // True if a limit as long as this run's has ended an earlier run.
  absl::StatusOr<bool> IsRepeated() {
    if (options_.kept == nullptr || std::isinf(options_.time_limit)) return false;
    ASSIGN_OR_RETURN(const double ended, options_.kept->LimitThatEnded(graph_, options_.setting));
    return ended >= options_.time_limit;
  }
  void MeasureNew(bool measure) const {
    if (options_.kept != nullptr) options_.kept->MeasureNew(measure);
  }
  // True if there was more to search or to time, and the costs of the original were known: then the run can be
  // repeated.
  bool EndedByTime() const {
    if (options_.kept == nullptr || std::isinf(options_.time_limit) || !in_time_ || report_.repeated) return false;
    return report_.search.end == SearchEnd::kTimeLimit || too_late_;
  }

  absl::Status SearchOnce(Rewriter& rules, CostModel& costs) {
    const double start_cpu = ProcessCpuSeconds();
    SearchOptions search = options_.search;
    search.second_start = std::make_shared<const std::vector<RewriteRound>>(BaselineRounds());
    search.signatures = &signatures_;
    costs_known_ = false;
    RETURN_IF_ERROR(TimeBaseline(rules, costs, search));
    const double left = std::max(0.0, SecondsLeft());
    search.time_limit_seconds = std::min(search.time_limit_seconds, timing::kSearchShare * left);
    if (options_.seconds_left) search_ends_ = (1 - timing::kSearchShare) * left;
    ASSIGN_OR_RETURN(report_.search, Search(graph_, rules, costs, search));
    costs_known_ = true;
    report_.search_cpu_seconds += ProcessCpuSeconds() - start_cpu;
    report_.graphs_explored += report_.search.explored;
    report_.cost_before = report_.search.original_cost.seconds;
    contenders_.clear();
    timed_.reset();
    report_.measured.reset();
    RETURN_IF_ERROR(ReduceAll(costs));
    for (const Candidate& candidate : report_.search.candidates) {
      // If nothing is timed, the cost alone decides about the second start.
      const bool cheaper = candidate.cost.total() < report_.search.original_cost.total();
      if (candidate.step >= 0 && (options_.measure || cheaper)) contenders_.push_back({&candidate});
    }
    return absl::OkStatus();
  }

  // Leaves out of all candidates the steps that gain nothing, and those that are not wanted. One that is the original
  // then, or another one, is none any more.
  absl::Status ReduceAll(CostModel& costs) {
    if (options_.rules == nullptr) return absl::OkStatus();
    std::vector<Candidate> reduced;
    Numerics numerics;  // of weights, which all candidates share
    for (Candidate& candidate : report_.search.candidates) {
      if (const absl::Status made = Reduce(costs, numerics, &candidate); !made.ok()) {
        too_late_ |= absl::IsDeadlineExceeded(made);
        Drop(candidate, Why::kFailed, std::string(made.message()));
        continue;
      }
      const auto same = std::find_if(reduced.begin(), reduced.end(),
                                     [&](const Candidate& other) { return SameResults(other.graph, candidate.graph); });
      if (same == reduced.end()) {
        reduced.push_back(std::move(candidate));
      } else {
        same->second_start |= candidate.second_start;
      }
    }
    report_.search.candidates = std::move(reduced);
    return absl::OkStatus();
  }

  static bool SameResults(const Graph& a, const Graph& b) {
    return std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end(),
                      [](const Output& x, const Output& y) { return x.value == y.value; });
  }

  absl::Status Reduce(CostModel& costs, Numerics& numerics, Candidate* candidate) {
    const RuleIndex& rules = *options_.rules;
    std::vector<TraceStep>& trace = report_.search.trace;
    for (bool first = true; candidate->step >= 0; first = false) {
      const std::vector<int> path = PathTo(trace, candidate->step);
      const auto stop = [this] { return NoTimeLeft(); };
      ASSIGN_OR_RETURN(const std::vector<ReplayStep> steps, MakeReplay(graph_, trace, path, rules, stop));
      ASSIGN_OR_RETURN(const Replay made, Replay::Run(graph_, steps, rules, stop));
      std::set<int> without;
      if (first && costs_known_) without = StepsForNothing(graph_, made, steps, rules, costs, numerics);
      if (without.empty() && options_.unwanted) {
        ASSIGN_OR_RETURN(const std::vector<int> unwanted, options_.unwanted(made, steps));
        without.insert(unwanted.begin(), unwanted.end());
        for (int step : unwanted) report_.unwanted.insert(steps[static_cast<size_t>(step)].rule);
      }
      if (without.empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const ReducedPath reduced,
                       WithoutSteps(graph_, made, steps, without, trace, path, rules, numerics));
      candidate->graph = reduced.graph;
      candidate->step = Append(reduced.steps);
      if (candidate->step < 0) reduced_away_ = true;
      candidate->cost = report_.search.original_cost;
      if (candidate->step < 0 || !costs_known_) continue;
      if (const absl::StatusOr<GraphCost> cost = costs.Cost(candidate->graph); cost.ok()) candidate->cost = *cost;
      trace.back().cost_after = candidate->cost.seconds;
    }
    return absl::OkStatus();
  }

  // Puts a path down in the trace, and gives its last step.
  int Append(const std::vector<TraceStep>& steps) {
    std::vector<TraceStep>& trace = report_.search.trace;
    const int base = static_cast<int>(trace.size());
    for (const TraceStep& step : steps) {
      trace.push_back(step);
      if (step.parent >= 0) trace.back().parent += base;
    }
    return steps.empty() ? -1 : static_cast<int>(trace.size()) - 1;
  }

  // If time is short, the likeliest candidate is timed before the search: the baseline's graph. It is taken if nothing
  // better is found in time.
  absl::Status TimeBaseline(Rewriter& rules, CostModel& costs, const SearchOptions& search) {
    if (!options_.seconds_left || !options_.measure || report_.repeated || search.second_start->empty()) {
      return absl::OkStatus();
    }
    timed_baseline_.reset();
    report_.search = SecondStartAlone(graph_, rules, costs, search);
    RETURN_IF_ERROR(ReduceAll(costs));
    if (report_.search.candidates.empty() || report_.search.candidates[0].step < 0) return absl::OkStatus();
    TimedCandidate contender{&report_.search.candidates[0]};
    const double share = timing::kBaselineShare * std::max(0.0, SecondsLeft());
    ASSIGN_OR_RETURN(contender.measured, MeasuredBefore(contender.candidate->graph, share));
    contender.earlier = contender.measured.has_value();
    if (!contender.earlier) {
      Phase("timing the baseline's graph");
      MeasureOptions measuring = MeasuringFor(share);
      measuring.significance = options_.significance / MostTests();
      ASSIGN_OR_RETURN(const bool measured, Measure(measuring, &contender));
      if (!measured) return absl::OkStatus();
      Keep(contender);
    }
    timed_baseline_.emplace(TimedBaseline{report_.search, contender});
    timed_candidate_ = nullptr;  // of a search that is over
    // Its weights would take much memory while the search measures.
    if (timed_ != nullptr && timed_->constant_bytes() >= kMuchMemory) timed_.reset();
    return absl::OkStatus();
  }

  // Ends after so many seconds where time is limited.
  MeasureOptions MeasuringFor(double seconds) const {
    MeasureOptions measuring = MeasuringOf(options_);
    const double until = options_.seconds_left ? SecondsLeft() - seconds : 0;
    measuring.stop = [this, until] { return SecondsLeft() <= until; };
    return measuring;
  }

  double MostTests() const { return options_.search.candidates + 1; }

  // The baseline's graph as it was timed first, where it is faster and no contender is left.
  void UseTimedBaseline() {
    if (!timed_baseline_ || !contenders_.empty()) return;
    TimedCandidate timed = timed_baseline_->timed;
    const bool faster =
        IsFaster(*timed.measured, options_.significance, timed.earlier ? 1 : static_cast<size_t>(MostTests()));
    if (!faster && costs_known_) return;  // the search has said so
    SearchResult searched = std::exchange(report_.search, std::move(timed_baseline_->search));
    report_.search.end = searched.end;
    // Its cost was not asked for when it was timed.
    GraphCost& cost = report_.search.candidates[0].cost;
    cost = report_.search.original_cost = searched.original_cost;
    for (const Candidate& candidate : searched.candidates) {
      if (candidate.second_start) cost = candidate.cost;
    }
    timed_baseline_.reset();
    timed.candidate = &report_.search.candidates[0];
    if (timed_ != nullptr && timed_candidate_ == nullptr) timed_candidate_ = timed.candidate;
    if (faster) {
      contenders_.push_back(timed);
    } else {
      DropByTime(timed);
    }
  }

  // The baseline's rewrites of the original, without rules that were found to be wrong.
  std::vector<RewriteRound> BaselineRounds() {
    std::vector<RewriteRound> rounds;
    if (options_.baseline == nullptr) return rounds;
    std::set<std::string> without;
    for (const std::string& blamed : report_.blamed) {
      for (absl::string_view rule : absl::StrSplit(blamed, kRuleSeparator)) without.emplace(rule);
    }
    const WeightBytes weights(graph_);
    const int64_t most = AllowedGrowth(options_.search.growth, weights.original());
    const auto admits = [&](const Graph& graph) { return weights.Of(graph) - weights.original() <= most; };
    absl::StatusOr<BaselineResult> baseline = options_.baseline->Apply(graph_, 0, without, &signatures_, admits);
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
    reserve_ = (1 - timing::kTimingShare) * std::max(0.0, SecondsLeft());
    if (options_.measure && !contenders_.empty()) {
      RETURN_IF_ERROR(TimeAll());
    }
    UseTimedBaseline();
    for (TimedCandidate& contender : contenders_) {
      const bool earlier = contender.earlier;
      if (earlier) {
        ASSIGN_OR_RETURN(const bool runs, CompileFile(&contender));
        if (!runs) continue;
      }
      OutputCheck check;
      if (options_.check) {
        if (NoTimeLeft()) {
          Drop(*contender.candidate, Why::kNoTime, "no time was left to compare its outputs");
          continue;
        }
        Phase("comparing outputs");
        if (!IsCompiled(contender)) timed_.reset();  // another's weights would lie beside those of this one
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
    size_t right = 0;  // number of steps that are right
    size_t wrong = path.size();
    while (wrong - right > 1) {
      const size_t middle = (right + wrong) / 2;
      const absl::StatusOr<OutputCheck> check = checker_->Check(GraphAt(report_.search, graph_, path[middle - 1]));
      if (!check.ok()) return "";
      (check->equal ? right : wrong) = middle;
    }
    return report_.search.trace[path[right]].rule;
  }

  // Times the contenders that no earlier run has timed. Those that are not faster are dropped, the others sorted by
  // their gain.
  absl::Status TimeAll() {
    tests_ = contenders_.size();
    ASSIGN_OR_RETURN(const bool one_is_faster, OneWasFaster());
    std::vector<TimedCandidate> faster;
    for (size_t i = 0; i < contenders_.size(); ++i) {
      TimedCandidate& contender = contenders_[i];
      const double share = options_.seconds_left
                               ? (SecondsLeft() - reserve_) / static_cast<double>(contenders_.size() - i)
                               : std::numeric_limits<double>::infinity();
      if (timed_baseline_ && SameResults(timed_baseline_->graph(), contender.candidate->graph)) {
        contender.measured = timed_baseline_->timed.measured;
        contender.earlier = timed_baseline_->timed.earlier;
      } else {
        ASSIGN_OR_RETURN(contender.measured, MeasuredBefore(contender.candidate->graph, one_is_faster ? 0 : share));
        contender.earlier = contender.measured.has_value();
      }
      if (!contender.measured && report_.repeated) {
        Drop(*contender.candidate, Why::kInconclusive, "the earlier run had no time to measure it");
        continue;
      }
      if (!contender.measured) {
        Phase(absl::StrCat("timing candidate ", i + 1, " of ", contenders_.size()));
        MeasureOptions measuring = MeasuringFor(share);
        measuring.significance = options_.significance / static_cast<double>(tests_);
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
    std::stable_sort(faster.begin(), faster.end(), [](const TimedCandidate& a, const TimedCandidate& b) {
      return a.measured->ratio > b.measured->ratio;
    });
    contenders_ = std::move(faster);
    return absl::OkStatus();
  }

  // Compiles the graph that the file of a contender gives. False if it cannot be compiled, and is dropped.
  absl::StatusOr<bool> CompileFile(TimedCandidate* contender) {
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
  absl::StatusOr<OutputCheck> Compare(const TimedCandidate& contender) {
    const Graph& graph = contender.candidate->graph;
    ASSIGN_OR_RETURN(OutputCheck check,
                     checker_->Check(contender.file ? contender.file->graph : graph, CompiledOf(contender)));
    if (!contender.file || !check.done || check.equal) return check;
    ASSIGN_OR_RETURN(const OutputCheck unwritten, checker_->Check(graph));
    if (!unwritten.equal) return unwritten;
    return absl::InternalError(absl::StrCat("the outputs of the model to be written differ: ", check.text));
  }

  // True if a contender that was faster in an earlier run is faster in a few pairs now; else it is dropped.
  absl::StatusOr<bool> IsConfirmed(TimedCandidate* contender) {
    Phase("timing the candidate that was faster in an earlier run");
    const double pair = contender->measured->original_seconds + contender->measured->candidate_seconds;
    MeasureOptions measuring = MeasuringOf(options_);
    measuring.warmup = options_.check ? 0 : 1;  // the comparison of outputs has run both
    measuring.seconds = 0;
    measuring.significance = 0.5;  // ends with the majority, which decides
    const double most = std::max<double>(timing::kFewestPairs, measuring.pairs);
    measuring.pairs =
        static_cast<int>(std::clamp<double>(timing::kConfirmingSeconds / pair, timing::kFewestPairs, most));
    ASSIGN_OR_RETURN(const bool measured, Measure(measuring, contender));
    if (!measured) return false;
    if (contender->measured->ratio > 1) return true;
    contender->earlier = false;
    DropByTime(*contender);
    Keep(*contender);
    return false;
  }

  void DropByTime(const TimedCandidate& contender) {
    const Measurement& measured = *contender.measured;
    const bool told = measured.ratio_at_most <= timing::kGainThatCounts;
    Drop(*contender.candidate, told ? Why::kNotFaster : Why::kInconclusive,
         absl::StrCat(Describe(measured), contender.earlier ? " in an earlier run" : "",
                      told               ? ""
                      : measured.stopped ? ": there was no time to tell whether that is faster"
                                         : ": the machine is too busy to tell whether that is faster"));
  }

  void Keep(const TimedCandidate& contender) const {
    if (options_.kept != nullptr) options_.kept->Keep(graph_, contender.candidate->graph, *contender.measured);
  }

  // True if an earlier run knows a contender that is faster: then candidates that it could not tell stay so.
  absl::StatusOr<bool> OneWasFaster() const {
    if (options_.kept == nullptr) return false;
    for (const TimedCandidate& contender : contenders_) {
      ASSIGN_OR_RETURN(const std::optional<Measurement> found, options_.kept->Find(graph_, contender.candidate->graph));
      if (found && IsFaster(*found, options_.significance)) return true;
    }
    return false;
  }

  // Nothing if there is no such measurement, or if it told nothing and there is time for many more pairs.
  absl::StatusOr<std::optional<Measurement>> MeasuredBefore(const Graph& candidate, double seconds) {
    std::optional<Measurement> found;
    if (options_.kept == nullptr) return found;
    ASSIGN_OR_RETURN(found, options_.kept->Find(graph_, candidate));
    if (!found) return found;
    const double measured = (found->original_seconds + found->candidate_seconds) * (found->wins + found->losses);
    const bool tells = found->ratio_at_most <= timing::kGainThatCounts || IsFaster(*found, options_.significance);
    if (!tells && !report_.repeated && seconds >= timing::kTimesAsLong * measured) return std::optional<Measurement>();
    found->stopped = true;  // else it would have told
    Remember(*found);
    return found;
  }

  // False where it cannot be measured, and is dropped. Errors: those of the original.
  absl::StatusOr<bool> Measure(const MeasureOptions& measuring, TimedCandidate* contender) {
    const Candidate& candidate = *contender->candidate;
    if (NoTimeLeft()) {
      too_late_ = true;
      Drop(candidate, Why::kNoTime, "no time was left to measure it");
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

  absl::Status Compile(const TimedCandidate& contender) {
    timed_.reset();  // its memory, before another is compiled
    ASSIGN_OR_RETURN(timed_, runner_->Prepare(contender.file ? contender.file->graph : contender.candidate->graph));
    timed_candidate_ = contender.candidate;
    return absl::OkStatus();
  }

  absl::StatusOr<Measurement> RunInTurn(const TimedCandidate& contender, const MeasureOptions& measuring) {
    if (!IsCompiled(contender)) RETURN_IF_ERROR(Compile(contender));
    return MeasureInterleaved(*original_, *timed_, inputs_, measuring);
  }

  bool IsCompiled(const TimedCandidate& contender) const {
    return timed_ != nullptr && timed_candidate_ == contender.candidate;
  }

  // The executables that were compiled for timing.
  OutputChecker::Compiled CompiledOf(const TimedCandidate& contender) const {
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

  // Keeps the best measurement for the report, in case no candidate is taken.
  void Remember(const Measurement& measured) {
    if (!report_.measured || measured.ratio > report_.measured->ratio) report_.measured = measured;
  }

  void Drop(const Candidate& candidate, Why why, std::string text) {
    const std::vector<TraceStep>& trace = report_.search.trace;
    report_.dropped.push_back({why, std::move(text), candidate.cost.seconds,
                               CountRewrites(trace, PathTo(trace, candidate.step)), candidate.second_start});
  }

  void Take(const TimedCandidate& contender) {
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
      if (end == SearchEnd::kExhausted && reduced_away_) {
        return absl::StrFormat(
            "no rewrite%s makes it cheaper by %.2g %%%s", report_.unwanted.empty() ? "" : " that is wanted",
            100 * kGainOfNothing,
            device_.runs() ? absl::StrFormat(" (%.2g %% with new weights)", 100 * kGainOfNewWeights) : "");
      }
      if (end == SearchEnd::kExhausted) return "no rewrite makes it cheaper";
      return absl::StrCat("nothing cheaper was found before the end: ", SearchEndName(end));
    }
    // A candidate that timing could not tell is reported before the others: it may be faster.
    const auto not_told =
        std::find_if(report_.dropped.begin(), report_.dropped.end(),
                     [](const DroppedCandidate& dropped) { return dropped.why == Why::kInconclusive; });
    const DroppedCandidate& last = not_told != report_.dropped.end() ? *not_told : report_.dropped.back();
    switch (last.why) {
      case Why::kNotFaster: return "no candidate is measurably faster";
      case Why::kInconclusive: return last.text;
      case Why::kOutputsDiffer:
        return absl::StrCat("outputs differ because of rule ", absl::StrJoin(report_.blamed, ", "));
      case Why::kNoTime: return last.text;
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
  std::vector<TimedCandidate> contenders_;
  size_t tests_ = 1;            // contenders of the last search
  double reserve_ = 0;          // the part of the time left that is not for timing; infinite where there is no limit
  std::vector<Tensor> inputs_;  // of the graphs that are timed
  std::unique_ptr<Executable> original_;  // likewise
  std::unique_ptr<Executable> timed_;     // the last that was timed
  const Candidate* timed_candidate_ = nullptr;
  bool too_late_ = false;      // for all comparisons
  bool reduced_away_ = false;  // a candidate had only steps that gain nothing or are not wanted
  std::optional<TimedBaseline> timed_baseline_;
  double search_ends_ = 0;    // the device is asked for no costs once this many seconds are left
  bool costs_known_ = false;  // those of the last search
  bool in_time_ = true;       // the costs of the original were known before the limit
};

}  // namespace

void RevertToOriginal(const Graph& original, const std::string& why, OptimizeReport* report) {
  if (report->rewritten) {
    report->dropped.push_back({Why::kNotFaster, why, report->cost_after, report->rewrites, report->baseline});
  }
  report->graph = original;
  report->rewritten = false;
  report->baseline = false;
  report->as_file = false;
  report->verdict = absl::StrCat("the original: ", why);
  report->nodes_after = report->nodes_before;
  report->cost_after = report->cost_before;
  if (report->measured) report->latency_before = report->latency_after = report->measured->original_seconds;
  report->check = {};
  report->rewrites.clear();
  report->path.clear();
  report->moved_comparisons = 0;
}

MeasureOptions MeasuringOf(const OptimizeOptions& options) {
  MeasureOptions measuring = options.measuring;
  if (IsStopped(options.search.stop)) {
    measuring.warmup = timing::kInterruptedWarmupRuns;
    measuring.pairs = timing::kInterruptedPairs;
    measuring.seconds = 0;
  }
  return measuring;
}

absl::StatusOr<OptimizeReport> Optimize(const Graph& graph, Rewriter& rewriter, Device& device, GraphRunner* runner,
                                        const OptimizeOptions& options) {
  if (options.measure && runner == nullptr) {
    return absl::InvalidArgumentError("candidates cannot be timed without a runner");
  }
  return Optimizer(graph, device, runner, options).Run(rewriter);
}

}  // namespace rewright
