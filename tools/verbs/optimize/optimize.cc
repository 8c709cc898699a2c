// rewright optimize IN.onnx [-o OUT.onnx]: the main job.

#include "search/optimize/optimize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "backends/device_factory.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/onnx/model_file.h"
#include "core/onnx/onnx.h"
#include "search/rewriter.h"
#include "tools/library/file_timing.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/report/html_report.h"
#include "tools/verbs/compare/groups.h"
#include "tools/verbs/error/rounding.h"
#include "tools/verbs/optimize/in_onnxruntime.h"
#include "tools/verbs/optimize/prove_result.h"
#include "tools/verbs/optimize/trace_file.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

// Seconds for which a candidate's gain is measured on onnxruntime: the overhead of its nodes is small, and shows only
// in many pairs.
constexpr double kPairSeconds = 0.5;

// A run that an earlier one has made short is not made long by onnxruntime: it loads no files that take longer.
constexpr double kOnnxRuntimeSecondsAgain = 1.5;

// The share of --time-limit for finding a graph: the rest is for its file, which is checked again, and the proof.
constexpr double kSearchedShare = 0.75;

// The part of --time-limit that an estimate of rounding may take.
constexpr double kRoundingSeconds = 5;

struct OptimizeFlags {
  std::string input;
  std::string output;
  RuleFlags rules;
  std::string device = "cpu";
  std::string profile;
  std::string precision = "fp32";
  std::vector<std::string> no_rules;
  std::string cost = "measured";
  std::string search = "backtrack";
  int64_t egraph_nodes = SearchOptions().egraph_nodes;
  std::string mode = "inference";
  std::string windows = "auto";
  int64_t budget = SearchOptions().budget;
  double alpha = SearchOptions().alpha;
  double growth = kDefaultGrowth;
  double time_limit = std::numeric_limits<double>::infinity();
  int64_t memory_limit = 0;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  bool fix_sizes = false;
  std::map<std::string, Interval> ranges;
  bool move_roundings = false;
  bool check = true;
  double rtol = OutputCheckOptions().rtol;
  double atol = OutputCheckOptions().atol;
  bool prove = true;
  double proof_limit = 10;
  std::string trace;
  std::string report;

  bool measured() const { return cost == "measured"; }
};

// Shows what the search does, and shortens the measurements once it is interrupted.
class Watcher {
 public:
  Watcher(Console& console, OptimizeOptions* options) : console_(console), progress_(console, "optimize") {
    options->phase = [this, options](const std::string& phase) {
      phase_ = phase;
      console_.Detail(phase);
      if (InterruptGuard::interrupted()) {
        // Seven wins out of seven are enough for the sign test of three candidates and the baseline.
        options->measuring.warmup = 1;
        options->measuring.pairs = 7;
        options->measuring.seconds = 0;
      }
      progress_.Update(-1, phase);
    };
    options->search.progress = [this, options](const SearchProgress& now) {
      const double of_budget = static_cast<double>(now.steps) / static_cast<double>(std::max<int64_t>(1, now.budget));
      progress_.Update(of_budget, absl::StrFormat("%s, cost %.4g -> %.4g ms, %d graphs", phase_, now.first_cost * 1e3,
                                                  now.best_cost * 1e3, now.explored));
    };
  }

 private:
  Console& console_;
  Progress progress_;
  std::string phase_;
};

OptimizeOptions OptionsOf(const OptimizeFlags& flags, const CommonFlags& common) {
  OptimizeOptions options;
  CHECK(ParseSearchStrategy(flags.search, &options.search.strategy)) << flags.search;
  CHECK(ParseWindowUse(flags.windows, &options.search.windows)) << flags.windows;
  options.search.egraph_nodes = static_cast<int>(flags.egraph_nodes);
  options.search.alpha = flags.alpha;
  options.search.growth = flags.growth;
  options.search.budget = flags.budget;
  options.search.memory_limit_bytes = flags.memory_limit;
  options.search.stop = &InterruptGuard::flag();
  // Measurements are taken one at a time, and nothing else runs meanwhile.
  options.search.threads = flags.measured() ? 1 : NumThreads(common.threads);
  options.measure = flags.measured();
  options.keep_roundings = !flags.move_roundings;
  options.check = flags.check;
  options.checking.rtol = flags.rtol;
  options.checking.atol = flags.atol;
  options.checking.seed = common.seed;
  if (common.threads > 0) options.checking.threads = common.threads;
  return options;
}

std::string RangesText(const std::map<std::string, Interval>& ranges) {
  std::string text;
  for (const auto& [name, range] : ranges) absl::StrAppend(&text, " ", name, "=", range.lo, ":", range.hi);
  return text;
}

// The settings on which a search depends besides the graph and its costs.
std::string SearchSetting(const OptimizeFlags& flags, const OptimizerRules& rules) {
  return absl::StrCat(flags.search, " alpha ", flags.alpha, " budget ", flags.budget, " growth ", flags.growth, " fix ",
                      flags.fix_sizes, " move roundings ", flags.move_roundings, RangesText(flags.ranges), " windows ",
                      flags.windows, " egraph nodes ", flags.egraph_nodes, " memory ", flags.memory_limit, " without ",
                      absl::StrJoin(flags.no_rules, ","), " rules ", HashOf(rules));
}

// The time that is left of --time-limit.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds) : seconds_(seconds) {}
  double Left(double share = 1) const { return share * seconds_ - absl::ToDoubleSeconds(absl::Now() - start_); }

 private:
  const double seconds_;
  const absl::Time start_ = absl::Now();
};

// The names of dimensions that the file can keep.
absl::StatusOr<NamedModel> NamesOf(NameKeeper& keeper, const ImportedModel& original,
                                   const std::vector<TraceStep>& trace, const std::vector<int>& path,
                                   const RuleIndex& rules) {
  if (original.dims.empty()) return NamedModel();
  ASSIGN_OR_RETURN(const std::vector<ReplayStep> steps, MakeReplay(original.graph, trace, path, rules));
  ASSIGN_OR_RETURN(const Replay made, Replay::Run(original.graph, steps, rules));
  return keeper.NameSizes(made, steps);
}

// The objection to a file of `after` bytes in the place of one of `before`: it grows by more than is allowed, or by
// more than it gains. The first `free` bytes need no gain. Empty: none.
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

// Writes and checks the file of the rewritten graph; `written` may hold it already, checked. The report goes back to
// the original if no time is left, if the file is the one that was read (a file does not tell all graphs apart), if it
// is too large, if its outputs differ in onnxruntime, or if onnxruntime is the device and does not run it faster.
absl::StatusOr<WrittenModel> FileOf(const OptimizeFlags& flags, const ModelFile& input, const ImportedModel& original,
                                    const NamedModel& named, const Engine& engine, const OptimizeOptions& options,
                                    const TimeLimit& limit, WrittenModel written, OptimizeReport* report) {
  if (limit.Left() <= 0) {
    RevertToOriginal(original.graph, "no time was left to check its file", report);
    return WrittenModel();
  }
  if (written.bytes) {
    written.check = report->check;
  } else {
    ASSIGN_OR_RETURN(written, BytesToWrite(report->graph, original, named, flags.output, engine, flags.check));
  }
  if (!written.bytes) return written;
  if (input.Equals(*written.bytes)) {
    RevertToOriginal(original.graph, "its file would be the input byte for byte", report);
    return WrittenModel();
  }
  const std::string too_large = WhyTooLarge(input.TotalBytes(), static_cast<int64_t>(written.bytes->size()),
                                            flags.growth, FreeGrowth(original.graph), *report);
  if (!too_large.empty()) {
    RevertToOriginal(original.graph, too_large, report);
    return WrittenModel();
  }
  if (flags.check) {
    const absl::Status checked =
        CheckWritten(report->graph, original, named, flags.output, engine,
                     WithinSeconds(options.checking, limit.Left()), report->checker.get(), &written);
    if (absl::IsInternal(checked)) {  // onnxruntime may fuse nodes of the file into one that rounds elsewhere
      RevertToOriginal(original.graph, std::string(checked.message()), report);
      return WrittenModel();
    }
    RETURN_IF_ERROR(checked);
    report->check = written.check;
    report->equal = true;
  }
  if (engine.onnxruntime() == nullptr || !options.measure) return written;
  options.phase("timing the file");
  MeasureOptions measuring = options.measuring;
  measuring.stop = [&limit] { return limit.Left() <= 0; };
  ASSIGN_OR_RETURN(const Measurement measured,
                   MeasureFiles(*engine.onnxruntime(), original.graph, flags.input, std::string(*written.bytes),
                                measuring, options.checking.seed));
  report->measured = measured;
  if (!IsFaster(measured, options.significance)) {
    RevertToOriginal(original.graph, absl::StrCat("its file is not measurably faster: ", Describe(measured)), report);
    return written;
  }
  report->latency_before = measured.original_seconds;
  report->latency_after = measured.candidate_seconds;
  report->verdict = absl::StrFormat("%.3g times faster: %s", measured.ratio, Describe(measured));
  return written;
}

// Weights that no rewrite touched are in their files until now.
absl::Status WriteResult(const OptimizeFlags& flags, const ModelFile& input, const ImportedModel& original,
                         const NamedModel& named, const OptimizeReport& report, const WrittenModel& written) {
  const auto unchanged = [&input] { return input.CheckUnchanged(); };
  if (!written.bytes) {
    ExportOptions options = OptionsToWrite(original, named);
    options.check = unchanged;
    return WriteModel(report.graph, original.metadata, flags.output, options);
  }
  if (flags.output.empty()) return absl::OkStatus();
  if (!IsStandardOutput(flags.output)) return WriteSerialized(*written.bytes, flags.output, unchanged);
  const std::string bytes(*written.bytes);
  RETURN_IF_ERROR(unchanged());
  return WriteStandardOutput(bytes);
}

// The original as it is: an export of what was read would be another file, with other nodes and the sizes fixed.
absl::Status WriteBack(const OptimizeFlags& flags, const ModelFile& file) {
  if (flags.output.empty()) return absl::OkStatus();
  if (!IsStandardOutput(flags.output)) return file.CopyTo(flags.output);
  ASSIGN_OR_RETURN(const std::string bytes, file.Bytes());
  return WriteStandardOutput(bytes);
}

// Describes the file of -o.
std::string WrittenText(const OptimizeFlags& flags, const ImportedModel& model, const NamedModel& named,
                        const OptimizeReport& report) {
  if (flags.output.empty()) return "nothing, without -o";
  if (!report.rewritten) {
    if (IsSameFile(flags.output, flags.input)) return absl::StrCat("nothing: ", flags.output, " stays as it is");
    return absl::StrCat(flags.output, ", the input byte for byte",
                        model.dims.empty() ? "" : ", its symbolic sizes as they were");
  }
  std::vector<std::string> sizes;
  for (const auto& [name, why] : named.fixed) {
    sizes.push_back(absl::StrCat(name, " = ", model.dims.at(name), " (", why, ")"));
  }
  return absl::StrCat(flags.output, ", the rewritten graph", named.names.empty() ? "" : " for all sizes of ",
                      named.Text(), sizes.empty() ? "" : " with the sizes ", absl::StrJoin(sizes, ", "));
}

Json ToJson(const std::vector<RewriteCount>& rewrites) {
  Json list = Json::array();
  for (const RewriteCount& rewrite : rewrites) list.push_back({{"rule", rewrite.rule}, {"count", rewrite.count}});
  return list;
}

const char* WhyName(DroppedCandidate::Why why) {
  switch (why) {
    case DroppedCandidate::Why::kNotFaster: return "not-faster";
    case DroppedCandidate::Why::kNotTold: return "not-told";
    case DroppedCandidate::Why::kOutputsDiffer: return "outputs-differ";
    case DroppedCandidate::Why::kFailed: return "failed";
  }
  return "?";
}

void FillJson(const OptimizeReport& report, const std::optional<ResultProof>& proof, Json* json) {
  Json& j = *json;
  j["verdict"] = report.verdict;
  j["rewritten"] = report.rewritten;
  j["repeated"] = report.repeated;
  j["baseline"] = report.baseline;
  j["nodes_before"] = report.nodes_before;
  j["nodes_after"] = report.nodes_after;
  j["cost_before_ms"] = report.cost_before * 1e3;
  j["cost_after_ms"] = report.cost_after * 1e3;
  if (report.latency_before) j["latency_before_ms"] = *report.latency_before * 1e3;
  if (report.latency_after) j["latency_after_ms"] = *report.latency_after * 1e3;
  j["equal"] = report.equal;
  j["checked"] = report.check.done;
  if (!report.check.device_fault.empty()) j["device_fault"] = report.check.device_fault;
  j["max_abs_diff"] = report.check.max_abs_diff;
  j["max_rel_diff"] = report.check.max_rel_diff;
  j["search_cpu_seconds"] = report.search_cpu_seconds;
  j["search_seconds"] = report.search.seconds;
  j["search_end"] = SearchEndName(report.search.end);
  j["steps"] = report.search.steps;
  j["graphs_explored"] = report.graphs_explored;
  j["peak_rss_bytes"] = report.peak_rss_bytes;
  j["rewrites"] = ToJson(report.rewrites);
  j["fixing_sizes"] = report.unwanted;
  j["kept_roundings"] = report.kept_roundings;
  j["moved_comparisons"] = report.moved_comparisons;
  if (proof) j["proof"] = ToJson(*proof);
  Json dropped = Json::array();
  for (const DroppedCandidate& candidate : report.dropped) {
    dropped.push_back({{"why", WhyName(candidate.why)},
                       {"text", candidate.text},
                       {"cost_ms", candidate.cost * 1e3},
                       {"baseline", candidate.baseline},
                       {"rewrites", ToJson(candidate.rewrites)}});
  }
  j["dropped"] = std::move(dropped);
}

// Times the written file in onnxruntime, before it may take the original's place: within half of the time that is left,
// since the proof follows. Nothing where nothing is timed, or not on the processor.
std::optional<Measurement> InOnnxRuntime(const OptimizeFlags& flags, const Graph& original,
                                         const OptimizeOptions& options, const TimeLimit& limit,
                                         const OptimizeReport& report, const WrittenModel& written, Session& session) {
  if (!report.rewritten || !written.bytes || !options.measure || flags.device != "cpu") return std::nullopt;
  options.phase("timing the file in onnxruntime");
  const double seconds = std::min(limit.Left() / 2, report.as_file ? kOnnxRuntimeSecondsAgain : HUGE_VAL);
  const absl::StatusOr<std::optional<Measurement>> measured =
      MeasureInOnnxRuntime(original, flags.input, report.graph, *written.bytes,
                           {static_cast<int>(session.flags.threads), flags.profile, options.checking.seed, seconds});
  if (measured.ok()) return *measured;
  session.console.Detail(absl::StrCat("not timed in onnxruntime: ", measured.status().message()));
  return std::nullopt;
}

// Nothing to prove: the graph is the original.
std::optional<ResultProof> Proof(const OptimizeFlags& flags, const Graph& original, const OptimizeReport& report,
                                 const OptimizerRules& rules, const TimeLimit& limit) {
  if (!flags.prove || !report.rewritten) return std::nullopt;
  return ProveResult(original, report, rules.all, std::clamp(limit.Left(), 0.0, flags.proof_limit));
}

void Report(const OptimizeFlags& flags, const ImportedModel& model, const NamedModel& named,
            const OptimizeReport& report, const std::optional<ResultProof>& proof,
            const std::optional<Measurement>& in_onnxruntime, Console& console) {
  const auto change = [](double before, double after) {
    return before > 0 && std::abs(after - before) > 1e-4 * before
               ? absl::StrFormat(" (%+.1f %%)", (after / before - 1) * 100)
               : std::string();
  };
  console.Result(absl::StrFormat("result:   %s%s", report.verdict, report.baseline ? "; the baseline's graph" : ""));
  console.Result(absl::StrFormat("nodes:    %d -> %d", report.nodes_before, report.nodes_after));
  console.Result(absl::StrFormat("cost:     %.4g ms -> %.4g ms%s", report.cost_before * 1e3, report.cost_after * 1e3,
                                 change(report.cost_before, report.cost_after)));
  if (!model.tail.empty()) {
    console.Result(absl::StrCat("behind:   ", Counted(model.tail.size(), "node"),
                                " kept as read, from where sizes depend on values: ", model.tail[0].node, ": ",
                                model.tail[0].why));
  }
  if (!model.opaque.empty()) {
    console.Result(absl::StrCat("opaque:   ", Counted(model.opaque.size(), "node"),
                                " kept as read, at no cost: ", OpaqueText(model)));
  }
  if (report.latency_before && report.latency_after) {
    console.Result(absl::StrFormat("latency:  %.4g ms -> %.4g ms%s", *report.latency_before * 1e3,
                                   *report.latency_after * 1e3, change(*report.latency_before, *report.latency_after)));
  }
  if (in_onnxruntime) console.Result(absl::StrCat("in onnxruntime: ", TextInOnnxRuntime(*in_onnxruntime)));
  if (report.kept_roundings > 0) {
    console.Result(absl::StrCat("kept:     every bit before what rounds on purpose (",
                                Counted(report.kept_roundings, "node"), ")"));
  }
  if (report.moved_comparisons > 0) {
    console.Result(absl::StrCat("compared: ", Counted(report.moved_comparisons, "comparison"),
                                " of numbers that may be rounded otherwise"));
  }
  if (!report.rewritten) {
    console.Result("outputs:  those of the original");
  } else if (!flags.check) {
    console.Result("outputs:  not checked");
  } else if (report.check.done) {
    console.Result(
        absl::StrFormat("outputs:  equal within tolerance, largest difference %.3g (%.3g of the largest "
                        "element)",
                        report.check.max_abs_diff, report.check.max_rel_diff));
  } else {
    console.Result(absl::StrCat("outputs:  not checked: ", report.check.text));
  }
  if (proof) console.Result(absl::StrFormat("proof:    %s, %.2f s", proof->text, proof->seconds));
  console.Result(absl::StrCat("written:  ", WrittenText(flags, model, named, report)));
  if (!report.unwanted.empty()) {
    console.Result(absl::StrCat("sizes:    left out, since they hold at some sizes alone (--fix-sizes): ",
                                absl::StrJoin(report.unwanted, ", ")));
  }
  if (!report.check.device_fault.empty()) {
    console.Warning(absl::StrCat("on the original already the device differs from the reference interpreter, and is ",
                                 "compared with itself: ", report.check.device_fault));
  }
  console.Result(absl::StrFormat("search:   %.2f s of CPU time, %d graphs built, %d rewrites judged, end: %s",
                                 report.search_cpu_seconds, report.search.steps, report.graphs_explored,
                                 SearchEndName(report.search.end)));
  if (report.repeated) {
    console.Result("repeats:  a run that this limit had ended, by what it measured; a longer --time-limit goes on");
  }
  console.Result(absl::StrFormat("memory:   %s at most", BytesText(static_cast<double>(report.peak_rss_bytes))));
  if (!report.rewrites.empty()) console.Result("rewrites:");
  for (const RewriteCount& rewrite : report.rewrites) {
    console.Result(absl::StrFormat("  %4d  %s", rewrite.count, rewrite.rule));
  }
  for (const DroppedCandidate& candidate : report.dropped) {
    const std::string text = absl::StrCat(candidate.baseline ? "the baseline" : "a candidate", " was dropped (",
                                          WhyName(candidate.why), "): ", candidate.text);
    if (candidate.why == DroppedCandidate::Why::kNotFaster) {
      console.Detail(text);
    } else {
      console.Warning(text);
    }
  }
}

// Reports the rounding of the outputs beside what the check of outputs allows, on inputs like its own.
void ReportRounding(const OptimizeFlags& flags, const ImportedModel& model, const OptimizeReport& report,
                    const TimeLimit& limit, Session& session) {
  if (!flags.check || limit.Left() < kRoundingSeconds || InterruptGuard::interrupted()) return;
  const absl::StatusOr<std::vector<Tensor>> inputs = DrawInputs(model, session.flags.seed);
  if (!inputs.ok()) return;
  Json rounding;
  if (const auto line = RoundingLine(report.graph, *inputs, session.flags, session.console, &rounding)) {
    session.console.Result("rounding: " + *line);
    session.console.json()["rounding"] = rounding;
  }
}

TraceSetting SettingOf(const OptimizeFlags& flags, const CommonFlags& common) {
  TraceSetting setting;
  setting.model = flags.input;
  setting.output = flags.output;
  setting.dims = flags.dims;
  setting.fold_defaults = flags.fold_defaults;
  setting.rules = flags.rules;
  setting.device = flags.device;
  setting.cost = flags.cost;
  setting.search = flags.search;
  setting.alpha = flags.alpha;
  setting.budget = flags.budget;
  setting.seed = common.seed;
  return setting;
}

absl::Status WriteReport(const OptimizeFlags& flags, const ImportedModel& model, const NamedModel& named,
                         const OptimizeReport& report, const std::optional<ResultProof>& proof,
                         const OptimizerRules& rules, Device& device, const CommonFlags& common) {
  ReportPage page;
  page.setting = SettingOf(flags, common);
  page.device = device.name();
  page.date = absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone());
  page.written = WrittenText(flags, model, named, report);
  page.checked = flags.check;
  page.original = &model.graph;
  if (proof) page.proof = proof->text;
  for (auto [graph, lines] : {std::pair(&model.graph, &page.groups_before), {&report.graph, &page.groups_after}}) {
    absl::StatusOr<std::vector<GroupLine>> groups = GroupsOf(device, *graph);
    if (!groups.ok()) return groups.status();
    *lines = *std::move(groups);
  }
  return WriteOutput(flags.report, HtmlReport(page, report, rules.all));
}

absl::Status CheckFiles(const OptimizeFlags& flags, Session& session) {
  using Use = OutputFlag::Use;
  std::vector<std::string> inputs = {flags.input};  // its place the result may take
  inputs.insert(inputs.end(), flags.rules.files.begin(), flags.rules.files.end());
  return CheckOutputs({{"-o", flags.output, Use::kReplaceInPlace, /*binary=*/true},
                       {"--trace", flags.trace},
                       {"--report", flags.report},
                       {"--profile", flags.profile, Use::kKeep}},
                      inputs, session);
}

// Checks on the model that the files beside it find their places, and that none of them is lost.
absl::Status CheckPlaces(const OptimizeFlags& flags, const CommonFlags& common, const ImportedModel& model,
                         const ModelFile& file) {
  const auto lost = [](const std::string& flag, const std::string& path) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path, " is read here, and would be lost"));
  };
  for (const auto& [flag, path] : {std::pair("--trace", flags.trace),
                                   {"--report", flags.report},
                                   {"--profile", flags.profile},
                                   {"--log-file", common.log_file}}) {
    if (!path.empty() && file.Holds(path)) return lost(flag, path);
  }
  if (flags.output.empty()) return absl::OkStatus();
  if (IsStandardOutput(flags.output)) {
    if (!model.external_files.empty()) return file.Bytes().status();
    if (!NeedsFileForWeights(model.graph)) return absl::OkStatus();
    return absl::InvalidArgumentError("-o -: the weights need a file of their own, which standard output has not got");
  }
  RETURN_IF_ERROR(file.CheckCopy(flags.output));
  if (!NeedsFileForWeights(model.graph)) return absl::OkStatus();
  const std::string data = flags.output + ".data";
  RETURN_IF_ERROR(CheckFilesBeside(flags.output));
  RETURN_IF_ERROR(CheckWritable(data));
  return file.Holds(data) && !IsSameFile(flags.output, flags.input) ? lost("-o", data) : absl::OkStatus();
}

absl::StatusOr<Answer> OptimizeModel(const OptimizeFlags& flags, Session& session) {
  const TimeLimit limit(flags.time_limit);
  Console& console = session.console;
  RETURN_IF_ERROR(CheckFiles(flags, session));
  ASSIGN_OR_RETURN(ModelFile file, ModelFile::Open(flags.input));
  ASSIGN_OR_RETURN(OnnxModel source, OnnxModel::Open(flags.input, /*map=*/true));
  ImportOptions reading = OptionsToRead(flags.dims, flags.device, flags.fold_defaults);
  reading.keep_source = true;
  reading.keep_tail = reading.keep_unknown && !IsOnnxRuntime(flags.device);  // which runs whole files
  absl::StatusOr<ImportedModel> model = source.Import(reading);
  if (model.ok()) model = WithRelations(source, *std::move(model), reading);
  if (!model.ok()) return model.status();
  ShowNotes(*model, flags.input, console);
  file.set_external_files(model->external_files);
  RETURN_IF_ERROR(CheckPlaces(flags, session.flags, *model, file));
  absl::StatusOr<OptimizerRules> rules = LoadOptimizerRules(flags.rules);
  if (!rules.ok()) return rules.status();
  console.Note(Counted(rules->all.matchers().size(), "rule"));
  absl::StatusOr<Engine> engine =
      Engine::Open(flags.device, session.flags.threads, flags.profile, flags.precision, flags.no_rules);
  if (!engine.ok()) return engine.status();
  std::unique_ptr<Device> analytic;
  if (!flags.measured()) {
    ASSIGN_OR_RETURN(analytic, MakeDevice(flags.cost));
  }

  const InterruptGuard interrupt;
  OptimizeOptions options = OptionsOf(flags, session.flags);
  options.checking.defaults = model->metadata.defaults;
  if (std::isfinite(flags.time_limit)) options.seconds_left = [&limit] { return limit.Left(kSearchedShare); };
  engine->Use(*model);
  if (engine->onnxruntime() != nullptr) options.measuring.seconds = kPairSeconds;
  if (analytic == nullptr && !engine->device()->runs()) {
    console.Note("no GPU here: costs are those that the profile holds, nothing is timed");
    options.measure = false;
  }
  if (rules->baseline) options.baseline = &*rules->baseline;
  options.kept = engine->measurements();
  if (flags.measured()) {
    options.setting = SearchSetting(flags, *rules);
    options.time_limit = flags.time_limit;
  }
  for (const auto& [name, range] : flags.ranges) {
    const std::vector<Value>& inputs = model->graph.inputs();
    const bool known = std::any_of(inputs.begin(), inputs.end(),
                                   [&](Value input) { return model->graph.node(input.node).name == name; });
    if (!known) return absl::InvalidArgumentError(absl::StrCat("--range ", name, ": the model has no such input"));
  }
  RuleRewriter rewriter(rules->rules, NumericsOptions{.inputs = flags.ranges});
  NameKeeper keeper(source, *model, rules->all);
  options.rules = &rules->all;
  if (!model->dims.empty() && !flags.fix_sizes) {
    options.unwanted = [&keeper](const Replay& made, const std::vector<ReplayStep>& steps) {
      return keeper.StepsThatFixSizes(made, steps);
    };
  }
  NamedModel named;
  WrittenModel written;
  if (flags.check && engine->onnxruntime() == nullptr) {  // which runs files as they are
    options.as_file = [&](const Graph& rewritten, const std::vector<TraceStep>& trace,
                          const std::vector<int>& path) -> absl::StatusOr<std::optional<GraphInFile>> {
      ASSIGN_OR_RETURN(named, NamesOf(keeper, *model, trace, path, rules->all));
      ASSIGN_OR_RETURN(written, BytesToWrite(rewritten, *model, named, flags.output, *engine, /*read=*/true));
      if (!written.read) return std::nullopt;
      return GraphInFile{written.read->graph, written.computed};
    };
  }
  std::optional<Measurement> in_onnxruntime;
  absl::StatusOr<OptimizeReport> report = [&]() -> absl::StatusOr<OptimizeReport> {
    const Watcher watcher(console, &options);
    ASSIGN_OR_RETURN(OptimizeReport found,
                     Optimize(model->graph, rewriter, analytic != nullptr ? *analytic : *engine->device(),
                              &engine->runner(), options));
    if (!found.rewritten) return found;
    if (!found.as_file) {
      ASSIGN_OR_RETURN(named, NamesOf(keeper, *model, found.search.trace, found.path, rules->all));
      written = WrittenModel();
    }
    ASSIGN_OR_RETURN(written, FileOf(flags, file, *model, named, *engine, options, limit, std::move(written), &found));
    if (!model->tail.empty()) return found;  // onnxruntime would run it as well
    in_onnxruntime = InOnnxRuntime(flags, model->graph, options, limit, found, written, session);
    return found;
  }();
  if (!report.ok()) return report.status();
  if (rewriter.failures() > 0) {
    console.Warning(absl::StrFormat("%d matches could not be applied, the first: %s", rewriter.failures(),
                                    rewriter.first_failure()));
  }
  ShowLoss(engine->profile_loss(), console);
  for (const std::string& fault : engine->device()->faults()) {
    if (absl::StartsWith(fault, "onnxruntime's own optimizer")) {
      console.Note(fault);
    } else {
      console.Detail(absl::StrCat("refused: ", fault));
    }
  }
  std::string trace;
  if (!flags.trace.empty()) {  // it names the model by its hash, and the result may take the model's place
    ASSIGN_OR_RETURN(trace, TraceText(SettingOf(flags, session.flags), model->graph, *report, *rules, console));
  }
  if (report->rewritten) {
    RETURN_IF_ERROR(WriteResult(flags, file, *model, named, *report, written));
  } else {
    RETURN_IF_ERROR(WriteBack(flags, file));
  }
  const std::optional<ResultProof> proof = Proof(flags, model->graph, *report, *rules, limit);
  Report(flags, *model, named, *report, proof, in_onnxruntime, console);
  FillJson(*report, proof, &console.json());
  ReportRounding(flags, *model, *report, limit, session);
  if (in_onnxruntime) console.json()["onnxruntime"] = JsonInOnnxRuntime(*in_onnxruntime);
  if (!model->dims.empty() && report->rewritten) {
    console.json()["names"] = named.names;
    Json& relations = console.json()["relations"] = Json::array();
    for (const SizeRelation& relation : named.relations) relations.push_back(relation.ToString());
    Json& fixed = console.json()["fixed_sizes"] = Json::object();
    for (const auto& [name, why] : named.fixed) fixed[name] = why;
  }
  console.json()["opaque"] = OpaqueJson(*model);
  console.json()["behind"] = model->tail.size();
  console.json()["written"] = flags.output.empty() ? "nothing" : report->rewritten ? "rewritten" : "input";
  if (!flags.report.empty()) {
    Device& device = analytic != nullptr ? *analytic : *engine->device();
    RETURN_IF_ERROR(WriteReport(flags, *model, named, *report, proof, *rules, device, session.flags));
  }
  if (!flags.trace.empty()) RETURN_IF_ERROR(WriteOutput(flags.trace, trace));
  return Answer::kYes;
}

}  // namespace

Action DeclareOptimize(CommandLine& line) {
  auto flags = std::make_shared<OptimizeFlags>();
  line.Add("input", &flags->input, "The model").Required().Type("IN.onnx");
  line.AddOutputPath("-o,--output", &flags->output,
                     "Where to write the faster model; - is standard output (default: nowhere)")
      .Type("OUT.onnx");
  AddRules(line, &flags->rules);
  line.AddSwitch(
      "--baseline,!--no-baseline", [flags](bool given) { flags->rules.baseline = given; },
      "Start from what the rule-based baseline makes of the model as well (default: unless --rules is given)");
  AddDevice(line, &flags->device, /*with_reference=*/false);
  AddPrecision(line, &flags->precision);
  AddNoRule(line, &flags->no_rules);
  line.AddOutputPath("--profile", &flags->profile, "Database of measured costs, read and filled").Type("DB");
  line.Add("--cost", &flags->cost,
           "What the search minimizes: measured (the default), or analytic:v100, analytic:v100-strict, "
           "analytic:v100-roofline, analytic:k80, analytic:h100, analytic:h200, analytic:zen3, "
           "analytic:FILE.json")
      .Check(
          [](const std::string& cost) {
            const bool known = cost == "measured" || absl::StartsWith(cost, "analytic:");
            return known ? "" : absl::StrCat("found `", cost, "`, expected measured or analytic:NAME");
          },
          "measured|analytic:NAME");
  line.AddChoice("--search", &flags->search, {"backtrack", "greedy", "eqsat"}, "The strategy (default backtrack)");
  line.AddChoice("--windows", &flags->windows, {"auto", "always", "never"},
                 "Search parts of the graph by themselves: always, never, or when it is large (default auto)");
  line.AddReal("--alpha", &flags->alpha, 1, 1e6, "Graphs up to so many times the best cost are pursued (default 1.05)");
  line.AddReal("--growth", &flags->growth, 0, HUGE_VAL,
               "How much larger the file may become, as a share of it; it has to gain as much (default 0.01; inf: any "
               "size, for any gain)");
  line.AddInt("--budget", &flags->budget, 0, INT64_MAX, "Graphs to build at most (default 1000)");
  line.AddInt("--egraph-nodes", &flags->egraph_nodes, 0, 1000000000,
              "E-nodes that one saturation of eqsat may add (default 2000)");
  line.AddReal("--time-limit", &flags->time_limit, 0, HUGE_VAL,
               "Seconds for all of it at most: search, timing, checks, proof");
  line.AddBytes("--memory-limit", &flags->memory_limit, "Memory to use at most, such as 4G");
  line.AddChoice("--mode", &flags->mode, {"inference"}, "What the model is for: weights are constant");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddSwitch("--fix-sizes", &flags->fix_sizes,
                 "Also rewrites that hold at these sizes alone: the file has numbers in the place of names then");
  line.AddRanges("--range", &flags->ranges,
                 "Where elements of an input lie: in 16 bits some rewrites are used only where nothing can overflow");
  line.AddSwitch(
      "--move-roundings", &flags->move_roundings,
      "Also rewrites that round otherwise in front of roundings to integers, and in sums that take away what "
      "they added (default: quantizers and the "
      "like give the original's integers, bit for bit)");
  line.AddSwitch("--check,!--no-check", &flags->check, "Compare outputs with the original's (default on)");
  line.AddReal("--rtol", &flags->rtol, 0, 1e9, "Relative tolerance of an element (default 1e-3)");
  line.AddReal("--atol", &flags->atol, 0, 1e300, "Absolute tolerance (default: 1e-4 times the largest element)");
  line.AddSwitch("--prove,!--no-prove", &flags->prove,
                 "Prove the result equal to the original as a whole, over the real numbers (default on)");
  line.AddReal("--proof-limit", &flags->proof_limit, 0, 1e9, "Seconds for that proof at most (default 10)");
  line.AddOutputPath("--trace", &flags->trace, "Write every step of the search, for blame; - is standard output")
      .Type("F.json");
  line.AddOutputPath("--report", &flags->report, "Write a page about the result; - is standard output").Type("F.html");
  return [flags](Session& session) { return OptimizeModel(*flags, session); };
}

}  // namespace rewright
