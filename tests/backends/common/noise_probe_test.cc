#include "backends/common/noise_probe.h"

#include <gtest/gtest.h>

namespace rewright {
namespace {

// Times that never agree: 1, 2, 3, ... seconds.
int SamplesTaken(const SampleLimits& limits, NoiseProbe& probe) {
  int taken = 0;
  const auto entry = TakeSamples([&]() -> absl::StatusOr<double> { return 1e-3 * ++taken; }, 1, limits, probe);
  EXPECT_TRUE(entry.ok() && entry->fastest == 1e-3 && entry->count == taken);
  return taken;
}

TEST(Sampling, WhoTakesMoreThanEnoughIsNotMeasuredWell) {
  NoiseProbe probe(1);
  SampleLimits limits{.least = 5, .most = 10, .wait_for_quiet = false};
  EXPECT_EQ(SamplesTaken(limits, probe), 10);
  limits.enough = 1e-3;
  EXPECT_EQ(SamplesTaken(limits, probe), 10);
  limits.enough = 0.9e-3;
  EXPECT_EQ(SamplesTaken(limits, probe), 5);
}

TEST(Sampling, PatienceEndsOnABusyMachineAndComesBack) {
  NoiseProbe probe(1);
  const double full = probe.longest_wait();
  double waited = 0;
  for (int i = 0; i < 1000; ++i) {
    waited += probe.longest_wait();
    probe.Waited(/*in_vain=*/true);
  }
  EXPECT_LT(waited, 2 * full + 1000 * 0.01 * full);
  EXPECT_GT(probe.longest_wait(), 0);
  for (int i = 0; i < 20; ++i) probe.Waited(/*in_vain=*/false);
  EXPECT_EQ(probe.longest_wait(), full);
}

}  // namespace
}  // namespace rewright
