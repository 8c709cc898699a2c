// The kernel of reductions against the interpreter: every set of axes, few and many sums, of a tensor and of what
// pointwise nodes give, in plain and in blocked layouts.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

void AgreesWithTheInterpreter(Device& device, const std::string& text, const std::string& label) {
  SCOPED_TRACE(text);
  const Graph graph = GraphWithWeights(text, -1, 1, 3);
  auto schedule = device.Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_TRUE(std::any_of(schedule->steps.begin(), schedule->steps.end(),
                          [&](const Step& step) { return step.label == label; }))
      << "no " << label;
  ExpectAgrees(*std::move(schedule), graph, -1, 2, 7, 2e-5);
}

std::vector<int> AxesOf(unsigned set) {
  std::vector<int> axes;
  for (int k = 0; k < 8; ++k) {
    if ((set >> k & 1) != 0) axes.push_back(k);
  }
  return axes;
}

constexpr const char* kReductions[] = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"};

TEST(CpuReduce, IsTheOraclesOverAllAxes) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  unsigned drawn = 0;
  for (const Shape& shape : {Shape{1},
                             {70001},
                             {3, 5},
                             {1, 20000},
                             {40, 9, 67},
                             {700, 1, 33},
                             {2, 16, 13, 13},
                             {5, 3, 300},
                             {4, 600},
                             {3, 2, 5, 7}}) {
    const std::string type = absl::StrCat("f32[", absl::StrJoin(shape, ","), "]");
    for (unsigned set = 1; set < 1u << shape.size(); ++set) {
      const std::string axes = absl::StrCat(", axes=[", absl::StrJoin(AxesOf(set), ","), "])\noutput y = ");
      const std::string reduction = kReductions[drawn++ % 4];
      AgreesWithTheInterpreter(**device, absl::StrCat("input x: ", type, "\n%0 = ", reduction, "(x", axes, "%0\n"),
                               reduction);
      AgreesWithTheInterpreter(**device,
                               absl::StrCat("input x: ", type, "\ninput y: ", type, "\n%0 = mul(x, y)\n%1 = abs(%0)\n",
                                            "%2 = ", reduction, "(%1", axes, "%2\n"),
                               "mul+abs+" + reduction);
    }
  }
}

// Convolutions give their results in blocks of channels.
TEST(CpuReduce, ReadsBlockedLayouts) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (unsigned set = 1; set < 16; ++set) {
    const std::string reduction = kReductions[set % 4];
    const std::string start =
        "input x: f32[3,16,11,9]\ninput z: f32[1,32,1,1]\ninput w: f32[32,16,3,3]\n%0 = conv2d(x, w, pads=[1,1,1,1])\n";
    const std::string axes = absl::StrCat(", axes=[", absl::StrJoin(AxesOf(set), ","), "])\noutput y = ");
    AgreesWithTheInterpreter(
        **device, absl::StrCat(start, "%1 = add(%0, z)\n%2 = ", reduction, "(%0", axes, "%2\noutput z = %1\n"),
        reduction);
    AgreesWithTheInterpreter(
        **device,
        absl::StrCat(start, "%1 = sub(%0, z)\n%2 = mul(%1, %0)\n%3 = ", reduction, "(%2", axes, "%3\noutput z = %0\n"),
        "sub+mul+" + reduction);
  }
}

std::vector<Tensor> Outputs(Device& device, const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  auto schedule = device.Compile(graph);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  const auto executor = MakeHostile(graph, *std::move(schedule));
  EXPECT_TRUE(executor.ok()) << executor.status();
  const absl::Status status = (*executor)->Run(inputs, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs;
}

// The channels of a convolution lie in blocks where they are summed at once, and row by row where they were an output:
// the stages of a pipeline. Batches of one image and of several, one block and several, sums that threads share.
TEST(CpuReduce, SumsOverImagesAreTheSameBitsInBlocksAndRowByRow) {
  for (const int threads : {1, 3}) {
    const auto device = MakeDevice("cpu", {threads});
    ASSERT_TRUE(device.ok()) << device.status();
    Rng rng(5);
    for (const Shape& image :
         {Shape{1, 16, 8, 8}, {3, 16, 13, 11}, {2, 48, 7, 7}, {5, 32, 56, 56}, {1, 16, 120, 100}}) {
      const std::string type = absl::StrCat("f32[", absl::StrJoin(image, ","), "]");
      const std::string channels = absl::StrCat(image[1]);
      for (const char* axes : {"[0,2,3]", "[2,3]"}) {
        for (const char* terms : {"%1 = identity(%0)", "%1 = mul(%0, %0)"}) {
          const std::string sum =
              absl::StrCat(terms, "\n%2 = reduce_sum(%1, axes=", axes, ")\n%3 = reduce_mean(%1, axes=", axes, ")\n");
          const Graph whole = GraphWithWeights(absl::StrCat("input x: ", type, "\ninput w: f32[", channels, ",",
                                                            channels, ",3,3]\n%0 = conv2d(x, w, pads=[1,1,1,1])\n", sum,
                                                            "output image = %0\noutput sum = %2\noutput mean = %3\n"),
                                               -1, 1, 3);
          std::string later = sum;
          for (size_t at; (at = later.find("%0")) != std::string::npos;) later.replace(at, 2, "y");
          const Graph second = GraphWithWeights(
              absl::StrCat("input y: ", type, "\n", later, "output sum = %2\noutput mean = %3\n"), -1, 1, 3);
          const std::vector<Tensor> inputs = {RandomTensor(whole.type(whole.inputs()[0]), -1, 1, rng),
                                              RandomTensor(whole.type(whole.inputs()[1]), -1, 1, rng)};
          const std::vector<Tensor> at_once = Outputs(**device, whole, inputs);
          const std::vector<Tensor> behind = Outputs(**device, second, {at_once[0]});
          for (size_t k = 0; k < 2; ++k) {
            EXPECT_TRUE(behind[k].BitEqual(at_once[k + 1])) << type << axes << terms << ", " << threads << " threads";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright
