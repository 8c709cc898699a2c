// Requests to end long work early.
#pragma once

#include <atomic>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rewright {

// A flag that another thread or a handler of signals sets. Null: nothing ends the work.
using StopFlag = const std::atomic<bool>*;

inline bool IsStopped(StopFlag stop) { return stop != nullptr && *stop; }

// While one exists, the work of this thread, and of threads that OnThreads starts for it, ends early once the flag is
// set, the time on the clock has come, or a function says so: reading, compiling and runs give a CancelledError, proofs
// stay open. A scope inside another adds to it.
class StopScope {
 public:
  explicit StopScope(StopFlag flag, absl::Time deadline = absl::InfiniteFuture())
      : flag_(flag), deadline_(deadline), outer_(current_) {
    current_ = this;
  }
  // The function is asked by any of these threads, and outlives the scope.
  explicit StopScope(const std::function<bool()>& stopped)
      : flag_(nullptr), deadline_(absl::InfiniteFuture()), stopped_(&stopped), outer_(current_) {
    current_ = this;
  }
  ~StopScope() { current_ = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  static const StopScope* Current() { return current_; }
  // True if the scope, or one around it, asks to stop. Another thread may ask.
  static bool IsStopped(const StopScope* scope) {
    for (; scope != nullptr; scope = scope->outer_) {
      if (rewright::IsStopped(scope->flag_)) return true;
      if (scope->deadline_ != absl::InfiniteFuture() && absl::Now() >= scope->deadline_) return true;
      if (scope->stopped_ != nullptr && (*scope->stopped_)()) return true;
    }
    return false;
  }
  static bool Stopped() { return IsStopped(current_); }
  // Error: the work of this thread is to end.
  static absl::Status Check() { return Stopped() ? absl::CancelledError("interrupted") : absl::OkStatus(); }

  // Puts a thread into the scope of another one, which waits for it.
  class Joined {
   public:
    explicit Joined(const StopScope* scope) : outer_(current_) { current_ = scope; }
    ~Joined() { current_ = outer_; }
    Joined(const Joined&) = delete;
    Joined& operator=(const Joined&) = delete;

   private:
    const StopScope* outer_;
  };

 private:
  StopFlag flag_;
  absl::Time deadline_;
  const std::function<bool()>* stopped_ = nullptr;
  const StopScope* outer_;
  inline static thread_local const StopScope* current_ = nullptr;
};

}  // namespace rewright
