#include "core/base/threads.h"

#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/guarded.h"

namespace rewright {

absl::Status RunOnThreads(int64_t threads, const std::function<void()>& work) {
  std::mutex mutex;
  absl::Status status;
  const auto guarded = [&] {
    const absl::Status fault = Guarded([&] {
      work();
      return absl::OkStatus();
    });
    const std::lock_guard<std::mutex> lock(mutex);
    status.Update(fault);
  };
  std::vector<std::thread> others;
  try {
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(guarded);
  } catch (const std::system_error&) {  // no more threads
  } catch (const std::bad_alloc&) {
  }
  guarded();
  for (std::thread& thread : others) thread.join();
  return status;
}

}  // namespace rewright
