// How long graphs are timed: all constants that decide it (docs/models.md, "How long candidates are timed").
#pragma once

#include <chrono>
#include <cstddef>

namespace rewright::timing {

// A comparison runs two graphs in turn (interleaved.h): first to warm up, then in pairs.
inline constexpr int kWarmupRuns = 3;
inline constexpr double kWarmupSeconds = 0.2;  // behind which no more runs are needed
inline constexpr int kPairs = 30;
inline constexpr int kMostTimesPairs = 10;       // of the pairs that were asked for, where `seconds` asks for more
inline constexpr double kLeastSeconds = 0.2;     // of pairs, before a limit ends them
inline constexpr size_t kFewPairs = 8;           // of which a faster candidate wins more than half
inline constexpr double kGainThatCounts = 1.05;  // a candidate is called no faster only if such a gain is excluded

// A search that was interrupted compares shortly: seven wins out of seven are enough for the sign test of three
// candidates and the baseline.
inline constexpr int kInterruptedWarmupRuns = 1, kInterruptedPairs = 7;

// A training step may take seconds; few pairs are enough for the sign test where a candidate wins all of them.
inline constexpr int kStepWarmupRuns = 1, kStepPairs = 9;
inline constexpr double kStepSeconds = 1;

// --time-limit of `optimize`: shares of the time that is left.
inline constexpr double kGraphShare = 0.75;    // for finding a graph; the rest is for its file and the proof
inline constexpr double kBaselineShare = 0.4;  // before the search: the most for timing the baseline's graph
inline constexpr double kSearchShare = 0.6;    // the most for the search
inline constexpr double kTimingShare = 0.5;    // behind it: the most for timing candidates

// Candidates that an earlier run has timed (measurement_cache.h).
inline constexpr double kTimesAsLong = 4;        // undecided: again, if there is so many times its pairs' time
inline constexpr double kConfirmingSeconds = 1;  // faster: so long, in at least kFewestPairs pairs
inline constexpr double kFewestPairs = 3;

// Other runtimes. The overhead of nodes is small there, and shows only in many pairs.
inline constexpr double kFilePairSeconds = 0.5;       // for the pairs of a candidate
inline constexpr double kFileSeconds = 1;             // for the pairs of the written file
inline constexpr double kFileSecondsAgain = 1.5;      // a run that an earlier one has made short loads no longer
inline constexpr double kLoadedBytesPerSecond = 2e8;  // a session holds the weights of its file, and packs them again

// Turns of `compare`. Threads of a contestant that wait actively for more work do so for a while after its run, and a
// GPU that rests between single runs of a small model lowers its clocks.
inline constexpr auto kPause = std::chrono::milliseconds(3);
inline constexpr double kTurnSeconds = 0.02;  // of runs, at least one

// The probe for a quiet machine (backends/common/noise_probe.h), and the samples that it lets through.
inline constexpr double kCalibrationSeconds = 0.2;
inline constexpr double kQuietTolerance = 1.15;  // times the least time
inline constexpr double kMostWaitSeconds = 0.25, kLeastWaitSeconds = 0.002;
inline constexpr double kSampleAgreement = 1.03;
inline constexpr double kSampleSeconds = 0.1;  // the most for samples

}  // namespace rewright::timing
