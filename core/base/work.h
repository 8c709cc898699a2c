// Work of the prover, counted in steps. Limits of proofs are limits of work: a verdict is then the same on every
// machine, however fast it is and whatever else it does.
//
// A step is a resource unit of Z3, or a piece of the prover's own work that takes about as long: a monomial that is
// made, an element that is computed. Limits are given in seconds of work, of kStepsPerSecond steps each.
#pragma once

#include <cstdint>
#include <limits>

namespace rewright::verifier {

constexpr double kStepsPerSecond = 1.6e7;  // near those of a second of CPU time (2024)

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

namespace internal {
inline thread_local int64_t steps_of_thread = 0;
}  // namespace internal

inline void CountSteps(int64_t steps) { internal::steps_of_thread += steps; }

// Work that the calling thread has done since it began.
inline int64_t ThreadSteps() { return internal::steps_of_thread; }
inline double ThreadWorkSeconds() { return static_cast<double>(internal::steps_of_thread) / kStepsPerSecond; }

}  // namespace rewright::verifier
