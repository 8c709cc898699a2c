#include "search/optimize/weight_bytes.h"

#include <gtest/gtest.h>

#include <memory>

#include "backends/device_factory.h"
#include "core/ir/graph.h"

namespace rewright {
namespace {

// A file may have as many nodes in a row as it likes: they are looked at one by one, not each inside the one before.
TEST(WeightBytes, OfAWeightBehindALongChain) {
  auto arena = std::make_shared<Arena>();
  const TensorType type{DType::kFloat32, {2, 3}};
  Value weight = *arena->AddState("w", Tensor(type));
  for (int i = 0; i < 200'000; ++i) weight = *arena->Apply("neg", {weight});
  const Value x = *arena->AddInput("x", type);
  const Graph graph(arena, {x}, {{*arena->Apply("mul", {x, weight}), "y"}});
  EXPECT_EQ(WeightBytes(graph).Of(graph), 24);
  const auto device = MakeDevice("cpu", {});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->Partition(graph).size(), 1u);
  const auto schedule = (*device)->Compile(graph);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
}

}  // namespace
}  // namespace rewright
