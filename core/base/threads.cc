#include "core/base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/stop.h"

namespace rewright {

int NumThreads(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void OnThreads(int64_t threads, const std::function<void()>& work) {
  std::mutex mutex;
  std::exception_ptr fault;
  const StopScope* const scope = StopScope::Current();
  const auto guarded = [&] {
    const StopScope::Joined joined(scope);
    try {
      work();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (fault == nullptr) fault = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(guarded);
  } catch (const std::system_error&) {  // no more threads
  } catch (const std::bad_alloc&) {
  }
  guarded();
  for (std::thread& thread : others) thread.join();
  if (fault != nullptr) std::rethrow_exception(fault);
}

void ForEachIndex(size_t count, int64_t threads, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next = 0;
  OnThreads(std::min(static_cast<int64_t>(count), threads), [&] {
    try {
      for (size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      throw;
    }
  });
}

}  // namespace rewright
