#include "runtime/comm/worker_thread.h"

#include <utility>

#include "core/base/status_macros.h"

namespace rewright {

WorkerThread::~WorkerThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

int64_t WorkerThread::Start(std::function<absl::Status()> work) {
  if (at_once_) {
    if (failure_.ok()) failure_ = Guarded(work);
    done_ = ++started_;
    return started_;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  waiting_.push_back(std::move(work));
  changed_.notify_all();
  return ++started_;
}

absl::Status WorkerThread::Wait(int64_t number) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
  return failure_;
}

void WorkerThread::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    std::function<absl::Status()> work = std::move(waiting_.front());
    waiting_.pop_front();
    if (failure_.ok()) {
      lock.unlock();
      const absl::Status status = Guarded(work);
      work = nullptr;  // what it holds is free for those who wait
      lock.lock();
      failure_ = status;
    }
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace rewright
