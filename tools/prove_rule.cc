#include "tools/prove_rule.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/compiled_rule.h"
#include "substitutions/instances.h"
#include "substitutions/rule_printer.h"
#include "tools/classify_rule.h"

namespace rewright {
namespace {

// Ends the enumeration early; the verdict says why.
absl::Status Enough() { return absl::CancelledError("enough"); }

// Proves one instance after the other until the verdict is known or the time is up.
class RuleProof {
 public:
  explicit RuleProof(const RuleProofOptions& options) : options_(options), classifier_(options.seed) {}

  absl::Status Visit(const RuleInstance& instance) {
    const double left_s = options_.time_limit_s - verdict_.cpu_ms / 1000;
    if (options_.stop != nullptr && *options_.stop) return GiveUp("interrupted");
    if (left_s <= 0) return GiveUp(absl::StrCat("time limit of ", options_.time_limit_s, " s"));
    ProofOptions proof_options;
    proof_options.time_limit_s = std::min(left_s, options_.instance_limit_s);
    proof_options.seed = options_.seed;
    const ProofResult proof = Prove(instance, proof_options);
    verdict_.cpu_ms += proof.cpu_ms;
    if (proof.verdict == Verdict::kProved) {
      ++verdict_.instances;
      classifier_.Add(instance, proof);
      return absl::OkStatus();
    }
    // A rule with an unproved instance is not proved, but it may still be refuted at another.
    const std::string where = instance.description.empty() ? "" : absl::StrCat(" at ", instance.description);
    if (proof.verdict == Verdict::kUnknown) {
      if (unknown_reason_.empty()) unknown_reason_ = absl::StrCat(proof.reason, where);
      return absl::OkStatus();
    }
    verdict_.verdict = Verdict::kRefuted;
    verdict_.reason = absl::StrCat(proof.reason, where);
    if (proof.counterexample) verdict_.witness = proof.counterexample->ToString();
    return Enough();
  }

  // `status` is what ForEachInstance ended with.
  RuleVerdict Finish(const absl::Status& status) {
    if (verdict_.verdict == Verdict::kRefuted) return verdict_;
    if (!status.ok() && unknown_reason_.empty()) unknown_reason_ = std::string(status.message());
    verdict_.reason = unknown_reason_;
    if (!unknown_reason_.empty() || verdict_.instances == 0) return verdict_;
    verdict_.verdict = Verdict::kProved;
    verdict_.rule_class = classifier_.Class();
    return verdict_;
  }

  void set_limits(const DomainLimits& limits) { verdict_.limits = limits; }

 private:
  absl::Status GiveUp(const std::string& reason) {
    if (unknown_reason_.empty()) unknown_reason_ = reason;
    return Enough();
  }

  const RuleProofOptions& options_;
  RuleClassifier classifier_;
  RuleVerdict verdict_;
  std::string unknown_reason_;
};

}  // namespace

RuleVerdict ProveRule(const Rule& rule, const RuleProofOptions& options) {
  RuleProof proof(options);
  proof.set_limits(options.limits);
  absl::Status status;
  absl::StatusOr<std::shared_ptr<const CompiledRule>> compiled = CompileRule(rule);
  if (compiled.ok()) {
    status = ForEachInstance(**compiled, options.limits,
                             [&](const RuleInstance& instance) { return proof.Visit(instance); });
  } else {
    status = compiled.status();
  }
  RuleVerdict verdict = proof.Finish(status);
  verdict.domain = absl::StrCat("every size; ranks to ", options.limits.max_rank, ", permutations to ",
                                options.limits.max_perm_rank, ", broadcasts to ", options.limits.max_broadcast_rank,
                                "; ", verdict.instances, verdict.instances == 1 ? " instance" : " instances");
  return verdict;
}

ProofRecord RecordOf(const Rule& rule, const RuleVerdict& verdict) {
  (void)rule;
  ProofRecord record;
  record.rule_class = verdict.rule_class;
  record.domain = verdict.limits;
  record.instances = verdict.instances;
  return record;
}

std::string ConditionsText(const Rule& rule) {
  return absl::StrJoin(rule.conditions, " and ",
                       [](std::string* out, const ArgExpr& condition) { out->append(PrintArg(condition)); });
}

}  // namespace rewright
