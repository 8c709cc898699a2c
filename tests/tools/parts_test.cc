// Parts of the program that need no process: numbers with units, progress lines, differences of tensors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/tensor/compare.h"
#include "tools/program/flags.h"
#include "tools/program/progress.h"
#include "tools/verbs/diff/tensor_diff.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

TEST(Flags, BytesHaveUnits) {
  int64_t bytes = 0;
  EXPECT_TRUE(ParseBytes("1234", &bytes));
  EXPECT_EQ(bytes, 1234);
  EXPECT_TRUE(ParseBytes("4K", &bytes));
  EXPECT_EQ(bytes, 4096);
  EXPECT_TRUE(ParseBytes("1.5g", &bytes));
  EXPECT_EQ(bytes, int64_t{3} << 29);
  for (const char* wrong : {"", "K", "-1", "0", "4X", "nan", "1e30", "12 parsecs"}) {
    EXPECT_FALSE(ParseBytes(wrong, &bytes)) << wrong;
  }
}

TEST(Progress, LinesTellFractionTimeAndDetail) {
  EXPECT_EQ(Progress::Line("optimize", 0.5, 12.34, "cost 3 ms", 10), "optimize [#####-----]  50 %  12.3 s  cost 3 ms");
  EXPECT_EQ(Progress::Line("run", 2, 1, "", 4), "run [####] 100 %  1.0 s");
  EXPECT_EQ(Progress::Line("verify", -1, 1, "rule x", 10), "verify  1.0 s  rule x");
}

Tensor Floats(const std::vector<double>& values) {
  return Tensor::FromVector(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

TEST(TensorDiff, NamesTheWorstElement) {
  const Tensor a = Tensor::FromVector<double>(DType::kFloat32, {2, 2}, {1, 2, 3, 4});
  const Tensor b = Tensor::FromVector<double>(DType::kFloat32, {2, 2}, {1, 2.5, 3, 4.001});
  const TensorDiff diff = DiffTensors(a, b, {});
  EXPECT_FALSE(diff.equal);
  EXPECT_EQ(diff.worst, 1);
  EXPECT_EQ(PositionOf(a.shape(), diff.worst), (Shape{0, 1}));
  EXPECT_DOUBLE_EQ(diff.max_abs_diff, 0.5);
  EXPECT_DOUBLE_EQ(diff.max_rel_diff, 0.125);
}

TEST(TensorDiff, ToleratesRoundingOfCancelledElements) {
  EXPECT_TRUE(DiffTensors(Floats({1000, 0}), Floats({1000, 0.01}), {}).equal);
  EXPECT_FALSE(DiffTensors(Floats({1, 0}), Floats({1, 0.01}), {}).equal);
  EXPECT_FALSE(DiffTensors(Floats({1000, 0}), Floats({1000, 0.01}), {1e-3, 1e-6}).equal);
}

TEST(TensorDiff, InfinitiesAndNaNEqualThemselvesAlone) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  EXPECT_TRUE(DiffTensors(Floats({inf, -inf, nan, 1}), Floats({inf, -inf, nan, 1}), {}).equal);
  EXPECT_FALSE(DiffTensors(Floats({inf}), Floats({-inf}), {}).equal);
  EXPECT_FALSE(DiffTensors(Floats({nan, 1}), Floats({1, 1}), {}).equal);
  EXPECT_FALSE(DiffTensors(Floats({1, 1}), Floats({1, nan}), {}).equal);
  EXPECT_FALSE(DiffTensors(Floats({1, 1}), Floats({1, inf}), {1e9, 1e9}).equal);
  EXPECT_TRUE(std::isinf(DiffTensors(Floats({1, 1}), Floats({1, nan}), {}).max_abs_diff));
}

TEST(TensorDiff, IntegersAreExact) {
  const Tensor a = Tensor::Int64s({1, 2, 1'000'000'000});
  EXPECT_TRUE(DiffTensors(a, a, {}).equal);
  const TensorDiff diff = DiffTensors(a, Tensor::Int64s({1, 2, 1'000'000'001}), {});
  EXPECT_FALSE(diff.equal);
  EXPECT_EQ(diff.worst, 2);
}

TEST(TensorDiff, EmptyTensorsAreEqual) {
  const Tensor empty(TensorType{DType::kFloat32, {0, 3}});
  const TensorDiff diff = DiffTensors(empty, empty, {});
  EXPECT_TRUE(diff.equal);
  EXPECT_EQ(diff.worst, -1);
}

TEST(OutputsDiff, NamesTheWorstOutput) {
  const OutputsDiff diff =
      DiffOutputs({"a", "b"}, {Floats({100}), Floats({1, 5})}, {Floats({100.01}), Floats({1, 7})}, {});
  EXPECT_FALSE(diff.equal);
  EXPECT_EQ(diff.worst, "output b [1]: 5 and 7");
}

}  // namespace
}  // namespace rewright
