// The attempts of a proof, and the replay of one of them, by which a certificate is checked.
//
// A replay does not search. Prove() (prove_instance.h) tries one attempt after the other, looks for counterexamples,
// and gives up in time. A certificate names the attempt. ReplayProof() goes through it with the recorded queries for a
// solver, and tells every step to the checker.
#pragma once

#include <vector>

#include "verifier/integer/context.h"
#include "verifier/prove/prove_instance.h"

namespace rewright::verifier {

// From cheap to thorough. Certificates have their numbers.
std::vector<Strategy> Strategies();

// Moves the session's record into the result.
void TakeRecord(ProofSession* record, ProofResult* result);

}  // namespace rewright::verifier
