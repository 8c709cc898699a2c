#include "core/base/threads.h"

#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "gtest/gtest.h"

namespace rewright {
namespace {

TEST(RunOnThreads, CallsOnThisThreadAndOthers) {
  for (int threads : {0, 1, 4}) {
    std::atomic<int> calls{0};
    std::mutex mutex;
    std::set<std::thread::id> seen;
    ASSERT_TRUE(RunOnThreads(threads, [&] {
                  ++calls;
                  const std::lock_guard<std::mutex> lock(mutex);
                  seen.insert(std::this_thread::get_id());
                }).ok());
    EXPECT_EQ(calls, std::max(threads, 1));
    EXPECT_EQ(seen.count(std::this_thread::get_id()), 1u);
  }
}

TEST(RunOnThreads, WhatIsThrownIsAnError) {
  for (int threads : {1, 4}) {
    std::atomic<int> calls{0};
    absl::Status status = RunOnThreads(threads, [&] {
      if (++calls == threads) throw std::bad_alloc();
    });
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(calls, threads);
    status = RunOnThreads(threads, [] { throw std::runtime_error("broken"); });
    EXPECT_EQ(status, absl::InternalError("broken"));
  }
}

}  // namespace
}  // namespace rewright
