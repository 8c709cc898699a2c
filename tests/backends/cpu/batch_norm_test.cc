// The kernel of batch_norm_train against the interpreter in float64, also where its numbers lie far from 0.
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

TEST(CpuBatchNormTrain, IsTheInterpreters) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  for (const Shape& shape :
       {Shape{1, 1}, {7, 3}, {5, 1, 33}, {3, 4, 5, 7}, {2, 3, 40, 40}, {9, 2, 600}, {1, 2, 1, 5000}, {70, 3, 41}}) {
    auto arena = std::make_shared<Arena>();
    const Value x = *arena->AddInput("x", {DType::kFloat32, shape});
    const Value scale = *arena->AddInput("scale", {DType::kFloat32, {shape[1]}});
    const Value bias = *arena->AddInput("bias", {DType::kFloat32, {shape[1]}});
    const NodeId id = *arena->Add("batch_norm_train", {x, scale, bias}, {{"epsilon", 1e-3}});
    const Graph graph(arena, {x, scale, bias}, {{Value{id, 0}, "y"}, {Value{id, 1}, "mean"}, {Value{id, 2}, "var"}});
    SCOPED_TRACE(PrintGraph(graph));
    const Node& node = graph.node(id);
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ASSERT_EQ(schedule->steps.size(), 1u);
    EXPECT_EQ(schedule->steps[0].label, "batch_norm_train");
    const auto executor = MakeHostile(graph, *std::move(schedule));
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (const double offset : {0.0, 1000.0}) {
      std::vector<Tensor> inputs, exact;
      std::vector<TensorType> types;
      for (Value input : {x, scale, bias}) {
        inputs.push_back(RandomTensor(graph.type(input), rng, -3, 3));
        types.push_back({DType::kFloat64, graph.type(input).shape});
        exact.emplace_back(types.back());
        for (int64_t i = 0; i < inputs.back().num_elements(); ++i) {
          if (input == x) inputs.back().Set(i, inputs.back().At(i) + offset);
          exact.back().Set(i, inputs.back().At(i));
        }
      }
      MeaningCache cache;
      const auto in_f64 = Apply(*node.op, types, node.attrs, cache);
      ASSERT_TRUE(in_f64.ok()) << in_f64.status();
      const auto expected =
          Interpret(*in_f64->meaning, BindingsOf(*in_f64->meaning, types, node.attrs), in_f64->outputs, exact);
      ASSERT_TRUE(expected.ok()) << expected.status();
      const auto found = RunTwice(**executor, inputs);
      ASSERT_TRUE(found.ok()) << found.status();
      // A mean of 1000 as a float is off by 3e-5 at most, and so is what is taken from it.
      const double tolerance = offset == 0 ? 2e-5 : 2e-3;
      for (size_t output = 0; output < 3; ++output) {
        for (int64_t i = 0; i < (*expected)[output].num_elements(); ++i) {
          ASSERT_NEAR((*found)[output].At(i), (*expected)[output].At(i), tolerance) << output << " at " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright
