#include "runtime/data/prefetch.h"

#include <exception>
#include <utility>

#include "core/base/status_macros.h"

namespace rewright {

Prefetcher::Prefetcher(Make make, int64_t first, int threads)
    : make_(std::move(make)), ahead_(2 * static_cast<size_t>(threads)), taken_(first), used_(first) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::exception&) {  // the machine gives fewer, or has no memory for more
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || taken_ - used_ < static_cast<int64_t>(ahead_); });
    if (ends_) return;
    const int64_t number = taken_++;
    lock.unlock();
    auto batch = std::make_unique<Batch>(Guarded([&] { return make_(number); }));
    lock.lock();
    made_.emplace(number, std::move(batch));
    changed_.notify_all();
  }
}

absl::StatusOr<std::vector<Tensor>> Prefetcher::Next() {
  if (threads_.empty()) return Guarded([&] { return make_(used_++); });
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return made_.contains(used_); });
  const std::unique_ptr<Batch> batch = std::move(made_.extract(used_).mapped());
  ++used_;
  changed_.notify_all();
  return *std::move(batch);
}

}  // namespace rewright
