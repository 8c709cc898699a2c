// The kernels of `convolution` against the interpreter: every way that a gradient of conv2d or a transposed convolution
// takes, at odd sizes.
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/cpu/simd/simd.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

struct Case {
  Shape x, w;
  std::vector<int64_t> strides, lhs_dilations, rhs_dilations, pads;
  int64_t groups = 1;
  bool by_library = true;  // oneDNN has a way; else the reference kernel
};

Graph GraphOf(const Case& c, bool constant) {
  auto arena = std::make_shared<Arena>();
  std::vector<Value> inputs = {*arena->AddInput("x", {DType::kFloat32, c.x})};
  const TensorType kernel{DType::kFloat32, c.w};
  Rng rng(7);
  if (!constant) inputs.push_back(*arena->AddInput("w", kernel));
  const Value w = constant ? *arena->AddState("w", RandomTensor(kernel, -1, 1, rng)) : inputs[1];
  const auto y = arena->Apply("convolution", {inputs[0], w},
                              {{"strides", c.strides},
                               {"pads", c.pads},
                               {"lhs_dilations", c.lhs_dilations},
                               {"rhs_dilations", c.rhs_dilations},
                               {"groups", c.groups}});
  EXPECT_TRUE(y.ok()) << y.status();
  // Something before and behind it, so that layouts have to be found.
  const Value out = *arena->Apply("relu", {*y});
  return Graph(arena, inputs, {{*y, "y"}, {out, "z"}});
}

TEST(CpuConvolution, IsTheInterpretersInEveryDirection) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  const std::vector<Case> cases = {
      // forward
      {{2, 16, 9, 7}, {8, 16, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {{1, 3, 5, 5}, {4, 3, 2, 2}, {}, {}, {}, {}},
      {{2, 8, 17}, {16, 8, 3}, {2}, {}, {2}, {1, 2}},
      {{1, 4, 5, 6, 7}, {8, 4, 2, 2, 2}, {1, 2, 1}, {}, {}, {1, 0, 1, 0, 0, 1}},
      {{2, 16, 8, 8}, {16, 1, 3, 3}, {}, {}, {}, {1, 1, 1, 1}, 16},
      {{1, 4, 8, 8}, {4, 4, 3, 3}, {}, {}, {}, {1, 1, -1, 1}, 1, false},  // a cut, in oneDNN's loops only
      // the gradient of a convolution by its data
      {{2, 16, 5, 4}, {8, 16, 3, 3}, {1, 1}, {2, 2}, {1, 1}, {1, 1, 2, 1}},
      {{2, 8, 4, 3}, {5, 8, 1, 1}, {}, {3, 2}, {}, {0, 0, 2, 0}},
      {{1, 8, 6, 6}, {8, 8, 3, 2}, {1, 1}, {2, 1}, {2, 2}, {3, 2, 4, 2}},
      {{2, 12, 5, 5}, {8, 3, 3, 3}, {}, {2, 2}, {}, {1, 1, 1, 1}, 4},
      {{2, 16, 6, 6}, {16, 1, 3, 3}, {}, {2, 2}, {}, {1, 1, 2, 2}, 16},
      {{1, 8, 9}, {4, 8, 4}, {}, {2}, {}, {2, 2}},
      {{1, 8, 1, 1}, {8, 8, 4, 4}, {}, {2, 2}, {}, {3, 3, 3, 3}},
      {{2, 16, 4, 4}, {8, 16, 1, 1}, {}, {2, 2}, {}, {0, 0, 1, 1}},  // the last points were in no window
      {{2, 16, 5, 5}, {16, 16, 3, 3}, {}, {2, 2}, {}, {2, 2, 3, 3}},
      // and by its weights
      {{16, 4, 8, 8}, {8, 4, 4, 4}, {}, {}, {2, 2}, {0, 0, -1, -1}},
      {{16, 4, 12, 12}, {16, 4, 5, 5}, {}, {}, {2, 2}, {0, 0, -1, -1}},
      {{16, 3, 9, 9}, {8, 3, 7, 7}, {}, {}, {}, {0, 0, 0, 0}},
      {{3, 5, 11, 13}, {6, 5, 5, 6}, {}, {}, {2, 2}, {1, 1, 1, 1}},
      {{4, 2, 8, 8}, {8, 2, 4, 4}, {2, 2}, {}, {2, 2}, {2, 2, 1, 1}},
      {{16, 4, 14, 14}, {16, 4, 14, 14}, {}, {}, {}, {1, 1, 1, 1}},
      {{8, 2, 9, 9}, {16, 2, 5, 5}, {}, {}, {2, 2}, {0, 0, 0, 0}},
      {{1, 16 * 3, 8, 8}, {16, 3, 8, 8}, {}, {}, {}, {1, 1, 1, 1}, 16},
      {{2, 4 * 3, 7, 7}, {8, 3, 5, 5}, {}, {}, {}, {0, 0, 0, 0}, 4},
      {{4, 2, 21}, {8, 2, 19}, {}, {}, {}, {0, 0}},
      // neither
      {{1, 3, 5, 5}, {4, 3, 3, 3}, {2, 2}, {2, 2}, {}, {}, 1, false},
      {{1, 3, 5, 5}, {4, 3, 3, 3}, {}, {}, {}, {-1, 0, 0, 0}, 1, false},
      {{1, 3, 3, 3}, {4, 3, 2, 2}, {}, {2, 2}, {}, {2, 2, 0, 0}, 1, false},
  };
  for (const Case& c : cases) {
    for (const bool constant : {false, true}) {
      const Graph graph = GraphOf(c, constant);
      SCOPED_TRACE(PrintGraph(graph));
      auto schedule = (*device)->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      std::string labels;
      for (const Step& step : schedule->steps) absl::StrAppend(&labels, step.label, "; ");
      EXPECT_EQ(labels.find("convolution (") != std::string::npos, c.by_library) << labels;
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 3);
    }
  }
}

// Gradients by weights, of images that convolutions give: of 3x3 ones, with a transposed operand that two read, with
// and without a transpose of the result, and of 1x1 ones.
Graph GradientsOf(int64_t channels, int64_t more) {
  const std::string image = absl::StrCat("2,", channels, ",9,7");
  return *ParseGraph(absl::StrCat("input x: f32[", image, "]\ninput v: f32[", channels, ",", channels,
                                  ",3,3]\ninput w: f32[", more, ",", channels, R"(,3,3]
%1 = conv2d(x, v, pads=[1,1,1,1])
%2 = relu(%1)
%3 = conv2d(%2, w, pads=[1,1,1,1])
%4 = transpose(%2, perm=[1,0,2,3])
%5 = transpose(%3, perm=[1,0,2,3])
%6 = convolution(%4, %5, pads=[1,1,1,1])
%7 = transpose(%6, perm=[1,0,2,3])
%8 = conv2d(%2, w, strides=[2,2], pads=[1,1,1,1])
%9 = transpose(%8, perm=[1,0,2,3])
%10 = convolution(%4, %9, rhs_dilations=[2,2], pads=[1,1,1,1])
%11 = dot_general(%3, %2, lhs_contracting=[0,2,3], rhs_contracting=[0,2,3])
output y = %7
output z = %10
output u = %11
)"));
}

// The gradient of a global mean repeats a number over an image: strides of 0, which have to become blocks.
TEST(CpuConvolution, GradientsByWeightsReadRepeatedElements) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (int64_t channels : {1, 3, 8, 12, 16, 20}) {
    for (int64_t more : {3, 12, 16}) {
      const Graph graph = *ParseGraph(absl::StrCat("input x: f32[4,", more, ",8,8]\ninput w: f32[", channels, ",", more,
                                                   ",1,1]\ninput u: f32[4,", channels, R"(,1,1]
%0 = conv2d(x, w)
%1 = reduce_mean(%0, axes=[2,3])
%2 = expand(u, shape=[4,)",
                                                   channels, R"(,8,8])
%3 = dot_general(%2, x, lhs_contracting=[0,2,3], rhs_contracting=[0,2,3])
output y = %1
output g = %3
)"));
      SCOPED_TRACE(PrintGraph(graph));
      ExpectAgrees(**device, graph, -1, 1, 3);
    }
  }
}

TEST(CpuConvolution, GradientsByWeightsReadImagesWhereTheyLie) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const auto& [channels, more] : {std::pair(16, 32), {32, 16}, {5, 7}, {20, 16}}) {
    const Graph graph = GradientsOf(channels, more);
    SCOPED_TRACE(PrintGraph(graph));
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    size_t copies = 0, by_library = 0;
    const size_t images[] = {sizeof(float) * 2 * 9 * 7 * channels, sizeof(float) * 2 * 9 * 7 * more};
    for (const Step& step : schedule->steps) {
      by_library += step.label.starts_with("convolution (") || step.label.starts_with("dot_general (");
      if (step.label != "reorder" && step.label != "transpose" && step.label != "copy") continue;
      const size_t bytes = schedule->buffers[step.buffers.back().buffer].bytes;
      copies += bytes == images[0] || bytes == images[1];
    }
    EXPECT_EQ(by_library, 3u);
    // In whole blocks only the input is written anew.
    if (channels % 16 == 0) {
      EXPECT_LE(copies, 1u);
    }
    ExpectAgrees(*std::move(schedule), graph, -1, 1, 3);
  }
}

// A convolution by groups of 2 or 4 channels at a random size, and something of all that may follow it.
std::string FewChannelsText(Rng& rng, int round) {
  const auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
  const int64_t of_group = 2 * draw(1, 2), channels = 16 * draw(1, 3), images = draw(1, 2);
  std::string sizes, results, kernel, pads, ends, strides, dilations;
  for (const int64_t most : {12, 40}) {
    const int64_t taps = draw(1, 4), dilation = draw(1, 2), stride = draw(1, 3), size = draw(10, most);
    const int64_t reach = (taps - 1) * dilation, before = draw(0, reach), after = draw(0, reach);
    absl::StrAppend(&sizes, ",", size);
    absl::StrAppend(&results, ",", (size + before + after - reach - 1) / stride + 1);
    absl::StrAppend(&kernel, ",", taps);
    absl::StrAppend(&pads, before, ",");
    absl::StrAppend(&ends, ",", after);
    absl::StrAppend(&strides, most == 12 ? "" : ",", stride);
    absl::StrAppend(&dilations, most == 12 ? "" : ",", dilation);
  }
  pads.pop_back();
  std::string text =
      absl::StrCat("input x: f32[", images, ",", channels, sizes, "]\ninput r: f32[", images, ",", channels, results,
                   "]\n", round % 4 == 0 ? "input" : "state", " w: f32[", channels, ",", of_group, kernel,
                   "]\nstate a: f32[", channels, ",1,1]\nstate b: f32[1,", channels, ",1,1]\n");
  absl::StrAppend(&text, "%1 = relu(r)\n%2 = conv2d(x, w, pads=[", pads, ends, "], strides=[", strides,
                  "], dilations=[", dilations, "], groups=", channels / of_group, ")\n");
  int last = 2;
  const auto then = [&](const char* op, const char* other) {
    absl::StrAppend(&text, "%", last + 1, " = ", op, "(%", last, other, ")\n");
    ++last;
  };
  if (round % 3 != 0) then("add", ", a"), then("mul", ", b"), then("sub", ", a");
  if (round % 5 != 0) then("add", ", %1");
  if (round % 7 != 0) then(round % 2 == 0 ? "relu" : "tanh", "");
  return absl::StrCat(text, "output y = %", last, "\n");
}

TEST(CpuConvolution, GroupsOfFewChannelsShareVectors) {
  Rng rng(11);
  for (int round = 0; round < 40; ++round) {
    const auto device = MakeDevice("cpu", {.threads = 1 + round % 2});
    ASSERT_TRUE(device.ok()) << device.status();
    const std::string text = FewChannelsText(rng, round);
    SCOPED_TRACE(text);
    const Graph graph = GraphWithWeights(text, -1, 1, static_cast<uint64_t>(round));
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    std::string labels;
    for (const Step& step : schedule->steps) absl::StrAppend(&labels, step.label, "; ");
    EXPECT_EQ(labels.find("(groups:") != std::string::npos, cpu::Simd().lanes >= 8) << labels;
    ExpectAgrees(*std::move(schedule), graph, -1, 1, 3);
  }
}

}  // namespace
}  // namespace rewright
