// Samples of a time, on a machine that others use as well.
//
// On shared machines the threads of a computation at times run at half their speed for a tenth of a second or more:
// another process takes a core, or a host puts two virtual processors on one physical core. A measurement that falls
// into such a time is worth nothing, and its repetitions agree with one another, so that their spread does not show it.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/measure/profile_db.h"

namespace rewright {

// Detects that other programs slow this machine right now.
class NoiseProbe {
 public:
  // Finds out how fast the machine is when it is left alone; takes about 0.2 s.
  explicit NoiseProbe(int threads);

  // Runs a fixed piece of arithmetic (about 30 us) on all threads; true when it took about its least time so far.
  bool Quiet();

  // Seconds that the next measurement should wait for quiet at most: half as long after each wait in vain, so that a
  // machine that is busy all the time is not waited for again and again.
  double longest_wait() const { return longest_wait_; }
  void Waited(bool in_vain);

 private:
  double Seconds() const;

  int threads_;
  double least_ = 0;  // seconds
  double longest_wait_;
};

struct SampleLimits {
  size_t least = 5;
  size_t most = 60;
  double enough = std::numeric_limits<double>::infinity();  // seconds; who takes longer need not be known well
  bool wait_for_quiet =
      true;  // a sample counts that was taken between two signs of a quiet machine, unless it never is
};

// The entry for sorted samples of `repetitions` runs each.
ProfileEntry EntryOf(const std::vector<double>& samples, int64_t repetitions);

// Takes samples until the three fastest agree or take more than enough, or the limits or a tenth of a second are
// reached. `sample` gives the seconds of one of `repetitions` runs. Errors: those of `sample`.
absl::StatusOr<ProfileEntry> TakeSamples(const std::function<absl::StatusOr<double>()>& sample, int repetitions,
                                         const SampleLimits& limits, NoiseProbe& probe);

}  // namespace rewright
