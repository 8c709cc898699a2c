// Tests properties of every declaration, and shapes worked out by hand.
#include "core/ops/ops.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ir/index_value.h"
#include "core/ir/op.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// ---------------------------------------------------------------- the list

TEST(OpsTest, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const OpDef* op : AllOps()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
    EXPECT_EQ(FindOp(op->name), op);
  }
  EXPECT_EQ(FindOp("no_such_operator"), nullptr);
  EXPECT_NE(FindOp("each_each_softmax_grad_x_tangent"), nullptr);
  EXPECT_NE(FindOp("conv2d_scatter_x_grad_u"), nullptr);
}

// Names come from unchecked files: no name takes long, and operators of operators have a greatest depth.
TEST(OpsTest, NamesOfAnyLengthAreRefusedSoon) {
  std::string lifted, derived, both;
  for (int i = 0; i < 40; ++i) {
    lifted += "each_";
    derived += i % 2 == 0 ? "_grad_x" : "_scatter_u";
    both += "_tangent";
  }
  for (const std::string& name : {lifted + "relu", lifted + "nothing" + both, "relu" + both, "nothing" + derived,
                                  "relu" + derived, lifted + "relu" + both + "_free_shift"}) {
    EXPECT_EQ(FindOp(name), nullptr) << name;
  }
  EXPECT_NE(FindOp("each_each_each_each_relu_tangent_tangent_tangent_tangent"), nullptr);
  EXPECT_EQ(FindOp("conv2d_grad_x_grad_u_grad_u_grad_u_grad_u"), nullptr);
  // The deepest name allowed, of an operator that does not exist.
  EXPECT_EQ(FindOp("each_block_each_block_nothing_tangent_grad_x_scatter_x_tangent"), nullptr);
  EXPECT_EQ(FindOp(std::string(100000, 'x')), nullptr);
  EXPECT_EQ(FindOp("foreign." + std::string(100000, 'x')), nullptr);
  for (int i = 0; i < 100; ++i) lifted += lifted.size() < 1000000 ? lifted : "";
  EXPECT_EQ(FindOp(lifted), nullptr);
}

TEST(OpsTest, DeclarationsAreComplete) {
  for (const OpDef* op : AllOps()) {
    EXPECT_FALSE(op->inputs.empty() && op->attrs.empty()) << op->name;
    EXPECT_FALSE(op->summary.empty()) << op->name;
    EXPECT_EQ(op->summary.back(), '.') << op->name << ": " << op->summary;
    EXPECT_TRUE(op->meaning && op->sample) << op->name;
    EXPECT_TRUE(!op->commutative || op->inputs.size() == 2) << op->name;
    std::set<std::string> attrs;
    for (const AttrSpec& spec : op->attrs) {
      EXPECT_TRUE(attrs.insert(spec.name).second) << op->name << " " << spec.name;
      EXPECT_FALSE(spec.doc.empty()) << op->name << " " << spec.name;
    }
  }
}

TEST(OpsTest, DescriptionsNameTheOperator) {
  for (const OpDef* op : AllOps()) {
    const std::string text = DescribeOp(*op);
    EXPECT_THAT(text, HasSubstr(op->name));
    EXPECT_THAT(text, HasSubstr(op->summary));
    for (const AttrSpec& spec : op->attrs) EXPECT_THAT(text, HasSubstr(spec.name));
  }
}

// The documentation's formula must show where elements come from.
TEST(OpsTest, DescriptionsShowMatrices) {
  const std::pair<const char*, const char*> expected[] = {
      {"transpose", "out[i0, i1] = x[i1, i0]"},
      {"relu", "out[i0, i1] = max(x[i0, i1], 0)"},
      {"add", "out[i0, i1] = a[i0, i1] + b[i0, i1]"},
      {"matmul", "out[m, n] = sum k < |a|1: a[m, k] * b[k, n]"},
  };
  for (const auto& [name, formula] : expected) EXPECT_THAT(DescribeOp(*FindOp(name)), HasSubstr(formula));
  for (const char* name : {"slice", "pad", "reverse", "reduce_sum", "softmax", "gather", "concat"}) {
    EXPECT_THAT(DescribeOp(*FindOp(name)), testing::ContainsRegex("meaning, for inputs of ranks 2")) << name;
  }
  for (const OpDef* op : AllOps()) {
    if (op->name.starts_with("random_uniform")) continue;  // of a seed, which is a scalar
    EXPECT_THAT(DescribeOp(*op), testing::Not(HasSubstr("for inputs of ranks 0"))) << op->name;
  }
}

// An opaque operator is opaque in all outputs, and tells on which values its elements depend.
TEST(OpsTest, OpaqueOperatorsHaveOpaqueElementsAlone) {
  std::set<std::string> opaque;
  for (const OpDef* op : AllOps()) {
    Rng rng(kSeed);
    MeaningCache cache;
    const OpSample sample = op->sample(rng);
    const auto applied = Apply(*op, sample.inputs, sample.attrs, cache);
    ASSERT_TRUE(applied.ok()) << applied.status();
    if (applied->meaning->IsOpaque()) opaque.insert(op->name);
    for (const OutputMeaning& output : applied->meaning->outputs) {
      EXPECT_EQ(output.element->kind() == ExprKind::kOpaque, applied->meaning->IsOpaque()) << op->name;
      EXPECT_EQ(output.element->Contains(ExprKind::kOpaque), applied->meaning->IsOpaque()) << op->name;
    }
  }
  EXPECT_EQ(opaque, std::set<std::string>{"top_k"});
  const auto top = [](int64_t axis, int64_t largest) {
    MeaningCache cache;
    const std::vector<TensorType> x = {F32({5, 7})};
    const auto applied = Apply(*FindOp("top_k"), x, {{"axis", axis}, {"largest", largest}, {"k", int64_t{2}}}, cache);
    return PrintExpr(applied->meaning->outputs[1].element, {"x"});
  };
  EXPECT_EQ(top(0, 1), "top_k{axis=0, largest=1}.1(i0, i1, k)");
  EXPECT_NE(top(0, 1), top(1, 1));
  EXPECT_NE(top(0, 1), top(0, 0));
}

// ---------------------------------------------------------------- samples

class SampleTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SampleTest, SamplesAreLegal) {
  const OpDef* op = FindOp(GetParam());
  Rng rng(kSeed);
  MeaningCache cache;
  for (int i = 0; i < kSamples; ++i) {
    const OpSample sample = op->sample(rng);
    const std::string where =
        absl::StrCat(Text(op->name, sample.inputs, sample.attrs), ", seed ", kSeed, ", sample ", i);
    EXPECT_LE(sample.low, sample.high) << where;
    const auto attrs = CanonicalAttrs(*op, sample.inputs, sample.attrs);
    ASSERT_TRUE(attrs.ok()) << where << ": " << attrs.status();
    const auto again = CanonicalAttrs(*op, sample.inputs, *attrs);
    ASSERT_TRUE(again.ok()) << where << ": " << again.status();
    EXPECT_EQ(*attrs, *again) << where;

    const auto applied = Apply(*op, sample.inputs, sample.attrs, cache);
    ASSERT_TRUE(applied.ok()) << where << ": " << applied.status();
    ASSERT_FALSE(applied->outputs.empty()) << where;
    for (const TensorType& output : applied->outputs) EXPECT_GE(output.num_elements(), 1) << where;
  }
}

// Exchanging the inputs of a commutative operator leaves the types as they are.
TEST_P(SampleTest, CommutativeTypesAreSymmetric) {
  const OpDef* op = FindOp(GetParam());
  if (!op->commutative) return;
  Rng rng(kSeed);
  MeaningCache cache;
  for (int i = 0; i < kSamples; ++i) {
    OpSample sample = op->sample(rng);
    const auto forward = Apply(*op, sample.inputs, sample.attrs, cache);
    std::swap(sample.inputs[0], sample.inputs[1]);
    const auto backward = Apply(*op, sample.inputs, sample.attrs, cache);
    ASSERT_TRUE(forward.ok() && backward.ok());
    EXPECT_EQ(forward->outputs, backward->outputs) << Text(op->name, sample.inputs, sample.attrs);
  }
}

// Every read of a sample stays inside its operand: each index expression is evaluated at all positions.
class BoundsChecker {
 public:
  BoundsChecker(const std::vector<TensorType>& inputs, std::vector<int64_t> variables)
      : inputs_(inputs), variables_(std::move(variables)) {}

  // True when all reads that `e` performs under the present values are inside.
  bool Check(const ExprPtr& e) {
    if (IsIndexKind(e->kind()) || IsCondKind(e->kind())) return true;
    switch (e->kind()) {
      case ExprKind::kRead: return CheckRead(e);
      case ExprKind::kSelect:
        if (e->arg(0)->ReadsData()) return Check(e->arg(1)) && Check(e->arg(2));
        return Check(EvalCond(e->arg(0), variables_).value() ? e->arg(1) : e->arg(2));
      case ExprKind::kReduce: return CheckReduce(e, 0);
      default:
        for (const ExprPtr& arg : e->args()) {
          if (!Check(arg)) return false;
        }
        return true;
    }
  }

  bool CheckOutput(const OutputMeaning& output, const Shape& shape, size_t axis = 0) {
    if (axis == shape.size()) return Check(output.element);
    for (int64_t i = 0; i < shape[axis]; ++i) {
      variables_[output.index_vars[axis]] = i;
      if (!CheckOutput(output, shape, axis + 1)) return false;
    }
    return true;
  }

 private:
  bool CheckRead(const ExprPtr& e) {
    const Shape& shape = inputs_[e->operand()].shape;
    if (e->args().size() != shape.size()) return false;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (e->arg(axis)->ReadsData()) continue;
      const int64_t index = EvalIndex(e->arg(axis), variables_).value();
      if (index < 0 || index >= shape[axis]) return false;
    }
    return true;
  }

  bool CheckReduce(const ExprPtr& e, size_t depth) {
    if (depth == e->bound().size()) return !EvalCond(e->arg(0), variables_).value_or(true) || Check(e->arg(1));
    const int64_t extent = EvalIndex(e->bound()[depth].extent, variables_).value();
    for (int64_t i = 0; i < extent; ++i) {
      variables_[e->bound()[depth].id] = i;
      if (!CheckReduce(e, depth + 1)) return false;
    }
    return true;
  }

  const std::vector<TensorType>& inputs_;
  std::vector<int64_t> variables_;
};

TEST_P(SampleTest, ReadsStayInside) {
  const OpDef* op = FindOp(GetParam());
  Rng rng(kSeed);
  MeaningCache cache;
  for (int i = 0; i < 40; ++i) {
    const OpSample sample = op->sample(rng);
    const auto applied = Apply(*op, sample.inputs, sample.attrs, cache);
    ASSERT_TRUE(applied.ok()) << applied.status();
    for (size_t k = 0; k < applied->outputs.size(); ++k) {
      BoundsChecker checker(sample.inputs, BindingsOf(*applied->meaning, sample.inputs, applied->attrs).variables);
      EXPECT_TRUE(checker.CheckOutput(applied->meaning->outputs[k], applied->outputs[k].shape))
          << Text(op->name, sample.inputs, sample.attrs) << ", seed " << kSeed << ", sample " << i;
    }
  }
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const OpDef* op : AllOps()) names.push_back(op->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllOps, SampleTest, ::testing::ValuesIn(AllNames()),
                         [](const auto& info) { return info.param; });

// ---------------------------------------------------------------- shapes

struct ShapeCase {
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs;
  std::vector<TensorType> outputs;
};

TEST(OpsTest, Shapes) {
  const std::vector<ShapeCase> cases = {
      {"relu", {F32({2, 3})}, {}, {F32({2, 3})}},
      {"relu", {F32({})}, {}, {F32({})}},
      {"cast", {F32({2})}, {{"to", DType::kInt64}}, {I64({2})}},
      {"add", {F32({2, 1, 4}), F32({3, 1})}, {}, {F32({2, 3, 4})}},
      {"add", {F32({}), F32({3, 1})}, {}, {F32({3, 1})}},
      {"add", {F32({1}), F32({1, 1})}, {}, {F32({1, 1})}},
      {"less", {I64({2, 3}), I64({1, 3})}, {}, {Bool({2, 3})}},
      {"where", {Bool({3, 1}), F32({4}), F32({2, 1, 1})}, {}, {F32({2, 3, 4})}},
      {"clamp", {F32({}), F32({2, 3}), F32({3})}, {}, {F32({2, 3})}},
      {"iota", {}, {{"shape", Ints{2, 3}}, {"axis", 1}, {"dtype", DType::kInt64}}, {I64({2, 3})}},
      {"broadcast_in_dim", {F32({3, 1})}, {{"shape", Ints{4, 5, 3}}, {"dims", Ints{2, 0}}}, {F32({4, 5, 3})}},
      {"dynamic_slice", {F32({5, 4}), I64({}), I64({})}, {{"sizes", Ints{2, 4}}}, {F32({2, 4})}},
      {"dynamic_update_slice", {F32({5, 4}), F32({2, 4}), I64({}), I64({})}, {}, {F32({5, 4})}},
      {"matmul", {F32({2, 3}), F32({3, 5})}, {}, {F32({2, 5})}},
      {"dot_general", {F32({2, 3}), F32({4, 5})}, {}, {F32({2, 3, 4, 5})}},
      // Batch axes come first, in the order of the lists, then the remaining axes of lhs and of rhs.
      {"dot_general",
       {F32({2, 3, 4, 5}), F32({6, 3, 5, 2})},
       {{"lhs_batch", Ints{3, 0}},
        {"rhs_batch", Ints{2, 3}},
        {"lhs_contracting", Ints{1}},
        {"rhs_contracting", Ints{1}}},
       {F32({5, 2, 4, 6})}},
      // A transposed convolution: (4-1)*2+1 = 7 and 7+1+0-3+1 = 6.
      {"convolution",
       {F32({1, 2, 4}), F32({5, 2, 3})},
       {{"lhs_dilations", Ints{2}}, {"pads", Ints{1, 0}}},
       {F32({1, 5, 6})}},
      // One cut off: floor((6-1-3)/2)+1 = 2; extent (2-1)*3+1 = 4: floor((5+1-4)/1)+1 = 3.
      {"convolution",
       {F32({1, 2, 6, 5}), F32({4, 1, 3, 2})},
       {{"strides", Ints{2, 1}}, {"pads", Ints{-1, 0, 0, 1}}, {"rhs_dilations", Ints{1, 3}}, {"groups", 2}},
       {F32({1, 4, 2, 3})}},
      {"matmul", {F32({7, 1, 2, 3}), F32({4, 3, 5})}, {}, {F32({7, 4, 2, 5})}},
      {"matmul", {F32({2, 1}), F32({6, 1, 1})}, {}, {F32({6, 2, 1})}},
      // The first convolution of ResNet, and AlexNet's.
      {"conv2d",
       {F32({1, 3, 224, 224}), F32({64, 3, 7, 7})},
       {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}},
       {F32({1, 64, 112, 112})}},
      {"conv2d", {F32({1, 3, 227, 227}), F32({96, 3, 11, 11})}, {{"strides", Ints{4, 4}}}, {F32({1, 96, 55, 55})}},
      // Extent of a dilated kernel: (3-1)*2+1 = 5 and (2-1)*3+1 = 4; floor((9+1+0-5)/2)+1 = 3, (8+0+2-4)/1+1 = 7.
      {"conv2d",
       {F32({2, 4, 9, 8}), F32({6, 2, 3, 2})},
       {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 0, 2}}, {"dilations", Ints{2, 3}}, {"groups", 2}},
       {F32({2, 6, 3, 7})}},
      {"max_pool2d", {F32({1, 1, 32, 32})}, {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}}, {F32({1, 1, 15, 15})}},
      {"max_pool2d",
       {F32({1, 1, 4, 4})},
       {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", 1}},
       {F32({1, 1, 2, 2})}},
      // ceil((2+0+0-1)/2)+1 = 2, but the second window would begin at 2, beyond the input.
      {"max_pool2d",
       {F32({1, 1, 2, 2})},
       {{"kernel", Ints{1, 1}}, {"strides", Ints{2, 2}}, {"ceil_mode", 1}},
       {F32({1, 1, 1, 1})}},
      // ceil((3+1+1-2)/2)+1 = 3, but the third would begin at 4 = 3+1, in the padding at the end.
      {"avg_pool2d",
       {F32({1, 1, 3, 5})},
       {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"ceil_mode", 1}},
       {F32({1, 1, 2, 3})}},
      {"max_pool2d", {F32({1, 1, 4, 4})}, {{"kernel", Ints{2, 2}}, {"dilations", Ints{2, 2}}}, {F32({1, 1, 2, 2})}},
      {"batch_norm", {F32({2, 3, 4, 5}), F32({3}), F32({3}), F32({3}), F32({3})}, {}, {F32({2, 3, 4, 5})}},
      {"layer_norm", {F32({2, 3, 4}), F32({3, 4}), F32({3, 4})}, {{"axis", -2}}, {F32({2, 3, 4})}},
      {"batch_norm_train", {F32({2, 3, 4}), F32({3}), F32({3})}, {}, {F32({2, 3, 4}), F32({3}), F32({3})}},
      {"cross_entropy", {F32({2, 3, 4}), I64({2, 4})}, {{"axis", 1}}, {F32({2, 4})}},
      {"after", {F32({2, 3}), F32({4})}, {}, {F32({2, 3})}},
      {"fetch", {F32({2, 3}), F32({4})}, {}, {F32({2, 3})}},
      {"lrn", {F32({1, 5, 2, 2})}, {{"size", 3}}, {F32({1, 5, 2, 2})}},
      {"softmax", {F32({2, 3})}, {}, {F32({2, 3})}},
      {"reduce_mean", {F32({2, 3, 4})}, {{"axes", Ints{-1, 0}}}, {F32({1, 3, 1})}},
      {"reduce_sum", {I64({2, 3, 4})}, {{"axes", Ints{1}}, {"keepdims", 0}}, {I64({2, 4})}},
      {"reduce_and", {Bool({2, 3})}, {{"axes", Ints{0}}, {"keepdims", 0}}, {Bool({3})}},
      {"reduce_max", {F32({2, 3})}, {{"axes", Ints{0, 1}}, {"keepdims", 0}}, {F32({})}},
      {"argmax", {F32({2, 3, 4})}, {{"axis", 1}}, {I64({2, 1, 4})}},
      {"argmax", {F32({2, 3, 4})}, {{"axis", -1}, {"keepdims", 0}}, {I64({2, 3})}},
      {"concat", {F32({2, 3}), F32({2, 1}), F32({2, 5})}, {{"axis", 1}}, {F32({2, 9})}},
      {"split", {F32({2, 9})}, {{"axis", -1}, {"sizes", Ints{3, 1, 5}}}, {F32({2, 3}), F32({2, 1}), F32({2, 5})}},
      {"slice", {F32({10, 4})}, {{"starts", Ints{1, 0}}, {"stops", Ints{9, 4}}}, {F32({8, 4})}},
      {"slice", {F32({10, 4})}, {{"starts", Ints{1, 0}}, {"stops", Ints{9, 4}}, {"steps", Ints{3, 4}}}, {F32({3, 1})}},
      {"slice", {F32({3})}, {{"starts", Ints{2}}, {"stops", Ints{2}}}, {F32({0})}},
      {"reverse", {F32({2, 3})}, {{"axes", Ints{-1}}}, {F32({2, 3})}},
      {"pad", {F32({2, 3})}, {{"before", Ints{1, 0}}, {"after", Ints{0, 4}}}, {F32({3, 7})}},
      // (3-1)*3+1 - 2 + 1 = 6
      {"pad", {F32({3})}, {{"before", Ints{-2}}, {"after", Ints{1}}, {"interior", Ints{2}}}, {F32({6})}},
      {"transpose", {F32({2, 3, 4})}, {{"perm", Ints{2, 0, 1}}}, {F32({4, 2, 3})}},
      {"reshape", {F32({2, 3, 4})}, {{"shape", Ints{6, 4}}}, {F32({6, 4})}},
      {"reshape", {F32({1})}, {{"shape", Ints{}}}, {F32({})}},
      {"expand", {F32({3, 1})}, {{"shape", Ints{2, 3, 4}}}, {F32({2, 3, 4})}},
      {"expand", {F32({})}, {{"shape", Ints{5}}}, {F32({5})}},
      {"partition", {F32({3, 8})}, {{"axis", 1}, {"degree", 4}}, {F32({4, 3, 2})}},
      {"combine", {F32({4, 3, 2})}, {{"axis", 1}}, {F32({3, 8})}},
      {"replicate", {F32({3, 2})}, {{"degree", 4}}, {F32({4, 3, 2})}},
      {"halo", {F32({4, 3, 2})}, {{"axis", 0}, {"before", 2}, {"after", -1}}, {F32({4, 4, 2})}},
      {"gather_rows", {F32({4, 3, 2}), I64({4, 5})}, {}, {F32({4, 5, 2})}},
      {"gather", {F32({7, 4}), I64({2, 3})}, {}, {F32({2, 3, 4})}},
      {"gather", {F32({7, 4}), I64({})}, {{"axis", 1}}, {F32({7})}},
      {"scatter_add", {F32({7, 4}), I64({2, 3}), F32({2, 3, 4})}, {}, {F32({7, 4})}},
      {"scatter_add", {F32({7, 4}), I64({}), F32({7})}, {{"axis", 1}}, {F32({7, 4})}},
      {"scatter_elements_add", {F32({7, 4}), I64({9, 3}), F32({9, 3})}, {}, {F32({7, 4})}},
      {"top_k", {F32({5, 7})}, {{"k", 3}}, {F32({5, 3}), I64({5, 3})}},
      {"top_k", {F32({5, 7})}, {{"k", 0}, {"axis", 0}}, {F32({0, 7}), I64({0, 7})}},
      {"random_uniform", {I64({})}, {{"shape", Ints{2, 5}}}, {F32({2, 5})}},
      {"random_uniform_from", {I64({}), I64({})}, {{"shape", Ints{2, 5}}}, {F32({2, 5})}},
      {"depth_to_space", {F32({1, 8, 2, 3})}, {{"block", 2}}, {F32({1, 2, 4, 6})}},
      {"space_to_depth", {F32({1, 2, 4, 6})}, {{"block", 2}}, {F32({1, 8, 2, 3})}},
  };
  for (const ShapeCase& c : cases) {
    const auto applied = ApplyNamed(c.op, c.inputs, c.attrs);
    ASSERT_TRUE(applied.ok()) << Text(c.op, c.inputs, c.attrs) << ": " << applied.status();
    EXPECT_EQ(applied->outputs, c.outputs)
        << Text(c.op, c.inputs, c.attrs) << " gives " << applied->outputs[0].ToString();
  }
}

}  // namespace
}  // namespace rewright
