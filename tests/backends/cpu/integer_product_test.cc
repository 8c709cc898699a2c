// Products and convolutions of integers on the CPU device, bit for bit those of the interpreter: odd sizes, elements of
// 16 bits and of 32, operands that are weights and that are not.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int64_t Between(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// In turn: what quantized models have, all of 16 bits, one number more than those, and all of 32 bits.
const double kMagnitudes[][2] = {{-255, 255}, {-32768, 32767}, {-32768, 32768}, {-2147483648.0, 2147483647.0}};

void ExpectTheInterpretersBits(const std::string& text, const std::string& kernel, int threads, Rng& rng) {
  SCOPED_TRACE(text);
  const auto device = MakeDevice("cpu", {threads});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto& [low, high] = kMagnitudes[rng() % 4];
  const uint64_t seed = rng();
  const Graph graph = GraphWithWeights(text, low, high, seed);
  auto schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::string labels;
  for (const Step& step : schedule->steps) absl::StrAppend(&labels, step.label, "; ");
  EXPECT_THAT(labels, HasSubstr(kernel));
  EXPECT_THAT(labels, Not(HasSubstr("reference")));
  ExpectAgrees(*std::move(schedule), graph, low, high, seed);
}

std::string InBrackets(const std::vector<int64_t>& sizes) { return absl::StrCat("[", absl::StrJoin(sizes, ","), "]"); }

TEST(CpuIntegerProduct, MatricesOfOddSizes) {
  Rng rng(1);
  for (int i = 0; i < Cases(600); ++i) {
    const int64_t m = Between(rng, 1, 37), k = Between(rng, 1, 70), n = Between(rng, 1, 67);
    std::vector<int64_t> a = {m, k}, b = {k, n};
    switch (rng() % 5) {
      case 0: a = {2, 3, m, k}, b = {2, 3, k, n}; break;
      case 1: a = {2, 1, m, k}, b = {3, k, n}; break;
      case 2: a = {3, m, k}; break;
      case 3: b = {2, k, n}; break;
      default: break;
    }
    const char* const left = rng() % 4 == 0 ? "state" : "input";
    const char* const right = rng() % 2 == 0 && std::string(left) == "input" ? "state" : "input";
    const std::string text = absl::StrCat(left, " a: i32", InBrackets(a), "\n", right, " b: i32", InBrackets(b),
                                          "\n%0 = matmul(a, b)\noutput y = %0\n");
    ExpectTheInterpretersBits(text, "matmul (", 1 + static_cast<int>(rng() % 3), rng);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CpuIntegerProduct, LargeMatricesOnSeveralThreads) {
  Rng rng(2);
  for (const char* right : {"input", "state"}) {
    ExpectTheInterpretersBits(
        absl::StrCat("input a: i32[67,131]\n", right, " b: i32[131,45]\n%0 = matmul(a, b)\noutput y = %0\n"),
        "matmul (", 3, rng);
    ExpectTheInterpretersBits(
        absl::StrCat("input a: i32[301,200]\n", right, " b: i32[200,7]\n%0 = matmul(a, b)\noutput y = %0\n"),
        "matmul (", 3, rng);
  }
}

TEST(CpuIntegerProduct, ConvolutionsOfOddSizes) {
  Rng rng(3);
  for (int i = 0; i < Cases(400); ++i) {
    const int64_t groups = Between(rng, 1, 3), c = Between(rng, 1, 5), o = groups * Between(rng, 1, 8);
    const int64_t r = Between(rng, 1, 4), s = Between(rng, 1, 4), dh = Between(rng, 1, 2), dw = Between(rng, 1, 2);
    const int64_t h = (r - 1) * dh + Between(rng, 1, 9), w = (s - 1) * dw + Between(rng, 1, 20);
    const std::string text = absl::StrFormat(
        "input x: i32[%d,%d,%d,%d]\n%s w: i32[%d,%d,%d,%d]\n%%0 = conv2d(x, w, strides=[%d,%d], pads=[%d,%d,%d,%d], "
        "dilations=[%d,%d], groups=%d)\noutput y = %%0\n",
        Between(rng, 1, 3), groups * c, h, w, rng() % 4 == 0 ? "input" : "state", o, c, r, s, Between(rng, 1, 3),
        Between(rng, 1, 3), Between(rng, 0, 3), Between(rng, 0, 3), Between(rng, 0, 3), Between(rng, 0, 3), dh, dw,
        groups);
    ExpectTheInterpretersBits(text, "conv2d (", 1 + static_cast<int>(rng() % 3), rng);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// As the importer composes QLinearConv: centred operands, sums, scales, rounding.
TEST(CpuIntegerProduct, AQuantizedLayer) {
  Rng rng(4);
  const std::string text = R"(
input x: u8[1,3,9,11]
state w: i8[8,3,3,3]
const %9: i32[] = [128]
%0 = cast(x, to=i32)
%1 = sub(%0, %9)
%2 = cast(w, to=i32)
%3 = conv2d(%1, %2, strides=[1,1], pads=[1,1,1,1])
%4 = relu(%3)
output y = %4
)";
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  const Graph graph = GraphWithWeights(text, -128, 127, 1);
  ASSERT_GT(graph.num_applications(), 0);
  auto schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  for (const Step& step : schedule->steps) EXPECT_THAT(step.label, Not(HasSubstr("reference")));
  ExpectAgrees(*std::move(schedule), graph, 0, 255, 2);
}

}  // namespace
}  // namespace rewright
