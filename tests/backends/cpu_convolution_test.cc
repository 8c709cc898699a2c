// The kernels of `convolution` against the interpreter: every way that a gradient of conv2d or a transposed convolution
// takes, at odd sizes.
#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu_runner_util.h"

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
  const auto device = MakeDevice("cpu", {2, ""});
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

}  // namespace
}  // namespace rewright
