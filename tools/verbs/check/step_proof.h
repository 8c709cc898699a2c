// Proofs that ranks compute what one device computes: made for a run or a cut model, and checked.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/distributed/proof/step_proof_text.h"
#include "substitutions/language/rule.h"
#include "tools/program/verb.h"

namespace rewright {

// Seconds of work for the proof of one law.
inline constexpr double kLawSeconds = 10;

// Proves a claim; the laws by which graphs are cut are proved anew and put into it. Error: it is not proved, with the
// rank, the action and the tensor.
absl::StatusOr<distributed::StepVerdict> ProveAnew(distributed::ProofText* proof, double law_seconds);

// Proves the claim, writes it to the file where that is not empty, and shows so.
absl::Status WriteStepProof(distributed::ProofText proof, double law_seconds, const std::string& path,
                            Console& console);

// True if the file is such a proof and no folder of certificates.
bool IsStepProof(const std::string& path);
// `rewright check F.proof`: the claim is proved once more, by the laws that it names and no others; `laws` receives
// these.
absl::StatusOr<Answer> CheckStepProof(const std::string& path, double law_seconds, Session& session,
                                      std::map<std::string, Rule>* laws);

}  // namespace rewright
