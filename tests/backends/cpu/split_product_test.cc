// Products of f32 with weights, which run on tiles of bf16 where the processor has them, against the interpreter.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backends/cpu/simd/split.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

// All tails: rows and columns that fill no tile, depths that fill no step and take several chunks, several blocks of
// rows; bias, scale, shift, residual and functions behind the product.
TEST(SplitProduct, AgreesForAllTails) {
  struct Size {
    int rows, depth, columns;
  };
  for (const Size size : {Size{32, 64, 64},
                          {33, 65, 65},
                          {48, 96, 80},
                          {63, 100, 127},
                          {257, 130, 96},
                          {300, 70, 72},
                          {40, 1600, 100},
                          {64, 768, 64},
                          {530, 800, 70}}) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(size.rows, " x ", size.depth, " x ", size.columns, ", threads ", threads));
      const Graph graph = GraphWithWeights(
          absl::StrReplaceAll(
              R"(
input x: f32[2,R,K]
input r: f32[2,R,N]
state w: f32[K,N]
state v: f32[N,64]
state b: f32[N]
state s: f32[N]
state t: f32[N]
%0 = matmul(x, w)
%1 = add(%0, b)
%2 = mul(%1, s)
%3 = add(%2, t)
%4 = add(%3, r)
%5 = tanh(%4)
%6 = matmul(%5, v)
%7 = relu(%6)
output y = %4
output z = %7
)",
              {{"R", absl::StrCat(size.rows)}, {"K", absl::StrCat(size.depth)}, {"N", absl::StrCat(size.columns)}}),
          -1, 1, 7);
      auto schedule = (*MakeDevice("cpu", {threads}))->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 7, 2e-6);
    }
  }
}

// Sums are nearer to those of f64 than sums of f32 one after the other.
TEST(SplitProduct, IsAsExactAsF32) {
  if (cpu::SplitProducts() == nullptr) GTEST_SKIP() << "the machine has no tiles";
  constexpr int kRows = 64, kColumns = 64;
  const Graph graph =
      GraphWithWeights("input x: f32[64,512]\nstate w: f32[512,64]\n%0 = matmul(x, w)\noutput y = %0\n", -1, 1, 3);
  auto schedule = (*MakeDevice("cpu", {2}))->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  auto executable = MakeHostile(graph, *std::move(schedule));
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<Tensor> outputs;
  const std::vector<Tensor> inputs = *RandomInputs(graph, 5);
  ASSERT_TRUE((*executable)->Run(inputs, &outputs).ok());
  const auto exact = InterpretGraph(graph, {{"x", inputs[0]}}, {Precision::kFloat64, 1});
  const auto plain = InterpretGraph(graph, {{"x", inputs[0]}}, {Precision::kNative, 1});
  ASSERT_TRUE(exact.ok() && plain.ok());
  double of_split = 0, of_plain = 0;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    of_split += std::pow(outputs[0].At(i) - (*exact)[0].At(i), 2);
    of_plain += std::pow((*plain)[0].At(i) - (*exact)[0].At(i), 2);
  }
  EXPECT_LT(of_split, of_plain);
}

// Rows that parts cannot hold are computed on f32, the others are not touched by them.
TEST(SplitProduct, RowsOfAnyMagnitude) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Graph graph =
      GraphWithWeights("input x: f32[70,96]\nstate w: f32[96,80]\n%0 = matmul(x, w)\noutput y = %0\n", -1, 1, 3);
  std::vector<Tensor> inputs = *RandomInputs(graph, 5);
  std::vector<double> x(70 * 96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = inputs[0].At(static_cast<int64_t>(i));
  x[3 * 96 + 5] = inf;
  x[4 * 96 + 95] = nan;
  for (int k = 0; k < 96; ++k) {
    x[10 * 96 + k] *= 1e-30;
    x[11 * 96 + k] *= 1e30;
    x[12 * 96 + k] = 0;
    x[69 * 96 + k] *= 1e-42;
  }
  inputs[0] = Tensor::FromVector<double>(DType::kFloat32, {70, 96}, x);
  auto schedule = (*MakeDevice("cpu", {2}))->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  auto executable = MakeHostile(graph, *std::move(schedule));
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<Tensor> outputs;
  ASSERT_TRUE((*executable)->Run(inputs, &outputs).ok());
  const auto expected = InterpretGraph(graph, {{"x", inputs[0]}}, {Precision::kNative, 1});
  ASSERT_TRUE(expected.ok());
  for (int64_t row = 0; row < 70; ++row) {
    double scale = 0;
    for (int64_t k = 0; k < 96; ++k) scale = std::max(scale, std::abs(x[static_cast<size_t>(row * 96 + k)]));
    for (int64_t j = 0; j < 80; ++j) {
      const double found = outputs[0].At(row * 80 + j), wanted = (*expected)[0].At(row * 80 + j);
      if (!std::isfinite(wanted)) {
        EXPECT_EQ(std::isnan(found), std::isnan(wanted)) << row << " " << j;
        if (!std::isnan(wanted)) {
          EXPECT_EQ(found, wanted) << row << " " << j;
        }
      } else {
        EXPECT_NEAR(found, wanted, scale * 2e-5 + 1e-43) << row << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace rewright
