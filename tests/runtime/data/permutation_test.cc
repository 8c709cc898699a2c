#include "runtime/data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace rewright {
namespace {

TEST(PermutationTest, HitsEveryIndexOnce) {
  for (int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 1437}) {
    for (uint64_t key = 0; key < 5; ++key) {
      const KeyedPermutation permutation(size, key);
      std::vector<bool> seen(static_cast<size_t>(size), false);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t to = permutation(i);
        ASSERT_TRUE(to >= 0 && to < size) << to;
        EXPECT_FALSE(seen[static_cast<size_t>(to)]) << "size " << size << ", key " << key << ", index " << i;
        seen[static_cast<size_t>(to)] = true;
      }
    }
  }
}

TEST(PermutationTest, IsTheSameOnEveryMachine) {
  const KeyedPermutation permutation(10, 42);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 10; ++i) order.push_back(permutation(i));
  EXPECT_EQ(order, (std::vector<int64_t>{8, 1, 9, 0, 4, 2, 7, 3, 6, 5}));
}

// Every index goes to every position about equally often over the keys, and neighbours do not stay neighbours:
// chi-square statistics with 19 degrees of freedom, whose standard deviation is 6.2.
TEST(PermutationTest, KeysGiveUnrelatedOrders) {
  constexpr int kSize = 20, kKeys = 20'000;
  std::vector<std::vector<int>> count(kSize, std::vector<int>(kSize, 0));
  std::vector<int> steps(kSize, 0);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const KeyedPermutation permutation(kSize, key);
    for (int i = 0; i < kSize; ++i) ++count[i][permutation(i)];
    ++steps[(permutation(8) - permutation(7) + kSize) % kSize];
  }
  const double expected = static_cast<double>(kKeys) / kSize;
  for (int i = 0; i < kSize; ++i) {
    double chi_square = 0;
    for (int n : count[i]) chi_square += (n - expected) * (n - expected) / expected;
    EXPECT_LT(chi_square, 19 + 6 * 6.2) << "index " << i;
  }
  EXPECT_EQ(steps[0], 0);
  const double even = static_cast<double>(kKeys) / (kSize - 1);
  double chi_square = 0;
  for (int d = 1; d < kSize; ++d) chi_square += (steps[d] - even) * (steps[d] - even) / even;
  EXPECT_LT(chi_square, 18 + 6 * 6);
}

}  // namespace
}  // namespace rewright
