// Graphs of 16-bit floats on the CPU device against the interpreter, which rounds after every operator: groups of all
// kinds, odd sizes, weights and inputs.
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backends/cpu/simd/simd.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

// A fused group leaves out what the interpreter rounds in between; `groups` of them follow one another.
double Tolerance(DType dtype) { return 2 * RoundingOf(dtype); }

void ExpectAgreesInHalves(const std::string& text, double low = -1, double high = 1) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " seed ", seed));
      const Graph graph = GraphWithWeights(absl::StrReplaceAll(text, {{"HALF", DTypeName(dtype)}}), low, high, seed);
      auto schedule = (*device)->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      for (const Step& step : schedule->steps) EXPECT_THAT(step.label, testing::Not(testing::HasSubstr("reference")));
      ExpectAgrees(*std::move(schedule), graph, low, high, seed, Tolerance(dtype));
      if (seed > 1) continue;
      auto sparing = (*device)->CompileSparing(graph);  // where each run widens weights
      ASSERT_TRUE(sparing.ok()) << sparing.status();
      ExpectAgrees(*std::move(sparing), graph, low, high, seed, Tolerance(dtype));
    }
  }
}

TEST(CpuHalves, Pointwise) {
  ExpectAgreesInHalves(R"(
input x: HALF[7,33]
input y: HALF[33]
state w: HALF[7,1]
%0 = mul(x, y)
%1 = add(%0, w)
%2 = sigmoid(%1)
%3 = mul(%1, %2)
output a = %3
output b = %2
)");
}

TEST(CpuHalves, MatmulWithEpilogue) {
  ExpectAgreesInHalves(R"(
input x: HALF[5,37]
input r: HALF[5,19]
state w: HALF[37,19]
state b: HALF[19]
%0 = matmul(x, w)
%1 = add(%0, b)
%2 = add(%1, r)
%3 = relu(%2)
output y = %3
)");
}

TEST(CpuHalves, MatmulOfInputs) {
  ExpectAgreesInHalves(R"(
input x: HALF[3,5,7]
input y: HALF[3,11,7]
%0 = transpose(y, perm=[0,2,1])
%1 = matmul(x, %0)
output y1 = %1
)");
}

TEST(CpuHalves, ConvolutionsAndPools) {
  ExpectAgreesInHalves(R"(
input x: HALF[2,16,9,11]
state w: HALF[24,16,3,3]
state b: HALF[1,24,1,1]
%0 = conv2d(x, w, strides=[1,1], pads=[1,1,1,1])
%1 = add(%0, b)
%2 = relu(%1)
%3 = max_pool2d(%2, kernel=[2,2], strides=[2,2], pads=[0,0,0,0])
%4 = conv2d(x, w, strides=[2,2], pads=[0,1,0,1])
output y = %3
output z = %4
)");
}

// Images that are handed on in blocks of channels, to convolutions, sums, pools, and to the caller.
TEST(CpuHalves, ConvolutionsBehindOneAnother) {
  ExpectAgreesInHalves(R"(
input x: HALF[2,3,9,11]
state u: HALF[32,3,3,3]
state v: HALF[32,32,3,3]
state w: HALF[5,32,1,1]
state b: HALF[1,32,1,1]
%0 = conv2d(x, u, strides=[1,1], pads=[1,1,1,1])
%1 = relu(%0)
%2 = conv2d(%1, v, strides=[1,1], pads=[1,1,1,1])
%3 = add(%2, b)
%4 = add(%3, %1)
%5 = sigmoid(%4)
%6 = max_pool2d(%5, kernel=[2,2], strides=[2,2], pads=[0,0,0,0])
%7 = conv2d(%5, w, strides=[2,2], pads=[0,0,0,0])
output y = %6
output z = %7
output t = %5
)",
                       -0.1, 0.1);
}

// The result is one point of one image, and scale and shift are in f32 as ever.
TEST(CpuHalves, OnePointOfConvolutionsWithAScale) {
  for (const int channels : {2, 6, 16, 24, 32}) {
    ExpectAgreesInHalves(absl::StrReplaceAll(R"(
input x: HALF[1,16,1,3]
input r: HALF[1,N,1,1]
state w: HALF[N,8,1,3]
state s: HALF[N,1,1]
state t: HALF[N,1,1]
%0 = conv2d(x, w, strides=[1,1], pads=[0,0,0,0], groups=2)
%1 = mul(%0, s)
%2 = add(%1, t)
%3 = add(%2, r)
output y = %3
)",
                                             {{"N", absl::StrCat(channels)}}));
  }
}

// Strides above the kernel, of which oneDNN computes some wrongly on tiles of bf16; a sigmoid behind groups, for which
// it has a descriptor and no code.
TEST(CpuHalves, ConvolutionsThatOneDnnHasNot) {
  ExpectAgreesInHalves(R"(
input x: HALF[3,48,18,14]
input y: HALF[2,8,9,8]
state u: HALF[33,48,1,3]
state v: HALF[16,48,2,2]
state w: HALF[16,4,3,3]
%0 = conv2d(x, u, strides=[2,2], pads=[0,1,0,1])
%1 = conv2d(x, v, strides=[3,3], pads=[0,0,0,0])
%2 = conv2d(y, w, strides=[1,1], pads=[1,1,1,1], groups=2)
%3 = sigmoid(%2)
output a = %0
output b = %1
output c = %3
)",
                       -0.5, 0.5);
}

// All kinds of groups read images of convolutions, which lie with channels last where the processor multiplies tiles:
// concatenations and slices of channels, pools, means, sums with other images, convolutions of groups and of each
// channel, products, and operators that know rows alone. Channels fill no block.
TEST(CpuHalves, ImagesOfConvolutionsForOtherGroups) {
  ExpectAgreesInHalves(R"(
input x: HALF[2,5,9,11]
input r: HALF[2,24,9,11]
state u: HALF[24,5,3,3]
state v: HALF[24,24,1,1]
state d: HALF[24,1,3,3]
state g: HALF[12,6,3,3]
state c: HALF[7,48,1,1]
state s: HALF[24]
state b: HALF[24]
state w: HALF[24,6]
%0 = conv2d(x, u, strides=[1,1], pads=[1,1,1,1])
%1 = batch_norm(%0, s, b, b, s, epsilon=1)
%2 = add(%1, r)
%3 = relu(%2)
%4 = conv2d(%3, d, strides=[1,1], pads=[1,1,1,1], groups=24)
%5 = conv2d(%4, v, strides=[1,1], pads=[0,0,0,0])
%6 = add(%5, %3)
%7 = concat(%6, %4, axis=1)
%8 = conv2d(%7, c, strides=[2,2], pads=[0,0,0,0])
%9 = conv2d(%6, g, strides=[1,1], pads=[1,1,1,1], groups=4)
%10 = avg_pool2d(%6, kernel=[3,3], strides=[2,2], pads=[1,1,1,1])
%11 = max_pool2d(%4, kernel=[3,3], strides=[1,1], pads=[1,1,1,1])
%12 = reduce_mean(%6, axes=[2,3], keepdims=0)
%13 = matmul(%12, w)
%14 = slice(%7, starts=[0,20,1,0], stops=[2,30,8,11])
%15 = transpose(%8, perm=[0,2,3,1])
%16 = softmax(%15, axis=-1)
output p = %8
output q = %9
output s1 = %10
output t = %11
output m = %13
output z = %14
output o = %16
)",
                       -0.3, 0.3);
}

// The processor multiplies bf16, so nothing is converted: no step but the four convolutions, and those between their
// layouts.
TEST(CpuHalves, ConvolutionsOfBf16AreTheProcessors) {
  if (!cpu::MultipliesBf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  const Graph graph = GraphWithWeights(R"(
input x: bf16[2,3,9,11]
input r: bf16[2,48,5,6]
state u: bf16[32,3,3,3]
state v: bf16[48,32,3,3]
state w: bf16[32,24,1,1]
state d: bf16[32,1,3,3]
state b: bf16[1,32,1,1]
state s: bf16[1,48,1,1]
%0 = conv2d(x, u, strides=[1,1], pads=[1,1,1,1])
%1 = add(%0, b)
%2 = relu(%1)
%3 = conv2d(%2, v, strides=[2,2], pads=[1,1,1,1])
%4 = mul(%3, s)
%5 = add(%4, r)
%6 = sigmoid(%5)
%7 = conv2d(%6, w, strides=[1,1], pads=[0,0,0,0], groups=2)
%8 = conv2d(%7, d, strides=[1,1], pads=[1,1,1,1], groups=32)
output y = %8
output z = %6
)",
                                       -1, 1, 3);
  auto schedule = (*MakeDevice("cpu", {2}))->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  int convolutions = 0;
  for (const Step& step : schedule->steps) {
    convolutions += absl::StrContains(step.label, "conv2d");
    EXPECT_THAT(step.label, testing::Not(testing::AnyOf("bf16-f32", "f32-bf16"))) << step.label;
  }
  EXPECT_EQ(convolutions, 4);
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 3, Tolerance(DType::kBFloat16));
}

// The same of products: of weights with all that may follow, of one row, of inputs that lie in any order.
TEST(CpuHalves, ProductsOfBf16AreTheProcessors) {
  if (!cpu::MultipliesBf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Graph graph = GraphWithWeights(R"(
input x: bf16[3,5,37]
input r: bf16[3,5,19]
input q: bf16[2,4,7,16]
input p: bf16[2,4,9,16]
input v: bf16[1,37]
state w: bf16[37,19]
state u: bf16[19,33]
state b: bf16[19]
state s: bf16[1,1,19]
%0 = matmul(x, w)
%1 = add(%0, b)
%2 = mul(%1, s)
%3 = add(%2, r)
%4 = relu(%3)
%5 = matmul(%4, u)
%6 = gelu_tanh(%5)
%7 = transpose(p, perm=[0,1,3,2])
%8 = matmul(q, %7)
%9 = matmul(%8, p)
%10 = matmul(v, w)
output y = %4
output z = %6
output t = %9
output o = %10
)",
                                         -1, 1, seed);
    auto schedule = (*MakeDevice("cpu", {2}))->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    int products = 0;
    for (const Step& step : schedule->steps) {
      products += absl::StrContains(step.label, "matmul");
      EXPECT_THAT(step.label, testing::Not(testing::AnyOf("bf16-f32", "f32-bf16"))) << step.label;
    }
    EXPECT_EQ(products, 5);
    ExpectAgrees(*std::move(schedule), graph, -1, 1, seed, Tolerance(DType::kBFloat16));
  }
}

// Products of f32 with a weight, on operands that were rounded: the conversions are in the group, and the sums stay
// f32. Where something else reads what is widened, or no operand is a weight, the product is one of f32.
TEST(CpuHalves, RoundedOperandsAreMultipliedAsTheyAre) {
  if (!cpu::MultipliesBf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  const Graph graph = GraphWithWeights(R"(
input x: f32[3,5,37]
input r: f32[3,5,19]
state w: f32[37,19]
state u: f32[37,23]
state b: f32[19]
%0 = cast(x, to=bf16)
%1 = cast(%0, to=f32)
%2 = cast(w, to=bf16)
%3 = cast(%2, to=f32)
%4 = cast(u, to=bf16)
%5 = cast(%4, to=f32)
%6 = matmul(%1, %3)
%7 = add(%6, b)
%8 = add(%7, r)
%9 = relu(%8)
%10 = matmul(%1, %5)
%11 = cast(%10, to=bf16)
%12 = cast(%11, to=f32)
%13 = transpose(%12, perm=[0,2,1])
%14 = matmul(%12, %13)
output y = %9
output z = %10
output t = %14
)",
                                       -1, 1, 1);
  auto schedule = (*MakeDevice("cpu", {2}))->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::vector<std::string> products;
  for (const Step& step : schedule->steps) {
    if (absl::StrContains(step.label, "matmul")) products.push_back(step.label);
  }
  EXPECT_THAT(products, testing::ElementsAre(testing::HasSubstr("cast+cast+matmul+add+add+relu (brg:avx512_core_bf16"),
                                             testing::HasSubstr("cast+cast+matmul (brg:avx512_core_bf16"),
                                             testing::Not(testing::HasSubstr("bf16"))));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 3, 1e-5);
}

TEST(CpuHalves, ReductionsNormsAndSoftmax) {
  ExpectAgreesInHalves(R"(
input x: HALF[3,5,37]
state g: HALF[37]
state b: HALF[37]
%0 = mul(x, x)
%1 = reduce_mean(%0, axes=[2], keepdims=1)
%2 = softmax(x, axis=-1)
%3 = layer_norm(x, g, b, axis=2)
%4 = reduce_max(x, axes=[1])
%5 = argmax(x, axis=1)
output a = %1
output c = %2
output d = %3
output e = %4
output f = %5
)");
}

TEST(CpuHalves, WhatMovesElements) {
  ExpectAgreesInHalves(R"(
input x: HALF[4,6,5]
input y: HALF[4,3,5]
input i: i64[3]
%0 = concat(x, y, axis=1)
%1 = transpose(%0, perm=[2,0,1])
%2 = pad(%1, before=[0,1,0], after=[1,0,2], interior=[0,0,0], value=0.0)
%3 = slice(%2, starts=[0,1,0], stops=[3,4,9])
%4 = gather(x, i, axis=0)
%5 = reshape(%4, shape=[9,10])
output a = %3
output b = %5
)",
                       0, 2);
}

// An explicit cast rounds wherever it stands: in a group, too.
TEST(CpuHalves, CastsRound) {
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const char* half : {"f16", "bf16"}) {
    const auto graph = ParseGraph(absl::StrCat("input x: f32[1003]\n%0 = cast(x, to=", half,
                                               ")\n%1 = cast(%0, to=f32)\n%2 = sub(x, %1)\noutput y = %2\n"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
    ASSERT_TRUE(executable.ok()) << executable.status();
    Rng rng(1);
    const Tensor x = RandomTensor({DType::kFloat32, {1003}}, -100, 100, rng);
    const auto found = RunTwice(**executable, {x});
    ASSERT_TRUE(found.ok()) << found.status();
    const auto expected = InterpretGraph(*graph, {{"x", x}});
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_TRUE((*found)[0].BitEqual((*expected)[0])) << half;
    EXPECT_GT(std::abs((*found)[0].At(0)), 0);
  }
}

// A long chain in one group: rounded once, where the interpreter rounds at each step.
TEST(CpuHalves, AChainIsRoundedAtItsEnd) {
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto graph = ParseGraph(
      "input x: f16[64]\ninput y: f16[64]\n%0 = add(x, y)\n%1 = sub(%0, x)\n%2 = sub(%1, y)\noutput z = %2\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  Tensor x({DType::kFloat16, {64}}), y({DType::kFloat16, {64}});
  for (int64_t i = 0; i < 64; ++i) {
    x.Set(i, 1000);
    y.Set(i, 0.1);
  }
  const auto found = RunTwice(**executable, {x, y});
  ASSERT_TRUE(found.ok()) << found.status();
  for (int64_t i = 0; i < 64; ++i) EXPECT_NEAR((*found)[0].At(i), 0, 1e-4);
  const auto stepwise = InterpretGraph(*graph, {{"x", x}, {"y", y}});
  ASSERT_TRUE(stepwise.ok());
  EXPECT_GT(std::abs((*stepwise)[0].At(0)), 0.05);
}

}  // namespace
}  // namespace rewright
