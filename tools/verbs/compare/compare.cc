// rewright compare MODEL...: one table, measured interleaved in one run: the original, the rule-based baseline, the
// optimized graph, and other programs that are found on the machine.

#include "core/tensor/compare.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/stats.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ir/random_tensors.h"
#include "core/onnx/onnx.h"
#include "core/tensor/npy.h"
#include "runtime/measure/timing_policy.h"
#include "search/optimize/optimize.h"
#include "search/rewriter.h"
#include "substitutions/baseline/baseline.h"
#include "tools/peers/peers.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/terminal.h"
#include "tools/program/verb.h"
#include "tools/verbs/diff/tensor_diff.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

struct CompareFlags {
  std::vector<std::string> models;
  std::vector<std::string> optimized;  // none, or one for each model
  RuleSettings rules;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  std::string device = "cpu";
  std::string precision = "f32";
  std::string profile;
  std::string csv;
  int64_t rounds = 30;
  int64_t warmup = 3;
  int64_t budget = SearchOptions().budget;
  double time_limit = std::numeric_limits<double>::infinity();
  double rtol = OutputCheckOptions().rtol;
  bool peers = true;
  std::vector<std::string> kinds;  // of peers; none: all
};

// Peers that also run the file of the optimized graph: the name there, and the kind.
constexpr std::pair<const char*, const char*> kOnOptimized[] = {{"onnxruntime-optimized", "onnxruntime-all"},
                                                                {"openvino-optimized", "openvino"}};

// One column of the contest: a way to run the model.
struct Contestant {
  std::string name;
  std::string text;                             // version, or what was done to the graph
  std::function<absl::StatusOr<double>()> run;  // seconds
  std::function<absl::StatusOr<std::vector<Tensor>>()> outputs;
  std::vector<double> seconds;
  bool equal = true;
  double max_rel_diff = 0;  // of the largest magnitude in an output
  std::string difference;
  bool peer = false;     // another program: what fails in it ends its own contest alone
  absl::Status failure;  // of a peer
};

struct Absent {
  std::string name;
  std::string reason;
};

// Against another contestant, round by round.
struct Duel {
  double ratio = 1;  // median of other / this: above 1 this one is faster
  int wins = 0;
  int losses = 0;
  double p_value = 1;
};

Duel Against(const Contestant& one, const Contestant& other) {
  Duel duel;
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(one.seconds.size(), other.seconds.size()); ++i) {
    ratios.push_back(other.seconds[i] / one.seconds[i]);
    duel.wins += one.seconds[i] < other.seconds[i];
    duel.losses += one.seconds[i] > other.seconds[i];
  }
  duel.ratio = Quantile(std::move(ratios), 0.5);
  duel.p_value = std::min(SignTest(duel.wins, duel.losses), SignTest(duel.losses, duel.wins));
  return duel;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rewright-compare-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The contest over one model.
class Contest {
 public:
  Contest(const CompareFlags& flags, const Session& session, const Engine& engine, Progress& progress)
      : flags_(flags), session_(session), engine_(engine), progress_(progress) {}

  // `optimized`: the optimized graph and the file it is from; without one it is searched.
  absl::Status Prepare(const std::string& path, const ImportedModel& model, const Baseline& baseline,
                       const OptimizerRules& rules, const std::optional<std::pair<std::string, Graph>>& optimized) {
    const Graph& graph = model.graph;
    absl::StatusOr<std::vector<Tensor>> inputs = DrawInputs(model, session_.flags.seed);
    if (!inputs.ok()) return inputs.status();
    inputs_ = *std::move(inputs);
    absl::Status status = AddGraph("original", absl::StrCat(graph.num_runtime_nodes(), " nodes"), graph);
    if (!status.ok()) return status;
    absl::StatusOr<BaselineResult> simple = baseline.Apply(graph);
    if (!simple.ok()) return simple.status();
    status = AddGraph("baseline",
                      absl::StrCat(simple->graph.num_runtime_nodes(), " nodes, ",
                                   Counted(static_cast<size_t>(simple->steps), "rewrite")),
                      simple->graph);
    if (!status.ok()) return status;
    std::string file = path;
    if (optimized) {
      file = optimized->first;
      RETURN_IF_ERROR(AddGraph("optimized",
                               absl::StrCat(optimized->second.num_runtime_nodes(), " nodes, of ", optimized->first),
                               optimized->second));
    } else {
      ASSIGN_OR_RETURN(const OptimizeReport report, Optimized(graph, rules));
      RETURN_IF_ERROR(AddGraph("optimized",
                               absl::StrCat(report.nodes_after, " nodes, ", Counted(report.path.size(), "rewrite")),
                               report.graph));
      if (flags_.peers && report.rewritten) {
        file = folder_.path() + "/optimized.onnx";
        RETURN_IF_ERROR(WriteModel(report.graph, model.metadata, file, OptionsToWrite(model, {})));
      }
    }
    return flags_.peers ? AddPeers(path, file, graph) : absl::OkStatus();
  }

  // Each takes one turn a round, in an order drawn anew, so that none always follows the same other one.
  absl::Status Run() {
    std::vector<size_t> order(contestants_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 rng(session_.flags.seed);
    for (int64_t round = -flags_.warmup; round < flags_.rounds && !InterruptGuard::interrupted(); ++round) {
      progress_.Update(static_cast<double>(round + flags_.warmup) / static_cast<double>(flags_.warmup + flags_.rounds),
                       "measuring");
      std::shuffle(order.begin(), order.end(), rng);
      for (size_t turn : order) {
        Contestant& contestant = contestants_[turn];
        if (!contestant.failure.ok()) continue;
        std::this_thread::sleep_for(timing::kPause);
        const absl::StatusOr<double> seconds = Turn(contestant);
        if (seconds.ok() && round >= 0) contestant.seconds.push_back(*seconds);
        RETURN_IF_ERROR(Forgive(seconds.status(), &contestant));
      }
    }
    const bool timed = absl::c_all_of(contestants_, [](const Contestant& contestant) {
      return !contestant.failure.ok() || !contestant.seconds.empty();
    });
    return timed ? absl::OkStatus() : absl::CancelledError("interrupted before each had a round");
  }

  absl::Status CheckOutputs() {
    absl::StatusOr<std::vector<Tensor>> expected = contestants_[0].outputs();
    if (!expected.ok()) return expected.status();
    for (Contestant& contestant : contestants_) {
      if (!contestant.failure.ok()) continue;
      const absl::StatusOr<std::vector<Tensor>> actual = contestant.outputs();
      if (actual.ok()) CompareOutputs(*actual, *expected, &contestant);
      RETURN_IF_ERROR(Forgive(actual.status(), &contestant));
    }
    for (const Contestant& contestant : contestants_) {
      if (!contestant.failure.ok()) absent_.push_back({contestant.name, std::string(contestant.failure.message())});
    }
    std::erase_if(contestants_, [](const Contestant& contestant) { return !contestant.failure.ok(); });
    return absl::OkStatus();
  }

  const std::vector<Contestant>& contestants() const { return contestants_; }
  const std::vector<Absent>& absent() const { return absent_; }

 private:
  // The median of runs one after the other. A first one, not counted, brings back into the caches what others drove
  // out.
  static absl::StatusOr<double> Turn(Contestant& contestant) {
    RETURN_IF_ERROR(contestant.run().status());
    std::vector<double> runs;
    for (double all = 0; runs.empty() || all < timing::kTurnSeconds; all += runs.back()) {
      ASSIGN_OR_RETURN(const double seconds, contestant.run());
      runs.push_back(std::max(seconds, 1e-9));
    }
    return Quantile(std::move(runs), 0.5);
  }

  // Errors of peers are kept with them.
  static absl::Status Forgive(const absl::Status& status, Contestant* contestant) {
    if (!contestant->peer) return status;
    if (!status.ok()) contestant->failure = status;
    return absl::OkStatus();
  }

  absl::Status AddGraph(const std::string& name, const std::string& text, const Graph& graph) {
    absl::StatusOr<std::unique_ptr<Executable>> prepared = engine_.runner().Prepare(graph);
    if (!prepared.ok()) return prepared.status();
    std::shared_ptr<Executable> executable = *std::move(prepared);
    Contestant contestant;
    contestant.name = name;
    contestant.text = text;
    auto kept = std::make_shared<std::vector<Tensor>>();  // so that later runs allocate nothing
    contestant.run = [this, executable, kept]() -> absl::StatusOr<double> {
      if (kept->empty()) {
        RETURN_IF_ERROR(executable->Run(inputs_, kept.get()));
      }
      const auto start = std::chrono::steady_clock::now();
      const absl::Status status = executable->RunAgain(inputs_, kept.get());
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (!status.ok()) return status;
      return elapsed.count();
    };
    contestant.outputs = [this, executable]() -> absl::StatusOr<std::vector<Tensor>> {
      std::vector<Tensor> outputs;
      const absl::Status status = executable->Run(inputs_, &outputs);
      if (!status.ok()) return status;
      return outputs;
    };
    contestants_.push_back(std::move(contestant));
    return absl::OkStatus();
  }

  absl::StatusOr<OptimizeReport> Optimized(const Graph& graph, const OptimizerRules& rules) {
    OptimizeOptions options;
    if (rules.baseline) options.baseline = &*rules.baseline;
    options.search.budget = flags_.budget;
    options.search.time_limit_seconds = flags_.time_limit;
    options.search.stop = &InterruptGuard::flag();
    options.checking.rtol = flags_.rtol;
    options.checking.seed = session_.flags.seed;
    options.phase = [this](const std::string& phase) { progress_.Update(-1, phase); };
    RuleRewriter rewriter(rules.rules);
    return Optimize(graph, rewriter, *engine_.device(), &engine_.runner(), options);
  }

  // `optimized`: the file of the optimized graph.
  absl::Status AddPeers(const std::string& path, const std::string& optimized, const Graph& graph) {
    if (folder_.path().empty()) return absl::UnavailableError("no folder for the inputs of other programs");
    Json names = Json::array();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      names.push_back(graph.node(graph.inputs()[i].node).name);
      absl::Status status = SaveNpy(absl::StrCat(folder_.path(), "/", i, ".npy"), inputs_[i]);
      if (!status.ok()) return status;
    }
    const std::string text = names.dump(-1, ' ', false, Json::error_handler_t::replace);
    RETURN_IF_ERROR(WriteText(folder_.path() + "/inputs.json", text));
    for (const std::string& kind : PeerKinds()) AddPeer(kind, kind, path);
    for (const auto& [name, kind] : kOnOptimized) AddPeer(name, kind, optimized);
    return absl::OkStatus();
  }

  void AddPeer(const std::string& name, const std::string& kind, const std::string& path) {
    if (InterruptGuard::interrupted()) return;
    if (!flags_.kinds.empty() && !absl::c_linear_search(flags_.kinds, name)) return;
    progress_.Update(-1, name);
    PeerSetting setting;
    setting.kind = kind;
    setting.model = std::filesystem::absolute(path).string();
    setting.folder = folder_.path();
    setting.threads = NumThreads(session_.flags.threads);
    setting.device = flags_.device == "cuda"                   ? "cuda:0"
                     : absl::StartsWith(flags_.device, "cuda") ? flags_.device
                                                               : "cpu";
    setting.precision = flags_.precision;
    absl::StatusOr<std::unique_ptr<Peer>> started = Peer::Start(setting);
    if (!started.ok()) {
      absent_.push_back({name, std::string(started.status().message())});
      return;
    }
    std::shared_ptr<Peer> peer = *std::move(started);
    Contestant contestant;
    contestant.peer = true;
    contestant.name = name;
    contestant.text = peer->version();
    contestant.run = [peer] { return peer->Run(); };
    contestant.outputs = [peer] { return peer->Outputs(); };
    contestants_.push_back(std::move(contestant));
  }

  void CompareOutputs(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, Contestant* contestant) {
    contestant->equal = actual.size() == expected.size();
    if (!contestant->equal) {
      contestant->difference = absl::StrCat(actual.size(), " outputs, expected ", expected.size());
    }
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
      if (actual[i].type() != expected[i].type()) {
        contestant->equal = false;
        contestant->difference =
            absl::StrCat("an output is ", actual[i].type().ToString(), ", expected ", expected[i].type().ToString());
        continue;
      }
      const TensorDiff diff = DiffTensors(expected[i], actual[i], {.rtol = flags_.rtol});
      contestant->max_rel_diff = std::max(contestant->max_rel_diff, diff.max_rel_diff);
      if (diff.equal) continue;
      contestant->equal = false;
      contestant->difference = absl::StrFormat("output %d differs by up to %.3g at %s", i, diff.max_abs_diff,
                                               ShapeString(PositionOf(expected[i].shape(), diff.worst)));
    }
  }

  const CompareFlags& flags_;
  const Session& session_;
  const Engine& engine_;
  Progress& progress_;
  TemporaryFolder folder_;
  std::vector<Tensor> inputs_;
  std::vector<Contestant> contestants_;
  std::vector<Absent> absent_;
};

constexpr size_t kOriginal = 0, kBaseline = 1;

// A bar as long as the speed is; that of the fastest has `kBarWidth` characters.
constexpr double kBarWidth = 12;
std::string Bar(double speed, double fastest) {
  return std::string(static_cast<size_t>(std::lround(kBarWidth * speed / fastest)), '#');
}

// A row of the table. What a narrow terminal has no room for is left out, at the right.
template <typename... Cells>
void ShowRow(Console& console, const absl::FormatSpec<Cells...>& format, const Cells&... cells) {
  std::string row = absl::StrFormat(format, cells...);
  const int width = TerminalWidth(STDOUT_FILENO);
  if (width > 0) row.resize(std::min(row.size(), static_cast<size_t>(width)));
  console.Result(row);
}

void Report(const std::string& model, const Contest& contest, Console& console, std::string* csv) {
  const std::vector<Contestant>& all = contest.contestants();
  double fastest = 0;
  for (const Contestant& one : all) fastest = std::max(fastest, Against(one, all[kOriginal]).ratio);
  console.Result(absl::StrFormat("%s, %d rounds; times as fast as the original, as the baseline: more is faster", model,
                                 all[kOriginal].seconds.size()));
  ShowRow(console, "  %-22s%10s %9s  %-12s %9s %8s  %s", "", "median ms", "original", "", "baseline", "spread",
          "outputs");
  Json rows = Json::array();
  for (const Contestant& one : all) {
    const Summary summary = Summarize(one.seconds);
    const Duel original = Against(one, all[kOriginal]), baseline = Against(one, all[kBaseline]);
    ShowRow(console, "  %-22s%10.3f %7.2f x  %-12s %7.2f x %6.1f %%  %-8s %s", one.name, summary.median * 1e3,
            original.ratio, Bar(original.ratio, fastest), baseline.ratio, summary.spread * 100,
            one.equal ? "equal" : "DIFFER", one.text);
    if (!one.equal) console.Warning(absl::StrCat(model, ": ", one.name, ": ", one.difference));
    const auto duel = [](const Duel& d) {
      return Json{{"speedup", d.ratio}, {"wins", d.wins}, {"losses", d.losses}, {"p_value", d.p_value}};
    };
    rows.push_back({{"name", one.name},
                    {"text", one.text},
                    {"median_ms", summary.median * 1e3},
                    {"min_ms", summary.min * 1e3},
                    {"spread", summary.spread},
                    {"over_original", duel(original)},
                    {"over_baseline", duel(baseline)},
                    {"equal", one.equal},
                    {"max_rel_diff", one.max_rel_diff}});
    absl::StrAppendFormat(csv, "%s,%s,%.4f,%.4f,%.4f,%.4f,%d,%d,%.3g,%.4f,%d,%d,%.3g,%d,%.3g\n", model, one.name,
                          summary.median * 1e3, summary.min * 1e3, summary.spread, original.ratio, original.wins,
                          original.losses, original.p_value, baseline.ratio, baseline.wins, baseline.losses,
                          baseline.p_value, one.equal, one.max_rel_diff);
  }
  Json missing = Json::array();
  for (const Absent& absent : contest.absent()) {
    console.Result(absl::StrFormat("  %-22s absent: %s", absent.name, absent.reason));
    missing.push_back({{"name", absent.name}, {"reason", absent.reason}});
  }
  console.json()["models"].push_back({{"model", model}, {"rows", std::move(rows)}, {"absent", std::move(missing)}});
}

// The graph of a file that is said to be `original`, optimized: a graph with the same inputs and outputs.
absl::StatusOr<ImportedModel> LoadOptimized(const std::string& path, const ImportedModel& of, const CompareFlags& flags,
                                            Console& console) {
  const Graph& original = of.graph;
  ImportOptions reading = OptionsToRead(flags.dims, flags.device, flags.fold_defaults);
  reading.other_dims = true;  // that the rewritten file has fixed
  ASSIGN_OR_RETURN(const ImportedModel model, LoadModel(path, reading, console));
  const std::vector<std::string> differences = InterfaceDifferences(of, model);
  if (!differences.empty()) {
    return ErrorAt(path,
                   absl::InvalidArgumentError(absl::StrCat("not the optimized form of the model: of model and file, ",
                                                           absl::StrJoin(differences, "; "))));
  }
  if (InputNames(original) != InputNames(model.graph) || OutputNames(original) != OutputNames(model.graph)) {
    return ErrorAt(path, absl::InvalidArgumentError("its inputs or outputs are in another order than the model's"));
  }
  return model;
}

absl::StatusOr<Answer> CompareModels(const CompareFlags& flags, Session& session) {
  Console& console = session.console;
  if (!flags.optimized.empty() && flags.optimized.size() != flags.models.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--optimized: ", Counted(flags.optimized.size(), "file"), " for ",
                                                   Counted(flags.models.size(), "model"), "; expected one for each"));
  }
  std::vector<std::string> known = PeerKinds();
  for (const auto& [name, kind] : kOnOptimized) known.emplace_back(name);
  for (const std::string& kind : flags.kinds) {
    if (absl::c_linear_search(known, kind)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--peer: there is no ", kind, "; expected one of ", absl::StrJoin(known, ", ")));
  }
  RETURN_IF_ERROR(CheckOutputs({{"--csv", flags.csv}, {"--profile", flags.profile, OutputFlag::Use::kKeep}},
                               flags.models, session));
  absl::StatusOr<Baseline> baseline = Baseline::Load(LoadOptionsOf({.assume_finite = flags.rules.assume_finite}));
  if (!baseline.ok()) return baseline.status();
  absl::StatusOr<OptimizerRules> rules = LoadOptimizerRules(flags.rules);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<Engine> engine = Engine::Open(flags.device, session.flags.threads, flags.profile, flags.precision);
  if (!engine.ok()) return engine.status();
  const InterruptGuard interrupt;
  std::string csv =
      "model,contestant,median_ms,min_ms,spread,over_original,wins,losses,p_value,over_baseline,baseline_wins,"
      "baseline_losses,baseline_p_value,equal,max_rel_diff\n";
  console.json()["device"] = engine->device()->name();
  console.json()["models"] = Json::array();
  bool equal = true;
  for (size_t i = 0; i < flags.models.size() && !InterruptGuard::interrupted(); ++i) {
    const std::string& path = flags.models[i];
    ImportOptions reading = OptionsToRead(flags.dims, flags.device, flags.fold_defaults);
    reading.keep_source = true;  // for the file that peers get
    absl::StatusOr<ImportedModel> model = LoadModel(path, reading, console);
    if (!model.ok()) return model.status();
    engine->Use(*model);
    const std::string name = std::filesystem::path(path).stem().string();
    std::optional<ImportedModel> file;  // its nodes are written while it is there
    std::optional<std::pair<std::string, Graph>> optimized;
    if (!flags.optimized.empty()) {
      ASSIGN_OR_RETURN(file, LoadOptimized(flags.optimized[i], *model, flags, console));
      engine->Use(*file);
      optimized.emplace(flags.optimized[i], file->graph);
    }
    Progress progress(console, name);
    Contest contest(flags, session, *engine, progress);
    absl::Status status = contest.Prepare(path, *model, *baseline, *rules, optimized);
    if (status.ok()) status = contest.Run();
    if (absl::IsCancelled(status)) {  // the models before this one have their rows
      console.Error(std::string(ErrorAt(path, status).message()));
      break;
    }
    if (status.ok()) status = contest.CheckOutputs();
    if (!status.ok()) return ErrorAt(path, status);
    progress.Update(1, "");
    Report(name, contest, console, &csv);
    for (const Contestant& one : contest.contestants()) equal &= one.equal;
  }
  ShowLoss(engine->profile_loss(), console);
  if (!flags.csv.empty()) {
    RETURN_IF_ERROR(WriteOutput(flags.csv, csv));
  }
  return equal ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareCompare(CommandLine& line) {
  auto flags = std::make_shared<CompareFlags>();
  line.Add("models", &flags->models, "ONNX files").Required().Type("MODEL.onnx");
  AddRules(line, &flags->rules);
  AddDevice(line, &flags->device, /*with_reference=*/false);
  AddPrecision(line, &flags->precision);
  line.AddOutputPath("--profile", &flags->profile, "Database of measured costs, read and filled").Type("DB");
  line.AddInt("--budget", &flags->budget, 0, INT64_MAX, "Graphs to build at most (default 1000)");
  line.AddSeconds("--search-limit", &flags->time_limit, 0, "Seconds to search at most").Formerly("--time-limit");
  line.Add("--optimized", &flags->optimized,
           "What `optimize` wrote of a model (repeatable, in the order of the models): nothing is searched")
      .Type("FILE.onnx")
      .OneAtATime()
      .Excludes("--rules")
      .Excludes("--disable-rule")
      .Excludes("--exact")
      .Excludes("--trust-unverified")
      .Excludes("--budget")
      .Excludes("--search-limit");
  line.AddInt("--iterations", &flags->rounds, 1, 1'000'000, "Measured runs of each (default 30)").Formerly("--rounds");
  line.AddInt("--warmup", &flags->warmup, 0, 1'000'000, "Runs before that (default 3)");
  line.AddReal("--rtol", &flags->rtol, 0, 1e9, "Relative tolerance of an element (default 1e-3)");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddSwitch(
      "--peers,!--no-peers", &flags->peers,
      "Also other programs: onnxruntime, OpenVINO, torch and JAX, by $REWRIGHT_PYTHON or a Python found (default on)");
  line.Add("--peer", &flags->kinds, "A program to compare with (repeatable; default: all that are found)")
      .Type("NAME")
      .OneAtATime();
  line.AddOutputPath("--csv", &flags->csv, "Write the table as CSV; - is standard output").Type("F.csv");
  return [flags](Session& session) { return CompareModels(*flags, session); };
}

}  // namespace rewright
