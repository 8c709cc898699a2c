// The kernel of the gradients of pools against the oracle: windows that overlap, touch or leave gaps, at odd sizes,
// with padding, dilations and ties.
#include <limits>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/interpreter/oracle.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

struct Pool {
  Shape x;
  std::vector<int64_t> kernel, strides, pads, dilations;
};

// The pool, whose operand is x, and its gradient.
Graph GradientOf(const Pool& pool, bool max, int ceil_mode, int count_include_pad) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, pool.x});
  Attrs attrs = {{"kernel", pool.kernel},
                 {"strides", pool.strides},
                 {"pads", pool.pads},
                 {"ceil_mode", static_cast<int64_t>(ceil_mode)}};
  if (max) {
    attrs["dilations"] = pool.dilations;
  } else {
    attrs["count_include_pad"] = static_cast<int64_t>(count_include_pad);
  }
  const auto y = arena->Apply(max ? "max_pool2d" : "avg_pool2d", {x}, attrs);
  EXPECT_TRUE(y.ok()) << y.status();
  const Value u = *arena->AddInput("u", arena->type(*y));
  if (!max) attrs["x_shape"] = pool.x;
  const auto gradient =
      max ? arena->Apply("max_pool2d_grad_x", {x, u}, attrs) : arena->Apply("avg_pool2d_grad_x", {u}, attrs);
  EXPECT_TRUE(gradient.ok()) << gradient.status();
  return Graph(arena, max ? std::vector<Value>{x, u} : std::vector<Value>{u}, {{*gradient, "g"}});
}

// Few different numbers, so that many are equal.
Tensor PooledElements(const TensorType& type, Rng& rng) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f, -0.0f, 1, 2, -3, -kInfinity, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  const size_t kinds = 5 + rng() % 4;
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.as<float>()[i] = values[rng() % (rng() % 8 == 0 ? kinds : 4)];
  }
  return tensor;
}

// Whole numbers: their sums are exact in every order.
Tensor Cotangents(const TensorType& type, Rng& rng) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, static_cast<double>(rng() % 9) - 4);
  return tensor;
}

TEST(CpuPoolGrad, IsTheOraclesForEveryWindow) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  const std::vector<Pool> pools = {
      {{1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},     // a point
      {{2, 3, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},     // windows touch
      {{2, 3, 9, 7}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},     // and leave a rest
      {{1, 5, 11, 13}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},   // they overlap
      {{2, 2, 7, 10}, {3, 2}, {1, 3}, {2, 0, 1, 1}, {1, 1}},    // gaps on one side
      {{1, 3, 10, 9}, {2, 3}, {2, 1}, {0, 1, 1, 2}, {2, 2}},    // dilations
      {{3, 1, 5, 5}, {5, 5}, {1, 1}, {4, 4, 4, 4}, {1, 1}},     // windows larger than what they see
      {{1, 2, 6, 6}, {6, 6}, {6, 6}, {0, 0, 0, 0}, {1, 1}},     // one window
      {{2, 37, 17, 23}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},  // enough for two threads
      {{1, 1, 6, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}, {4, 3}},     // dilated windows that see one point of a row
  };
  for (const Pool& pool : pools) {
    for (int variant = 0; variant < 6; ++variant) {
      const bool max = variant < 2;
      if (!max && pool.dilations != std::vector<int64_t>{1, 1}) continue;
      const Graph graph = GradientOf(pool, max, variant % 2, variant / 2 % 2);
      SCOPED_TRACE(PrintGraph(graph));
      const Node& node = graph.node(graph.outputs()[0].value.node);
      std::vector<TensorType> types;
      for (Value input : graph.inputs()) types.push_back(graph.type(input));
      const Bindings bindings = BindingsOf(*node.meaning, types, node.attrs);
      auto schedule = (*device)->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      ASSERT_EQ(schedule->steps.size(), 1u);
      EXPECT_EQ(schedule->steps[0].label, node.op->name);
      const auto executor = MakeHostile(graph, *std::move(schedule));
      ASSERT_TRUE(executor.ok()) << executor.status();
      const int rounds = node.outputs[0].num_elements() < 1000 ? 10 : 1;  // the oracle takes seconds
      for (int round = 0; round < rounds; ++round) {
        std::vector<Tensor> inputs = {Cotangents(types.back(), rng)};
        if (max) inputs.insert(inputs.begin(), PooledElements(types[0], rng));
        const auto expected = RunOracle(*node.meaning, bindings, node.outputs, inputs);
        ASSERT_TRUE(expected.ok()) << expected.status();
        const auto found = RunTwice(**executor, inputs);
        ASSERT_TRUE(found.ok()) << found.status();
        for (int64_t i = 0; i < node.outputs[0].num_elements(); ++i) {
          ASSERT_NEAR((*found)[0].At(i), (*expected)[0].At(i), max ? 0 : 1e-5) << i << " in round " << round;
        }
      }
    }
  }
}

// Behind a convolution, whose results lie in blocks of channels.
TEST(CpuPoolGrad, ReadsBlockedLayouts) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const char* attrs :
       {"kernel=[2,2], strides=[2,2]", "kernel=[3,3], strides=[2,2], pads=[1,1,1,1]",
        "kernel=[3,2], strides=[1,3], pads=[2,0,1,1], dilations=[2,1]", "kernel=[2,2], strides=[2,2], ceil_mode=1"}) {
    const std::string start = absl::StrCat("input x: f32[2,16,9,11]\nstate w: f32[32,16,3,3]\n%0 = conv2d(x, w)\n",
                                           "%1 = relu(%0)\n%2 = max_pool2d(%1, ", attrs, ")\n%3 = tanh(%2)\n");
    const Graph graph =
        GraphWithWeights(absl::StrCat(start, "%4 = max_pool2d_grad_x(%1, %3, ", attrs, ")\noutput y = %4\n"), -1, 1, 5);
    SCOPED_TRACE(PrintGraph(graph));
    ExpectAgrees(**device, graph, -1, 1, 6);
  }
}

}  // namespace
}  // namespace rewright
