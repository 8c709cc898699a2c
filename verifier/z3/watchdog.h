// Limits of Z3's solvers, in resource units and on the clock, and the units that were used. Private to the sources that
// see z3++.h.
#pragma once

#include <z3++.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/stop.h"

namespace rewright::verifier {

// Seconds on the clock after which a check is taken to hang: non-linear arithmetic does not always count its resources.
// A check that counts them ends far below on any machine, so that no answer depends on its speed.
constexpr double kHangSeconds = 60;

// Interrupts Z3 when a check runs past `seconds` on the clock, or when the thread that made the dog is asked to stop.
class Watchdog {
 public:
  Watchdog(z3::context& z3, double seconds)
      : thread_([this, &z3, seconds, scope = StopScope::Current()] {
          const absl::Time end = absl::Now() + absl::Seconds(seconds);
          std::unique_lock<std::mutex> lock(mutex_);
          while (!wake_.wait_for(lock, kLook, [this] { return done_; })) {
            if (absl::Now() < end && !StopScope::IsStopped(scope)) continue;
            fired_ = true;
            z3.interrupt();
            return;
          }
        }) {}
  bool fired() const { return fired_; }
  ~Watchdog() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static constexpr std::chrono::milliseconds kLook{50};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::atomic<bool> fired_ = false;
  std::thread thread_;
};

// Parameters for a solver of at most `units` resource units. SIGINT is left to the program: by default a check installs
// a handler of its own in place of the program's, from any thread, and a signal that comes then is lost.
inline z3::params SolverParameters(z3::context& z3, unsigned units) {
  z3::params params(z3);
  params.set("rlimit", units);
  params.set("ctrl_c", false);
  return params;
}

// The resource units that the context of this solver has used since it was made.
inline int64_t UnitsUsed(const z3::solver& solver) {
  const z3::stats statistics = solver.statistics();
  for (unsigned i = 0; i < statistics.size(); ++i) {
    if (statistics.key(i) == "rlimit count") return statistics.uint_value(i);
  }
  return 0;
}

}  // namespace rewright::verifier
