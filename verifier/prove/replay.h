// The attempts of a proof, and the replay of one of them, by which a certificate is checked.
//
// A replay does not search. Prove() (prove_instance.h) tries one attempt after the other, looks for counterexamples,
// and gives up in time. A certificate names the attempt. ReplayProof() goes through it with the recorded queries for a
// solver, and tells every step to the checker.
#pragma once

#include <functional>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {
namespace verifier {

// From cheap to thorough. Certificates have their numbers.
std::vector<Strategy> Strategies();

// Moves what the session has recorded into the result.
void TakeSession(ProofSession* session, ProofResult* result);

}  // namespace verifier

// Follows the one attempt `strategy` without any solver: `known_unsat` says which queries are unsatisfiable. Proved
// when those suffice; steps and queries are then the ones that the attempt needs, in order. The result depends neither
// on time nor on chance. `observer` receives every step.
ProofResult ReplayProof(const RuleInstance& instance, int strategy,
                        const std::function<bool(const SmtQuery&)>& known_unsat,
                        verifier::ProofObserver* observer = nullptr);

}  // namespace rewright
