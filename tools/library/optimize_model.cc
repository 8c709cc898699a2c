#include "tools/library/optimize_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "core/base/threads.h"
#include "core/ir/random_tensors.h"
#include "runtime/measure/timing_policy.h"
#include "search/rewriter.h"
#include "tools/library/file_timing.h"

namespace rewright {
namespace {

// Sets of inputs on which the error of narrow nodes is measured.
constexpr uint64_t kNarrowingInputs = 3;

// The settings on which a search depends besides the graph and its costs.
std::string SearchSetting(const OptimizeSettings& settings, const OptimizerRules& rules, const Engine& engine) {
  std::string ranges;
  for (const auto& [name, range] : settings.ranges)
    absl::StrAppend(&ranges, " ", name, "=", range.first, ":", range.second);
  return absl::StrCat(settings.search, " alpha ", settings.alpha, " budget ", settings.budget, " growth ",
                      settings.growth, " fix ", settings.fix_sizes, " move roundings ", settings.move_roundings, ranges,
                      " windows ", settings.windows, " egraph nodes ", settings.egraph_nodes, " memory ",
                      settings.memory_limit_bytes, " without ", absl::StrJoin(engine.switched_off(), ","), " rules ",
                      HashOf(rules));
}

// The objection to a file of `after` bytes in the place of one of `before`: it grows by more than is allowed, or by
// more than it gains. Empty: none.
std::string WhyTooLarge(int64_t before, int64_t after, double allowed, int64_t free, const OptimizeReport& report) {
  if (std::isinf(allowed)) return "";
  const double growth = static_cast<double>(after) / static_cast<double>(before) - 1;
  const double ratio = report.measured         ? report.measured->ratio
                       : report.cost_after > 0 ? report.cost_before / report.cost_after
                                               : HUGE_VAL;
  if (after - before <= AllowedGrowth(allowed, before, free) && (after - before <= free || ratio - 1 >= growth)) {
    return "";
  }
  return absl::StrFormat("its file would be %.3g %% larger, and is %.3g times as fast", growth * 100, ratio);
}

class ModelOptimizer {
 public:
  ModelOptimizer(SourceModel& model, const OptimizerRules& rules, const Engine& engine,
                 const OptimizeSettings& settings, const TimeLimit& limit, const OptimizeObserver& observer)
      : model_(model), rules_(rules), engine_(engine), settings_(settings), limit_(limit), observer_(observer) {}

  absl::StatusOr<OptimizedModel> Run() {
    RETURN_IF_ERROR(SetOptions());
    if (original_.graph.outputs().empty()) {  // all of the file is its tail
      RevertToOriginal(original_.graph, "sizes of all its results depend on values that only a run knows", &report_);
      return std::move(result_);
    }
    engine_.Use(original_);
    RuleRewriter rewriter(rules_.rules, std::move(numerics_));
    ASSIGN_OR_RETURN(report_, Optimize(original_.graph, rewriter, *costs_, &engine_.runner(), options_));
    RETURN_IF_ERROR(CheckWanted());
    result_.failed_matches = rewriter.failures();
    result_.first_failure = rewriter.first_failure();
    if (report_.rewritten) {
      ASSIGN_OR_RETURN(const std::string objection, ObjectionToFile());
      if (!objection.empty()) RevertToOriginal(original_.graph, objection, &report_);
    }
    report_.checker.reset();
    if (!report_.rewritten) {
      result_.named = {};
      result_.written = {};
    } else if (settings_.prove) {
      const double seconds = std::clamp(limit_.Left(), 0.0, settings_.proof_limit_seconds);
      result_.proof = ProveResult(original_.graph, report_, rules_.all, seconds, settings_.stop);
    }
    RETURN_IF_ERROR(CheckWanted());
    if (settings_.tolerance > 0) RETURN_IF_ERROR(Narrow());
    return std::move(result_);
  }

 private:
  absl::Status SetOptions() {
    if (engine_.device() == nullptr) {
      return InvalidArgument("device reference: a model is optimized for a device; expected cpu or cuda:N");
    }
    SearchOptions& search = options_.search;
    if (!ParseSearchStrategy(settings_.search, &search.strategy)) {
      return InvalidArgument("search: found ", settings_.search, ", expected backtrack, greedy or eqsat");
    }
    if (!ParseWindowUse(settings_.windows, &search.windows)) {
      return InvalidArgument("windows: found ", settings_.windows, ", expected auto, always or never");
    }
    if (settings_.tolerance > 0 && (!original_.dims.empty() && !settings_.fix_sizes)) {
      return InvalidArgument("a tolerance: the model has sizes with names, and a file with products in 16 bits has ",
                             "numbers in their place; expected that sizes may be fixed (--fix-sizes)");
    }
    if (settings_.tolerance > 0 && engine_.file_device() != nullptr) {
      return InvalidArgument("a tolerance: ", engine_.file_device()->runtime().name(),
                             " runs no products of bf16 here; expected another device");
    }
    for (const auto& [name, range] : settings_.ranges) {
      const std::vector<Value>& inputs = original_.graph.inputs();
      const bool known = std::any_of(inputs.begin(), inputs.end(), [&, &name = name](Value input) {
        return original_.graph.node(input.node).name == name;
      });
      if (!known) return InvalidArgument("range ", name, ": the model has no such input");
      numerics_.inputs[name] = {range.first, range.second};
    }
    if (!IsMeasured(settings_)) {
      ASSIGN_OR_RETURN(analytic_, MakeDevice(settings_.cost));
    }
    costs_ = analytic_ != nullptr ? analytic_.get() : engine_.device();
    search.egraph_nodes = static_cast<int>(settings_.egraph_nodes);
    search.alpha = settings_.alpha;
    search.growth = settings_.growth;
    search.budget = settings_.budget;
    search.memory_limit_bytes = settings_.memory_limit_bytes;
    search.stop = settings_.stop;
    search.progress = observer_.progress;
    // Measurements are taken one at a time, and nothing else runs meanwhile.
    search.threads = IsMeasured(settings_) ? 1 : NumThreads(engine_.threads());
    options_.stop_discards = !observer_.wants_stopped;
    options_.phase = observer_.phase;
    options_.measure = IsMeasured(settings_) && costs_->runs();
    if (settings_.tolerance > 0 && !options_.measure) {
      return InvalidArgument(
          "a tolerance: what 16 bits gain is timed; expected --cost measured and a device that is here");
    }
    options_.keep_roundings = !settings_.move_roundings;
    options_.check = settings_.check;
    options_.checking.rtol = settings_.rtol;
    options_.checking.atol = settings_.atol;
    options_.checking.seed = settings_.seed;
    options_.checking.defaults = original_.metadata.defaults;
    if (engine_.threads() > 0) options_.checking.threads = engine_.threads();
    if (engine_.file_device() != nullptr) options_.measuring.seconds = timing::kFilePairSeconds;
    if (std::isfinite(limit_.seconds())) options_.seconds_left = [this] { return limit_.Left(timing::kGraphShare); };
    options_.kept = engine_.measurements();
    if (IsMeasured(settings_)) {
      options_.setting = SearchSetting(settings_, rules_, engine_);
      options_.time_limit = limit_.seconds();
    }
    if (rules_.baseline) options_.baseline = &*rules_.baseline;
    options_.rules = &rules_.all;
    if (!original_.dims.empty() && !settings_.fix_sizes) {
      options_.unwanted = [this](const Replay& made, const std::vector<ReplayStep>& steps) {
        return keeper_.StepsThatFixSizes(made, steps);
      };
    }
    if (settings_.check && engine_.file_device() == nullptr) {  // which runs files as they are
      options_.as_file = [this](const Graph& rewritten, const std::vector<TraceStep>& trace,
                                const std::vector<int>& path) -> absl::StatusOr<std::optional<GraphInFile>> {
        RETURN_IF_ERROR(Write(rewritten, trace, path));
        if (!result_.written.read) return std::nullopt;
        return GraphInFile{result_.written.read->graph, result_.written.computed};
      };
    }
    return absl::OkStatus();
  }

  absl::Status CheckWanted() const {
    const bool discarded = !observer_.wants_stopped && IsStopped(settings_.stop);
    return discarded ? absl::CancelledError("stopped by the caller") : absl::OkStatus();
  }

  // Puts a graph that is narrow as far as the tolerance allows in the place of the result, if it is faster.
  absl::Status Narrow() {
    NarrowingOptions options;
    options.tolerance = settings_.tolerance;
    options.seed = settings_.seed;
    options.threads = NumThreads(engine_.threads());
    options.measure = options_.measure;
    options.significance = options_.significance;
    options.phase = options_.phase;
    options.stop = [this] { return limit_.Left() <= 0 || !CheckWanted().ok(); };
    options.measuring.stop = options.stop;
    for (uint64_t set = 0; set < kNarrowingInputs; ++set) {
      ASSIGN_OR_RETURN(std::vector<Tensor> inputs, RandomInputs(original_.graph, settings_.seed + set));
      PutGiven(original_.graph, original_.metadata.defaults, &inputs);
      options.inputs.push_back(std::move(inputs));
    }
    ASSIGN_OR_RETURN(result_.narrowing, ChooseNarrowNodes(report_.graph, engine_.runner(), options));
    Narrowing& narrowing = *result_.narrowing;
    if (!narrowing.graph) return absl::OkStatus();
    const NamedModel unnamed;
    ASSIGN_OR_RETURN(WrittenModel written,
                     BytesToWrite(*narrowing.graph, original_, unnamed, engine_, settings_.check));
    if (written.read) {
      std::vector<Tensor> found;
      ASSIGN_OR_RETURN(const auto after, engine_.runner().Prepare(written.read->graph));
      RETURN_IF_ERROR(after->Run(options.inputs[0], &found));
      if (const double error = LargestDifference(narrowing.expected, found); error > settings_.tolerance) {
        narrowing.graph.reset();
        narrowing.verdict = absl::StrFormat("its file would be %.3g off", error);
        return absl::OkStatus();
      }
    }
    result_.named = unnamed;
    result_.written = std::move(written);
    report_.verdict = absl::StrCat(narrowing.verdict, report_.rewritten ? "; before that " : "",
                                   report_.rewritten ? report_.verdict : "");
    report_.check = {.done = true, .equal = true, .max_rel_diff = narrowing.measured};
    report_.check.text = absl::StrFormat("within the tolerance of %.3g of the largest element", settings_.tolerance);
    if (result_.proof) absl::StrAppend(&result_.proof->text, ", before 16 bits");
    report_.graph = *narrowing.graph;
    report_.rewritten = true;
    report_.nodes_after = report_.graph.num_runtime_nodes();
    if (narrowing.timing) {
      if (!report_.latency_before) report_.latency_before = narrowing.timing->original_seconds;
      report_.latency_after = narrowing.timing->candidate_seconds;
    }
    return absl::OkStatus();
  }

  // Makes the file of a rewritten graph, with the names of dimensions that it can keep.
  absl::Status Write(const Graph& rewritten, const std::vector<TraceStep>& trace, const std::vector<int>& path) {
    result_.named = {};
    if (!original_.dims.empty()) {
      ASSIGN_OR_RETURN(const std::vector<ReplayStep> steps, MakeReplay(original_.graph, trace, path, rules_.all));
      ASSIGN_OR_RETURN(const Replay made, Replay::Run(original_.graph, steps, rules_.all));
      ASSIGN_OR_RETURN(result_.named, keeper_.NameSizes(made, steps));
    }
    ASSIGN_OR_RETURN(result_.written, BytesToWrite(rewritten, original_, result_.named, engine_, settings_.check));
    return absl::OkStatus();
  }

  // Makes and checks the file of the result. Returns why it may not take the original's place: no time is left, it is
  // the file that was read (a file does not tell all graphs apart), it is too large, its outputs differ, or another
  // runtime is the device and does not run it faster. Empty: it may.
  absl::StatusOr<std::string> ObjectionToFile() {
    if (limit_.Left() <= 0) return "no time was left to check its file";
    const WrittenModel& written = result_.written;
    if (!report_.as_file) RETURN_IF_ERROR(Write(report_.graph, report_.search.trace, report_.path));
    if (!written.bytes) return "";
    if (model_.file.Equals(*written.bytes)) return "its file would be the input byte for byte";
    const int64_t bytes = static_cast<int64_t>(written.bytes->size());
    std::string too_large =
        WhyTooLarge(model_.file.TotalBytes(), bytes, settings_.growth, FreeGrowth(model_.original.graph), report_);
    if (!too_large.empty()) return too_large;
    if (settings_.check) {
      const absl::Status checked = CheckFile();
      // Another runtime may fuse nodes of the file into one that rounds elsewhere.
      if (absl::IsInternal(checked)) return std::string(checked.message());
      RETURN_IF_ERROR(checked);
    }
    if (engine_.file_device() == nullptr || !options_.measure) return "";
    return SlowerInRuntime();
  }

  // Compares the outputs of the file with the original's, unless the search has.
  absl::Status CheckFile() {
    if (!report_.as_file) {
      ASSIGN_OR_RETURN(report_.check, CheckWritten(result_.written, report_.graph, *report_.checker));
    }
    return CheckWrittenAtOnes(result_.written, result_.named, engine_, WithinSeconds(options_.checking, limit_.Left()));
  }

  absl::StatusOr<std::string> SlowerInRuntime() {
    if (options_.phase) options_.phase("timing the file");
    MeasureOptions measuring = MeasuringOf(options_);
    measuring.stop = [this] { return limit_.Left() <= 0 || !CheckWanted().ok(); };
    ASSIGN_OR_RETURN(const Measurement measured,
                     MeasureFiles(*engine_.file_device(), original_.graph, model_.file, *result_.written.bytes,
                                  measuring, options_.checking.seed));
    report_.measured = measured;
    if (!IsFaster(measured, options_.significance)) {
      return absl::StrCat("its file is not measurably faster: ", Describe(measured));
    }
    report_.latency_before = measured.original_seconds;
    report_.latency_after = measured.candidate_seconds;
    report_.verdict = absl::StrFormat("%.3g times faster: %s", measured.ratio, Describe(measured));
    return "";
  }

  SourceModel& model_;
  const ImportedModel& original_ = model_.original;
  const OptimizerRules& rules_;
  const Engine& engine_;
  const OptimizeSettings& settings_;
  const TimeLimit& limit_;
  const OptimizeObserver& observer_;
  NameKeeper keeper_{model_, rules_.all};
  std::unique_ptr<Device> analytic_;  // null: costs are measured
  Device* costs_ = nullptr;
  NumericsOptions numerics_;
  OptimizeOptions options_;
  OptimizedModel result_;
  OptimizeReport& report_ = result_.report;
};

}  // namespace

absl::StatusOr<OptimizedModel> OptimizeModel(SourceModel& model, const OptimizerRules& rules, const Engine& engine,
                                             const OptimizeSettings& settings, const TimeLimit& limit,
                                             const OptimizeObserver& observer) {
  return ModelOptimizer(model, rules, engine, settings, limit, observer).Run();
}

absl::Status WriteOptimized(const SourceModel& model, const OptimizedModel& result, const std::string& path) {
  if (!result.report.rewritten) return model.file.CopyTo(path);
  std::function<absl::Status()> unchanged;  // weights that no rewrite touched are in their files until now
  if (model.mapped) unchanged = [&model] { return model.file.CheckUnchanged(); };
  if (result.written.bytes) return WriteSerialized(*result.written.bytes, path, unchanged);
  ExportOptions options = OptionsToWrite(model.original, result.named);
  options.check = unchanged;
  return ExportOnnx(result.report.graph, model.original.metadata, path, options);
}

}  // namespace rewright
