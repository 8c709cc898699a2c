// The attempts of a proof, and one of them followed again: what remains of a proof where its certificate is checked.
//
// Nothing here searches. Prove() (verifier.h) tries one attempt after the other, looks for counterexamples, and gives
// up in time; a certificate names the attempt, and ReplayProof() goes through it with the recorded queries for a
// solver, telling every step to whoever checks them.
#pragma once

#include <vector>

#include "verifier/context.h"
#include "verifier/verifier.h"

namespace rewright::verifier {

// From cheap to thorough. Certificates have their numbers.
std::vector<Strategy> Strategies();

// Moves the session's record into the result.
void TakeRecord(ProofSession* record, ProofResult* result);

}  // namespace rewright::verifier
