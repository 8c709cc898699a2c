// A limit of wall-clock time for Z3. Private to the sources that see z3++.h.
#pragma once

#include <z3++.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace rewright::verifier {

// Interrupts Z3 when a check runs past a wall-clock limit: non-linear arithmetic does not always count its resources.
class Watchdog {
 public:
  Watchdog(z3::context& z3, double seconds)
      : thread_([this, &z3, seconds] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (!wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; })) z3.interrupt();
        }) {}
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
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace rewright::verifier
