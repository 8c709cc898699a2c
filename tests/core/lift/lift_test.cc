// Tests that f on every device equals f on the part of each device.
#include "core/lift/lift.h"

#include <cstring>

#include "core/adjoint/operators.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/oracle.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
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

// ---------------------------------------------------------------- blocks

struct Placed {
  int64_t axis = -1, own = 0, before = 0;  // the axis that is cut; elements of a block, and that precede it
};

// Moves rows, along the axis, from one tensor to another whose other sizes are the same.
void CopyRow(const Tensor& from, int64_t row, int64_t axis, Tensor* to, int64_t to_row) {
  int64_t outer = 1, inner = DTypeSize(from.dtype());
  for (int64_t k = 0; k < axis; ++k) outer *= from.shape()[k];
  for (int64_t k = axis + 1; k < from.type().rank(); ++k) inner *= from.shape()[k];
  for (int64_t k = 0; k < outer; ++k) {
    std::memcpy(static_cast<char*>(to->data()) + (k * to->shape()[axis] + to_row) * inner,
                static_cast<const char*>(from.data()) + (k * from.shape()[axis] + row) * inner,
                static_cast<size_t>(inner));
  }
}

Tensor Zeros(const TensorType& type) {
  Tensor zeros(type);
  std::memset(zeros.data(), 0, static_cast<size_t>(zeros.num_bytes()));
  return zeros;
}

class EveryOperatorInBlocks : public testing::TestWithParam<const OpDef*> {};

// block_f equals f with 0 for every element that a device does not hold.
TEST_P(EveryOperatorInBlocks, IsTheOperatorOnWhatADeviceHas) {
  const OpDef& base = *GetParam();
  const OpDef& op = *BlockOp(base);
  EXPECT_EQ(BlockFrom(op), &base);
  EXPECT_EQ(FindOp("block_" + base.name), &op);
  Rng rng(11);
  int compared = 0, cut_results = 0, cut_operands = 0;
  for (int round = 0; round < 40; ++round) {
    const OpSample sample = op.sample(rng);
    const auto attr = [&](const std::string& name) { return sample.attrs.at(name + (base.FindAttr(name) ? "2" : "")); };
    const auto list = [&](const std::string& name) { return std::get<std::vector<int64_t>>(attr(name)); };
    const auto degree = std::get<int64_t>(attr("degree")), first = std::get<int64_t>(attr("first"));
    std::vector<Tensor> wholes, here;
    std::vector<Placed> placed;
    for (size_t k = 0; k < sample.inputs.size(); ++k) {
      TensorType type = sample.inputs[k];
      type.shape.erase(type.shape.begin());
      Placed& place = placed.emplace_back(Placed{list("cut")[k]});
      if (place.axis >= 0) {
        const bool edges = !list("before").empty();
        place.before = edges ? list("before")[k] : 0;
        place.own = type.shape[place.axis] - place.before - (edges ? list("after")[k] : 0);
        type.shape[place.axis] = degree * place.own;
        ++cut_operands;
      }
      wholes.push_back(RandomTensor(type, rng, sample.low, sample.high));
      here.push_back(Zeros(sample.inputs[k]));
    }
    Attrs attrs = sample.attrs;
    std::erase_if(attrs, [&](const auto& given) { return base.FindAttr(given.first) == nullptr; });
    std::vector<std::vector<Tensor>> expected;  // by device
    const int64_t devices = here.empty() ? std::get<int64_t>(attr("here")) : here[0].shape()[0];
    bool fails = false;
    for (int64_t device = 0; device < devices; ++device) {
      std::vector<Tensor> seen;
      for (size_t k = 0; k < wholes.size(); ++k) {
        const int64_t axis = placed[k].axis, bytes = here[k].num_bytes() / devices;
        Tensor part = PartOf(here[k], device);
        seen.push_back(axis < 0 ? wholes[k] : Zeros(wholes[k].type()));
        if (axis < 0) part = wholes[k];
        for (int64_t row = 0; axis >= 0 && row < part.shape()[axis]; ++row) {
          const int64_t at = (first + device) * placed[k].own + row - placed[k].before;
          if (at < 0 || at >= wholes[k].shape()[axis]) continue;
          CopyRow(wholes[k], at, axis, &part, row);
          CopyRow(wholes[k], at, axis, &seen[k], at);
        }
        std::memcpy(static_cast<char*>(here[k].data()) + device * bytes, part.data(), static_cast<size_t>(bytes));
      }
      auto whole = Computed(base, seen, attrs);
      fails |= !whole.ok();  // a quotient by zero
      if (fails) break;
      for (size_t k = 0; k < whole->size(); ++k) {
        const int64_t axis = list("result")[k];
        if (axis < 0) continue;
        ++cut_results;
        TensorType type = (*whole)[k].type();
        type.shape[axis] /= degree;
        Tensor block(type);
        for (int64_t row = 0; row < type.shape[axis]; ++row) {
          CopyRow((*whole)[k], (first + device) * type.shape[axis] + row, axis, &block, row);
        }
        (*whole)[k] = block;
      }
      expected.push_back(*std::move(whole));
    }
    const auto found = Computed(op, here, sample.attrs);
    if (fails) continue;
    ASSERT_TRUE(found.ok()) << found.status();
    for (int64_t device = 0; device < devices; ++device) {
      for (size_t k = 0; k < found->size(); ++k) {
        EXPECT_TRUE(PartOf((*found)[k], device).BitEqual(expected[device][k]))
            << "device " << device << " of " << devices << ", result " << k << ": " << AttrsString(sample.attrs);
      }
    }
    ++compared;
  }
  EXPECT_GT(compared, 15);
  EXPECT_GT(cut_operands + cut_results, 5);
}

std::vector<const OpDef*> Declared() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : AllOps()) {
    if (op->name != "top_k") ops.push_back(op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Lift, EveryOperatorInBlocks, testing::ValuesIn(Declared()),
                         [](const auto& info) { return info.param->name; });

TEST(Blocks, ErrorsSayWhatIsExpected) {
  const auto error = [](const std::string& application) {
    const auto graph = ParseGraph("input x: f32[2,3]\n%1 = " + application + "\noutput y = %1\n");
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error("block_exp(x, cut=[0], result=[0], degree=1)"), testing::HasSubstr("a number of degree or above"));
  EXPECT_THAT(error("block_exp(x, cut=[], result=[0], degree=2)"),
              testing::HasSubstr("cut must have an axis, or -1, for each operand"));
  EXPECT_THAT(error("block_exp(x, cut=[1], result=[0], degree=2)"), testing::HasSubstr("axes of the operands"));
  EXPECT_THAT(error("block_exp(x, cut=[0], result=[1], degree=2)"), testing::HasSubstr("axes of the results"));
  EXPECT_THAT(error("block_exp(x, cut=[0], result=[0], before=[1], degree=2)"),
              testing::HasSubstr("before and after must have a number for each operand, or none"));
  EXPECT_THAT(error("block_exp(x, cut=[-1], result=[0], degree=2)"),
              testing::HasSubstr("must be a multiple of degree"));
  EXPECT_THAT(error("block_top_k(x, k=1, axis=0, cut=[0], result=[0,0], degree=2)"),
              testing::HasSubstr("no declaration says what its elements are"));
  EXPECT_THAT(std::string(GradientOp(*FindOp("block_exp"), 0).status().message()),
              testing::HasSubstr("block_exp: has no gradient"));
}

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
