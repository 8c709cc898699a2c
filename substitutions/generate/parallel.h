// Work that is handed out to threads piece by piece.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace rewright::generate {

// Calls work(0), ..., work(count - 1), on that many threads at most.
inline void Parallel(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min(threads, static_cast<int>(count)); ++t) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
}

}  // namespace rewright::generate
