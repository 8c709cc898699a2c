// The kernel of argmax against the oracle: ties, infinities, NaN, zeros of both signs, along every axis.
#include <limits>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/interpreter/oracle.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

// Few different numbers, so that many are equal.
Tensor TiedElements(const TensorType& type, Rng& rng) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f, -0.0f, 1, 2, 2.5f, -3, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  // The greatest values are rare: otherwise they would decide everywhere.
  const size_t kinds[] = {2, 4, 6, 7, 9};
  const size_t kind = kinds[rng() % 5];
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.as<float>()[i] = values[rng() % 16 == 0 ? rng() % kind : rng() % std::min<size_t>(kind, 6)];
  }
  return tensor;
}

TEST(CpuArgmax, IsTheOraclesAlongEveryAxis) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  for (const Shape& shape : {Shape{1}, {7}, {1031}, {5, 1}, {3, 33}, {33, 3}, {2, 300, 5}, {1, 4, 517}, {40, 9, 67}}) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (int keepdims : {0, 1}) {
        auto arena = std::make_shared<Arena>();
        const Value x = *arena->AddInput("x", {DType::kFloat32, shape});
        const NodeId id =
            *arena->Add("argmax", {x}, {{"axis", static_cast<int64_t>(axis)}, {"keepdims", int64_t{keepdims}}});
        const Graph graph(arena, {x}, {{Value{id, 0}, "y"}});
        SCOPED_TRACE(PrintGraph(graph));
        const Node& node = graph.node(id);
        const Bindings bindings = BindingsOf(*node.meaning, {graph.type(x)}, node.attrs);
        auto schedule = (*device)->Compile(graph);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        ASSERT_EQ(schedule->steps.size(), 1u);
        EXPECT_THAT(schedule->steps[0].label, testing::HasSubstr("argmax ("));
        const auto executor = MakeHostile(graph, *std::move(schedule));
        ASSERT_TRUE(executor.ok()) << executor.status();
        for (int round = 0; round < 20; ++round) {
          const Tensor elements = TiedElements(graph.type(x), rng);
          const auto expected = RunOracle(*node.meaning, bindings, node.outputs, {elements});
          ASSERT_TRUE(expected.ok()) << expected.status();
          const auto found = RunTwice(**executor, {elements});
          ASSERT_TRUE(found.ok()) << found.status();
          ASSERT_TRUE((*found)[0].BitEqual((*expected)[0])) << "round " << round;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright
