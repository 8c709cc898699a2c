// f on every device is f on the part of each device.
#include "core/lift/lift.h"

#include <cstring>

#include "core/adjoint/operators.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/oracle.h"
#include "core/ir/random_tensor.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/counts.h"

namespace rewright {
namespace {

Tensor PartOf(const Tensor& whole, int64_t device) {
  TensorType type = whole.type();
  type.shape.erase(type.shape.begin());
  Tensor part(type);
  const int64_t bytes = part.num_bytes();
  std::memcpy(part.data(), static_cast<const char*>(whole.data()) + device * bytes, static_cast<size_t>(bytes));
  return part;
}

std::vector<TensorType> TypesOf(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

absl::StatusOr<std::vector<Tensor>> Computed(const OpDef& op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  MeaningCache cache;
  const auto application = Apply(op, TypesOf(inputs), attrs, cache);
  if (!application.ok()) return application.status();
  const Bindings bindings = BindingsOf(*application->meaning, TypesOf(inputs), application->attrs);
  return RunOracle(*application->meaning, bindings, application->outputs, inputs);
}

class EveryOperatorLifted : public testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOperatorLifted, IsTheOperatorOnEveryPart) {
  const OpDef& base = *GetParam();
  const OpDef& lifted = *LiftedOp(base);
  EXPECT_EQ(LiftedFrom(lifted), &base);
  EXPECT_EQ(FindOp("each_" + base.name), &lifted);
  Rng rng(7);
  int compared = 0;
  for (int round = 0; round < 20; ++round) {
    const OpSample sample = lifted.sample(rng);
    std::vector<Tensor> inputs;
    for (const TensorType& type : sample.inputs) inputs.push_back(RandomTensor(type, rng, sample.low, sample.high));
    const auto all = Computed(lifted, inputs, sample.attrs);
    const int64_t devices = inputs.empty() ? std::get<int64_t>(sample.attrs.at("degree")) : inputs[0].shape()[0];
    Attrs attrs = sample.attrs;
    if (inputs.empty()) attrs.erase("degree");
    for (int64_t device = 0; device < devices; ++device) {
      std::vector<Tensor> parts;
      for (const Tensor& input : inputs) parts.push_back(PartOf(input, device));
      const auto part = Computed(base, parts, attrs);
      if (!part.ok()) {  // a quotient by zero
        EXPECT_FALSE(all.ok()) << part.status();
        break;
      }
      ASSERT_TRUE(all.ok()) << all.status();
      ASSERT_EQ(all->size(), part->size());
      for (size_t k = 0; k < part->size(); ++k) {
        EXPECT_EQ((*all)[k].shape()[0], devices);
        EXPECT_TRUE(PartOf((*all)[k], device).BitEqual((*part)[k])) << "device " << device << ", output " << k;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 5);
}

INSTANTIATE_TEST_SUITE_P(Lift, EveryOperatorLifted, testing::ValuesIn(AllOps()),
                         [](const auto& info) { return info.param->name; });

TEST(Lift, TwiceIsAMesh) {
  const auto graph = ParseGraph(
      "input x: f32[2,3,4]\n%1 = each_each_softmax(x, axis=0)\n%2 = each_each_iota(degree=3, degree2=2, shape=[4], "
      "axis=0, dtype=f32)\noutput y = %1\noutput z = %2\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->type(graph->outputs()[1].value).ToString(), "f32[2,3,4]");
  Rng rng(3);
  const Tensor x = RandomTensor({DType::kFloat32, {2, 3, 4}}, rng, -2, 2);
  const auto whole = InterpretGraph(*graph, {{"x", x}}, {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto rows = Computed(*FindOp("softmax"), {x}, {{"axis", int64_t{2}}});
  ASSERT_TRUE(rows.ok());
  for (int64_t i = 0; i < x.num_elements(); ++i) EXPECT_NEAR((*whole)[0].At(i), (*rows)[0].At(i), 1e-6);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ((*whole)[1].At(i), static_cast<double>(i % 4));
}

TEST(Lift, TheGradientIsTheLiftedGradient) {
  const OpDef* lifted = FindOp("each_matmul");
  ASSERT_NE(lifted, nullptr);
  const auto gradient = GradientOp(*lifted, 0);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_EQ((*gradient)->name, "each_matmul_grad_a");
  EXPECT_EQ(*gradient, FindOp("each_matmul_grad_a"));
  const TensorType x{DType::kFloat32, {2, 3, 4}};
  const auto call =
      GradientCall(*FindOp("each_reduce_sum"), {x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}},
                   {{DType::kFloat32, {2, 3}}}, 0);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->op, FindOp("each_reduce_sum_grad_x"));
  EXPECT_EQ(std::get<std::vector<int64_t>>(call->attrs.at("x_shape")), (std::vector<int64_t>{3, 4}));
}

TEST(Lift, ErrorsSayWhatIsExpected) {
  const auto no_device = ParseGraph("input x: f32[]\n%1 = each_exp(x)\noutput y = %1\n");
  EXPECT_THAT(std::string(no_device.status().message()),
              testing::HasSubstr("each_exp: an operand must have the device as its first axis"));
  const auto differ = ParseGraph("input x: f32[2,3]\ninput y: f32[4,3]\n%1 = each_sub(x, y)\noutput z = %1\n");
  EXPECT_THAT(std::string(differ.status().message()),
              testing::HasSubstr("all operands must be on as many devices (found 2 = 4)"));
  const auto axis = ParseGraph("input x: f32[2,3]\n%1 = each_softmax(x, axis=1)\noutput y = %1\n");
  EXPECT_THAT(std::string(axis.status().message()), testing::HasSubstr("axis 1 of a tensor with 1 axes"));
  EXPECT_EQ(FindOp("each_nothing"), nullptr);
}

}  // namespace
}  // namespace rewright
