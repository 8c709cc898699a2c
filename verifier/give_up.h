// The one exception inside the verifier: a proof attempt that cannot go on (time limit, an integer that outgrows 64
// bits, an expression outside the fragment). It is thrown from deep inside the algebra and caught in Prove, which
// answers `unknown`; it never leaves this folder.
#pragma once

#include <string>
#include <utility>

namespace rewright::verifier {

struct GiveUp {
  explicit GiveUp(std::string why) : reason(std::move(why)) {}
  std::string reason;
};

}  // namespace rewright::verifier
