// rewright blame TRACE.json: which rewrite of an optimization changes the outputs, or costs time.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/stats.h"
#include "core/ir/random_tensors.h"
#include "runtime/measure/interleaved.h"
#include "search/optimize/output_check.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/optimize/trace_file.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

struct BlameFlags {
  std::string trace;
  std::string model;
  std::string what = "outputs";
  std::string device;
  std::vector<std::string> rules;
  bool seed_given = false;
  double rtol = OutputCheckOptions().rtol;
  double atol = OutputCheckOptions().atol;
  int64_t pairs = MeasureOptions().pairs;
};

// The probability that a graph which is no slower passes for slower.
constexpr double kSignificance = 0.01;

// Says of a graph whether it shows the fault, and why.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual absl::StatusOr<bool> IsBad(const Graph& graph, std::string* evidence) = 0;
};

class OutputJudge : public Judge {
 public:
  OutputJudge(const Graph& original, GraphRunner& runner, const OutputCheckOptions& options)
      : checker_(original, &runner, options) {}

  absl::StatusOr<bool> IsBad(const Graph& graph, std::string* evidence) override {
    absl::StatusOr<OutputCheck> check = checker_.Check(graph);
    if (!check.ok()) return check.status();
    *evidence = check->text;
    return !check->equal;
  }

 private:
  OutputChecker checker_;
};

class TimeJudge : public Judge {
 public:
  TimeJudge(const Graph& original, GraphRunner& runner, uint64_t seed, int pairs)
      : original_(original), runner_(runner), inputs_(RandomInputs(original, seed)) {
    options_.pairs = pairs;
  }

  absl::StatusOr<bool> IsBad(const Graph& graph, std::string* evidence) override {
    if (!inputs_.ok()) return inputs_.status();
    absl::StatusOr<std::unique_ptr<Executable>> standard = runner_.Prepare(original_);
    if (!standard.ok()) return standard.status();
    absl::StatusOr<std::unique_ptr<Executable>> candidate = runner_.Prepare(graph);
    if (!candidate.ok()) return candidate.status();
    absl::StatusOr<Measurement> measured = MeasureInterleaved(**standard, **candidate, *inputs_, options_);
    if (!measured.ok()) return measured.status();
    *evidence = absl::StrFormat("%.4g ms against %.4g ms, %d of %d pairs slower", measured->candidate_seconds * 1e3,
                                measured->original_seconds * 1e3, measured->losses, measured->wins + measured->losses);
    return measured->ratio < 1 && SignTest(measured->losses, measured->wins) <= kSignificance;
  }

 private:
  const Graph& original_;
  GraphRunner& runner_;
  const absl::StatusOr<std::vector<Tensor>> inputs_;
  MeasureOptions options_;
};

void Report(const TraceFile& trace, const std::string& what, int step, const std::string& evidence, Console& console) {
  Json& json = console.json();
  json["what"] = what;
  json["steps"] = trace.path.size();
  json["found"] = step > 0;
  json["evidence"] = evidence;
  if (step == 0) {
    console.Result(absl::StrCat(what == "time" ? "not slower" : "outputs equal", " after all of ",
                                Counted(trace.path.size(), "rewrite"), evidence.empty() ? "" : ": ", evidence));
    return;
  }
  const TraceFile::Step& found = trace.path[static_cast<size_t>(step) - 1];
  json["step"] = step;
  json["rule"] = found.rule;
  json["place"] = found.place;
  const ReplayStep& replayed = trace.replay[static_cast<size_t>(step) - 1];
  if (replayed.replacement.empty()) json["node"] = replayed.node;
  json["cost_before_ms"] = found.cost_before_ms;
  json["cost_after_ms"] = found.cost_after_ms;
  console.Result(absl::StrFormat("rule:     %s", found.rule));
  console.Result(absl::StrFormat("place:    %s", found.place));
  console.Result(absl::StrFormat("step:     %d of %d", step, trace.path.size()));
  console.Result(
      absl::StrFormat("cost:     %.4g ms -> %.4g ms as estimated", found.cost_before_ms, found.cost_after_ms));
  console.Result(absl::StrFormat("evidence: %s", evidence));
}

absl::StatusOr<Answer> Blame(const BlameFlags& flags, Session& session) {
  Console& console = session.console;
  absl::StatusOr<TraceFile> trace = ReadTrace(flags.trace);
  if (!trace.ok()) return trace.status();
  TraceSetting& setting = trace->setting;
  if (!flags.rules.empty()) setting.settings.rules = flags.rules;
  const std::string path = flags.model.empty() ? setting.model : flags.model;
  absl::StatusOr<ImportedModel> model =
      LoadModel(path, {.dims = setting.reading.dims, .fold_defaults = setting.reading.fold_defaults}, console);
  if (!model.ok()) return model.status();
  absl::StatusOr<RuleIndex> rules = LoadRules(setting.settings);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<Replay> replay = ReplayTrace(*trace, path, model->graph, *rules, console);
  if (!replay.ok()) return replay.status();
  absl::StatusOr<Engine> engine =
      Engine::Open(flags.device.empty() ? setting.reading.device : flags.device, session.flags.threads, /*profile=*/"");
  if (!engine.ok()) return engine.status();

  const uint64_t seed = flags.seed_given ? session.flags.seed : setting.settings.seed;
  std::unique_ptr<Judge> judge;
  if (flags.what == "time") {
    judge = std::make_unique<TimeJudge>(model->graph, engine->runner(), seed, static_cast<int>(flags.pairs));
  } else {
    OutputCheckOptions options;
    options.rtol = flags.rtol;
    options.atol = flags.atol;
    options.seed = seed;
    if (session.flags.threads > 0) options.threads = session.flags.threads;
    judge = std::make_unique<OutputJudge>(model->graph, engine->runner(), options);
  }
  Progress progress(console, "blame");
  std::map<int, std::string> evidence;
  const absl::StatusOr<int> step = FirstBadStep(replay->num_steps(), [&](int steps) {
    progress.Update(-1, absl::StrCat("the graph after ", steps, " of ", replay->num_steps(), " rewrites"));
    absl::StatusOr<bool> bad = judge->IsBad(replay->At(steps), &evidence[steps]);
    if (bad.ok()) console.Detail(absl::StrCat("after ", steps, ": ", *bad ? "bad: " : "good: ", evidence[steps]));
    return bad;
  });
  if (!step.ok()) return step.status();
  Report(*trace, flags.what, *step, evidence[*step > 0 ? *step : replay->num_steps()], console);
  return *step > 0 ? Answer::kNo : Answer::kYes;
}

}  // namespace

Action DeclareBlame(CommandLine& line) {
  auto flags = std::make_shared<BlameFlags>();
  line.Add("trace", &flags->trace, "What optimize --trace wrote").Required().Type("TRACE.json");
  line.Add("--model", &flags->model, "The original model (default: where it was)").Type("IN.onnx");
  RuleFiles(line.Add("--rules", &flags->rules, "The rules (repeatable; default: the files that were used)"))
      .Type("FILE");
  line.AddChoice("--check", &flags->what, {"outputs", "time"}, "What is wrong with the result (default outputs)")
      .Formerly("--what");
  line.AddChoice("--device", &flags->device, {"cpu", "reference"}, "Where to run (default: as optimized)");
  line.AddReal("--rtol", &flags->rtol, 0, 1e9, "Relative tolerance of an element (default 1e-3)");
  line.AddReal("--atol", &flags->atol, 0, 1e300,
               "Absolute tolerance (default: 1e-4 times the largest element; 8 roundings of it in 16 bits)");
  line.AddInt("--iterations", &flags->pairs, 7, 100000, "Pairs of runs by which a graph is judged slower (default 30)")
      .Formerly("--pairs");
  return [flags, line](Session& session) {
    flags->seed_given = line.Given("--seed");
    return Blame(*flags, session);
  };
}

}  // namespace rewright
