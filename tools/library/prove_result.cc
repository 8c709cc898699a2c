#include "tools/library/prove_result.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/counted.h"
#include "substitutions/rule_set.h"
#include "verifier/equal/equal_by_claims.h"

namespace rewright {
namespace {

// The equalities that the steps of the search claim.
std::vector<EqualityClaim> ClaimsOf(const OptimizeReport& report) {
  std::vector<EqualityClaim> claims;
  for (int step : report.path) claims.push_back(report.search.trace[step].replacement);
  return claims;
}

// The rules that the steps name.
std::vector<std::shared_ptr<const Matcher>> RulesOfPath(const OptimizeReport& report, const RuleIndex& rules) {
  std::set<std::string> names;
  for (int step : report.path) {
    for (absl::string_view name : absl::StrSplit(report.search.trace[step].rule, kRuleSeparator)) names.emplace(name);
  }
  std::vector<std::shared_ptr<const Matcher>> named;
  for (const auto& matcher : rules.matchers()) {
    if (names.contains(matcher->rule().name())) named.push_back(matcher);
  }
  return named;
}

// ", by rules of my.rules": the files of rules that do not come with the program.
std::string OwnFiles(const std::vector<std::shared_ptr<const Matcher>>& rules) {
  std::set<std::string> own;
  for (const auto& matcher : rules) {
    const std::string& path = matcher->rule().rule().file;
    const std::string name = std::filesystem::path(path).filename();
    const absl::StatusOr<std::string> shipped = FindRuleFile(name);
    std::error_code unknown;
    const bool is_shipped = shipped.ok() && std::filesystem::equivalent(path, *shipped, unknown);
    if (!is_shipped && name != "baseline.rules") own.insert(name);
  }
  return own.empty() ? "" : ", by rules of " + absl::StrJoin(own, ", ");
}

std::string TextOf(const EqualResult& result, const std::string& own_files, double time_limit_s, StopFlag stop) {
  if (result.equality == Equality::kProved) {
    const size_t regions = result.regions.size() + static_cast<size_t>(result.regions_by_rules);
    return absl::StrCat("proved equal as a whole (", Counted(regions, "region"), own_files, ")");
  }
  if (IsStopped(stop)) return "open: interrupted";
  if (result.time_out) return absl::StrFormat("open: not settled within %g s", time_limit_s);
  if (result.open.empty()) return "open: the steps of the search do not lead to the result";
  const OpenRegion& open = result.open[0];
  return absl::StrCat("open: ", open.a, " of the original and ", open.b, " of the result, ",
                      Counted(static_cast<size_t>(open.applications), "application"));
}

}  // namespace

ResultProof ProveResult(const Graph& original, const OptimizeReport& report, const RuleIndex& rules,
                        double time_limit_s, StopFlag stop) {
  ResultProof proof;
  const absl::Time start = absl::Now();
  EqualOptions options;
  const std::vector<std::shared_ptr<const Matcher>> used = RulesOfPath(report, rules);
  options.rules = RulesForEqual(used);
  options.time_limit_s = time_limit_s;
  options.folded_weights = false;  // they are folded when the result is written
  options.stop = stop;
  absl::StatusOr<EqualResult> result = ProveByClaims(original, report.graph, ClaimsOf(report), options);
  proof.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (!result.ok()) {
    proof.text = absl::StrCat("open: ", result.status().message());
    return proof;
  }
  proof.result = *std::move(result);
  proof.proved = proof.result.equality == Equality::kProved;
  proof.text = TextOf(proof.result, OwnFiles(used), time_limit_s, stop);
  return proof;
}

}  // namespace rewright
