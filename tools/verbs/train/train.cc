// rewright train CONFIG.json: trains a model.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/onnx.h"
#include "runtime/comm/mpi.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/distributed/plan_text.h"
#include "runtime/offload/two_tier_device.h"
#include "runtime/training/files/tensorboard.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/trainer.h"
#include "substitutions/sharding/shard.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/check/step_proof.h"
#include "tools/verbs/train/ranks.h"
#include "tools/verbs/train/step_search.h"
#include "tools/verbs/train/train_layout.h"
#include "tools/verbs/train/train_report.h"
#include "tools/verbs/train/trained_model.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

struct TrainFlags {
  std::string config;
  std::string checkpoint_folder;
  bool resume = false;
  std::string events_folder;
  bool seed_given = false;
  std::string output;
  std::string plan, proof, lists, report;
  std::string device = "cpu";
  LayoutFlags layout;
  double timeout = 300;
  double bucket_mb = 25;
  std::string profile;
  StepSearchFlags search;
  int64_t second_tier = 0;  // bytes

  // Lists that a person wrote are proved in any case.
  bool proves() const { return !proof.empty() || !lists.empty(); }
};

absl::StatusOr<TrainConfig> LoadConfig(const TrainFlags& flags, uint64_t seed) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(flags.config));
  auto config = ParseTrainConfig(text);
  if (!config.ok()) {
    return ErrorAt(flags.config, config.status());
  }
  if (flags.seed_given) config->seed = seed;
  return config;
}

// "a, b, c, .. (12)"
std::string Shortened(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  if (names.size() <= kShown) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kShown, ", "), ", .. (", names.size(), ")");
}

// Shows which weights of a model of a file are trained, which are not, and why: in full in the log file and with
// --json.
void ShowTrained(const Trainer& trainer, Console& console) {
  std::map<std::string, std::vector<std::string>> left;  // by reason
  for (const auto& [name, why] : trainer.left()) left[why].push_back(name);
  console.Note(absl::StrCat("trains:   ", Shortened(trainer.trained())));
  for (const auto& [why, names] : left) console.Note(absl::StrCat("leaves:   ", Shortened(names), ": ", why));
  console.Detail(absl::StrCat("trained: ", absl::StrJoin(trainer.trained(), ", ")));
  for (const auto& [name, why] : trainer.left()) console.Detail(absl::StrCat("left: ", name, ": ", why));
  console.JsonLine({{"trained", trainer.trained()}, {"left", trainer.left()}});
}

// Progress and metrics of a run.
class Reporter {
 public:
  Reporter(const Trainer& trainer, const TrainConfig& config, std::optional<EventFile> events, TrainingCurves* curves,
           Console& console)
      : trainer_(trainer),
        events_(std::move(events)),
        curves_(curves),
        batch_(config.batch),
        first_(trainer.position()),
        console_(console),
        progress_(console, "train") {}

  void operator()(const StepReport& report) {
    Line(report);
    Event(report);
    curves_->Add(report);
    const auto done = static_cast<double>(report.step - first_);
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double left = seconds / done * static_cast<double>(trainer_.total_steps() - report.step);
    progress_.Update(static_cast<double>(report.step) / static_cast<double>(trainer_.total_steps()),
                     absl::StrFormat("step %d  loss %.4f  %.0f samples/s  %.0f s left", report.step, report.loss,
                                     done * static_cast<double>(batch_) / seconds, left));
    if (report.skipped)
      console_.Warning(absl::StrCat("step ", report.step, " was skipped: its numbers are not finite"));
    if (report.measurement) Measured(report);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Line(const StepReport& report) {
    Json line = {{"step", report.step},
                 {"epoch", report.epoch},
                 {"loss", report.loss},
                 {"learning_rate", report.learning_rate},
                 {"seconds", report.seconds}};
    if (report.gradient_norm) line["gradient_norm"] = *report.gradient_norm;
    if (report.skipped) line["skipped"] = true;
    if (report.measurement) line["validation_loss"] = report.measurement->loss;
    if (report.measurement && report.measurement->accuracy) line["accuracy"] = *report.measurement->accuracy;
    console_.JsonLine(line);
  }
  // A run does not end for want of its metrics.
  void Event(const StepReport& report) {
    if (!events_) return;
    const absl::Status status = events_->Write(report.step, MetricsOf(report));
    if (status.ok()) return;
    console_.Warning(absl::StrCat(status.message(), "; no more events are written"));
    events_.reset();
  }
  void Measured(const StepReport& report) {
    std::string text = absl::StrFormat("epoch %d, step %d: loss %.4f, validation loss %.4f", report.epoch, report.step,
                                       report.loss, report.measurement->loss);
    if (report.measurement->accuracy) {
      absl::StrAppend(&text, absl::StrFormat(", accuracy %.2f %%", 100 * *report.measurement->accuracy));
    }
    console_.Note(text);
  }

  const Trainer& trainer_;
  std::optional<EventFile> events_;
  TrainingCurves* const curves_;
  const int64_t batch_, first_;
  Console& console_;
  Progress progress_;
  const Clock::time_point start_ = Clock::now();
};

// A number of every rank.
absl::StatusOr<std::vector<int64_t>> OfAllRanks(Communicator& ranks, int64_t number) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, AllGather(ranks, "the end", absl::StrCat(number)));
  std::vector<int64_t> numbers(texts.size(), 0);
  for (size_t k = 0; k < texts.size(); ++k) CHECK(absl::SimpleAtoi(texts[k], &numbers[k])) << texts[k];
  return numbers;
}

// The plan of a step, with the means of what all ranks have measured of it. REQUIRES: the step has one.
absl::StatusOr<distributed::Plan> MeasuredPlan(const Trainer& trainer, Communicator& ranks) {
  const distributed::PlanExecutor* const sums = trainer.running().sums.get();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   AllGather(ranks, "the plan", distributed::PrintPlan(sums->MeasuredPlan())));
  std::vector<distributed::Plan> measured;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(measured.emplace_back(), distributed::ParsePlan(text));
  }
  return distributed::MeanOf(measured);
}

absl::Status WritePlan(const Trainer& trainer, const std::string& path, Communicator& ranks) {
  if (trainer.running().sums == nullptr) {
    return absl::InvalidArgumentError("--plan: found a step of one graph, expected data.micro_batches of at least 2");
  }
  ASSIGN_OR_RETURN(const distributed::Plan plan, MeasuredPlan(trainer, ranks));
  return ranks.rank() == 0 ? WriteOutput(path, distributed::PrintPlan(plan)) : absl::OkStatus();
}

// The page about the run, with the lanes of ranks where a step has a plan.
absl::Status WriteReport(const Trainer& trainer, const TrainFlags& flags, const TrainingCurves& curves,
                         Communicator& ranks) {
  std::string lanes;
  if (trainer.running().sums != nullptr) {
    ASSIGN_OR_RETURN(const distributed::Plan plan, MeasuredPlan(trainer, ranks));
    ASSIGN_OR_RETURN(lanes, RankLanes(plan));
  }
  if (ranks.rank() != 0) return absl::OkStatus();
  const std::string note = absl::StrFormat("%d steps on %s, last loss %.6g", trainer.position(),
                                           Counted(ranks.size(), "rank"), trainer.last_loss());
  return WriteOutput(flags.report, TrainingPage(flags.config, note, curves, lanes));
}

// Proves, before the first step, that the lists of all ranks compute the step of one device.
absl::Status ProveRun(const Trainer& trainer, const std::string& path, Communicator& ranks, Console& console) {
  if (trainer.running().sums == nullptr) {
    return absl::InvalidArgumentError(
        "--prove and --run-plan: found a step of one graph, expected data.micro_batches of at least 2");
  }
  return FromRankZero(ranks, "the proof",
                      [&]() -> absl::StatusOr<std::string> {
                        distributed::ProofText proof;
                        proof.step = *trainer.running().claim;
                        RETURN_IF_ERROR(WriteStepProof(std::move(proof), kLawSeconds, path, console));
                        return std::string();
                      })
      .status();
}

absl::Status Finish(Trainer& trainer, const TrainConfig& config, const TrainFlags& flags, const LoadedModel& loaded,
                    Communicator& ranks, Console& console) {
  if (!flags.output.empty()) {
    ASSIGN_OR_RETURN(const Graph trained, trainer.Trained());
    if (ranks.rank() == 0) RETURN_IF_ERROR(WriteTrainedModel(trained, loaded, flags.output, console));
  }
  if (!flags.plan.empty()) RETURN_IF_ERROR(WritePlan(trainer, flags.plan, ranks));
  ASSIGN_OR_RETURN(const std::string sha256, trainer.WeightsSha256());
  Json line = {{"final_loss", trainer.last_loss()},
               {"steps", trainer.position()},
               {"weights_sha256", sha256},
               {"ended_by", trainer.ended_by()}};
  line["state_bytes"] = trainer.state_bytes();
  line["arena_bytes"] = trainer.running().step->arena_bytes();
  line["peak_live_bytes"] = trainer.running().step->peak_live_bytes();
  if (trainer.running().sums != nullptr) line["gradients_arena_bytes"] = trainer.running().sums->arena_bytes();
  if (flags.second_tier > 0) line["stored_bytes"] = trainer.running().step->stored_bytes();
  if (ranks.size() > 1) {
    line["ranks"] = ranks.size();
    line["bytes_sent"] = ranks.bytes_sent();  // by this one, rank 0
    ASSIGN_OR_RETURN(line["planned_bytes_of_step"], OfAllRanks(ranks, trainer.planned_bytes()));
  }
  std::string text = absl::StrFormat("trained:  %d steps, final loss %.6g", trainer.position(), trainer.last_loss());
  if (config.validation) {
    ASSIGN_OR_RETURN(const ValidationScore measurement, trainer.Measure());
    line["validation_loss"] = measurement.loss;
    absl::StrAppend(&text, absl::StrFormat(", validation loss %.6g", measurement.loss));
    if (measurement.accuracy) {
      line["accuracy"] = *measurement.accuracy;
      absl::StrAppend(&text, absl::StrFormat(", accuracy %.2f %%", 100 * *measurement.accuracy));
    }
  }
  console.JsonLine(line);
  console.Result(text);
  console.Result(absl::StrCat("weights:  sha256 ", sha256));
  return absl::OkStatus();
}

// Cuts graphs of a step over ranks, by laws that are proved on the way.
absl::StatusOr<Graph> CutStep(const Graph& graph, const StateAxes& axes, int degree, Communicator& ranks,
                              bool exact_only, Console& console) {
  return CutOnRanks(graph, ranks, [&]() -> absl::StatusOr<Graph> {
    ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                     sharding::Shard(graph, PlacementsOf(axes), degree, std::ref(LawsOfLayouts()), exact_only));
    console.Note(absl::StrFormat(
        "%d of %d applications of a step are on blocks, by %d proved laws%s%s", sharded.cut, graph.num_applications(),
        sharded.laws, sharded.whole.empty() ? "" : "; joined for want of a law: ", absl::StrJoin(sharded.whole, ", ")));
    return sharded.graph;
  });
}

// Checks the flags by which ranks send to one another: each that differs would leave one of them waiting.
absl::Status CheckFlags(const TrainFlags& flags, Communicator& ranks) {
  const auto path = [](const std::string& of) { return std::string(of.empty() ? "not given" : "given"); };
  const auto text = [](const std::string& of) { return of.empty() ? "not given" : of; };
  return CheckSame(ranks, "the flags",
                   {{"--device", flags.device},
                    {"--layout", text(flags.layout.layout)},
                    {"--cluster", text(flags.layout.cluster)},
                    {"--run-plan", path(flags.lists)},
                    {"--resume", path(flags.resume ? "given" : "")},
                    {"--checkpoint-dir", path(flags.checkpoint_folder)},
                    {"--output", path(flags.output)},
                    {"--plan", path(flags.plan)},
                    {"--prove", path(flags.proof)},
                    {"--report", path(flags.report)},
                    {"--profile", path(flags.profile)},
                    {"--bucket-mb", absl::StrCat(flags.bucket_mb)},
                    {"--search-time", absl::StrCat(flags.search.seconds)},
                    {"--memory-limit", absl::StrCat(flags.search.memory_limit)},
                    {"--keep-all", path(flags.search.keep_all ? "given" : "")}});
}

absl::StatusOr<Answer> Train(TrainFlags flags, Communicator& ranks, Session& session) {
  Console& console = session.console;
  // From the first search to the last step; those of searches lie inside.
  std::optional<InterruptGuard> interrupt(std::in_place);
  if (flags.search.memory_limit > 0 && flags.device == "reference") {
    return absl::InvalidArgumentError("--memory-limit: found the device reference, expected one that plans memory");
  }
  if (flags.second_tier > 0 && (ranks.size() > 1 || flags.device == "reference")) {
    return absl::InvalidArgumentError(absl::StrCat("--second-tier: found ", ranks.size(), " processes and device ",
                                                   flags.device, ", expected one process and cpu"));
  }
  if (flags.resume && flags.checkpoint_folder.empty()) {
    return absl::InvalidArgumentError("--resume: expected --checkpoint-dir, too");
  }
  ASSIGN_OR_RETURN(TrainConfig config, LoadConfig(flags, session.flags.seed));
  if (ranks.rank() == 0) {
    RETURN_IF_ERROR(CheckOutputs({{"--output", flags.output, OutputFlag::Use::kReplace, /*binary=*/true},
                                  {"--plan", flags.plan},
                                  {"--prove", flags.proof},
                                  {"--report", flags.report},
                                  {"--profile", flags.profile, OutputFlag::Use::kKeep}},
                                 {flags.config}, session));
  }
  RETURN_IF_ERROR(CheckFlags(flags, ranks));
  TrainerOptions options;
  options.data_folder = FolderOf(flags.config);
  options.checkpoint_folder = flags.checkpoint_folder;
  options.resume = flags.resume;
  options.threads = omp_get_max_threads();
  options.ranks = &ranks;
  ASSIGN_OR_RETURN(Engine engine,
                   Engine::Open(flags.device, session.flags.threads, ranks.rank() == 0 ? flags.profile : ""));
  flags.search.measured = !flags.profile.empty();
  options.sharing.bucket_bytes = static_cast<int64_t>(flags.bucket_mb * (1 << 20));
  ASSIGN_OR_RETURN(const RankLayout layout, LayoutOfRun(flags.layout, options.data_folder, options.sharing.bucket_bytes,
                                                        engine, ranks, session, &flags.search, &config));
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadTrainedModel(config, options.data_folder, console));
  if (flags.second_tier > 0) {
    RETURN_IF_ERROR(engine.Wrap([&](std::unique_ptr<Device> device) {
      return MakeTwoTierDevice(std::move(device), {.first_bytes = flags.search.memory_limit,
                                                   .second_bytes = flags.second_tier,
                                                   .threads = static_cast<int>(session.flags.threads)});
    }));
  }
  options.rewrite = [&](const Graph& step) { return RewriteStep(step, flags.search, layout, engine, ranks, session); };
  options.rewrite_gradients = [&](const Graph& gradients, const Graph& step, const std::vector<std::string>& updated) {
    return RewriteGradients(gradients, step, updated, config, options.sharing, flags.search, engine, ranks, session);
  };
  options.sharing.rewrite_part = [&](const RankGraph& part) {
    return RewritePart(part, flags.search, engine, session);
  };
  if (flags.search.seconds > 0 && engine.device() != nullptr) {
    options.rewrite_whole = [&](const WholeStep& step) {
      return RewriteWholeStep(step, flags.search, engine, session);
    };
  }
  options.sharing.layout = layout;
  options.sharing.claims = flags.proves() && ranks.rank() == 0;
  if (!flags.lists.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(flags.lists));
    auto plan = distributed::ParsePlan(text);
    if (!plan.ok()) return ErrorAt(flags.lists, plan.status());
    options.sharing.lists = *std::move(plan);
  }
  options.sharing.cut = [&](const Graph& graph, const StateAxes& axes, int degree, Communicator& over,
                            bool exact_only) { return CutStep(graph, axes, degree, over, exact_only, console); };
  options.sharing.cut_alone = CutsByLaws();
  if (engine.device() != nullptr) {
    options.sharing.device.groups = [&](const Graph& graph) { return engine.device()->Partition(graph); };
  }
  if (!flags.profile.empty() && engine.device() != nullptr) {
    options.sharing.device.seconds = [&](const Graph& graph) { return MeasuredSeconds(graph, *engine.device()); };
  }
  if (!config.weights.empty()) {
    const std::string path = PathFrom(options.data_folder, config.weights);
    ASSIGN_OR_RETURN(const NamedTensors weights, ReadSafetensors(path));
    auto model = WithWeights(loaded.model, weights);
    if (!model.ok()) return ErrorAt(path, model.status());
    loaded.model = *std::move(model);
  }
  auto trainer = Trainer::Create(config, std::move(loaded.model), engine.runner(), options);
  if (!trainer.ok()) {
    return ErrorAt(flags.config, trainer.status());
  }
  if (flags.proves()) RETURN_IF_ERROR(ProveRun(**trainer, flags.proof, ranks, console));
  for (const std::string& note : (*trainer)->notes()) console.Warning(note);
  if (!config.built_in) ShowTrained(**trainer, console);
  if (flags.resume) {
    const int64_t behind = (*trainer)->position();
    console.Note(behind > 0 ? absl::StrCat("resumed after step ", behind)
                            : absl::StrCat(flags.checkpoint_folder, ": no checkpoint yet, the run begins"));
  }

  std::optional<EventFile> events;
  if (!flags.events_folder.empty() && ranks.rank() == 0) {
    const std::optional<int64_t> behind = flags.resume ? std::optional<int64_t>((*trainer)->position()) : std::nullopt;
    ASSIGN_OR_RETURN(EventFile file, EventFile::Create(flags.events_folder, behind));
    events.emplace(std::move(file));
  }
  TrainingCurves curves;
  {
    Reporter reporter(**trainer, config, std::move(events), &curves, console);
    RETURN_IF_ERROR((*trainer)->Run([&](const StepReport& report) { reporter(report); },
                                    [&] { return InterruptGuard::interrupted() || console.output_failed(); }));
  }
  interrupt.reset();
  ShowLoss(engine.profile_loss(), console);
  RETURN_IF_ERROR(Finish(**trainer, config, flags, loaded, ranks, console));
  if (!flags.report.empty()) RETURN_IF_ERROR(WriteReport(**trainer, flags, curves, ranks));
  if ((*trainer)->ended_by() != "stop") return Answer::kYes;
  if (!InterruptGuard::interrupted())
    return absl::UnavailableError(
        absl::StrCat("standard output cannot be written; ended after step ", (*trainer)->position()));
  return absl::CancelledError(absl::StrCat("interrupted after step ", (*trainer)->position(),
                                           flags.checkpoint_folder.empty() ? "" : "; --resume goes on from there"));
}

}  // namespace

Action DeclareTrain(CommandLine& line) {
  auto flags = std::make_shared<TrainFlags>();
  line.Add("config", &flags->config, "What to train, on what and how (docs/training.md)")
      .Required()
      .Type("CONFIG.json");
  line.AddOutputPath("--checkpoint-dir", &flags->checkpoint_folder, "Write checkpoints there").Type("DIR");
  line.AddSwitch("--resume", &flags->resume, "Go on from the last checkpoint; where there is none yet, begin");
  line.AddOutputPath("--tensorboard", &flags->events_folder, "Write metrics there as TensorBoard reads them")
      .Type("DIR");
  line.AddOutputPath("-o,--output", &flags->output, "Write the trained model there").Type("F.onnx");
  line.AddOutputPath("--plan", &flags->plan,
                     "Write the actions of each rank in a step of micro-batches there, with measured seconds; - is "
                     "standard output (rewright simulate)")
      .Type("F.plan");
  line.AddOutputPath("--report", &flags->report,
                     "Write a page with the curves of loss and metrics, and what ranks do in a step; - is standard "
                     "output")
      .Type("F.html");
  line.AddOutputPath("--prove", &flags->proof,
                     "Prove before the first step that the lists of all ranks compute the step of one device, and "
                     "write the proof there (rewright check)")
      .Type("F.proof");
  line.Add("--run-plan", &flags->lists,
           "Run the lists of this plan, as --plan wrote it and as it was edited, once they are proved as with --prove")
      .Type("F.plan");
  AddDevice(line, &flags->device, /*with_reference=*/true);
  line.Add("--layout", &flags->layout.layout,
           "Under mpirun -n N: dp=N, the micro-batches of a step are shared by N processes (the default); tp=N, they "
           "compute it together, with weights cut as model.places says; pp=N, each has a stage of the model; cp=N, "
           "each has a part of the sequence, along axis 1 of the inputs; zero=1, 2, 3: optimizer state is cut, "
           "gradients, weights; micro=M: so many micro-batches. auto: the one with the "
           "shortest step by estimate that fits (auto,dp=2: of those with dp=2); F.layout: of that file")
      .Type("dp=A,tp=B,..|auto|F.layout");
  AddLayoutFlags(line, &flags->layout);
  line.AddReal("--bucket-mb", &flags->bucket_mb, 1e-3, 1e6,
               "Gradients of so many MiB are added over processes while those before them are computed");
  line.AddSeconds("--search-time", &flags->search.seconds, 0,
                  "Seconds of search for a faster form of the step, by proved rules and measured costs");
  AddRules(line, &flags->search.rules);
  line.AddBytes(
          "--memory-limit", &flags->search.memory_limit,
          "Memory of a step, states included: what does not fit is computed again instead of being kept, by costs that "
          "are measured with --profile, else guessed")
      .Type("SIZE");
  line.AddBytes("--second-tier", &flags->second_tier,
                "With --memory-limit: other memory of this machine, where values wait that fit no more; it stands for "
                "that of a host beside a GPU")
      .Type("SIZE");
  line.AddSwitch("--keep-all", &flags->search.keep_all,
                 "Keep every value for the gradients, and compute none a second time: takes more memory")
      .Excludes("--memory-limit");
  line.AddOutputPath("--profile", &flags->profile, "Database of measured costs, read and filled").Type("DB");
  line.AddSeconds("--timeout", &flags->timeout, 0.1,
                  "Seconds that a process waits for another one before all of them end");
  return [flags, line](Session& session) {
    flags->seed_given = line.Given("--seed");
    Communicator& ranks = ProcessRanks();
    ranks.set_timeout(flags->timeout);
    if (ranks.rank() != 0) session.console.Mute();
    return OnProcessRanks("train", ranks, session.console, [&] { return Train(*flags, ranks, session); });
  };
}

}  // namespace rewright
