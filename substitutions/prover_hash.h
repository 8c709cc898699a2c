// Which prover this is.
#pragma once

#include <cstdint>

namespace rewright {

// One number for the tokens of all sources on which verdicts depend (verifier/verdict_sources.cmake): the same in every
// build of the same sources, another one when any of them says something else. Comments and layout do not count.
uint64_t ProverHash();

}  // namespace rewright
