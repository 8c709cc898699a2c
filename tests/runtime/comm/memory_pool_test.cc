// Tests that returned memory is given out again.
#include "runtime/comm/memory_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace rewright {
namespace {

constexpr size_t kLarge = size_t{40} << 20;

TEST(MemoryPoolTest, GivesOutAgainWhatCameBack) {
  MemoryPool pool;
  std::shared_ptr<void> first = pool.Take(kLarge);
  std::memset(first.get(), 1, kLarge);
  const std::shared_ptr<void> second = pool.Take(kLarge);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool.bytes(), 2 * static_cast<int64_t>(kLarge));
  void* const there = first.get();
  first.reset();
  EXPECT_EQ(pool.Take(kLarge).get(), there);
  EXPECT_EQ(pool.Take(kLarge - kLarge / 8).get(), there);
  EXPECT_NE(pool.Take(kLarge / 2).get(), there) << "half of it would lie idle";
  EXPECT_NE(pool.Take(kLarge + 1).get(), there) << "it is too small";
}

TEST(MemoryPoolTest, TensorsMayOutliveIt) {
  auto pool = std::make_unique<MemoryPool>();
  Tensor large = pool->Take({DType::kFloat32, {1 << 20}}), small = pool->Take({DType::kFloat64, {3}});
  EXPECT_EQ(large.num_elements(), 1 << 20);
  EXPECT_EQ(pool->bytes(), 4 << 20) << "small memory is none of the pool's";
  Tensor copy = large;
  pool.reset();
  large = Tensor();
  copy.Set((1 << 20) - 1, 7);
  EXPECT_EQ(copy.At((1 << 20) - 1), 7);
  small.Set(2, 5);
  EXPECT_EQ(small.At(2), 5);
}

}  // namespace
}  // namespace rewright
