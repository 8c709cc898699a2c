// When an executable counts as faster than another.
#include "runtime/measure/interleaved.h"

#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "search/optimize/optimize.h"

namespace rewright {
namespace {

// Each run advances the clock by its entry.
class PacedRuns : public Executable {
 public:
  PacedRuns(double* clock, std::function<double(int)> seconds) : clock_(clock), seconds_(std::move(seconds)) {}
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    *clock_ += seconds_(run_++);
    *outputs = inputs;
    return absl::OkStatus();
  }
  int64_t arena_bytes() const override { return 0; }
  int64_t peak_live_bytes() const override { return 0; }

 private:
  double* const clock_;
  const std::function<double(int)> seconds_;
  int run_ = 0;
};

TEST(IsFaster, AsksForManyWinsAndAGain) {
  EXPECT_TRUE(IsFaster({.ratio = 1.01, .p_value = 0.04}, 0.05));
  EXPECT_FALSE(IsFaster({.ratio = 1.01, .p_value = 0.06}, 0.05));
  EXPECT_FALSE(IsFaster({.ratio = 1, .p_value = 0.01}, 0.05));
  EXPECT_FALSE(IsFaster({.ratio = 1.01, .p_value = 0.04}, 0.05, 2));  // of two, one may win by accident
}

// The differences of the clock's readings are all unequal: only the number of pairs matters.
TEST(MeasureInterleaved, GoesOnForASecondsShareUpToTenTimesThePairs) {
  double unused = 0;
  int readings = 0;
  PacedRuns a(&unused, [](int) { return 0.0; }), b(&unused, [](int) { return 0.0; });
  const auto pairs = [&](MeasureOptions options) {
    options.clock = [&] { return (++readings, 1e-9 * readings * readings); };
    const absl::StatusOr<Measurement> measured =
        MeasureInterleaved(a, b, {Tensor(TensorType{DType::kFloat32, {4, 8}})}, options);
    EXPECT_TRUE(measured.ok()) << measured.status();
    return measured->wins + measured->losses;
  };
  EXPECT_EQ(pairs({.warmup = 0, .pairs = 20}), 20);
  EXPECT_EQ(pairs({.warmup = 0, .pairs = 20, .seconds = 1e9}), 200);
}

Measurement MeasuredUntilDecided(const std::function<double(int)>& candidate) {
  double clock = 0;
  PacedRuns first(&clock, [](int) { return 10.0; }), second(&clock, candidate);
  const MeasureOptions options{.warmup = 0, .pairs = 30, .clock = [&] { return clock; }, .significance = 0.05};
  const auto measured = MeasureInterleaved(first, second, {Tensor(TensorType{DType::kFloat32, {1}})}, options);
  EXPECT_TRUE(measured.ok()) << measured.status();
  return measured.ok() ? *measured : Measurement();
}

TEST(MeasureInterleaved, EndsWhenItIsDecided) {
  const Measurement faster = MeasuredUntilDecided([](int) { return 5.0; });
  EXPECT_EQ(faster.wins, 20);  // as many as of 30 are wanted: P(20 or more of 30) is 4.9 %
  EXPECT_EQ(faster.losses, 0);
  EXPECT_TRUE(IsFaster(faster, 0.05));
  const Measurement slower = MeasuredUntilDecided([](int) { return 15.0; });
  EXPECT_EQ(slower.wins + slower.losses, 8);
  EXPECT_FALSE(IsFaster(slower, 0.05));
  // Two of three are won: in the end that is enough, and no end comes before.
  const Measurement often = MeasuredUntilDecided([](int run) { return run % 3 == 2 ? 15.0 : 5.0; });
  EXPECT_EQ(often.wins, 20);
  EXPECT_GE(often.losses, 9);
  EXPECT_TRUE(IsFaster(often, 0.05));
}

// Half of the pairs are won, and the times differ widely: that is no verdict.
TEST(MeasureInterleaved, SaysHowMuchCannotBeExcluded) {
  const Measurement busy = MeasuredUntilDecided([](int run) { return run % 2 == 0 ? 5.0 : 20.0; });
  EXPECT_EQ(busy.losses, 11);  // so that 20 of 30 cannot be won any more
  EXPECT_FALSE(IsFaster(busy, 0.05));
  EXPECT_EQ(busy.ratio_at_most, 2);
  EXPECT_NEAR(MeasuredUntilDecided([](int) { return 10.1; }).ratio_at_most, 10 / 10.1, 1e-9);
}

}  // namespace
}  // namespace rewright
