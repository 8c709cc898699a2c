// rewright simulate STEP.plan --cluster FILE: the time of a step by the lists of actions of its ranks.

#include "runtime/distributed/simulate.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/plan_text.h"
#include "tools/program/flags.h"
#include "tools/program/outputs.h"
#include "tools/program/verb.h"

namespace rewright {
namespace {

using distributed::AllReduceBy;

const std::map<std::string, AllReduceBy> kWays = {{"direct", AllReduceBy::kDirect},
                                                  {"ring", AllReduceBy::kRing},
                                                  {"tree", AllReduceBy::kTree},
                                                  {"server", AllReduceBy::kParameterServer}};

struct SimulateFlags {
  std::string plan, cluster;
  std::string all_reduce = "direct";
  std::string trace;
};

// The content of a file that `parse` reads; errors name the file.
template <typename Parse>
auto Parsed(const std::string& path, const Parse& parse) -> decltype(parse(std::string())) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  auto parsed = parse(text);
  if (!parsed.ok()) return ErrorAt(path, parsed.status());
  return parsed;
}

void Show(const distributed::Cluster& cluster, const distributed::SimulatedStep& step, Console& console) {
  double exposed = 0;
  for (const distributed::RankSeconds& rank : step.ranks) exposed += rank.exposed;
  exposed /= std::max(step.seconds, 1e-300) * static_cast<double>(step.ranks.size());
  console.Result(absl::StrFormat("step:     %.6g s on %d ranks; %.1f %% bubble, %.1f %% exposed communication",
                                 step.seconds, step.ranks.size(), 100 * step.bubble(), 100 * exposed));
  Json& json = console.json();
  json["seconds"] = step.seconds;
  json["bubble"] = step.bubble();
  json["exposed"] = exposed;
  for (size_t k = 0; k < step.bytes.size(); ++k) {
    console.Result(
        absl::StrFormat("sent:     %.3f MB over %s", static_cast<double>(step.bytes[k]) / 1e6, cluster.levels[k].name));
    json["bytes"][cluster.levels[k].name] = step.bytes[k];
  }
  const auto most = std::max_element(step.peak_bytes.begin(), step.peak_bytes.end());
  console.Result(absl::StrFormat("memory:   %.3f MB of rank %d for its list and its sums",
                                 static_cast<double>(*most) / 1e6, most - step.peak_bytes.begin()));
  json["peak_bytes"] = step.peak_bytes;
}

absl::StatusOr<Answer> Simulate(const SimulateFlags& flags, Session& session) {
  RETURN_IF_ERROR(CheckOutputs({{"--trace", flags.trace}}, {flags.plan, flags.cluster}, session));
  ASSIGN_OR_RETURN(const distributed::Plan plan, Parsed(flags.plan, distributed::ParsePlan));
  ASSIGN_OR_RETURN(const distributed::Cluster cluster, Parsed(flags.cluster, distributed::ParseCluster));
  const auto step = distributed::Simulate(plan, cluster, {.all_reduce = kWays.at(flags.all_reduce)});
  if (!step.ok()) return ErrorAt(flags.plan, step.status());
  Show(cluster, *step, session.console);
  if (!flags.trace.empty()) RETURN_IF_ERROR(WriteOutput(flags.trace, distributed::ChromeTrace(plan, *step)));
  return Answer::kYes;
}

}  // namespace

Action DeclareSimulate(CommandLine& line) {
  auto flags = std::make_shared<SimulateFlags>();
  line.Add("plan", &flags->plan, "The actions of each rank, as rewright train --plan writes them")
      .Required()
      .Type("STEP.plan");
  line.Add("--cluster", &flags->cluster, "The devices and their links (docs/simulation.md)")
      .Required()
      .Type("FILE.json");
  std::vector<std::string> ways;
  for (const auto& [name, way] : kWays) ways.push_back(name);
  line.AddChoice("--all-reduce", &flags->all_reduce, ways, "The way of sums over ranks (default direct, as they run)");
  line.AddOutputPath("--trace", &flags->trace,
                     "Write what every rank does when, for Perfetto and chrome://tracing; - is standard output")
      .Type("F.json");
  return [flags](Session& session) { return Simulate(*flags, session); };
}

}  // namespace rewright
