// A climb on the elements of leaves toward a bit, a value, an error or a loss that a class denies.
#pragma once

#include <cstdint>
#include <string>

#include "bench/proofs/attacked_sides.h"

namespace rewright::attack {

enum class Goal : uint8_t { kBits, kRange, kError, kSpecial };
constexpr const char* kGoalNames[] = {"bits", "range", "error", "special"};

struct Seen {
  double score = 0;  // what a climb raises
  bool denied = false;
  std::string what;
};

struct Climb {
  Seen best;
  int64_t evaluations = 0;  // of an element of an output, by both sides
  bool partial = false;     // an operator overflowed inside, which counts as no denial
};
Climb ClimbToward(Goal goal, const Sides& sides, Rng& rng);

}  // namespace rewright::attack
