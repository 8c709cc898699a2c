// rewright profile MODEL...: measures what models are made of, into the profile database; carries databases about.
// With --collectives it measures the device and the links of processes instead, as a file of a cluster.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/analytic.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "runtime/comm/mpi.h"
#include "runtime/distributed/cluster.h"
#include "runtime/measure/machine_rates.h"
#include "runtime/measure/profile_db.h"
#include "runtime/measure/timing.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/compare/groups.h"
#include "tools/verbs/layout/measured_cluster.h"
#include "tools/verbs/rules/rules.h"
#include "tools/verbs/train/ranks.h"

namespace rewright {
namespace {

struct ProfileFlags {
  std::vector<std::string> models;
  std::string profile;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  std::string device = "cpu";
  std::string precision = "f32";
  std::vector<std::string> no_rules;
  bool roofline = false;
  std::string machine;
  int64_t top = 12;
  std::string export_file;
  std::string import_file;
  std::string collectives;
};

// The limits of a roofline.
struct Peaks : Rates {
  std::string source;

  double Arithmetic(const GroupLine& line) const { return line.flops / flops_per_second; }
  double Memory(const GroupLine& line) const { return line.bytes / BytesPerSecond(line.bytes); }
  // The least seconds for what the operators of a group say. A group that a law computes otherwise has none.
  std::optional<double> Bound(const GroupLine& line) const {
    if (!line.law.empty()) return std::nullopt;
    return std::max(Arithmetic(line), Memory(line));
  }
  const char* BoundBy(const GroupLine& line) const {
    return !line.law.empty() ? "no limit" : Arithmetic(line) >= Memory(line) ? "arithmetic" : "memory";
  }
};

absl::StatusOr<Peaks> FindPeaks(const std::string& machine, Engine& engine) {
  Peaks peaks;
  if (machine.empty()) {
    ASSIGN_OR_RETURN(static_cast<Rates&>(peaks), MeasureRates(*engine.device()));
    peaks.source = "measured: multiply-adds and loads";
    return peaks;
  }
  ASSIGN_OR_RETURN(const RooflineSpec spec, ReadRooflineSpec(machine));
  static_cast<Rates&>(peaks) = RatesOf(spec);
  peaks.source = absl::StrCat("as described: ", spec.name);
  return peaks;
}

Json LineJson(const GroupLine& line, const Peaks* peaks) {
  Json json = {{"operators", line.operators},   {"types", line.types}, {"count", line.count},
               {"cost_ms", line.seconds * 1e3}, {"flops", line.flops}, {"bytes", line.bytes}};
  if (!line.law.empty()) json["law"] = line.law;
  if (peaks != nullptr) {
    json["gflops_per_second"] = line.flops / line.seconds / 1e9;
    json["gbytes_per_second"] = line.bytes / line.seconds / 1e9;
    if (const std::optional<double> bound = peaks->Bound(line)) {
      json["bound"] = peaks->BoundBy(line);
      json["of_roofline"] = *bound / line.seconds;
    }
  }
  return json;
}

void Report(const std::string& model, const std::vector<GroupLine>& lines, const Peaks* peaks, int64_t top,
            Console& console) {
  double total = 0, bound = 0, bounded = 0;
  int groups = 0;
  Json rows = Json::array();
  for (const GroupLine& line : lines) {
    total += line.seconds * line.count;
    groups += line.count;
    if (const std::optional<double> least = peaks == nullptr ? std::nullopt : peaks->Bound(line)) {
      bound += *least * line.count;
      bounded += line.seconds * line.count;
    }
    rows.push_back(LineJson(line, peaks));
  }
  console.Result(
      absl::StrFormat("%s: %d groups, %d different, %.4g ms together", model, groups, lines.size(), total * 1e3));
  if (peaks != nullptr && total > 0) {
    console.Result(absl::StrFormat("  on the roofline %.4g ms, %.1f %% of what was measured%s", bound * 1e3,
                                   100 * bound / bounded,
                                   bounded < total ? " (without what laws compute by other operators)" : ""));
    console.Result(absl::StrFormat("  %5s %9s %9s %9s %-10s %5s  %s", "count", "ms each", "GFLOP/s", "GB/s", "bound by",
                                   "roof", "group"));
  }
  for (size_t i = 0; i < lines.size() && static_cast<int64_t>(i) < top; ++i) {
    const GroupLine& line = lines[i];
    const std::string name = absl::StrCat(line.operators, " ", line.types, line.law.empty() ? "" : " by ", line.law);
    if (peaks == nullptr) {
      console.Result(absl::StrFormat("  %5d %9.4f  %s", line.count, line.seconds * 1e3, name));
    } else {
      const std::optional<double> least = peaks->Bound(line);
      console.Result(absl::StrFormat("  %5d %9.4f %9.1f %9.1f %-10s %5s  %s", line.count, line.seconds * 1e3,
                                     line.flops / line.seconds / 1e9, line.bytes / line.seconds / 1e9,
                                     peaks->BoundBy(line),
                                     least ? absl::StrFormat("%3.0f %%", 100 * *least / line.seconds) : "", name));
    }
  }
  console.json()["models"].push_back(
      {{"model", model}, {"groups", groups}, {"cost_ms", total * 1e3}, {"rows", std::move(rows)}});
}

void PrintPeaks(const Peaks& peaks, Console& console) {
  const double memory_rate = peaks.bytes_per_second() / 1e9;
  const double fastest = peaks.memory.front().bytes_per_second / 1e9;
  console.Result(absl::StrFormat(
      "roofline: %.1f GFLOP/s, %.1f GB/s%s (%s)", peaks.flops_per_second / 1e9, memory_rate,
      fastest > memory_rate ? absl::StrFormat(" from memory, up to %.1f GB/s from caches", fastest) : "",
      peaks.source));
  Json memory = Json::array();
  for (const MemoryRate& rate : peaks.memory) {
    memory.push_back({{"bytes", rate.bytes}, {"bytes_per_second", rate.bytes_per_second}});
  }
  console.json()["roofline"] = {{"flops_per_second", peaks.flops_per_second},
                                {"bytes_per_second", peaks.bytes_per_second()},
                                {"memory", std::move(memory)},
                                {"source", peaks.source}};
}

// A model, or the program of a checkpoint: what groups cost does not depend on the values of weights.
absl::StatusOr<Graph> LoadGraph(const std::string& path, const ProfileFlags& flags, Console& console) {
  if (!absl::EndsWith(path, ".txt")) {
    ASSIGN_OR_RETURN(const ImportedModel model,
                     LoadModel(path, {.dims = flags.dims, .fold_defaults = flags.fold_defaults}, console));
    return model.graph;
  }
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return ErrorAt(path, graph.status());
  return graph;
}

absl::Status ProfileModels(const ProfileFlags& flags, Session& session) {
  Console& console = session.console;
  absl::StatusOr<Engine> engine =
      Engine::Open(flags.device, session.flags.threads, flags.profile, flags.precision, flags.no_rules);
  if (!engine.ok()) return engine.status();
  console.json()["device"] = engine->device()->name();
  console.json()["models"] = Json::array();
  std::optional<Peaks> peaks;
  if (flags.roofline) {
    ASSIGN_OR_RETURN(peaks, FindPeaks(flags.machine, *engine));
  }
  std::vector<std::vector<GroupLine>> models;
  for (const std::string& path : flags.models) {
    ASSIGN_OR_RETURN(const Graph graph, LoadGraph(path, flags, console));
    Progress progress(console, "profile");
    progress.Update(-1, path);
    ASSIGN_OR_RETURN(models.emplace_back(), GroupsOf(*engine->device(), graph));
  }
  if (peaks && flags.machine.empty()) {
    // The clock of a processor changes: the limits are the higher ones of before and after.
    ASSIGN_OR_RETURN(const Peaks after, FindPeaks(flags.machine, *engine));
    peaks->RaiseTo(after);
  }
  if (peaks) PrintPeaks(*peaks, console);
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string name = std::filesystem::path(flags.models[i]).stem().string();
    Report(name, models[i], peaks ? &*peaks : nullptr, flags.top, console);
  }
  return engine->profile_loss();  // the profile is what this verb is for
}

absl::Status Import(const ProfileFlags& flags, Console& console) {
  absl::StatusOr<std::string> text = ReadText(flags.import_file);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<ProfileRecord>> records = ParseProfile(*text, flags.import_file);
  if (!records.ok()) return records.status();
  absl::StatusOr<std::unique_ptr<ProfileDb>> db = ProfileDb::Open(flags.profile);
  if (!db.ok()) return db.status();
  RETURN_IF_ERROR((*db)->PutAll(*records));
  console.Result(absl::StrCat(flags.import_file, ": ", records->size(), " costs read"));
  console.json()["imported"] = records->size();
  return absl::OkStatus();
}

absl::Status Export(const ProfileFlags& flags, Console& console) {
  absl::StatusOr<std::unique_ptr<ProfileDb>> db = ProfileDb::Open(flags.profile);
  if (!db.ok()) return db.status();
  absl::StatusOr<std::vector<ProfileRecord>> records = (*db)->List();
  if (!records.ok()) return records.status();
  RETURN_IF_ERROR(WriteOutput(flags.export_file, PrintProfile(*records)));
  console.Result(absl::StrCat(flags.export_file, ": ", records->size(), " costs written"));
  console.json()["exported"] = records->size();
  return absl::OkStatus();
}

// The cluster that these processes are.
absl::StatusOr<Answer> ProfileCollectives(const ProfileFlags& flags, Communicator& ranks, Session& session) {
  if (ranks.size() == 1) {
    return absl::InvalidArgumentError("--collectives: found one process, expected mpirun -n N rewright profile ..");
  }
  if (ranks.rank() == 0) RETURN_IF_ERROR(CheckOutputs({{"--collectives", flags.collectives}}, {}, session));
  ASSIGN_OR_RETURN(const Engine engine, Engine::Open(flags.device, session.flags.threads, /*profile=*/""));
  ASSIGN_OR_RETURN(const distributed::Cluster cluster,
                   MeasuredCluster(ranks, NumThreads(session.flags.threads), engine.device()));
  if (ranks.rank() != 0) return Answer::kYes;
  const distributed::LinkLevel& link = cluster.levels[0];
  const double device = cluster.device->flops_per_second.at("f32") * cluster.device->efficiency.at("f32");
  session.console.Result(absl::StrFormat("device:   %.1f GFLOP/s of products, %.1f GB/s of memory", device / 1e9,
                                         cluster.device->bytes_per_second / 1e9));
  session.console.Result(absl::StrFormat("message:  %.3g us", link.seconds * 1e6));
  for (const auto& [kind, rates] : link.rates) {
    std::string line = absl::StrFormat("%-15s", kind);
    for (const distributed::MeasuredRate& rate : rates) {
      absl::StrAppend(&line, absl::StrFormat("  %.4g MB: %.3f GB/s", rate.bytes / 1e6, rate.bytes_per_second / 1e9));
    }
    session.console.Result(line);
  }
  RETURN_IF_ERROR(WriteOutput(flags.collectives, distributed::PrintCluster(cluster)));
  return Answer::kYes;
}

absl::StatusOr<Answer> Profile(const ProfileFlags& flags, Session& session) {
  if (flags.profile.empty()) return absl::InvalidArgumentError("--profile: is missing, expected a database");
  if (flags.models.empty() && flags.import_file.empty() && flags.export_file.empty()) {
    return absl::InvalidArgumentError("found nothing to do, expected a model, --import or --export");
  }
  std::vector<std::string> inputs = flags.models;
  inputs.insert(inputs.begin(), flags.import_file);
  absl::Status status = CheckOutputs({{"--profile", flags.profile, OutputFlag::Use::kKeep},
                                      {"--export", flags.export_file, OutputFlag::Use::kReplaceInPlace}},
                                     inputs, session);
  if (status.ok() && !flags.import_file.empty()) status = Import(flags, session.console);
  if (status.ok() && !flags.models.empty()) status = ProfileModels(flags, session);
  if (status.ok() && !flags.export_file.empty()) status = Export(flags, session.console);
  if (!status.ok()) return status;
  return Answer::kYes;
}

}  // namespace

Action DeclareProfile(CommandLine& line) {
  auto flags = std::make_shared<ProfileFlags>();
  line.Add("models", &flags->models, "ONNX files, or the programs of checkpoints (program.txt)").Type("MODEL.onnx");
  line.AddOutputPath("--profile", &flags->profile, "The database").Type("DB");
  AddDevice(line, &flags->device, /*with_reference=*/false);
  AddPrecision(line, &flags->precision);
  AddKernelLaws(line, &flags->no_rules);
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddSwitch("--roofline", &flags->roofline,
                 "What each group reaches of the machine's arithmetic and memory rates");
  line.Add("--machine", &flags->machine, "Those rates, as described (default: measured)").Type("F.json");
  line.AddInt("--top", &flags->top, 0, INT64_MAX, "Groups to show of each model (default 12)");
  line.AddOutputPath("--export", &flags->export_file, "Write all costs of the database as text; - is standard output")
      .Type("F.json");
  line.Add("--import", &flags->import_file, "Put exported costs into the database").Type("F.json");
  line.AddOutputPath("--collectives", &flags->collectives,
                     "Under mpirun -n N: measure this device and the links between the processes, by the messages that "
                     "training sends, and write them as a cluster (docs/simulation.md)")
      .Type("CLUSTER.json");
  return [flags](Session& session) -> absl::StatusOr<Answer> {
    if (flags->collectives.empty()) return Profile(*flags, session);
    Communicator& ranks = ProcessRanks();
    if (ranks.rank() != 0) session.console.Mute();
    return OnProcessRanks("profile", ranks, session.console,
                          [&] { return ProfileCollectives(*flags, ranks, session); });
  };
}

}  // namespace rewright
