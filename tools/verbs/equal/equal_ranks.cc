#include "tools/verbs/equal/equal_ranks.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "search/resources.h"
#include "substitutions/language/rule_printer.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/verbs/equal/plan_file.h"
#include "verifier/ranks/equal_ranks.h"

namespace rewright {
namespace {

std::string MeshText(const RankPlan& plan) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : plan.mesh) axes.push_back(absl::StrCat(axis.name, "=", axis.size));
  return absl::StrJoin(axes, ", ");
}

std::string DifferenceText(const RankDifference& difference) {
  std::string text = difference.output;
  if (!difference.at.empty() || difference.disagree.empty()) {
    absl::StrAppendFormat(&text, "[%s] is %.6g on one device and %.6g on the ranks", absl::StrJoin(difference.at, ","),
                          difference.whole, difference.ranks);
  }
  if (difference.factor != 0) absl::StrAppendFormat(&text, "; all of it is %.6g times as large", difference.factor);
  if (!difference.disagree.empty()) {
    absl::StrAppend(&text, "; differs between ranks that should have the same: ", difference.disagree);
  }
  return text;
}

void Report(const EqualRanksResult& result, Console& console) {
  if (result.equality == Equality::kProved) {
    console.Result(absl::StrFormat(
        "claims:    %d statements about %d values, by %s, %d of them for any number of ranks", result.statements,
        result.values, Counted(result.claims.size(), "claim"), result.at_any_size));
    for (const std::string& assumed : result.assumed) console.Result("where:     " + assumed);
  }
  for (const RankDifference& difference : result.differences) {
    console.Result("output:    " + DifferenceText(difference));
  }
  if (result.fault) {
    console.Result("fault:     " + result.fault->text);
    if (!result.fault->collective.empty()) {
      console.Result(absl::StrCat("at fault:  ", result.fault->collective, " (", result.fault->ranks, ")"));
    }
  }
  if (result.equality == Equality::kOpen && !result.fault) {
    console.Result(absl::StrCat("left:      ", absl::StrJoin(result.open, ", ")));
  }
}

Json ToJson(const EqualRanksResult& result) {
  Json json = {{"answer", EqualityName(result.equality)}, {"values", result.values},
               {"statements", result.statements},         {"immediate", result.immediate},
               {"claims", result.claims.size()},          {"at_any_size", result.at_any_size},
               {"assumed", result.assumed},               {"open", result.open},
               {"time_out", result.time_out}};
  Json differences = Json::array();
  for (const RankDifference& one : result.differences) {
    differences.push_back({{"output", one.output}, {"at", one.at}, {"factor", one.factor}, {"disagree", one.disagree}});
  }
  json["differences"] = std::move(differences);
  if (result.fault) {
    const RankFault& fault = *result.fault;
    json["fault"] = {
        {"node", fault.node}, {"collective", fault.collective}, {"ranks", fault.ranks}, {"text", fault.text}};
  }
  return json;
}

}  // namespace

absl::StatusOr<Answer> EqualRanks(const RanksFlags& flags, Session& session) {
  Console& console = session.console;
  ASSIGN_OR_RETURN(const ImportedModel model, LoadModel(flags.model, {}, console));
  ASSIGN_OR_RETURN(const RankPlan plan, LoadRankPlan(flags.plan, console));
  const InterruptGuard interrupt;
  EqualRanksOptions options{.time_limit_s = flags.time_limit,
                            .claim_limit_s = flags.claim_limit,
                            .seed = session.flags.seed,
                            .threads = NumThreads(session.flags.threads),
                            .stop = &InterruptGuard::flag()};
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const EqualRanksResult result, ProveRanks(model.graph, plan, options));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  console.Result(absl::StrFormat("%s  %s and %d ranks of %s (%s)%s (%.1f s)", EqualityName(result.equality),
                                 flags.model, plan.num_ranks(), flags.plan, MeshText(plan),
                                 result.equality == Equality::kProved ? ", over the real numbers" : "", seconds));
  Report(result, console);
  if (result.time_out) {
    console.Warning(absl::StrFormat("the time limit of %g s ended the search for a proof", flags.time_limit));
  }
  console.json() = ToJson(result);
  console.json()["seconds"] = seconds;
  console.json()["peak_rss_bytes"] = PeakResidentBytes();
  if (!flags.output.empty()) {
    RETURN_IF_ERROR(MakeFolder(flags.output));
    const std::filesystem::path folder = flags.output;
    RETURN_IF_ERROR(WriteText((folder / "claims.rules").string(), PrintRules({}, result.claims)));
    if (!result.undecided.empty()) {
      RETURN_IF_ERROR(WriteText((folder / "open.rules").string(), PrintRules({}, result.undecided)));
    }
  }
  return result.equality == Equality::kProved ? Answer::kYes : Answer::kNo;
}

}  // namespace rewright
