// The exception with which a proof attempt gives up (its limit of work, an integer that outgrows 64 bits, an expression
// outside the fragment). The algebra and the checker's readers throw it; Prove, ReplayProof, StepReader and ProofCheck
// catch it, and answer `unknown` or refuse.
#pragma once

#include <string>
#include <utility>

namespace rewright::verifier {

// The reason where a proof has done all the work that it may do.
inline constexpr const char* kAtLimit = "limit of work";

struct GiveUp {
  explicit GiveUp(std::string why) : reason(std::move(why)) {}
  std::string reason;
};

}  // namespace rewright::verifier
