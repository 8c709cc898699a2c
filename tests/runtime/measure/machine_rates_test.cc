#include "runtime/measure/machine_rates.h"

#include "backends/device_factory.h"
#include "gmock/gmock.h"

namespace rewright {
namespace {

TEST(Rates, OfSoManyBytesIsThatOfTheMostThatAreNotMore) {
  Rates rates;
  rates.memory = {{16, 8}, {64, 4}, {256, 1}};
  EXPECT_EQ(rates.BytesPerSecond(1), 8);
  EXPECT_EQ(rates.BytesPerSecond(63), 8);
  EXPECT_EQ(rates.BytesPerSecond(64), 4);
  EXPECT_EQ(rates.BytesPerSecond(1e9), 1);
  EXPECT_EQ(rates.bytes_per_second(), 1);
}

TEST(Rates, AreRaisedOneByOne) {
  Rates rates, other;
  rates.flops_per_second = 2;
  rates.memory = {{16, 8}, {64, 4}};
  other.flops_per_second = 1;
  other.memory = {{16, 7}, {64, 5}};
  rates.RaiseTo(other);
  EXPECT_EQ(rates.flops_per_second, 2);
  EXPECT_EQ(rates.memory[0].bytes_per_second, 8);
  EXPECT_EQ(rates.memory[1].bytes_per_second, 5);
}

// Rates of caches and memory, by one thread and by two: larger blocks are never faster.
TEST(Rates, AreMeasuredOnTheProcessor) {
  for (const int threads : {1, 2}) {
    const auto device = MakeDevice("cpu", {.threads = threads});
    ASSERT_TRUE(device.ok()) << device.status();
    const absl::StatusOr<Rates> rates = MeasureRates(**device);
    ASSERT_TRUE(rates.ok()) << rates.status();
    EXPECT_GT(rates->flops_per_second, 1e8);
    ASSERT_EQ(rates->memory.size(), 15u);  // 16 kB to 256 MB
    for (size_t k = 1; k < rates->memory.size(); ++k) {
      EXPECT_EQ(rates->memory[k].bytes, 2 * rates->memory[k - 1].bytes);
      EXPECT_LE(rates->memory[k].bytes_per_second, rates->memory[k - 1].bytes_per_second);
    }
    EXPECT_GT(rates->bytes_per_second(), 0);
  }
}

// If a device does not tell its rates, they are derived from the costs of its kernels.
TEST(Rates, OfADeviceWithoutThemAreThoseOfItsCosts) {
  const auto device = MakeDevice("analytic:v100", {});
  ASSERT_TRUE(device.ok()) << device.status();
  const absl::StatusOr<Rates> rates = MeasureRates(**device);
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->flops_per_second, 1e12);
  ASSERT_EQ(rates->memory.size(), 1u);
  EXPECT_GT(rates->BytesPerSecond(1), 1e11);
}

// The figures of its file: in the second cache, 6 MB, and beyond.
TEST(Rates, OfADescribedDeviceAreThoseOfItsFile) {
  const auto device = MakeDevice("analytic:v100-roofline", {});
  ASSERT_TRUE(device.ok()) << device.status();
  const absl::StatusOr<Rates> rates = MeasureRates(**device);
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_EQ(rates->flops_per_second, 15.7e12);
  EXPECT_EQ(rates->BytesPerSecond(1e6), 2155e9);
  EXPECT_EQ(rates->BytesPerSecond(1e9), 900e9);
}

}  // namespace
}  // namespace rewright
