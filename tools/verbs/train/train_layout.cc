#include "tools/verbs/train/train_layout.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/device_factory.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "runtime/training/parallel/parallel_step.h"
#include "tools/program/outputs.h"
#include "tools/verbs/layout/measured_cluster.h"
#include "tools/verbs/train/ranks.h"
#include "tools/verbs/train/trained_model.h"

namespace rewright {
namespace {

absl::StatusOr<LayoutChoice> Chosen(const LayoutFlags& flags, const StepSearchFlags& search, const std::string& folder,
                                    int64_t bucket_bytes, const Engine& engine, const distributed::Cluster& cluster,
                                    int ranks, const TrainConfig& config) {
  LayoutChoiceOptions options{.ranks = ranks, .layout = flags.layout, .memory_bytes = cluster.memory_bytes};
  if (search.memory_limit > 0) options.memory_bytes = search.memory_limit;
  options.keep_all = search.keep_all || engine.device() == nullptr;
  options.measured = search.measured;
  options.planner.bucket_bytes = bucket_bytes;
  options.load = [&](const TrainConfig& at) -> absl::StatusOr<TrainableModel> {
    Console silent;  // the run itself loads it once more
    silent.Mute();
    ASSIGN_OR_RETURN(LoadedModel loaded, LoadTrainedModel(at, folder, silent));
    return std::move(loaded.model);
  };
  options.planner.cut = CutsByLaws();
  std::unique_ptr<Device> cpu;
  Device* device = engine.device();
  if (device == nullptr) {
    ASSIGN_OR_RETURN(cpu, MakeDevice("cpu"));
    device = cpu.get();
  } else {  // stages are those of the run
    options.planner.stages.groups = [device](const Graph& graph) { return device->Partition(graph); };
    if (search.measured) {
      options.planner.seconds = [device](const Graph& graph) { return MeasuredSeconds(graph, *device); };
      options.planner.stages.seconds = options.planner.seconds;
    }
  }
  return ChooseLayout(config, cluster, *device, options);
}

}  // namespace

void AddLayoutFlags(CommandLine& line, LayoutFlags* flags) {
  line.Add("--cluster", &flags->cluster,
           "With --layout auto: the devices and their links, a file or one that comes with the program (default: this "
           "machine, with measured links)")
      .Type("FILE.json|NAME");
  line.AddSwitch("--explain", &flags->explain,
                 "With --layout auto: show why each axis and tensor lies as it does, and what the second best costs");
  line.AddOutputPath("--save-layout", &flags->save, "With --layout auto: write the choice, for --layout F.layout")
      .Type("F.layout");
}

ProvedLaws& LawsOfLayouts() {
  static auto* const laws = new ProvedLaws(kLayoutProofSeconds);
  return *laws;
}

std::function<absl::StatusOr<Graph>(const Graph&, const StateAxes&, int degree)> CutsByLaws() {
  return [](const Graph& graph, const StateAxes& axes, int degree) -> absl::StatusOr<Graph> {
    ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                     sharding::Shard(graph, PlacementsOf(axes), degree, std::ref(LawsOfLayouts())));
    return sharded.graph;
  };
}

Json ShowChoice(const LayoutChoice& choice, bool explain, Console& console) {
  const LayoutCandidate& best = choice.found[0];
  console.Result(absl::StrFormat("layout:   %s", distributed::PrintLayout(best.layout)));
  console.Result(absl::StrFormat("search:   %d layouts; %.4g s a step by estimate, bound by %s; %.1f MB of a rank",
                                 choice.tried, best.seconds, best.bound_by, static_cast<double>(best.bytes) / 1e6));
  Json json;
  json["layout"] = distributed::PrintLayout(best.layout);
  json["estimated_seconds"] = best.seconds;
  json["estimated_bytes"] = best.bytes;
  json["layouts"] = choice.tried;
  if (best.again) {
    console.Result(absl::StrFormat(
        "memory:   a step that keeps everything takes %.1f MB of a rank, which has %.1f MB: values are computed again, "
        "by "
        "%d uses of the law %s; %+.1f %% of the time",
        static_cast<double>(best.again->bytes) / 1e6, static_cast<double>(best.again->memory_bytes) / 1e6,
        best.again->replaced, kRecomputationRule, 100 * (best.seconds / best.again->seconds - 1)));
    json["computed_again"] = best.again->replaced;
    json["bytes_of_all"] = best.again->bytes;
  }
  if (!explain) return json;
  for (const std::string& reason : choice.reasons) console.Result(absl::StrCat("why:      ", reason));
  for (const LayoutCandidate& other : choice.found) {
    json["next"].push_back({{"layout", distributed::PrintLayout(other.layout)}, {"seconds", other.seconds}});
  }
  return json;
}

absl::StatusOr<RankLayout> TakeLayout(const LayoutFile& layout, const std::string& file, TrainConfig* config) {
  auto parsed = distributed::ParseLayout(layout.layout);
  if (!parsed.ok()) return file.empty() ? parsed.status() : ErrorAt(file, parsed.status());
  RETURN_IF_ERROR(ApplyLayout(*parsed, config));
  if (layout.placements.empty()) return parsed;
  StateAxes places = AxesOf(layout.placements);
  if (!config->places.empty() && config->places != places) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.places: found other placements than ", file, ", expected them in one place"));
  }
  config->places = std::move(places);
  return parsed;
}

namespace {

// Takes the memory for which values of a layout are computed again, where the user has given no limit.
absl::Status TakeMemory(const LayoutFile& layout, const std::string& file, StepSearchFlags* search) {
  if (layout.memory_bytes == 0) return absl::OkStatus();
  if (search->keep_all) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep-all: found memory ", layout.memory_bytes, " in ", file, ", expected one of both"));
  }
  if (search->memory_limit == 0) search->memory_limit = layout.memory_bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RankLayout> LayoutOfRun(const LayoutFlags& flags, const std::string& folder, int64_t bucket_bytes,
                                       const Engine& engine, Communicator& ranks, Session& session,
                                       StepSearchFlags* search, TrainConfig* config) {
  if (!IsAutoLayout(flags.layout)) {
    if (!flags.cluster.empty() || flags.explain || !flags.save.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--cluster, --explain and --save-layout: found --layout ",
                                                     flags.layout, ", expected --layout auto"));
    }
    LayoutFile given{.layout = flags.layout};
    if (IsLayoutFile(flags.layout)) {
      ASSIGN_OR_RETURN(const std::string text, ReadText(flags.layout));
      ASSIGN_OR_RETURN(given, ParseLayoutFile(text, flags.layout));
      RETURN_IF_ERROR(TakeMemory(given, flags.layout, search));
    }
    ASSIGN_OR_RETURN(const RankLayout checked, distributed::ParseLayout(given.layout, ranks.size()));
    if (given.layout.empty()) return checked;
    return TakeLayout(given, IsLayoutFile(flags.layout) ? flags.layout : "", config);
  }
  if (ranks.rank() == 0) {
    RETURN_IF_ERROR(CheckOutputs({{"--save-layout", flags.save}}, {}, session));
  }
  LayoutFile file;
  if (ranks.size() > 1) {
    const int threads = NumThreads(session.flags.threads);
    ASSIGN_OR_RETURN(const distributed::Cluster cluster,
                     flags.cluster.empty() ? MeasuredCluster(ranks, threads) : distributed::ReadCluster(flags.cluster));
    ASSIGN_OR_RETURN(const std::string text, FromRankZero(ranks, "the layout", [&]() -> absl::StatusOr<std::string> {
                       ASSIGN_OR_RETURN(const LayoutChoice choice, Chosen(flags, *search, folder, bucket_bytes, engine,
                                                                          cluster, ranks.size(), *config));
                       session.console.JsonLine(ShowChoice(choice, flags.explain, session.console));
                       return PrintLayoutFile(choice.File(), choice.reasons);
                     }));
    if (ranks.rank() == 0 && !flags.save.empty()) RETURN_IF_ERROR(WriteOutput(flags.save, text));
    ASSIGN_OR_RETURN(file, ParseLayoutFile(text, "--layout auto"));
    RETURN_IF_ERROR(TakeMemory(file, "--layout auto", search));
    return TakeLayout(file, "--layout auto", config);
  }
  if (!flags.cluster.empty()) RETURN_IF_ERROR(distributed::ReadCluster(flags.cluster).status());
  file.layout = "dp=1";
  session.console.Result("layout:   dp=1: there is one rank (mpirun -n N)");
  if (!flags.save.empty()) RETURN_IF_ERROR(WriteOutput(flags.save, PrintLayoutFile(file, {})));
  return TakeLayout(file, "--layout auto", config);
}

}  // namespace rewright
