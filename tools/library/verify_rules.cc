#include "core/base/stop.h"
#include "substitutions/language/rule.h"
#include "substitutions/language/rule_parser.h"
#include "tools/library/border.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

RuleJudgement Judged(const Rule& rule, double time_limit_seconds, StopFlag stop) {
  RuleProofOptions options;
  options.stop = stop;
  options.work_limit_s = time_limit_seconds;
  options.use = RuleUse::kProof;
  const RuleVerdict verdict = ProveRule(rule, options);
  RuleJudgement judgement{rule.name, VerdictName(verdict.verdict), "", verdict.domain};
  if (verdict.verdict == Verdict::kProved) judgement.rule_class = RuleClassName(verdict.rule_class);
  if (verdict.verdict == Verdict::kUnknown) judgement.explanation = verdict.reason;
  if (verdict.verdict == Verdict::kRefuted) judgement.explanation = verdict.witness;
  return judgement;
}

}  // namespace

std::vector<RuleJudgement> VerifyRules(const std::string& text, double time_limit_seconds, StopFlag stop) {
  return Call([&] {
    if (!(time_limit_seconds > 0)) Throw(absl::InvalidArgumentError("the time limit must be above zero"));
    const std::vector<ParsedRule> parsed = ParseEachRule(text, "text");
    // Where it does not begin with a rule, the reader of whole texts says what is wrong.
    if (parsed.empty()) Take(ParseRules(text, "text").status());
    std::vector<RuleJudgement> judgements;
    for (const ParsedRule& one : parsed) {
      ThrowIfStopped(stop);
      if (one.rule.ok()) {
        judgements.push_back(Judged(*one.rule, time_limit_seconds, stop));
      } else {
        judgements.push_back({one.name, VerdictName(Verdict::kUnknown), "", std::string(one.rule.status().message())});
      }
    }
    ThrowIfStopped(stop);
    return judgements;
  });
}

}  // namespace rewright
