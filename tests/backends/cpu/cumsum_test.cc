// The kernel of cumsum against the interpreter: every axis, both directions, with and without an element's own.
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/oracle.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

TEST(CpuCumsum, IsTheOraclesAlongEveryAxis) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  for (const Shape& shape : {Shape{1}, {7}, {1031}, {5, 1}, {3, 33}, {2, 100, 5}, {1, 4, 517}, {40, 9, 67}}) {
    for (int64_t c = 0; c < static_cast<int64_t>(shape.size()) * 4; ++c) {
      for (const DType dtype : {DType::kFloat32, DType::kInt32, DType::kInt64}) {
        auto arena = std::make_shared<Arena>();
        const Value x = *arena->AddInput("x", {dtype, shape});
        const NodeId id = *arena->Add("cumsum", {x}, {{"axis", c / 4}, {"exclusive", c / 2 % 2}, {"reverse", c % 2}});
        const Graph graph(arena, {x}, {{Value{id, 0}, "y"}});
        SCOPED_TRACE(PrintGraph(graph));
        const Node& node = graph.node(id);
        auto schedule = (*device)->Compile(graph);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        ASSERT_EQ(schedule->steps.size(), 1u);
        EXPECT_EQ(schedule->steps[0].label, "cumsum");
        const auto executor = MakeHostile(graph, *std::move(schedule));
        ASSERT_TRUE(executor.ok()) << executor.status();
        const Tensor elements = RandomTensor(graph.type(x), rng, -3, 3);
        const auto expected =
            RunOracle(*node.meaning, BindingsOf(*node.meaning, {graph.type(x)}, node.attrs), node.outputs, {elements});
        ASSERT_TRUE(expected.ok()) << expected.status();
        const auto found = RunTwice(**executor, {elements});
        ASSERT_TRUE(found.ok()) << found.status();
        for (int64_t i = 0; i < elements.num_elements(); ++i) {
          if (dtype == DType::kFloat32) {
            ASSERT_NEAR((*found)[0].At(i), (*expected)[0].At(i), 2e-3) << i;
          } else {
            ASSERT_EQ((*found)[0].AtInt(i), (*expected)[0].AtInt(i)) << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright
