#include "search/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace rewright {

void ForEachIndex(size_t count, int threads, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < std::min(count, static_cast<size_t>(std::max(1, threads))); ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
}

}  // namespace rewright
