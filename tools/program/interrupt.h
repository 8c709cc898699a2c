// Ctrl-C: the first one asks the work to end cleanly with what it has, the second one kills.
#pragma once

#include <atomic>

namespace rewright {

// While one exists, SIGINT and SIGTERM set flag(); a second signal has its usual effect. From then on a pipe without a
// reader is an error where it is written, and no end of the program: a launcher that is interrupted closes those of its
// processes at once. Behind the outermost one, when results are written, both are ignored; one inside another changes
// nothing. Made and destroyed by the main thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static const std::atomic<bool>& flag();
  static bool interrupted() { return flag().load(std::memory_order_relaxed); }
};

}  // namespace rewright
