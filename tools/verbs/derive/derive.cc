// rewright derive --rules SET --goals FILE: which rules of a file follow from a set.

#include "substitutions/egraph/derive.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "search/resources.h"
#include "substitutions/rule_set.h"
#include "substitutions/taso/taso.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

struct DeriveFlags {
  std::vector<std::string> rules;
  std::string goals;
  std::string format = "rewright";
  bool one_way = false;
  bool trust_unverified = false;
  int64_t instances = DeriveOptions().instances;
  int64_t max_nodes = DeriveOptions().limits.max_nodes;
  int64_t max_rounds = DeriveOptions().limits.max_rounds;
};

struct Goal {
  std::string name;
  std::shared_ptr<const CompiledRule> rule;  // null: it is none of ours
  absl::StatusOr<Derivation> outcome = absl::CancelledError("interrupted");
};

absl::StatusOr<std::vector<Goal>> ReadGoals(const DeriveFlags& flags) {
  std::vector<Goal> goals;
  const auto add = [&](const std::string& name, const absl::StatusOr<Rule>& rule) -> absl::Status {
    Goal& goal = goals.emplace_back();
    goal.name = name;
    if (!rule.ok()) {
      goal.outcome = rule.status();
      return absl::OkStatus();
    }
    auto compiled = CompileRule(*rule, RuleUse::kProof);
    if (compiled.ok()) goal.rule = *std::move(compiled);
    return compiled.status();
  };
  if (flags.format == "rewright") {
    const absl::StatusOr<std::vector<Rule>> rules = ReadRules(flags.goals);
    if (!rules.ok()) return rules.status();
    for (const Rule& rule : *rules) {
      RETURN_IF_ERROR(add(rule.name, rule));
    }
    return goals;
  }
  const absl::StatusOr<std::string> data = ReadText(flags.goals);
  if (!data.ok()) return data.status();
  const auto rules = ReadTasoRules(*data, std::filesystem::path(flags.goals).filename().string());
  if (!rules.ok()) return rules.status();
  for (const TasoRule& rule : *rules) {
    RETURN_IF_ERROR(add(rule.name, rule.rule));
  }
  return goals;
}

void DeriveAll(const DeriveFlags& flags, const std::vector<DirectedRule>& rules, Session& session,
               std::vector<Goal>* goals) {
  DeriveOptions options;
  options.instances = static_cast<int>(flags.instances);
  options.limits.max_nodes = static_cast<int>(flags.max_nodes);
  options.limits.max_rounds = static_cast<int>(flags.max_rounds);
  options.limits.stop = [] { return InterruptGuard::flag().load(); };
  options.seed = session.flags.seed;
  Progress progress(session.console, "derive");
  std::atomic<size_t> done{0};
  ForEachIndex(goals->size(), NumThreads(session.flags.threads), [&](size_t i) {
    if (InterruptGuard::flag()) return;
    Goal& goal = (*goals)[i];
    if (goal.rule != nullptr) goal.outcome = Derive(*goal.rule, rules, options);
    progress.Update(static_cast<double>(++done) / static_cast<double>(goals->size()),
                    absl::StrFormat("%d of %d  %s", done.load(), goals->size(), goal.name));
  });
}

const char* EndName(SaturationEnd end) {
  switch (end) {
    case SaturationEnd::kSaturated: return "the rules say no more";
    case SaturationEnd::kDone: return "met";
    case SaturationEnd::kRounds: return "limit of rounds";
    case SaturationEnd::kNodes: return "limit of nodes";
    case SaturationEnd::kMatches: return "limit of matches";
    case SaturationEnd::kStopped: return "interrupted";
  }
  return "";
}

Json Report(const Goal& goal, const std::vector<DirectedRule>& rules, Console& console) {
  Json json = {{"name", goal.name}, {"derived", goal.outcome.ok() && goal.outcome->derived}};
  if (!goal.outcome.ok()) {
    console.Result(absl::StrCat("missing  ", goal.name, ": ", goal.outcome.status().message()));
    json["error"] = std::string(goal.outcome.status().message());
    return json;
  }
  const Derivation& outcome = *goal.outcome;
  json["instances"] = outcome.instances;
  if (!outcome.derived) {
    console.Result(absl::StrFormat("missing  %s (at %s; %s)", goal.name, absl::StripAsciiWhitespace(outcome.missing),
                                   EndName(outcome.end)));
    json["missing_at"] = outcome.missing;
    json["end"] = EndName(outcome.end);
    return json;
  }
  std::vector<std::string> uses;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    if (outcome.uses[rule] > 0) uses.push_back(rules[rule].matcher->rule().name());
  }
  console.Result(absl::StrFormat("derived  %s (%s)", goal.name, Counted(outcome.instances, "instance")));
  console.Detail(absl::StrCat("derived ", goal.name, " with ", absl::StrJoin(uses, ", ")));
  json["rules"] = std::move(uses);
  return json;
}

absl::StatusOr<Answer> Derive(const DeriveFlags& flags, Session& session) {
  Console& console = session.console;
  LoadOptions load;
  load.trust_unverified = flags.trust_unverified;
  load.allow_risky = load.allow_finite_only = true;  // laws of real numbers all the same
  const absl::StatusOr<RuleSet> set = RuleSet::FromFiles(flags.rules, load);
  if (!set.ok()) return set.status();
  absl::StatusOr<std::vector<Goal>> goals = ReadGoals(flags);
  if (!goals.ok()) return goals.status();
  const std::vector<DirectedRule> rules = DirectedRules(set->matchers(), !flags.one_way);
  const double cpu_before = ProcessCpuSeconds();
  const InterruptGuard interrupt;
  DeriveAll(flags, rules, session, &*goals);

  Json list = Json::array(), missing = Json::array();
  for (const Goal& goal : *goals) {
    list.push_back(Report(goal, rules, console));
    if (!list.back()["derived"]) missing.push_back(goal.name);
  }
  const size_t derived = goals->size() - missing.size();
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  console.Result(absl::StrFormat("%d of %s derived from %s%s; %.1f s of CPU time", derived,
                                 Counted(goals->size(), "goal"), Counted(set->matchers().size(), "rule"),
                                 flags.one_way ? " read from left to right" : "", cpu_seconds));
  Json& json = console.json();
  json["goals"] = goals->size();
  json["derived"] = derived;
  json["missing"] = std::move(missing);
  json["rules"] = set->matchers().size();
  json["derivations"] = std::move(list);
  json["cpu_seconds"] = cpu_seconds;
  json["peak_rss_bytes"] = PeakResidentBytes();
  return derived == goals->size() ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareDerive(CommandLine& line) {
  auto flags = std::make_shared<DeriveFlags>();
  RuleFiles(line.Add("--rules", &flags->rules, "The set (repeatable)")).Required().Type("FILE.rules");
  line.Add("--goals", &flags->goals, "The rules in question; they need no proofs").Required().Type("FILE.rules");
  line.AddChoice("--format", &flags->format, {"rewright", "taso"}, "Of the goals; taso: a protobuf rule file of TASO");
  line.AddSwitch("--one-way", &flags->one_way,
                 "Read the rules of the set from left to right alone (default: as equations, under their conditions)");
  line.AddInt(
      "--instances", &flags->instances, 1, 1000,
      absl::StrCat("Structures and sizes at which the sides of a goal must meet (default ", flags->instances, ")"));
  line.AddInt("--max-nodes", &flags->max_nodes, 1, 100000000,
              absl::StrCat("E-nodes for one instance (default ", flags->max_nodes, ")"));
  line.AddInt("--max-rounds", &flags->max_rounds, 0, 1000000,
              absl::StrCat("Times that all rules are applied to one instance (default ", flags->max_rounds, ")"));
  line.AddSwitch("--trust-unverified", &flags->trust_unverified,
                 "Also take rules of the set whose proof is missing or stale");
  return [flags](Session& session) { return Derive(*flags, session); };
}

}  // namespace rewright
