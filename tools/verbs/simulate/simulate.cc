// rewright simulate STEP.plan|MODEL.json|CONFIG.json --cluster CLUSTER: the time of a step by the lists of actions of
// its ranks.

#include "runtime/distributed/simulate.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/described/described_model.h"
#include "runtime/distributed/described/described_plan.h"
#include "runtime/distributed/described/layout_search.h"
#include "runtime/distributed/plan_text.h"
#include "runtime/training/parallel/parallel_step.h"
#include "tools/library/engine.h"
#include "tools/program/flags.h"
#include "tools/program/outputs.h"
#include "tools/program/verb.h"
#include "tools/verbs/layout/layout_choice.h"
#include "tools/verbs/layout/step_planner.h"
#include "tools/verbs/train/ranks.h"
#include "tools/verbs/train/train_layout.h"
#include "tools/verbs/train/trained_model.h"

namespace rewright {
namespace {

using distributed::CollectiveBy;

const std::map<std::string, CollectiveBy> kWays = {{"direct", CollectiveBy::kDirect},
                                                   {"ring", CollectiveBy::kRing},
                                                   {"tree", CollectiveBy::kTree},
                                                   {"server", CollectiveBy::kParameterServer}};

struct SimulateFlags {
  std::string model, cluster;
  std::string layout;
  std::string collectives;
  std::string plan, trace, profile, save;
  int64_t devices = 0, most_simulated = 60;
  bool explain = false, overlap = false;
};

// The content of a file that `parse` reads; errors name the file.
template <typename Parse>
auto Parsed(const std::string& path, const Parse& parse) -> decltype(parse(std::string())) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  auto parsed = parse(text);
  if (!parsed.ok()) return ErrorAt(path, parsed.status());
  return parsed;
}

std::string BytesText(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  return number < 1e9 ? absl::StrFormat("%.1f MB", number / 1e6) : absl::StrFormat("%.1f GB", number / 1e9);
}

double Share(double part, double seconds) { return 100 * part / std::max(seconds, 1e-300); }

// `memory_bytes`: of the fullest rank; 0: that of the lists.
void Show(const distributed::Mesh& mesh, const distributed::Cluster& cluster, const distributed::SimulatedStep& step,
          int64_t memory_bytes, Console& console) {
  console.Result(absl::StrFormat("step:     %.6g s on %d ranks; %.1f %% bubble, %.1f %% exposed communication",
                                 step.seconds, mesh.ranks(), 100 * step.bubble(), 100 * step.exposed()));
  Json& json = console.json();
  json["seconds"] = step.seconds;
  json["bubble"] = step.bubble();
  json["exposed"] = step.exposed();
  for (size_t axis = 0; axis < step.exposed_over.size(); ++axis) {
    const double share = Share(step.exposed_over[axis], step.seconds);
    if (share >= 0.05) console.Result(absl::StrFormat("exposed:  %.1f %% over %s", share, mesh.axes()[axis].name));
    json["exposed_over"][mesh.axes()[axis].name] = share / 100;
  }
  json["bound_by"] = BoundOf(mesh, step);
  console.Result(absl::StrCat("bound by: ", BoundOf(mesh, step)));
  for (size_t k = 0; k < step.bytes.size(); ++k) {
    console.Result(absl::StrFormat("sent:     %.3f MB over %s, whose fullest port sends for %.1f %% of the step",
                                   static_cast<double>(step.bytes[k]) / 1e6, cluster.levels[k].name,
                                   100 * step.busy[k]));
    json["bytes"][cluster.levels[k].name] = step.bytes[k];
    json["busy"][cluster.levels[k].name] = step.busy[k];
  }
  if (memory_bytes > 0) {
    console.Result(absl::StrCat("memory:   ", BytesText(memory_bytes), " of ", BytesText(cluster.memory_bytes),
                                " of the fullest device"));
    json["memory_bytes"] = memory_bytes;
    json["fits"] = memory_bytes <= cluster.memory_bytes;
    if (memory_bytes > cluster.memory_bytes) console.Warning("the step does not fit into the memory of the devices");
    return;
  }
  const auto most = std::max_element(step.peak_bytes.begin(), step.peak_bytes.end());
  console.Result(absl::StrFormat("memory:   %.3f MB of rank %d for its list and its sums",
                                 static_cast<double>(*most) / 1e6, step.numbers[most - step.peak_bytes.begin()]));
  json["peak_bytes"] = step.peak_bytes;
}

distributed::SimulationOptions OptionsOf(const SimulateFlags& flags, const std::string& usual) {
  return {.collectives = kWays.at(flags.collectives.empty() ? usual : flags.collectives),
          .spans = !flags.trace.empty()};
}

absl::StatusOr<Answer> SimulatePlan(const SimulateFlags& flags, const distributed::Cluster& cluster, Session& session) {
  ASSIGN_OR_RETURN(const distributed::Plan plan, Parsed(flags.model, distributed::ParsePlan));
  const auto step = distributed::Simulate(plan, cluster, OptionsOf(flags, "direct"));
  if (!step.ok()) return ErrorAt(flags.model, step.status());
  Show(plan.mesh, cluster, *step, /*memory_bytes=*/0, session.console);
  if (!flags.trace.empty()) RETURN_IF_ERROR(WriteOutput(flags.trace, distributed::ChromeTrace(plan, *step)));
  return Answer::kYes;
}

absl::StatusOr<distributed::DescribedLayout> ChosenLayout(const SimulateFlags& flags,
                                                          const distributed::DescribedModel& model,
                                                          const distributed::Cluster& cluster, Console& console) {
  if (flags.layout != "auto") return distributed::ParseDescribedLayout(flags.layout);
  distributed::LayoutSearchOptions options;
  options.devices = flags.devices > 0 ? static_cast<int>(flags.devices) : cluster.devices();
  options.overlap = flags.overlap;
  options.simulation.collectives = OptionsOf(flags, "ring").collectives;
  options.most_simulated = flags.most_simulated;
  ASSIGN_OR_RETURN(const distributed::LayoutSearch search, distributed::SearchLayouts(model, cluster, options));
  const distributed::FoundLayout& best = search.found[0];
  console.Result(absl::StrCat("layout:   ", PrintLayout(best.layout)));
  console.Result(absl::StrFormat("search:   %d layouts, %d of which may fit, %d simulated; %s", search.layouts,
                                 search.fitting, search.simulated,
                                 search.complete ? "no other is shorter" : "others may be shorter"));
  Json& json = console.json();
  json["layout"] = PrintLayout(best.layout);
  json["search"] = {{"layouts", search.layouts},
                    {"fitting", search.fitting},
                    {"simulated", search.simulated},
                    {"complete", search.complete}};
  for (size_t k = 1; flags.explain && k < std::min<size_t>(search.found.size(), 6); ++k) {
    const distributed::FoundLayout& other = search.found[k];
    const distributed::Mesh mesh({{"dp", 1}, {"pp", 1}, {"tp", 1}});  // the names of axes
    console.Result(absl::StrFormat("next:     %.6g s (%+.1f %%), %.1f GB, bound by %s: %s", other.time.step.seconds,
                                   100 * (other.time.step.seconds / best.time.step.seconds - 1),
                                   static_cast<double>(other.time.memory_bytes) / 1e9, BoundOf(mesh, other.time.step),
                                   PrintLayout(other.layout)));
    json["next"].push_back({{"layout", PrintLayout(other.layout)}, {"seconds", other.time.step.seconds}});
  }
  return best.layout;
}

// A configuration of training: the lists are those of a run, and go as they run.
absl::StatusOr<Answer> SimulateConfig(const SimulateFlags& flags, const distributed::Cluster& cluster,
                                      Session& session) {
  ASSIGN_OR_RETURN(TrainConfig config, Parsed(flags.model, ParseTrainConfig));
  ASSIGN_OR_RETURN(const Engine engine, Engine::Open("cpu", session.flags.threads, flags.profile));
  Device* const cpu = engine.device();
  const auto load = [&](const TrainConfig& at) -> absl::StatusOr<TrainableModel> {
    ASSIGN_OR_RETURN(LoadedModel loaded, LoadTrainedModel(at, FolderOf(flags.model), session.console));
    return std::move(loaded.model);
  };
  StepPlanner::Options planning{.seconds = nullptr, .cut = CutsByLaws()};
  if (!flags.profile.empty()) planning.seconds = [cpu](const Graph& graph) { return MeasuredSeconds(graph, *cpu); };
  LayoutFile chosen{.layout = flags.layout};
  if (IsLayoutFile(flags.layout)) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(flags.layout));
    ASSIGN_OR_RETURN(chosen, ParseLayoutFile(text, flags.layout));
  } else if (IsAutoLayout(flags.layout)) {
    const int devices = flags.devices > 0 ? static_cast<int>(flags.devices) : cluster.devices();
    LayoutChoiceOptions options{.ranks = devices, .layout = flags.layout, .memory_bytes = cluster.memory_bytes};
    options.load = load;
    options.measured = !flags.profile.empty();
    options.planner = planning;
    options.collectives = OptionsOf(flags, "direct").collectives;
    ASSIGN_OR_RETURN(const LayoutChoice choice, ChooseLayout(config, cluster, *cpu, options));
    session.console.json().update(ShowChoice(choice, flags.explain, session.console));
    chosen = choice.File();
    if (!flags.save.empty()) RETURN_IF_ERROR(WriteOutput(flags.save, PrintLayoutFile(chosen, choice.reasons)));
  }
  ASSIGN_OR_RETURN(const RankLayout layout,
                   TakeLayout(chosen, IsLayoutFile(flags.layout) ? flags.layout : "", &config));
  ASSIGN_OR_RETURN(const TrainableModel model, load(config));
  ASSIGN_OR_RETURN(const std::unique_ptr<StepPlanner> planner,
                   StepPlanner::Create(config, model, cluster, *cpu, planning));
  ASSIGN_OR_RETURN(GraphStep made, planner->PlanOf(layout));
  if (chosen.memory_bytes > 0) {
    ASSIGN_OR_RETURN(const Rematerialization less,
                     planner->Fit(layout, {}, chosen.memory_bytes, !flags.profile.empty()));
    ASSIGN_OR_RETURN(made, planner->PlanOf(layout, {}, less.graph));
  }
  ASSIGN_OR_RETURN(const distributed::SimulatedStep step,
                   distributed::Simulate(made.plan, cluster, OptionsOf(flags, "direct")));
  Show(made.plan.mesh, cluster, step, made.bytes(), session.console);
  const double samples = static_cast<double>(config.batch) / step.seconds;
  session.console.Result(absl::StrFormat("rate:     %.1f samples/s", samples));
  session.console.json()["samples_per_second"] = samples;
  if (!flags.plan.empty()) RETURN_IF_ERROR(WriteOutput(flags.plan, distributed::PrintPlan(made.plan)));
  if (!flags.trace.empty()) RETURN_IF_ERROR(WriteOutput(flags.trace, distributed::ChromeTrace(made.plan, step)));
  return Answer::kYes;
}

absl::StatusOr<Answer> SimulateModel(const SimulateFlags& flags, const distributed::Cluster& cluster,
                                     Session& session) {
  Console& console = session.console;
  ASSIGN_OR_RETURN(const distributed::DescribedModel model, Parsed(flags.model, distributed::ParseDescribedModel));
  console.Result(absl::StrFormat("model:    %.4g G parameters, %d samples of %d tokens in %s",
                                 static_cast<double>(model.Weights()) / 1e9, model.batch, model.sequence,
                                 model.precision));
  ASSIGN_OR_RETURN(const distributed::DescribedLayout layout, ChosenLayout(flags, model, cluster, console));
  ASSIGN_OR_RETURN(const distributed::DescribedTime time,
                   distributed::TimeDescribed(model, layout, cluster, OptionsOf(flags, "ring")));
  const distributed::RankLayout& ranks = layout.ranks;
  const distributed::Mesh mesh({{"dp", ranks.dp}, {"pp", ranks.pp}, {"tp", ranks.tp}});
  Show(mesh, cluster, time.step, time.memory_bytes, console);
  const double tokens = static_cast<double>(model.batch * model.sequence) / time.step.seconds / mesh.ranks();
  console.Result(absl::StrFormat("rate:     %.1f tokens/s a device", tokens));
  console.json()["tokens_per_second"] = tokens;
  if (flags.plan.empty() && flags.trace.empty()) return Answer::kYes;
  ASSIGN_OR_RETURN(const distributed::DescribedStep step, distributed::PlanDescribed(model, layout, cluster));
  if (!flags.plan.empty()) {
    RETURN_IF_ERROR(WriteOutput(flags.plan, distributed::PrintPlan(step.plan)));
    const std::string way = flags.collectives.empty() ? "ring" : flags.collectives;
    console.Note(absl::StrCat("of ", flags.plan, " the same seconds come by --collectives ", way));
  }
  if (flags.trace.empty()) return Answer::kYes;
  ASSIGN_OR_RETURN(const distributed::SimulatedStep whole,
                   distributed::Simulate(step.plan, cluster, OptionsOf(flags, "ring")));
  RETURN_IF_ERROR(WriteOutput(flags.trace, distributed::ChromeTrace(step.plan, whole)));
  return Answer::kYes;
}

absl::StatusOr<Answer> Simulate(const SimulateFlags& flags, Session& session) {
  RETURN_IF_ERROR(CheckOutputs({{"--trace", flags.trace}, {"--plan", flags.plan}, {"--save-layout", flags.save}},
                               {flags.model, flags.cluster}, session));
  ASSIGN_OR_RETURN(const distributed::Cluster cluster, distributed::ReadCluster(flags.cluster));
  if (!absl::EndsWith(flags.model, ".json")) {
    if (flags.layout.empty() && flags.plan.empty()) return SimulatePlan(flags, cluster, session);
    return absl::InvalidArgumentError("--layout and --plan: found a plan, which has its lists, expected a model");
  }
  if (flags.layout.empty()) {
    return absl::InvalidArgumentError("--layout: is missing, expected dp=N,tp=N,.. or auto");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadText(flags.model));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_config = json.is_object() && json.contains("model");
  if (!flags.save.empty() && !(is_config && IsAutoLayout(flags.layout))) {
    return absl::InvalidArgumentError("--save-layout: is given, expected a configuration with --layout auto");
  }
  return is_config ? SimulateConfig(flags, cluster, session) : SimulateModel(flags, cluster, session);
}

}  // namespace

Action DeclareSimulate(CommandLine& line) {
  auto flags = std::make_shared<SimulateFlags>();
  line.Add("model", &flags->model,
           "The actions of each rank, as rewright train --plan writes them, a model by its sizes (docs/simulation.md), "
           "or a configuration of training")
      .Required()
      .Type("STEP.plan|MODEL.json|CONFIG.json");
  line.Add("--cluster", &flags->cluster, "The devices and their links: a file, or one that comes with the program")
      .Required()
      .Type("FILE.json|NAME");
  line.Add("--layout", &flags->layout,
           "Of a model: dp=N,tp=N,pp=N,zero=0..3,micro=M,schedule=..,chunks=C, and "
           "remat=none|full,offload=0|1,overlap=0|1,ep=N; auto: the one with the shortest step that fits; of a "
           "configuration also F.layout")
      .Type("LAYOUT");
  const std::vector<Flag> of_auto = {
      line.AddInt("--devices", &flags->devices, 1, 1 << 16,
                  "How many devices auto shares the work between (default all of the cluster)"),
      line.AddInt("--most-simulated", &flags->most_simulated, 0, 1 << 20,
                  "Layouts that auto simulates at most (default 60; 0: no limit)"),
      line.AddSwitch("--overlap", &flags->overlap, "auto: products beside collectives of tensor parallel (overlap=1)"),
      line.AddSwitch("--explain", &flags->explain, "auto: show what the next best layouts take")};
  line.AddOutputPath("--save-layout", &flags->save,
                     "Of a configuration, with --layout auto: write the choice, for --layout F.layout")
      .Type("F.layout");
  std::vector<std::string> ways;
  for (const auto& [name, way] : kWays) ways.push_back(name);
  line.AddChoice("--collectives", &flags->collectives, ways,
                 "The way of collectives (default direct for a plan, as they run, and ring for a model)");
  line.AddOutputPath("--profile", &flags->profile,
                     "Of a configuration: seconds as they are measured on this processor, kept in this database, "
                     "instead of those by the device of the cluster")
      .Type("DB");
  line.AddOutputPath("--plan", &flags->plan, "Write the actions of each rank of a model's step").Type("F.plan");
  line.AddOutputPath("--trace", &flags->trace,
                     "Write what every rank does when, for Perfetto and chrome://tracing; - is standard output")
      .Type("F.json");
  return [flags, of_auto](Session& session) -> absl::StatusOr<Answer> {
    if (!IsAutoLayout(flags->layout) && absl::c_any_of(of_auto, [](const Flag& flag) { return flag.given(); })) {
      return absl::InvalidArgumentError(
          absl::StrCat("--devices, --most-simulated, --overlap and --explain: found --layout ",
                       flags->layout.empty() ? "of a plan" : flags->layout, ", expected auto"));
    }
    return Simulate(*flags, session);
  };
}

}  // namespace rewright
