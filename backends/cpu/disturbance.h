// Whether something else slows this machine right now.
//
// On shared machines the threads of a computation at times run at half their speed for a tenth of a second or more:
// another process takes a core, or a host puts two virtual processors on one physical core. A measurement that falls
// into such a time is worth nothing, and its repetitions agree with one another, so that their spread does not show it.
#pragma once

#include <vector>

namespace rewright::cpu {

class DisturbanceProbe {
 public:
  // Finds out how fast the machine is when it is left alone; takes about 0.2 s.
  explicit DisturbanceProbe(int threads);

  // Runs a fixed piece of arithmetic (about 30 us) on all threads; true when it took about its least time so far.
  bool Quiet();

  // Seconds that the next measurement should wait for quiet at most: half as long after each wait in vain, so that a
  // machine that is busy all the time is not waited for again and again.
  double patience() const { return patience_; }
  void Waited(bool in_vain);

 private:
  double Seconds() const;

  int threads_;
  double least_ = 0;  // seconds
  double patience_;
};

}  // namespace rewright::cpu
