#include "core/base/stats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rewright {
namespace {

TEST(Stats, SummarizesSamplesInAnyOrder) {
  const Summary summary = Summarize({5, 1, 4, 2, 3});
  EXPECT_EQ(summary.count, 5);
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.mean, 3);
  EXPECT_DOUBLE_EQ(summary.p90, 4.6);
  EXPECT_DOUBLE_EQ(summary.spread, (4.0 - 2.0) / 2 / 3);
}

TEST(Stats, OneSampleIsEveryQuantile) {
  EXPECT_DOUBLE_EQ(Quantile({7}, 0), 7);
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.9), 7);
  EXPECT_DOUBLE_EQ(Quantile({7}, 1), 7);
}

TEST(Stats, NoSamplesAreZeros) {
  EXPECT_EQ(Summarize({}).count, 0);
  EXPECT_EQ(Summarize({}).median, 0);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

TEST(Stats, MedianOfAnEvenNumberIsBetween) { EXPECT_DOUBLE_EQ(Quantile({1, 2, 10, 4}, 0.5), 3); }

TEST(Stats, SignTestCountsTosses) {
  EXPECT_DOUBLE_EQ(SignTest(0, 0), 1);
  EXPECT_DOUBLE_EQ(SignTest(0, 5), 1);
  EXPECT_NEAR(SignTest(5, 0), 1 / 32.0, 1e-12);
  EXPECT_NEAR(SignTest(4, 1), 6 / 32.0, 1e-12);
  // Tables of the binomial distribution: 20 of 30 is significant at 5 %, 19 of 30 is not.
  EXPECT_LT(SignTest(20, 10), 0.05);
  EXPECT_GT(SignTest(19, 11), 0.05);
}

TEST(Stats, SignTestOfManyTossesStaysFinite) {
  EXPECT_NEAR(SignTest(1000, 1000), 0.5, 0.02);
  EXPECT_LT(SignTest(1200, 800), 1e-15);
  EXPECT_TRUE(std::isfinite(SignTest(4000, 0)));
}

}  // namespace
}  // namespace rewright
