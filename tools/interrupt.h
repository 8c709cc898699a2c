// Ctrl-C: the first one asks the work to end cleanly with what it has, the second one kills.
#pragma once

#include <atomic>

namespace rewright {

// While one exists, SIGINT and SIGTERM set flag(); a second signal has its usual effect. Behind it, when results are
// written, both are ignored. One at a time.
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
