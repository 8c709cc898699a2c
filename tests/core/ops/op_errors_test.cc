// Tests every error message of the declarations.
#include <malloc.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/ir/op.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

struct ErrorCase {
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs;
  std::string message;  // a part of it
};

const std::vector<ErrorCase>& ErrorCases() {
  static const auto* const cases = new std::vector<ErrorCase>{
      // Element types.
      {"relu", {Bool({2})}, {}, "relu: the elements of x must be numbers, not bool"},
      {"exp", {I64({2})}, {}, "exp: the elements of x must be floating-point numbers, not i64"},
      {"logical_not", {F32({2})}, {}, "logical_not: the elements of x must be truth values, not f32"},
      {"add", {F32({2}), I64({2})}, {}, "add: the inputs must have one element type, not f32 and i64"},
      {"gather", {F32({2}), F32({2})}, {}, "gather: the elements of indices must be integers, not f32"},
      {"after", {F32({2}), I64({2})}, {}, "after: the elements of trigger must be floating-point numbers, not i64"},
      {"fetch", {F32({2}), I64({2})}, {}, "fetch: the elements of trigger must be floating-point numbers, not i64"},
      {"cross_entropy", {F32({2, 3}), I64({3})}, {}, "labels must have the shape of x without its axis (found 3 = 2)"},
      {"cross_entropy", {F32({2, 0}), I64({2})}, {}, "there must be a class"},
      {"cross_entropy", {F32({2, 3}), I64({2, 1})}, {}, "cross_entropy: labels must have rank 1, not 2"},
      {"batch_norm_train", {F32({2, 3}), F32({3}), F32({2})}, {}, "bias must have one element per channel"},
      {"where", {F32({2}), F32({2}), F32({2})}, {}, "where: the elements of condition must be truth values, not f32"},
      {"where", {Bool({2}), F32({2}), I64({2})}, {}, "where: a and b must have one element type, not f32 and i64"},
      // Broadcasting.
      {"add",
       {F32({3, 4}), F32({4, 3})},
       {},
       "add: shapes [3,4] and [4,3]: sizes that broadcast must be equal or one (found 3 = 4)"},
      {"where", {Bool({2}), F32({3}), F32({1})}, {}, "sizes that broadcast must be equal or one (found 2 = 3)"},
      {"matmul", {F32({2, 3, 4}), F32({5, 4, 3})}, {}, "sizes that broadcast must be equal or one (found 2 = 5)"},
      {"expand", {F32({3})}, {{"shape", Ints{4}}}, "a size of x must be one or the size in shape (found 3 = 4)"},
      {"expand", {F32({1, 1})}, {{"shape", Ints{4}}}, "expand: shape must have at least as many entries as x has axes"},
      // Contractions and windows.
      {"matmul", {F32({3}), F32({3, 2})}, {}, "matmul: a must have rank 2 or more, not 1"},
      {"matmul",
       {F32({3, 4}), F32({5, 6})},
       {},
       "matmul: shapes [3,4] and [5,6]: the inner sizes must be equal (found 4 = 5)"},
      {"dot_general",
       {F32({3, 4}), F32({3, 5})},
       {{"lhs_batch", Ints{0}}, {"rhs_batch", Ints{1}}},
       "dot_general: shapes [3,4] and [3,5]: sizes of batch axes must be equal (found 3 = 5)"},
      {"dot_general",
       {F32({3, 4}), F32({3, 5})},
       {{"lhs_contracting", Ints{1}}, {"rhs_contracting", Ints{1}}},
       "sizes of contracting axes must be equal (found 4 = 5)"},
      {"dot_general",
       {F32({3, 4}), F32({3, 5})},
       {{"lhs_batch", Ints{0}}},
       "dot_general: both operands must have as many batch axes"},
      {"dot_general",
       {F32({3, 4}), F32({3, 5})},
       {{"lhs_contracting", Ints{0}}},
       "dot_general: both operands must have as many contracting axes"},
      {"dot_general",
       {F32({3, 4}), F32({3, 5})},
       {{"lhs_batch", Ints{0}}, {"lhs_contracting", Ints{0}}},
       "batch and contracting axes must be distinct axes of their operand"},
      {"convolution", {F32({1, 2}), F32({1, 2})}, {}, "convolution: x must have rank 3 or more, not 2"},
      {"convolution", {F32({1, 2, 3}), F32({1, 2})}, {}, "convolution: w must have rank 3, not 2"},
      {"convolution",
       {F32({1, 1, 3}), F32({1, 1, 2})},
       {{"strides", Ints{1, 1}}},
       "the length of strides must be 1, not 2"},
      {"convolution", {F32({1, 1, 3}), F32({1, 1, 2})}, {{"pads", Ints{1}}}, "the length of pads must be 2, not 1"},
      {"convolution", {F32({1, 1, 3}), F32({1, 1, 4})}, {}, "the kernel must fit the padded axis (found 4 <= 3)"},
      {"convolution",
       {F32({1, 1, 0}), F32({1, 1, 1})},
       {{"lhs_dilations", Ints{2}}},
       "x must not be empty where lhs_dilations are given (found 1 <= 0)"},
      {"conv2d", {F32({1, 2, 3}), F32({1, 1, 1, 1})}, {}, "conv2d: x must have rank 4, not 3"},
      {"conv2d", {F32({1, 1, 3, 3}), F32({1, 1, 1})}, {}, "conv2d: w must have rank 4, not 3"},
      {"conv2d",
       {F32({1, 1, 3, 3}), F32({1, 1, 1, 1})},
       {{"strides", Ints{1}}},
       "conv2d: the length of strides must be 2, not 1"},
      {"conv2d",
       {F32({1, 1, 3, 3}), F32({1, 1, 1, 1})},
       {{"pads", Ints{1, 1}}},
       "conv2d: the length of pads must be 4, not 2"},
      {"conv2d",
       {F32({1, 1, 3, 3}), F32({1, 1, 1, 1})},
       {{"dilations", Ints{1, 1, 1}}},
       "conv2d: the length of dilations must be 2, not 3"},
      {"conv2d", {F32({1, 1, 3, 3}), F32({1, 1, 1, 1})}, {{"strides", Ints{1, 0}}}, "attribute strides"},
      {"conv2d", {F32({1, 1, 3, 3}), F32({1, 1, 1, 1})}, {{"pads", Ints{0, 0, -1, 0}}}, "attribute pads"},
      {"conv2d", {F32({1, 1, 3, 3}), F32({1, 1, 1, 1})}, {{"groups", 0}}, "attribute groups"},
      {"conv2d",
       {F32({1, 3, 3, 3}), F32({2, 2, 1, 1})},
       {{"groups", 2}},
       "the channels of x must be groups times the channels of w (found 3 = 4)"},
      {"conv2d",
       {F32({1, 4, 3, 3}), F32({3, 2, 1, 1})},
       {{"groups", 2}},
       "the output channels must be a multiple of groups (found 3 = 2)"},
      {"conv2d",
       {F32({1, 4, 3, 3}), F32({1, 2, 1, 1})},
       {{"groups", 2}},
       "the output channels must be a multiple of groups (found 1 = 0)"},
      {"conv2d", {F32({1, 1, 3, 9}), F32({1, 1, 4, 4})}, {}, "the kernel must fit the padded height (found 4 <= 3)"},
      {"conv2d",
       {F32({1, 1, 9, 4}), F32({1, 1, 4, 4})},
       {{"pads", Ints{0, 1, 0, 1}}, {"dilations", Ints{1, 2}}},
       "the kernel must fit the padded width (found 7 <= 6)"},
      {"max_pool2d", {F32({1, 1, 3})}, {{"kernel", Ints{1, 1}}}, "max_pool2d: x must have rank 4, not 3"},
      {"max_pool2d", {F32({1, 1, 3, 3})}, {{"kernel", Ints{1}}}, "the length of kernel must be 2, not 1"},
      {"max_pool2d",
       {F32({1, 1, 3, 3})},
       {{"kernel", Ints{2, 1}}, {"pads", Ints{2, 0, 0, 0}}},
       "the padding must be smaller than the kernel (found 2 < 2)"},
      {"avg_pool2d",
       {F32({1, 1, 3, 3})},
       {{"kernel", Ints{1, 2}}, {"pads", Ints{0, 0, 0, 3}}},
       "the padding must be smaller than the kernel (found 3 < 2)"},
      {"max_pool2d",
       {F32({1, 1, 1, 9})},
       {{"kernel", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 2}}},
       "the dilation must not exceed the height (found 2 <= 1)"},
      {"max_pool2d",
       {F32({1, 1, 9, 1})},
       {{"kernel", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 2}}},
       "the dilation must not exceed the width (found 2 <= 1)"},
      // Normalization.
      {"batch_norm",
       {F32({2}), F32({2}), F32({2}), F32({2}), F32({2})},
       {},
       "batch_norm: x must have rank 2 or more, not 1"},
      {"batch_norm",
       {F32({2, 3}), F32({3}), F32({3}), F32({3}), F32({3, 1})},
       {},
       "batch_norm: var must have rank 1, not 2"},
      {"batch_norm",
       {F32({2, 3}), F32({3}), F32({4}), F32({3}), F32({3})},
       {},
       "bias must have one element per channel (found 4 = 3)"},
      {"layer_norm", {F32({2, 3}), F32({2, 3}), F32({3})}, {}, "layer_norm: scale must have rank 1, not 2"},
      {"layer_norm",
       {F32({2, 3}), F32({2}), F32({3})},
       {},
       "scale must have the sizes of the normalized axes (found 2 = 3)"},
      {"layer_norm",
       {F32({2, 3}), F32({3}), F32({4})},
       {},
       "bias must have the sizes of the normalized axes (found 4 = 3)"},
      // Values that no tensor and no attribute may have.
      {"add", {F32(Shape(32, 1)), F32(Shape(32, 1))}, {}, "add: a tensor with 32 axes; at most 31"},
      {"add", {F32(Shape(40, 1)), F32({2})}, {}, "add: a tensor with 40 axes; at most 31"},
      {"leaky_relu", {F32({2})}, {{"alpha", std::nan("")}}, "attribute alpha: found nan, expected a number"},
      {"pad",
       {F32({0, 1, 1})},
       {{"before", Ints{0, int64_t{1} << 40, int64_t{1} << 40}}, {"after", Ints{0, 0, 0}}},
       "the output is too large"},
      {"lrn", {F32({2})}, {{"size", 3}}, "lrn: x must have rank 2 or more, not 1"},
      {"softmax", {I64({2})}, {}, "softmax: the elements of x must be floating-point numbers, not i64"},
      {"softmax", {F32({2, 3})}, {{"axis", 2}}, "attribute axis"},
      // Reductions.
      {"reduce_mean", {I64({2})}, {{"axes", Ints{0}}}, "the elements of x must be floating-point numbers, not i64"},
      {"reduce_sum", {F32({2})}, {{"axes", Ints{0, -1}}}, "attribute axes"},
      {"reduce_sum", {F32({2})}, {{"axes", Ints{0}}, {"keepdims", 2}}, "attribute keepdims"},
      {"argmax", {F32({2, 0})}, {{"axis", 1}}, "the axis must not be empty (found 1 <= 0)"},
      // Movement of elements.
      {"concat", {F32({2, 3}), F32({2})}, {{"axis", 0}}, "concat: the inputs must have one rank"},
      {"concat",
       {F32({2, 3}), F32({2, 4})},
       {{"axis", 0}},
       "concat: shapes [2,3] and [2,4]: sizes must be equal except along the axis (found 3 = 4)"},
      {"concat", {F32({2, 3})}, {}, "axis"},
      {"split", {F32({6})}, {{"axis", 0}, {"sizes", Ints{}}}, "split: sizes must not be empty"},
      {"split",
       {F32({6})},
       {{"axis", 0}, {"sizes", Ints{2, 3}}},
       "the sizes of the parts must add up to the size of the axis (found 5 = 6)"},
      {"split", {F32({6})}, {{"axis", 0}, {"sizes", Ints{6, 0}}}, "attribute sizes"},
      {"slice", {F32({6, 2})}, {{"starts", Ints{0}}, {"stops", Ints{1, 1}}}, "the length of starts must be 2, not 1"},
      {"slice", {F32({6})}, {{"starts", Ints{0}}, {"stops", Ints{}}}, "the length of stops must be 1, not 0"},
      {"slice",
       {F32({6})},
       {{"starts", Ints{0}}, {"stops", Ints{1}}, {"steps", Ints{1, 1}}},
       "the length of steps must be 1, not 2"},
      {"slice",
       {F32({6})},
       {{"starts", Ints{3}}, {"stops", Ints{2}}},
       "a start must not lie after its stop (found 3 <= 2)"},
      {"slice",
       {F32({6})},
       {{"starts", Ints{3}}, {"stops", Ints{7}}},
       "a stop must not lie after the end of its axis (found 7 <= 6)"},
      {"pad", {F32({6})}, {{"before", Ints{}}, {"after", Ints{1}}}, "the length of before must be 1, not 0"},
      {"pad", {F32({6})}, {{"before", Ints{1}}, {"after", Ints{}}}, "the length of after must be 1, not 0"},
      {"pad", {F32({6})}, {{"before", Ints{1}}, {"after", Ints{1}}, {"interior", Ints{-1}}}, "attribute interior"},
      {"pad",
       {F32({6})},
       {{"before", Ints{1}}, {"after", Ints{1}}, {"interior", Ints{1, 1}}},
       "the length of interior must be 1, not 2"},
      {"pad",
       {F32({0})},
       {{"before", Ints{1}}, {"after", Ints{1}}, {"interior", Ints{1}}},
       "an axis must not be empty where interior is given (found 1 <= 0)"},
      {"pad", {F32({2})}, {{"before", Ints{-1}}, {"after", Ints{-2}}}, "the output would have size -1"},
      {"dynamic_slice",
       {F32({3}), I64({}), I64({})},
       {{"sizes", Ints{2}}},
       "dynamic_slice: there must be one start for each axis of x"},
      {"dynamic_slice", {F32({3}), F32({})}, {{"sizes", Ints{2}}}, "the elements of start must be integers, not f32"},
      {"dynamic_slice", {F32({3}), I64({1})}, {{"sizes", Ints{2}}}, "start must have rank 0, not 1"},
      {"dynamic_slice", {F32({3}), I64({})}, {{"sizes", Ints{4}}}, "the window must not exceed x (found 4 <= 3)"},
      {"dynamic_update_slice", {F32({3}), I64({2}), I64({})}, {}, "x and update must have one element type"},
      {"dynamic_update_slice", {F32({3}), F32({1, 1}), I64({})}, {}, "update must have rank 1, not 2"},
      {"dynamic_update_slice", {F32({3}), F32({4}), I64({})}, {}, "the window must not exceed x (found 4 <= 3)"},
      {"iota",
       {},
       {{"shape", Ints{2}}, {"axis", 1}, {"dtype", DType::kInt64}},
       "iota: axis must be one of the axes of shape"},
      {"iota", {}, {{"shape", Ints{2}}, {"axis", 0}, {"dtype", DType::kBool}}, "iota: the elements must be numbers"},
      {"broadcast_in_dim",
       {F32({3})},
       {{"shape", Ints{4}}, {"dims", Ints{0}}},
       "a size of x must be one or the size in shape (found 3 = 4)"},
      {"broadcast_in_dim",
       {F32({3, 3})},
       {{"shape", Ints{3}}, {"dims", Ints{0, 0}}},
       "dims must be distinct axes of the result"},
      {"broadcast_in_dim", {F32({3})}, {{"shape", Ints{3}}, {"dims", Ints{}}}, "the length of dims must be 1, not 0"},
      {"transpose", {F32({6, 2})}, {{"perm", Ints{0, 0}}}, "transpose: perm must name every axis of x once"},
      {"transpose", {F32({6, 2})}, {{"perm", Ints{0}}}, "transpose: perm must name every axis of x once"},
      {"reshape", {F32({6})}, {{"shape", Ints{2, 4}}}, "the numbers of elements must be equal (found 6 = 8)"},
      {"gather", {F32({0}), I64({2})}, {}, "the axis must not be empty (found 1 <= 0)"},
      {"scatter_add", {F32({0}), I64({2}), F32({2})}, {}, "the axis must not be empty (found 1 <= 0)"},
      {"scatter_add",
       {F32({4, 5}), I64({2}), F32({2, 6})},
       {},
       "other sizes of updates must be those of x (found 5 = 6)"},
      {"scatter_add",
       {F32({4, 5}), I64({2}), F32({3, 5})},
       {},
       "updates must have the sizes of indices in the place of the axis (found 2 = 3)"},
      {"scatter_add",
       {F32({4, 5}), I64({2}), F32({2})},
       {},
       "scatter_add: updates must have the axes of indices in the place of the axis"},
      {"scatter_add", {F32({4}), I64({2}), I64({2})}, {}, "scatter_add: x and updates must have one type"},
      {"scatter_elements_add", {F32({4, 5}), I64({2, 5}), F32({3, 5})}, {}, "updates must have the shape of indices"},
      {"scatter_elements_add",
       {F32({4, 5}), I64({2, 6}), F32({2, 6})},
       {},
       "indices must not be larger than x (found 6 <= 5)"},
      {"scatter_elements_add",
       {F32({4, 5}), I64({2}), F32({2})},
       {},
       "scatter_elements_add: the inputs must have one rank"},
      {"partition",
       {F32({4, 5})},
       {{"axis", 1}, {"degree", 2}},
       "the size of the axis must be a multiple of degree (found 5 = 4)"},
      {"partition", {F32({4})}, {{"axis", 1}, {"degree", 2}}, "partition: the axis must be one of the tensor's"},
      {"combine", {F32({2, 0})}, {{"axis", 0}}, "a block must not be empty (found 1 <= 0)"},
      {"combine", {F32({2})}, {{"axis", 0}}, "combine: the axis must be one of the tensor's"},
      {"halo", {F32({2, 0})}, {{"axis", 0}}, "a block must not be empty (found 1 <= 0)"},
      {"halo", {F32({2, 3})}, {{"axis", 0}, {"before", -3}}, "something must be left of a block (found 1 <= 0)"},
      {"halo", {I64({2, 3})}, {{"axis", 0}}, "halo: the elements of x must be floating-point numbers, not i64"},
      {"gather_rows", {F32({2, 0}), I64({2})}, {}, "a device must have rows (found 1 <= 0)"},
      {"gather_rows", {F32({2, 3}), I64({3, 4})}, {}, "both must be on as many devices (found 2 = 3)"},
      {"gather_rows", {F32({2}), I64({2})}, {}, "gather_rows: both must be on devices, and x have rows"},
      {"top_k", {F32({4, 5})}, {{"k", 6}}, "k must not exceed the size of the axis (found 6 <= 5)"},
      {"random_uniform", {F32({})}, {{"shape", Ints{2}}}, "random_uniform: the seed must be an i64"},
      {"depth_to_space",
       {F32({1, 6, 2, 2})},
       {{"block", 2}},
       "the channels must be a multiple of the square of block (found 6 = 4)"},
      {"space_to_depth", {F32({1, 6, 3, 2})}, {{"block", 2}}, "the height must be a multiple of block (found 3 = 2)"},
      {"space_to_depth", {F32({1, 6, 2, 3})}, {{"block", 2}}, "the width must be a multiple of block (found 3 = 2)"},
  };
  return *cases;
}

TEST(OpErrorsTest, ErrorMessages) {
  for (const ErrorCase& c : ErrorCases()) {
    const auto applied = ApplyNamed(c.op, c.inputs, c.attrs);
    ASSERT_FALSE(applied.ok()) << Text(c.op, c.inputs, c.attrs);
    EXPECT_THAT(std::string(applied.status().message()), HasSubstr(c.message));
  }
}

// A meaning that cannot be built fails each time that it is asked for, and takes no memory.
TEST(OpErrorsTest, MeaningsThatFailAreNotKept) {
  constexpr int kKeys = 2000;
  MeaningCache cache;
  const OpDef& relu = *FindOp("relu");
  const auto fails = [&](int rank) { return !cache.Get(relu, {.ranks = {rank}}).ok(); };
  EXPECT_TRUE(fails(kMaxRank + 1));
  EXPECT_TRUE(fails(kMaxRank + 1));
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(fails(kMaxRank + 2 + i));
  EXPECT_LT(mallinfo2().uordblks, before + kKeys * sizeof(StructuralKey) / 2);
}

// Checks that the table above has the message of every requirement that some sample of some operator states.
TEST(OpErrorsTest, EveryRequirementHasAnErrorCase) {
  for (const OpDef* op : AllOps()) {
    Rng rng(kSeed);
    MeaningCache cache;
    std::set<std::string> messages;
    for (int i = 0; i < kSamples; ++i) {
      const OpSample sample = op->sample(rng);
      const auto applied = Apply(*op, sample.inputs, sample.attrs, cache);
      ASSERT_TRUE(applied.ok()) << applied.status();
      for (const Requirement& requirement : applied->meaning->requirements) messages.insert(requirement.message);
    }
    for (const std::string& message : messages) {
      bool found = false;
      for (const ErrorCase& c : ErrorCases()) found |= absl::StrContains(c.message, message);
      // One case covers messages that differ only in the name of an input.
      found |= absl::StrContains(message, "must have one element per channel");
      EXPECT_TRUE(found) << op->name << ": " << message;
    }
  }
}

}  // namespace
}  // namespace rewright
