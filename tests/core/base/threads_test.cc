#include "core/base/threads.h"

#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

TEST(OnThreads, CallsOnThisThreadAndOthers) {
  for (int threads : {0, 1, 4}) {
    std::atomic<int> calls{0};
    std::mutex mutex;
    std::set<std::thread::id> seen;
    OnThreads(threads, [&] {
      ++calls;
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(calls, std::max(threads, 1));
    EXPECT_EQ(seen.count(std::this_thread::get_id()), 1u);
  }
}

TEST(OnThreads, TheyStopWithTheirCaller) {
  std::atomic<bool> flag{false};
  std::atomic<int> stopped{0};
  const auto count = [&] { stopped += StopScope::Stopped(); };
  {
    const StopScope scope(&flag), inner(nullptr);
    OnThreads(4, count);
    EXPECT_EQ(stopped, 0);
    flag = true;
    OnThreads(4, count);
    EXPECT_EQ(stopped, 4);
  }
  OnThreads(4, count);
  EXPECT_EQ(stopped, 4);
  const StopScope over(nullptr, absl::Now());
  OnThreads(4, count);
  EXPECT_EQ(stopped, 8);
}

TEST(OnThreads, WhatIsThrownEndsAsAnError) {
  const auto run = [](int threads, const std::function<void()>& work) {
    return Guarded([&] {
      OnThreads(threads, work);
      return absl::OkStatus();
    });
  };
  for (int threads : {1, 4}) {
    std::atomic<int> calls{0};
    absl::Status status = run(threads, [&] {
      if (++calls == threads) throw std::bad_alloc();
    });
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(calls, threads);
    status = run(threads, [] { throw std::runtime_error("broken"); });
    EXPECT_EQ(status, absl::InternalError("broken"));
  }
}

TEST(OnThreads, ThrowsWhatACallThrewOnceAllHaveEnded) {
  for (int threads : {1, 4}) {
    std::atomic<int> calls{0}, ended{0};
    EXPECT_THROW(OnThreads(threads,
                           [&] {
                             const bool first = ++calls == 1;
                             ++ended;
                             if (first) throw std::runtime_error("broken");
                           }),
                 std::runtime_error);
    EXPECT_EQ(ended, threads);
  }
}

TEST(ForEachIndex, CallsWithEachIndexOnce) {
  for (int threads : {0, 1, 4}) {
    for (size_t count : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      ForEachIndex(count, threads, [&](size_t i) { ++calls[i]; });
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i;
    }
  }
}

TEST(ForEachIndex, EndsSoonAfterAThrow) {
  int calls = 0;
  EXPECT_THROW(ForEachIndex(1000, 1,
                            [&](size_t) {
                              if (++calls == 3) throw std::bad_alloc();
                            }),
               std::bad_alloc);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace rewright
