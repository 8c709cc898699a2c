#include "verifier/certify.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "substitutions/instance/instances.h"
#include "verifier/certificate/step_writer.h"
#include "verifier/prove/replay.h"

namespace rewright {

absl::StatusOr<InstanceCertificate> Certify(const RuleInstance& instance, const ProofResult& proof) {
  std::set<std::string> settled;
  for (const SmtQuery& query : proof.smtlib) settled.insert(query.text);
  StepWriter told;
  const ProofResult again = ReplayProof(
      instance, proof.strategy, [&](const SmtQuery& query) { return settled.count(query.text) > 0; }, &told);
  if (again.verdict != Verdict::kProved) {
    return absl::InternalError(absl::StrCat("the proof does not come out again from its queries: ", again.reason));
  }
  return InstanceCertificate{
      PrintInstance(instance), again.strategy, again.used_finite_only_step, again.steps, again.smtlib, told.Take()};
}

}  // namespace rewright
