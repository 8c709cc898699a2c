// rewright optimize IN.onnx [-o OUT.onnx]: the main job.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "backends/device_factory.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/model_file.h"
#include "core/onnx/onnx.h"
#include "runtime/measure/machine_rates.h"
#include "runtime/measure/timing_policy.h"
#include "tools/library/optimize_model.h"
#include "tools/library/settings.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/report/cost_pictures.h"
#include "tools/report/html_report.h"
#include "tools/report/path_costs.h"
#include "tools/verbs/compare/groups.h"
#include "tools/verbs/error/rounding.h"
#include "tools/verbs/optimize/proof_file.h"
#include "tools/verbs/optimize/runtimes.h"
#include "tools/verbs/optimize/trace_file.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

// The time in which the steps of a report's path are costed one by one.
constexpr double kPathSeconds = 10;
// The part of --time-limit that an estimate of rounding may take.
constexpr double kRoundingSeconds = 5;

struct OptimizeFlags {
  std::string input;
  std::string output;
  std::string runtime = "any";  // in which the file will run
  ModelOptions model;
  OptimizeSettings settings;
  std::map<std::string, Interval> ranges;
  std::string mode = "inference";
  double time_limit = std::numeric_limits<double>::infinity();
  std::string trace;
  std::string report;
  std::string proof;
};

// Shows what the pipeline does.
class Watcher : public OptimizeObserver {
 public:
  explicit Watcher(Console& console) : console_(console), progress_(console, "optimize") {
    phase = [this](const std::string& name) {
      phase_ = name;
      console_.Detail(name);
      progress_.Update(-1, name);
    };
    wants_stopped = true;
    progress = [this](const SearchProgress& now) {
      const bool better = costs_.empty() || now.best_cost < costs_.back().best_cost;
      if (!better && costs_.size() > 1 && costs_.back().best_cost == costs_.end()[-2].best_cost) costs_.pop_back();
      costs_.push_back(now);
      const double of_budget = static_cast<double>(now.steps) / static_cast<double>(std::max<int64_t>(1, now.budget));
      progress_.Update(of_budget, absl::StrFormat("%s, %d of %d graphs, cost %.4g -> %.4g ms", phase_, now.steps,
                                                  now.budget, now.first_cost * 1e3, now.best_cost * 1e3));
    };
  }

  // The lowest costs over the time, each from its first moment to its last.
  const std::vector<SearchProgress>& costs() const { return costs_; }

 private:
  Console& console_;
  Progress progress_;
  std::string phase_;
  std::vector<SearchProgress> costs_;
};

// Writes the result to -o, which may be standard output.
absl::Status WriteResult(const std::string& output, const SourceModel& model, const OptimizedModel& result) {
  if (output.empty()) return absl::OkStatus();
  if (!IsStandardOutput(output)) return WriteOptimized(model, result, output);
  if (result.report.rewritten && !result.written.bytes) {
    return WriteModel(result.report.graph, model.original.metadata, output,
                      OptionsToWrite(model.original, result.named));
  }
  ASSIGN_OR_RETURN(const std::string bytes, result.report.rewritten
                                                ? absl::StatusOr<std::string>(std::string(*result.written.bytes))
                                                : model.file.Bytes());
  RETURN_IF_ERROR(model.file.CheckUnchanged());
  return WriteStandardOutput(bytes);
}

// Says that nothing is written without -o, with the flag that writes it.
void SayThatNothingIsWritten(const OptimizeFlags& flags, Console& console) {
  if (!flags.output.empty()) return;
  std::filesystem::path faster = flags.input;
  console.Note(absl::StrCat("nothing is written without -o: -o ", faster.replace_extension(".opt.onnx").string()));
}

// Describes the file of -o.
std::string WrittenText(const OptimizeFlags& flags, const ImportedModel& model, const OptimizedModel& result) {
  const NamedModel& named = result.named;
  if (flags.output.empty()) return "nothing, without -o";
  if (!result.report.rewritten) {
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
    case DroppedCandidate::Why::kInconclusive: return "inconclusive";
    case DroppedCandidate::Why::kOutputsDiffer: return "outputs-differ";
    case DroppedCandidate::Why::kNoTime: return "no time";
    case DroppedCandidate::Why::kFailed: return "failed";
  }
  return "?";
}

Json ToJson(const ResultProof& proof) {
  Json json;
  json["answer"] = proof.proved ? "proved" : "open";
  json["text"] = proof.text;
  json["seconds"] = proof.seconds;
  json["values"] = proof.result.values;
  json["shared"] = proof.result.shared;
  json["regions_by_rules"] = proof.result.regions_by_rules;
  json["regions_by_prover"] = proof.result.regions.size();
  Json open = Json::array();
  for (const OpenRegion& region : proof.result.open) open.push_back(region.text);
  json["open"] = std::move(open);
  return json;
}

Json ToJson(const Narrowing& narrowing) {
  Json json;
  json["verdict"] = narrowing.verdict;
  json["narrow"] = narrowing.graph ? narrowing.narrow : 0;
  json["eligible"] = narrowing.eligible;
  json["estimated"] = narrowing.estimated;
  json["measured"] = narrowing.measured;
  if (narrowing.timing) json["ratio"] = narrowing.timing->ratio;
  Json& wide = json["kept_wide"] = Json::array();
  for (const ErrorShare& share : narrowing.kept_wide) wide.push_back({{"name", share.name}, {"op", share.op}});
  return json;
}

void FillJson(const OptimizedModel& result, Json* json) {
  const OptimizeReport& report = result.report;
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
  j["equal"] = !report.check.done || report.check.equal;
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
  if (result.proof) j["proof"] = ToJson(*result.proof);
  if (result.narrowing) j["narrowing"] = ToJson(*result.narrowing);
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

// How the file does in runtimes other than the one that was optimized for.
using OtherRuntimes = std::map<std::string, Measurement>;

// Times the written file in the other runtimes that are found, before it may take the original's place. Nothing where
// nothing is timed, or not on the processor.
OtherRuntimes InOthers(const OptimizeFlags& flags, const OptimizeObserver& observer, const SourceModel& model,
                       const OptimizedModel& result, const TimeLimit& limit, Session& session) {
  const OptimizeReport& report = result.report;
  OtherRuntimes others;
  // They would run the tail as well.
  const bool timed = report.rewritten && result.written.bytes && IsMeasured(flags.settings) &&
                     flags.model.device == "cpu" && model.original.tail.empty();
  if (!timed) return others;
  for (const std::string& runtime : FileRuntimes()) {
    observer.phase("timing the file in " + runtime);
    const double seconds = std::min(limit.Left(), report.as_file ? timing::kFileSecondsAgain : HUGE_VAL);
    const absl::StatusOr<std::optional<Measurement>> measured =
        MeasureInRuntime(runtime, model.original.graph, model.file, report.graph, *result.written.bytes,
                         {static_cast<int>(session.flags.threads), flags.model.profile, session.flags.seed, seconds});
    if (!measured.ok()) {
      session.console.Detail(absl::StrCat("not timed in ", runtime, ": ", measured.status().message()));
    } else if (*measured) {
      others.emplace(runtime, **measured);
    }
  }
  return others;
}

// Puts the original back where the file will also run in another runtime and is slower there.
void RevertIfSlower(const OptimizeFlags& flags, const SourceModel& model, const OtherRuntimes& others,
                    OptimizedModel* result) {
  const auto slower = absl::c_find_if(others, [](const auto& other) { return IsToldSlower(other.second); });
  if (flags.runtime != "any" || slower == others.end()) return;
  const auto& [runtime, measured] = *slower;
  RevertToOriginal(model.original.graph,
                   absl::StrCat("a file that is ", result->report.verdict, ", would be ", TextInRuntime(measured),
                                " in ", runtime, "; --for rewright writes it, --for ", runtime, " searches there"),
                   &result->report);
  result->named = {};
  result->written = {};
  result->proof.reset();
}

// Times the result of a search in another runtime in our executor as well. Nothing where nothing is timed.
OtherRuntimes InRewright(const OptimizeFlags& flags, const OptimizeObserver& observer, const SourceModel& model,
                         const OptimizedModel& result, const TimeLimit& limit, Session& session) {
  if (!result.report.rewritten || !IsMeasured(flags.settings) || !IsFileRuntime(flags.model.device) ||
      limit.Left() < timing::kFileSeconds) {
    return {};
  }
  observer.phase("timing the file in our executor");
  const absl::StatusOr<Measurement> measured = MeasureInRewright(
      model.original, result.report.graph, static_cast<int>(session.flags.threads), session.flags.seed);
  if (measured.ok()) return {{"rewright", *measured}};
  session.console.Detail(absl::StrCat("not timed in our executor: ", measured.status().message()));
  return {};
}

// Describes how the file does in each of the other runtimes; nothing where nothing is written.
std::vector<std::string> Texts(const OptimizedModel& result, const OtherRuntimes& others) {
  std::vector<std::string> texts;
  if (!result.report.rewritten) return texts;
  for (const auto& [runtime, measured] : others) {
    const bool faster = IsTold(measured) && measured.ratio > 1;
    texts.push_back(absl::StrCat("in ", runtime, ": ", TextInRuntime(measured),
                                 faster ? "" : absl::StrCat("; --for ", runtime, " optimizes for it")));
  }
  return texts;
}

void ReportNarrowing(const Narrowing& narrowing, Console& console) {
  if (!narrowing.graph) return console.Result("16 bits:  " + narrowing.verdict);
  console.Result(absl::StrFormat("error:    %.2g of the largest element, measured; typical %.2g, estimated",
                                 narrowing.measured, narrowing.estimated));
  std::vector<std::string> wide;
  for (const ErrorShare& share : narrowing.kept_wide) wide.push_back(share.name);
  if (!wide.empty()) console.Result("wide:     " + absl::StrJoin(wide, ", "));
}

void Report(const OptimizeFlags& flags, const ImportedModel& model, const OptimizedModel& result,
            const std::vector<std::string>& in_others, Console& console) {
  const OptimizeReport& report = result.report;
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
  for (const std::string& text : in_others) console.Result(text);
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
  } else if (!flags.settings.check) {
    console.Result("outputs:  not checked");
  } else if (result.narrowing && result.narrowing->graph) {
    console.Result(absl::StrFormat("outputs:  %s: %.3g", report.check.text, report.check.max_rel_diff));
  } else if (report.check.done) {
    console.Result(
        absl::StrFormat("outputs:  equal within tolerance, largest difference %.3g (%.3g of the largest "
                        "element)",
                        report.check.max_abs_diff, report.check.max_rel_diff));
  } else {
    console.Result(absl::StrCat("outputs:  not checked: ", report.check.text));
  }
  if (result.proof) {
    console.Result(absl::StrFormat("proof:    %s, %.2f s", result.proof->text, result.proof->seconds));
  }
  if (result.narrowing) ReportNarrowing(*result.narrowing, console);
  console.Result(absl::StrCat("written:  ", WrittenText(flags, model, result)));
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
  if (!flags.settings.check || limit.Left() < kRoundingSeconds || InterruptGuard::interrupted()) return;
  const absl::StatusOr<std::vector<Tensor>> inputs = DrawInputs(model, session.flags.seed);
  if (!inputs.ok()) return;
  Json rounding;
  if (const auto line = RoundingLine(report.graph, *inputs, session.flags, session.console, &rounding)) {
    session.console.Result("rounding: " + *line);
    session.console.json()["rounding"] = rounding;
  }
}

OptimizeSettings SettingsOf(const OptimizeFlags& flags, const CommonFlags& common) {
  OptimizeSettings settings = flags.settings;
  for (const auto& [name, range] : flags.ranges) settings.ranges[name] = {range.lo, range.hi};
  settings.seed = common.seed;
  settings.stop = &InterruptGuard::flag();
  return settings;
}

TraceSetting SettingOf(const OptimizeFlags& flags, const CommonFlags& common) {
  return {flags.input, flags.output, flags.model, SettingsOf(flags, common)};
}

// The picture of the memory that a run takes, where the device that costs are measured on can run.
absl::StatusOr<std::string> MemoryOf(Device& device, const Graph& graph) {
  if (!device.runs()) return std::string();
  ASSIGN_OR_RETURN(const Schedule schedule, device.Compile(graph));
  return MemoryPlot(schedule);
}

absl::Status FillCosts(Device& device, const Graph& original, const OptimizeReport& report, ReportPage* page) {
  ASSIGN_OR_RETURN(page->costs_before, CostedGroupsOf(device, original));
  ASSIGN_OR_RETURN(page->costs_after, CostedGroupsOf(device, report.graph));
  page->path_costs = CostsAlong(original, report.search.trace, report.path, device, kPathSeconds);
  ASSIGN_OR_RETURN(page->rates, MeasureRates(device));
  if (page->measured()) {
    ASSIGN_OR_RETURN(page->memory, MemoryOf(device, report.graph));
  }
  return absl::OkStatus();
}

absl::Status WriteReport(const OptimizeFlags& flags, const ImportedModel& model, const OptimizedModel& result,
                         const OptimizerRules& rules, const Engine& engine, const CommonFlags& common,
                         ReportPage page) {
  std::unique_ptr<Device> analytic;
  if (!IsMeasured(flags.settings)) {
    ASSIGN_OR_RETURN(analytic, MakeDevice(flags.settings.cost));
  }
  Device& device = analytic != nullptr ? *analytic : *engine.device();
  page.setting = SettingOf(flags, common);
  page.device = device.name();
  page.date = absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone());
  page.written = WrittenText(flags, model, result);
  page.checked = flags.settings.check;
  page.original = &model.graph;
  if (result.proof) page.proof = result.proof->text;
  RETURN_IF_ERROR(FillCosts(device, model.graph, result.report, &page));
  return WriteOutput(flags.report, HtmlReport(page, result.report, rules.all));
}

absl::Status CheckFiles(const OptimizeFlags& flags, Session& session) {
  using Use = OutputFlag::Use;
  std::vector<std::string> inputs = {flags.input};  // its place the result may take
  inputs.insert(inputs.end(), flags.settings.rules.begin(), flags.settings.rules.end());
  return CheckOutputs({{"-o", flags.output, Use::kReplaceInPlace, /*binary=*/true},
                       {"--trace", flags.trace},
                       {"--report", flags.report},
                       {"--proof", flags.proof},
                       {"--profile", flags.model.profile, Use::kKeep}},
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
                                   {"--proof", flags.proof},
                                   {"--profile", flags.model.profile},
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

absl::StatusOr<Answer> RunOptimize(const OptimizeFlags& flags, Session& session) {
  const TimeLimit limit(flags.time_limit);
  Console& console = session.console;
  RETURN_IF_ERROR(CheckFiles(flags, session));
  ASSIGN_OR_RETURN(ModelFile file, ModelFile::Open(flags.input));
  ASSIGN_OR_RETURN(OnnxModel contents, OnnxModel::Open(flags.input, /*map=*/true));
  ImportOptions reading = OptionsToRead(flags.model.dims, flags.model.device, flags.model.fold_defaults);
  reading.keep_tail = reading.keep_unknown && !IsFileRuntime(flags.model.device);  // which runs whole files
  ASSIGN_OR_RETURN(SourceModel model, ReadSource(std::move(file), std::move(contents), reading, /*mapped=*/true));
  const ImportedModel& original = model.original;
  ShowNotes(original, flags.input, console);
  RETURN_IF_ERROR(CheckPlaces(flags, session.flags, original, model.file));
  ASSIGN_OR_RETURN(const OptimizerRules rules, LoadOptimizerRules(flags.settings));
  const std::vector<std::string>& given = flags.settings.rules;
  const bool alone = !given.empty() && absl::c_none_of(given, [](const std::string& file) {
    return absl::EndsWith(file, "core.rules") || absl::EndsWith(file, "all.rules");
  });
  console.Note(absl::StrCat(Counted(rules.all.matchers().size(), "rule"),
                            alone ? "; --rules core.rules adds those of the program" : ""));
  SayThatNothingIsWritten(flags, console);
  ASSIGN_OR_RETURN(const Engine engine, Engine::Open(flags.model.device, session.flags.threads, flags.model.profile,
                                                     flags.model.precision, flags.model.disabled_kernel_rules));
  if (IsMeasured(flags.settings) && !engine.device()->runs()) {
    console.Note("no GPU here: costs are those that the profile holds, nothing is timed");
  }
  const InterruptGuard interrupt;
  OptimizedModel result;
  OtherRuntimes others;
  ReportPage page;
  {
    const Watcher watcher(console);
    ASSIGN_OR_RETURN(result, OptimizeModel(model, rules, engine, SettingsOf(flags, session.flags), limit, watcher));
    others = IsFileRuntime(flags.model.device) ? InRewright(flags, watcher, model, result, limit, session)
                                               : InOthers(flags, watcher, model, result, limit, session);
    RevertIfSlower(flags, model, others, &result);
    page.progress = watcher.costs();
  }
  const OptimizeReport& report = result.report;
  if (result.failed_matches > 0) {
    console.Warning(
        absl::StrFormat("%d matches could not be applied, the first: %s", result.failed_matches, result.first_failure));
  }
  ShowLoss(engine.profile_loss(), console);
  for (const std::string& fault : engine.device()->faults()) {
    if (absl::StartsWith(fault, "onnxruntime's own optimizer")) {
      console.Note(fault);
    } else {
      console.Detail(absl::StrCat("refused: ", fault));
    }
  }
  std::string trace;
  if (!flags.trace.empty()) {  // it names the model by its hash, and the result may take the model's place
    ASSIGN_OR_RETURN(trace, TraceText(SettingOf(flags, session.flags), original.graph, report, rules, console));
  }
  std::string proof;
  if (!flags.proof.empty()) {  // without one nothing is written
    ASSIGN_OR_RETURN(proof, ProofText(original, result, rules));
  }
  RETURN_IF_ERROR(WriteResult(flags.output, model, result));
  const std::vector<std::string> in_others = Texts(result, others);
  Report(flags, original, result, in_others, console);
  FillJson(result, &console.json());
  ReportRounding(flags, original, report, limit, session);
  for (const auto& [runtime, measured] : others) console.json()[runtime] = JsonInRuntime(measured);
  console.json()["for"] = flags.runtime;
  if (!original.dims.empty() && report.rewritten) {
    console.json()["names"] = result.named.names;
    Json& relations = console.json()["relations"] = Json::array();
    for (const SizeRelation& relation : result.named.relations) relations.push_back(relation.ToString());
    Json& fixed = console.json()["fixed_sizes"] = Json::object();
    for (const auto& [name, why] : result.named.fixed) fixed[name] = why;
  }
  console.json()["opaque"] = OpaqueJson(original);
  console.json()["behind"] = original.tail.size();
  console.json()["written"] = flags.output.empty() ? "nothing" : report.rewritten ? "rewritten" : "input";
  if (!flags.report.empty()) {
    page.other_runtime = absl::StrJoin(in_others, "; ");
    RETURN_IF_ERROR(WriteReport(flags, original, result, rules, engine, session.flags, std::move(page)));
  }
  if (!flags.trace.empty()) RETURN_IF_ERROR(WriteOutput(flags.trace, trace));
  if (!flags.proof.empty()) RETURN_IF_ERROR(WriteOutput(flags.proof, proof));
  return Answer::kYes;
}

}  // namespace

Action DeclareOptimize(CommandLine& line) {
  auto flags = std::make_shared<OptimizeFlags>();
  line.Add("input", &flags->input, "The model").Required().Type("IN.onnx");
  line.AddOutputPath("-o,--output", &flags->output,
                     "Where to write the faster model; - is standard output (default: nowhere)")
      .Type("OUT.onnx");
  AddRules(line, &flags->settings);
  line.AddSwitch(
      "--baseline,!--no-baseline", [flags](bool given) { flags->settings.baseline = given; },
      "Start from what the rule-based baseline makes of the model as well (default: unless --rules is given)");
  const Flag runtime = line.AddChoice(
      "--for", &flags->runtime, {"any", "rewright", "onnxruntime", "openvino"},
      "Where the file will run. rewright: the program, the library, Python; onnxruntime, openvino: costs are measured "
      "there; any: faster in rewright, and not slower in those of the others that are found (default any; with "
      "--tolerance rewright)");
  const Flag device = AddDevice(line, &flags->model.device, /*with_reference=*/false).Excludes(runtime);
  AddPrecision(line, &flags->model.precision);
  AddKernelLaws(line, &flags->model.disabled_kernel_rules);
  line.AddOutputPath("--profile", &flags->model.profile, "Database of measured costs, read and filled").Type("DB");
  AddCost(line, &flags->settings.cost);
  line.AddChoice("--search", &flags->settings.search, {"backtrack", "greedy", "eqsat"},
                 "The strategy (default backtrack)");
  line.AddChoice("--windows", &flags->settings.windows, {"auto", "always", "never"},
                 "Search parts of the graph by themselves: always, never, or when it is large (default auto)");
  line.AddReal("--alpha", &flags->settings.alpha, kAlphaRange.least, kAlphaRange.greatest,
               "Explore graphs that cost up to X times the best so far (default 1.05)");
  line.AddReal("--growth", &flags->settings.growth, kGrowthRange.least, kGrowthRange.greatest,
               "How much larger the file may become, as a share of it; it has to gain as much (default 0.01; inf: any "
               "size, for any gain)");
  line.AddInt("--budget", &flags->settings.budget, 0, INT64_MAX, "Graphs to build at most (default 1000)");
  line.AddInt("--egraph-nodes", &flags->settings.egraph_nodes, 0, kMostEGraphNodes,
              "E-nodes that one saturation of eqsat may add (default 2000)");
  line.AddSeconds("--time-limit", &flags->time_limit, 0,
                  "Seconds for all of it at most: search, timing, checks, proof");
  line.AddBytes("--memory-limit", &flags->settings.memory_limit_bytes, "Memory to use at most, such as 4G");
  line.AddChoice("--mode", &flags->mode, {"inference"}, "What the model is for: weights are constant");
  AddReading(line, &flags->model.dims, &flags->model.fold_defaults);
  line.AddSwitch("--fix-sizes", &flags->settings.fix_sizes,
                 "Also rewrites that hold at these sizes alone: the file has numbers in the place of names then");
  line.AddRanges("--range", &flags->ranges,
                 "Where elements of an input lie: in 16 bits some rewrites are used only where nothing can overflow");
  line.AddSwitch(
      "--move-roundings", &flags->settings.move_roundings,
      "Also rewrites that round otherwise in front of roundings to integers, and in sums that take away what "
      "they added (default: quantizers and the "
      "like give the original's integers, bit for bit)");
  line.AddReal("--tolerance", &flags->settings.tolerance, kToleranceRange.least, kToleranceRange.greatest,
               "How far outputs may move, as a share of the largest element: within it products, convolutions and what "
               "lies between them are computed in bf16 (default 0: none is)");
  line.AddSwitch("--check,!--no-check", &flags->settings.check, "Compare outputs with the original's (default on)");
  line.AddReal("--rtol", &flags->settings.rtol, kRelativeRange.least, kRelativeRange.greatest,
               "Relative tolerance of an element (default 1e-3)");
  line.AddReal("--atol", &flags->settings.atol, kAbsoluteRange.least, kAbsoluteRange.greatest,
               "Absolute tolerance (default: 1e-4 times the largest element; 8 roundings of it in 16 bits)");
  line.AddSwitch("--prove,!--no-prove", &flags->settings.prove,
                 "Prove the result equal to the original as a whole, over the real numbers (default on)");
  line.AddSeconds("--proof-limit", &flags->settings.proof_limit_seconds, 0,
                  "Seconds for that proof at most (default 10)");
  line.AddOutputPath("--trace", &flags->trace, "Write every step of the search, for blame; - is standard output")
      .Type("F.json");
  line.AddOutputPath("--proof", &flags->proof,
                     "Write every step from the model to the result, for tools/check_model.py; - is standard output")
      .Type("F.jsonl");
  line.AddOutputPath("--report", &flags->report, "Write a page about the result; - is standard output").Type("F.html");
  return [flags, runtime, device](Session& session) {
    if (IsFileRuntime(flags->runtime)) flags->model.device = flags->runtime;
    if (device.given()) {
      flags->runtime =
          IsFileRuntime(flags->model.device) ? std::string(absl::StripSuffix(flags->model.device, ":cpu")) : "rewright";
    }
    // Other runtimes run no products of bf16 here.
    if (flags->settings.tolerance > 0 && !runtime.given() && !device.given()) flags->runtime = "rewright";
    return RunOptimize(*flags, session);
  };
}

}  // namespace rewright
