// A thread that does what it is given, one thing after the other: communication beside computation, copies.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"

namespace rewright {

// The communicator must not be used otherwise until all started work has been waited for. Where that is for one thread,
// work is done when it is started.
class WorkerThread {
 public:
  explicit WorkerThread(const Communicator& ranks) : WorkerThread(ranks.for_one_thread()) {}
  // `at_once`: work is done when it is started.
  explicit WorkerThread(bool at_once) : at_once_(at_once) {}
  // Waits for the end of what was begun; nothing more is.
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Begins when all that was started before is done, and gives the number to wait for; after an error nothing more is
  // begun.
  int64_t Start(std::function<absl::Status()> work);
  // Returns when that and all before is done: the first error of them.
  absl::Status Wait(int64_t number);
  absl::Status WaitForAll() { return Wait(started_); }

 private:
  void Work();

  const bool at_once_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<absl::Status()>> waiting_;
  int64_t started_ = 0, done_ = 0;
  absl::Status failure_;
  bool ends_ = false;
  std::thread thread_;  // from the first start on
};

}  // namespace rewright
