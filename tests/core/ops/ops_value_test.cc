// Tests the operators' results against values worked out by hand and, for windows, against plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/ir/op.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using Ints = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Literal {
  DType dtype;
  Shape shape;
  std::vector<double> elements;
};

Literal F64(Shape shape, std::vector<double> elements) {
  return {DType::kFloat64, std::move(shape), std::move(elements)};
}
Literal I64(Shape shape, std::vector<double> elements) {
  return {DType::kInt64, std::move(shape), std::move(elements)};
}
Literal Bool(Shape shape, std::vector<double> elements) {
  return {DType::kBool, std::move(shape), std::move(elements)};
}
// 0, 1, 2, ...
Literal Iota(Shape shape) {
  std::vector<double> elements;
  for (int64_t i = 0; i < NumElements(shape); ++i) elements.push_back(static_cast<double>(i));
  return F64(std::move(shape), std::move(elements));
}
Literal RandomValue(std::mt19937_64& rng, const Shape& shape) {
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<double> elements;
  for (int64_t i = 0; i < NumElements(shape); ++i) elements.push_back(uniform(rng));
  return F64(shape, elements);
}

// Applies an operator; one tensor per output.
std::vector<Literal> Compute(const std::string& name, const std::vector<Literal>& inputs, const Attrs& attrs) {
  MeaningCache cache;
  std::vector<TensorType> types;
  std::vector<Tensor> tensors;
  for (const Literal& input : inputs) {
    types.push_back({input.dtype, input.shape});
    tensors.push_back(Tensor::FromVector(input.dtype, input.shape, input.elements));
  }
  const auto applied = Apply(*FindOp(name), types, attrs, cache);
  if (!applied.ok()) {
    ADD_FAILURE() << applied.status();
    return {};
  }
  const auto outputs =
      Interpret(*applied->meaning, BindingsOf(*applied->meaning, types, applied->attrs), applied->outputs, tensors);
  if (!outputs.ok()) {
    ADD_FAILURE() << outputs.status();
    return {};
  }
  std::vector<Literal> values;
  for (const Tensor& output : *outputs) {
    Literal value{output.dtype(), output.shape(), {}};
    for (int64_t i = 0; i < output.num_elements(); ++i) value.elements.push_back(output.At(i));
    values.push_back(value);
  }
  return values;
}

void ExpectEqual(const Literal& found, const Literal& expected, const std::string& where) {
  EXPECT_EQ(found.dtype, expected.dtype) << where;
  ASSERT_EQ(found.shape, expected.shape) << where;
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    const double x = found.elements[i], y = expected.elements[i];
    EXPECT_TRUE(x == y || std::abs(x - y) <= 1e-9 * std::max(1.0, std::abs(y)))
        << where << ": element " << i << " is " << x << ", expected " << y;
  }
}

struct ValueCase {
  std::string op;
  std::vector<Literal> inputs;
  Attrs attrs;
  std::vector<Literal> outputs;
};

void ExpectValues(const std::vector<ValueCase>& cases) {
  for (const ValueCase& c : cases) {
    const std::vector<Literal> outputs = Compute(c.op, c.inputs, c.attrs);
    ASSERT_EQ(outputs.size(), c.outputs.size()) << c.op;
    for (size_t i = 0; i < outputs.size(); ++i) {
      ExpectEqual(outputs[i], c.outputs[i], c.op + "(" + AttrsString(c.attrs) + "), output " + std::to_string(i));
    }
  }
}

// Signs of remainders, truth tables, bounds.
TEST(OpsValueTest, IntegersAndTruthValues) {
  const Literal a = I64({6}, {7, -7, 7, -7, 6, -6}), b = I64({6}, {3, 3, -3, -3, 3, 3});
  const Literal p = Bool({4}, {0, 0, 1, 1}), q = Bool({4}, {0, 1, 0, 1});
  const Literal x = F64({3}, {-1, 0.5, 3}), y = F64({3}, {0, 0.5, 2});
  ExpectValues({
      {"div", {a, b}, {}, {I64({6}, {2, -2, -2, 2, 2, -2})}},
      {"rem", {a, b}, {}, {I64({6}, {1, -1, 1, -1, 0, 0})}},
      {"mod", {a, b}, {}, {I64({6}, {1, 2, -2, -1, 0, 0})}},
      {"logical_xor", {p, q}, {}, {Bool({4}, {0, 1, 1, 0})}},
      {"not_equal", {x, y}, {}, {Bool({3}, {1, 0, 1})}},
      {"greater", {x, y}, {}, {Bool({3}, {0, 0, 1})}},
      {"greater_equal", {x, y}, {}, {Bool({3}, {0, 1, 1})}},
      {"clamp", {F64({}, {0}), x, F64({3}, {2, 0.25, 2})}, {}, {F64({3}, {0, 0.25, 2})}},
      // The upper bound wins if the bounds contradict each other.
      {"clamp", {F64({}, {2}), x, F64({}, {1})}, {}, {F64({3}, {1, 1, 1})}},
      {"reduce_and", {Bool({2, 2}, {1, 1, 0, 1})}, {{"axes", Ints{1}}, {"keepdims", 0}}, {Bool({2}, {1, 0})}},
      {"reduce_or", {Bool({2, 2}, {0, 0, 0, 1})}, {{"axes", Ints{1}}, {"keepdims", 0}}, {Bool({2}, {0, 1})}},
      {"reduce_and", {Bool({2, 0}, {})}, {{"axes", Ints{1}}, {"keepdims", 0}}, {Bool({2}, {1, 1})}},
      {"reduce_or", {Bool({2, 0}, {})}, {{"axes", Ints{1}}, {"keepdims", 0}}, {Bool({2}, {0, 0})}},
  });
}

TEST(OpsValueTest, GeneralContractions) {
  const Literal a = Iota({2, 2}), b = F64({2, 2}, {1, 10, 100, 1000});
  ExpectValues({
      // a'b
      {"dot_general",
       {a, b},
       {{"lhs_contracting", Ints{0}}, {"rhs_contracting", Ints{0}}},
       {F64({2, 2}, {200, 2000, 301, 3010})}},
      // The inner product of columns of a with rows of b.
      {"dot_general",
       {a, b},
       {{"lhs_batch", Ints{1}}, {"rhs_batch", Ints{0}}, {"lhs_contracting", Ints{0}}, {"rhs_contracting", Ints{1}}},
       {F64({2}, {20, 3100})}},
      {"dot_general", {F64({2}, {2, 3}), F64({2}, {5, 7})}, {}, {F64({2, 2}, {10, 14, 15, 21})}},
      // [1 0 2 0 3] with the kernel [1 10 100], then with a zero on the left.
      {"convolution",
       {F64({1, 1, 3}, {1, 2, 3}), F64({1, 1, 3}, {1, 10, 100})},
       {{"lhs_dilations", Ints{2}}},
       {F64({1, 1, 3}, {201, 20, 302})}},
      {"convolution",
       {F64({1, 1, 3}, {1, 2, 3}), F64({1, 1, 3}, {1, 10, 100})},
       {{"lhs_dilations", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}},
       {F64({1, 1, 2}, {10, 20})}},
      // One cut off: [2 3] with the taps of [1 10] one apart.
      {"convolution",
       {F64({1, 1, 3}, {1, 2, 3}), F64({1, 1, 2}, {1, 10})},
       {{"pads", Ints{-1, 0}}},
       {F64({1, 1, 1}, {32})}},
      {"convolution",
       {F64({1, 1, 3}, {1, 2, 3}), F64({1, 1, 2}, {1, 10})},
       {{"rhs_dilations", Ints{2}}},
       {F64({1, 1, 1}, {31})}},
  });
}

TEST(OpsValueTest, Elementwise) {
  ExpectValues({
      {"relu", {F64({3}, {-1, 0, 2})}, {}, {F64({3}, {0, 0, 2})}},
      {"leaky_relu", {F64({2}, {-2, 3})}, {{"alpha", 0.25}}, {F64({2}, {-0.5, 3})}},
      {"leaky_relu", {F64({1}, {-2})}, {}, {F64({1}, {-0.02})}},
      // 1/e - 1 = -0.6321205588285577.
      {"elu", {F64({4}, {-kInf, -1, 0, 2})}, {{"alpha", 0.5}}, {F64({4}, {-0.5, -0.31606027941427883, 0, 2})}},
      {"clip", {F64({3}, {-3, 0.5, 9})}, {{"min", -1.0}, {"max", 6.0}}, {F64({3}, {-1, 0.5, 6})}},
      {"sigmoid", {F64({2}, {0, -kInf})}, {}, {F64({2}, {0.5, 0})}},
      // Phi(1) = 0.8413447460685429.
      {"gelu", {F64({3}, {0, 1, -1})}, {}, {F64({3}, {0, 0.8413447460685429, -0.1586552539314571})}},
      // 0.5 (1 + tanh(sqrt(2 / pi) 1.044715)) = 0.8411919906082768.
      {"gelu_tanh", {F64({3}, {0, 1, -1})}, {}, {F64({3}, {0, 0.8411919906082768, -0.1588080093917232})}},
      // 1 / (1 + 1/e) = 0.7310585786300049.
      {"swish", {F64({3}, {0, 1, -1})}, {}, {F64({3}, {0, 0.7310585786300049, -0.2689414213699951})}},
      {"hard_swish", {F64({5}, {-4, -3, 0, 1.5, 6})}, {}, {F64({5}, {0, 0, 0, 1.125, 6})}},
      // log(1 + e^1) = 1.3132616875182228, and tanh of it 0.8650983882673103.
      {"mish", {F64({3}, {0, 1, -2})}, {}, {F64({3}, {0, 0.8650983882673103, -0.2525014826957089})}},
      {"rsqrt", {F64({1}, {4})}, {}, {F64({1}, {0.5})}},
      {"reciprocal", {F64({1}, {4})}, {}, {F64({1}, {0.25})}},
      {"abs", {I64({2}, {-3, 3})}, {}, {I64({2}, {3, 3})}},
      {"floor", {F64({2}, {-1.5, 1.5})}, {}, {F64({2}, {-2, 1})}},
      {"ceil", {F64({2}, {-1.5, 1.5})}, {}, {F64({2}, {-1, 2})}},
      {"logical_not", {Bool({2}, {0, 1})}, {}, {Bool({2}, {1, 0})}},
      {"cast", {F64({3}, {-1.7, 0, 1.7})}, {{"to", DType::kInt64}}, {I64({3}, {-1, 0, 1})}},
      {"cast", {F64({3}, {-1.7, 0, 1})}, {{"to", DType::kBool}}, {Bool({3}, {1, 0, 1})}},
      {"cast", {Bool({2}, {0, 1})}, {{"to", DType::kFloat64}}, {F64({2}, {0, 1})}},
      {"add", {F64({2, 1}, {10, 20}), F64({3}, {1, 2, 3})}, {}, {F64({2, 3}, {11, 12, 13, 21, 22, 23})}},
      {"sub", {F64({}, {1}), F64({2}, {1, 2})}, {}, {F64({2}, {0, -1})}},
      {"div", {I64({3}, {7, -7, 7}), I64({3}, {2, 2, -2})}, {}, {I64({3}, {3, -3, -3})}},
      {"pow", {F64({2}, {2, 9}), F64({2}, {3, 0.5})}, {}, {F64({2}, {8, 3})}},
      {"min", {F64({2}, {1, 4}), F64({1}, {2})}, {}, {F64({2}, {1, 2})}},
      {"max", {F64({2}, {1, 4}), F64({1}, {2})}, {}, {F64({2}, {2, 4})}},
      {"equal", {I64({2}, {1, 2}), I64({1}, {2})}, {}, {Bool({2}, {0, 1})}},
      {"less", {I64({3}, {1, 2, 3}), I64({1}, {2})}, {}, {Bool({3}, {1, 0, 0})}},
      {"less_equal", {I64({3}, {1, 2, 3}), I64({1}, {2})}, {}, {Bool({3}, {1, 1, 0})}},
      {"logical_and", {Bool({2}, {0, 1}), Bool({2, 1}, {0, 1})}, {}, {Bool({2, 2}, {0, 0, 0, 1})}},
      {"logical_or", {Bool({2}, {0, 1}), Bool({2, 1}, {0, 1})}, {}, {Bool({2, 2}, {0, 1, 1, 1})}},
      {"where", {Bool({2, 1}, {1, 0}), F64({2}, {1, 2}), F64({}, {9})}, {}, {F64({2, 2}, {1, 2, 9, 9})}},
  });
}

TEST(OpsValueTest, Contractions) {
  ExpectValues({
      {"matmul", {F64({2, 3}, {1, 2, 3, 4, 5, 6}), F64({3, 2}, {1, 0, 0, 1, 1, 1})}, {}, {F64({2, 2}, {4, 5, 10, 11})}},
      // Batch axes 2x1 and 2 broadcast to 2x2.
      {"matmul",
       {F64({2, 1, 1, 1}, {1, 10}), F64({2, 1, 2}, {1, 2, 3, 4})},
       {},
       {F64({2, 2, 1, 2}, {1, 2, 3, 4, 10, 20, 30, 40})}},
  });
}

TEST(OpsValueTest, Normalizations) {
  const double root = std::sqrt(2.0 / 3.0);
  const double e = std::exp(1.0);
  ExpectValues({
      {"batch_norm",
       {F64({1, 2, 2}, {1, 2, 3, 4}), F64({2}, {2, 3}), F64({2}, {0.5, -1}), F64({2}, {1, 2}), F64({2}, {3, 8})},
       {{"epsilon", 1.0}},
       {F64({1, 2, 2}, {0.5, 1.5, 0, 1})}},
      {"layer_norm",
       {F64({1, 3}, {1, 2, 3}), F64({3}, {1, 1, 2}), F64({3}, {0, 5, 0})},
       {{"epsilon", 0.0}},
       {F64({1, 3}, {-1 / root, 5, 2 / root})}},
      // Mean 1.5, variance 1.25 over both axes.
      {"layer_norm",
       {F64({2, 2}, {0, 1, 2, 3}), F64({2, 2}, {1, 1, 1, 1}), F64({2, 2}, {0, 0, 0, 0})},
       {{"axis", 0}, {"epsilon", 1.0}},
       {F64({2, 2}, {-1, -1.0 / 3, 1.0 / 3, 1})}},
      // A window of two channels: the channel itself and the next.
      {"lrn",
       {F64({1, 3}, {1, 2, 3})},
       {{"size", 2}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 1.0}},
       {F64({1, 3}, {1.0 / 6, 2.0 / 14, 3.0 / 10})}},
      {"lrn",
       {F64({1, 3}, {1, 2, 3})},
       {{"size", 3}, {"alpha", 3.0}, {"beta", 0.5}, {"bias", 4.0}},
       {F64({1, 3}, {1.0 / 3, 2 / std::sqrt(18.0), 3 / std::sqrt(17.0)})}},
      // Logits whose exponentials overflow; a label may count from the end.
      {"cross_entropy", {F64({2, 2}, {1000, 0, 0, 0}), I64({2}, {1, -1})}, {}, {F64({2}, {1000, std::log(2.0)})}},
      {"batch_norm_train",
       {F64({2, 2}, {1, 5, 3, 5}), F64({2}, {2, 1}), F64({2}, {10, 7})},
       {{"epsilon", 3.0}},
       {F64({2, 2}, {9, 7, 11, 7}), F64({2}, {2, 5}), F64({2}, {1, 0})}},
      {"softmax", {F64({2, 2}, {1000, 1001, -1000, -1000})}, {}, {F64({2, 2}, {1 / (1 + e), e / (1 + e), 0.5, 0.5})}},
      {"softmax", {F64({2, 1}, {0, -kInf})}, {{"axis", 0}}, {F64({2, 1}, {1, 0})}},
      {"log_softmax", {F64({2}, {1000, 1000})}, {}, {F64({2}, {-std::log(2.0), -std::log(2.0)})}},
  });
}

TEST(OpsValueTest, Reductions) {
  const Literal x = F64({2, 3}, {1, 5, 2, 4, -1, 4});
  ExpectValues({
      {"reduce_sum", {x}, {{"axes", Ints{1}}}, {F64({2, 1}, {8, 7})}},
      {"reduce_sum", {x}, {{"axes", Ints{0}}, {"keepdims", 0}}, {F64({3}, {5, 4, 6})}},
      {"reduce_mean", {x}, {{"axes", Ints{0, 1}}, {"keepdims", 0}}, {F64({}, {2.5})}},
      {"reduce_max", {x}, {{"axes", Ints{1}}}, {F64({2, 1}, {5, 4})}},
      {"reduce_min", {x}, {{"axes", Ints{0}}}, {F64({1, 3}, {1, -1, 2})}},
      {"reduce_prod", {x}, {{"axes", Ints{1}}, {"keepdims", 0}}, {F64({2}, {10, -16})}},
      {"argmax", {x}, {{"axis", 1}}, {I64({2, 1}, {1, 0})}},
      {"argmax", {x}, {{"axis", 0}, {"keepdims", 0}}, {I64({3}, {1, 0, 1})}},
  });
}

TEST(OpsValueTest, Movement) {
  const Literal x = Iota({2, 3});
  ExpectValues({
      {"concat", {x, F64({2, 1}, {7, 8})}, {{"axis", 1}}, {F64({2, 4}, {0, 1, 2, 7, 3, 4, 5, 8})}},
      {"split", {x}, {{"axis", 1}, {"sizes", Ints{1, 2}}}, {F64({2, 1}, {0, 3}), F64({2, 2}, {1, 2, 4, 5})}},
      {"slice", {x}, {{"starts", Ints{1, 1}}, {"stops", Ints{2, 3}}}, {F64({1, 2}, {4, 5})}},
      {"slice", {x}, {{"starts", Ints{0, 0}}, {"stops", Ints{2, 3}}, {"steps", Ints{3, 2}}}, {F64({1, 2}, {0, 2})}},
      {"reverse", {x}, {{"axes", Ints{1}}}, {F64({2, 3}, {2, 1, 0, 5, 4, 3})}},
      {"pad",
       {F64({1, 2}, {1, 2})},
       {{"before", Ints{1, 0}}, {"after", Ints{0, 1}}, {"value", 9.0}},
       {F64({2, 3}, {9, 9, 9, 1, 2, 9})}},
      {"pad",
       {F64({4}, {1, 2, 3, 4})},
       {{"before", Ints{-1}}, {"after", Ints{2}}, {"value", 9.0}},
       {F64({5}, {2, 3, 4, 9, 9})}},
      {"pad",
       {F64({3}, {1, 2, 3})},
       {{"before", Ints{-2}}, {"after", Ints{1}}, {"interior", Ints{2}}, {"value", 9.0}},
       {F64({6}, {9, 2, 9, 9, 3, 9})}},
      {"dynamic_slice", {x, I64({}, {1}), I64({}, {1})}, {{"sizes", Ints{1, 2}}}, {F64({1, 2}, {4, 5})}},
      // Starts move into the tensor.
      {"dynamic_slice", {x, I64({}, {-3}), I64({}, {9})}, {{"sizes", Ints{1, 2}}}, {F64({1, 2}, {1, 2})}},
      {"dynamic_update_slice",
       {x, F64({2, 1}, {8, 9}), I64({}, {0}), I64({}, {1})},
       {},
       {F64({2, 3}, {0, 8, 2, 3, 9, 5})}},
      {"dynamic_update_slice",
       {x, F64({1, 2}, {8, 9}), I64({}, {5}), I64({}, {2})},
       {},
       {F64({2, 3}, {0, 1, 2, 3, 8, 9})}},
      {"broadcast_in_dim",
       {F64({2, 1}, {1, 2})},
       {{"shape", Ints{3, 2}}, {"dims", Ints{1, 0}}},
       {F64({3, 2}, {1, 2, 1, 2, 1, 2})}},
      {"iota", {}, {{"shape", Ints{2, 3}}, {"axis", 0}, {"dtype", DType::kInt64}}, {I64({2, 3}, {0, 0, 0, 1, 1, 1})}},
      {"iota", {}, {{"shape", Ints{2, 2}}, {"axis", 1}, {"dtype", DType::kFloat64}}, {F64({2, 2}, {0, 1, 0, 1})}},
      {"transpose", {x}, {{"perm", Ints{1, 0}}}, {F64({3, 2}, {0, 3, 1, 4, 2, 5})}},
      {"transpose", {Iota({2, 1, 3})}, {{"perm", Ints{2, 0, 1}}}, {F64({3, 2, 1}, {0, 3, 1, 4, 2, 5})}},
      {"reshape", {x}, {{"shape", Ints{3, 1, 2}}}, {F64({3, 1, 2}, {0, 1, 2, 3, 4, 5})}},
      {"expand", {F64({2, 1}, {1, 2})}, {{"shape", Ints{2, 2, 2}}}, {F64({2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2})}},
      {"gather", {x, I64({2}, {-1, 0})}, {{"axis", 1}}, {F64({2, 2}, {2, 0, 5, 3})}},
      {"gather", {x, I64({1, 2}, {1, -2})}, {}, {F64({1, 2, 3}, {3, 4, 5, 0, 1, 2})}},
      {"gather_elements", {x, I64({1, 3}, {1, 0, -1})}, {}, {F64({1, 3}, {3, 1, 5})}},
      {"gather_elements", {x, I64({2, 2}, {-1, 0, 1, 1})}, {{"axis", 1}}, {F64({2, 2}, {2, 0, 4, 4})}},
      {"cumsum", {x}, {}, {F64({2, 3}, {0, 1, 3, 3, 7, 12})}},
      {"cumsum", {x}, {{"axis", 0}}, {F64({2, 3}, {0, 1, 2, 3, 5, 7})}},
      {"cumsum", {x}, {{"exclusive", 1}}, {F64({2, 3}, {0, 0, 1, 0, 3, 7})}},
      {"cumsum", {x}, {{"reverse", 1}}, {F64({2, 3}, {3, 3, 2, 12, 9, 5})}},
      {"cumsum", {x}, {{"exclusive", 1}, {"reverse", 1}}, {F64({2, 3}, {3, 2, 0, 9, 5, 0})}},
      // The examples of the ONNX specification, cut down to one output row of blocks.
      {"depth_to_space",
       {Iota({1, 8, 1, 2})},
       {{"block", 2}},
       {F64({1, 2, 2, 4}, {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15})}},
      {"depth_to_space",
       {Iota({1, 8, 1, 2})},
       {{"block", 2}, {"channel_first", 1}},
       {F64({1, 2, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15})}},
      {"space_to_depth",
       {F64({1, 2, 2, 4}, {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15})},
       {{"block", 2}},
       {Iota({1, 8, 1, 2})}},
  });
}

// ---------------------------------------------------------------- windows, by plain loops

// Attributes of a window operator along height (0) and width (1).
struct Windows {
  Ints kernel, strides, pads, dilations;
  bool ceil_mode = false;
};

// The output size as deep-learning frameworks document it.
int64_t OutputSize(int64_t size, const Windows& w, int axis) {
  const int64_t padded = size + w.pads[axis] + w.pads[axis + 2];
  const int64_t room = padded - w.dilations[axis] * (w.kernel[axis] - 1) - 1;
  if (!w.ceil_mode) return room / w.strides[axis] + 1;
  int64_t count = (room + w.strides[axis] - 1) / w.strides[axis] + 1;
  if ((count - 1) * w.strides[axis] >= size + w.pads[axis]) --count;  // begins in the padding at the end
  return count;
}

Ints IntsOf(const Attrs& attrs, const std::string& name, const Ints& fallback = {}) {
  const auto found = attrs.find(name);
  return found == attrs.end() ? fallback : std::get<Ints>(found->second);
}

Windows WindowsOf(const Attrs& attrs) {
  const auto ceil_mode = attrs.find("ceil_mode");
  return {IntsOf(attrs, "kernel"), IntsOf(attrs, "strides"), IntsOf(attrs, "pads"), IntsOf(attrs, "dilations", {1, 1}),
          ceil_mode != attrs.end() && std::get<int64_t>(ceil_mode->second) != 0};
}

double At(const Literal& x, int64_t n, int64_t c, int64_t h, int64_t w) {
  return x.elements[((n * x.shape[1] + c) * x.shape[2] + h) * x.shape[3] + w];
}

TEST(OpsValueTest, Conv2dByLoops) {
  std::mt19937_64 rng(11);
  for (int sample = 0; sample < 30; ++sample) {
    const OpSample drawn = FindOp("conv2d")->sample(rng);
    const Literal x = RandomValue(rng, drawn.inputs[0].shape);
    const Literal w = RandomValue(rng, drawn.inputs[1].shape);
    Windows windows = WindowsOf(drawn.attrs);
    windows.kernel = {w.shape[2], w.shape[3]};
    const int64_t groups = std::get<int64_t>(drawn.attrs.at("groups"));
    const int64_t outs = w.shape[0] / groups, ins = w.shape[1];
    Literal expected =
        F64({x.shape[0], w.shape[0], OutputSize(x.shape[2], windows, 0), OutputSize(x.shape[3], windows, 1)}, {});
    for (int64_t n = 0; n < x.shape[0]; ++n) {
      for (int64_t o = 0; o < w.shape[0]; ++o) {
        for (int64_t y = 0; y < expected.shape[2]; ++y) {
          for (int64_t z = 0; z < expected.shape[3]; ++z) {
            double sum = 0;
            for (int64_t d = 0; d < ins; ++d) {
              for (int64_t r = 0; r < w.shape[2]; ++r) {
                for (int64_t s = 0; s < w.shape[3]; ++s) {
                  const int64_t h = y * windows.strides[0] - windows.pads[0] + r * windows.dilations[0];
                  const int64_t v = z * windows.strides[1] - windows.pads[1] + s * windows.dilations[1];
                  if (h < 0 || h >= x.shape[2] || v < 0 || v >= x.shape[3]) continue;
                  sum += At(x, n, o / outs * ins + d, h, v) * At(w, o, d, r, s);
                }
              }
            }
            expected.elements.push_back(sum);
          }
        }
      }
    }
    ExpectEqual(Compute("conv2d", {x, w}, drawn.attrs).at(0), expected, "conv2d " + AttrsString(drawn.attrs));
  }
}

// Pools window by window in the padded image; windows are cut off at its end.
Literal PoolByLoops(const Literal& x, const Windows& w, bool mean, bool include_pad) {
  Literal out = F64({x.shape[0], x.shape[1], OutputSize(x.shape[2], w, 0), OutputSize(x.shape[3], w, 1)}, {});
  for (int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane) {
    for (int64_t y = 0; y < out.shape[2]; ++y) {
      for (int64_t z = 0; z < out.shape[3]; ++z) {
        double sum = 0, max = -kInf;
        int64_t inside = 0, padded = 0;
        for (int64_t r = 0; r < w.kernel[0]; ++r) {
          for (int64_t s = 0; s < w.kernel[1]; ++s) {
            const int64_t h = y * w.strides[0] - w.pads[0] + r * w.dilations[0];
            const int64_t v = z * w.strides[1] - w.pads[1] + s * w.dilations[1];
            if (h < x.shape[2] + w.pads[2] && v < x.shape[3] + w.pads[3]) ++padded;
            if (h < 0 || h >= x.shape[2] || v < 0 || v >= x.shape[3]) continue;
            const double element = At(x, 0, plane, h, v);
            ++inside;
            sum += element;
            max = std::max(max, element);
          }
        }
        EXPECT_GT(inside, 0);
        out.elements.push_back(mean ? sum / static_cast<double>(include_pad ? padded : inside) : max);
      }
    }
  }
  return out;
}

TEST(OpsValueTest, PoolsByLoops) {
  std::mt19937_64 rng(12);
  for (const std::string name : {"max_pool2d", "avg_pool2d"}) {
    for (int sample = 0; sample < 100; ++sample) {
      const OpSample drawn = FindOp(name)->sample(rng);
      const Literal x = RandomValue(rng, drawn.inputs[0].shape);
      const auto include = drawn.attrs.find("count_include_pad");
      const bool include_pad = include != drawn.attrs.end() && std::get<int64_t>(include->second) != 0;
      const Literal expected = PoolByLoops(x, WindowsOf(drawn.attrs), name == "avg_pool2d", include_pad);
      ExpectEqual(Compute(name, {x}, drawn.attrs).at(0), expected, name + " " + AttrsString(drawn.attrs));
    }
  }
}

TEST(OpsValueTest, TopKByHand) {
  const double nan = std::nan("");
  const Literal x = F64({2, 5}, {3, 1, 3, -2, 7, 0, nan, kInf, nan, -0.0});
  const auto expect = [&](const Attrs& attrs, const std::vector<double>& values, const std::vector<double>& indices,
                          const Shape& shape) {
    const std::vector<Literal> found = Compute("top_k", {x}, attrs);
    ASSERT_EQ(found.size(), 2u);
    ExpectEqual(found[1], I64(shape, indices), AttrsString(attrs));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(found[0].elements[i] == values[i] || std::isnan(values[i]) == std::isnan(found[0].elements[i]));
    }
  };
  // The first of equal elements is taken; NaN is the greatest; -0 equals 0.
  expect({{"k", int64_t{3}}}, {7, 3, 3, nan, nan, kInf}, {4, 0, 2, 1, 3, 2}, {2, 3});
  expect({{"k", int64_t{4}}, {"largest", int64_t{0}}}, {-2, 1, 3, 3, -0.0, 0, kInf, nan}, {3, 1, 0, 2, 0, 4, 2, 1},
         {2, 4});
  expect({{"k", int64_t{1}}, {"axis", int64_t{0}}}, {3, nan, kInf, nan, 7}, {0, 1, 1, 1, 0}, {1, 5});
}

TEST(OpsValueTest, TopKSortsLikeSort) {
  std::mt19937_64 rng(13);
  for (int sample = 0; sample < 50; ++sample) {
    const int64_t n = 1 + static_cast<int64_t>(rng() % 20),
                  k = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(n));
    const Literal x = RandomValue(rng, {n});
    std::vector<double> sorted = x.elements;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    sorted.resize(static_cast<size_t>(k));
    const std::vector<Literal> found = Compute("top_k", {x}, {{"k", k}});
    ExpectEqual(found.at(0), F64({k}, sorted), "values");
    ExpectEqual(Compute("gather", {x, found.at(1)}, {}).at(0), found.at(0), "x at the indices");
  }
}

TEST(OpsValueTest, ScattersByHand) {
  ExpectEqual(
      Compute("scatter_add", {F64({3}, {1, 2, 3}), I64({4}, {0, -1, 0, 2}), F64({4}, {10, 20, 30, 40})}, {}).at(0),
      F64({3}, {41, 2, 63}), "repeated, from the end");
  ExpectEqual(Compute("scatter_add", {F64({2, 2}, {0, 0, 0, 0}), I64({1, 2}, {1, 1}), F64({2, 1, 2}, {1, 2, 3, 4})},
                      {{"axis", int64_t{1}}})
                  .at(0),
              F64({2, 2}, {0, 3, 0, 7}), "along the last axis");
  // ONNX's example of reduction "add".
  ExpectEqual(
      Compute("scatter_elements_add", {F64({1, 5}, {1, 2, 3, 4, 5}), I64({1, 2}, {1, 1}), F64({1, 2}, {1.1, 2.1})},
              {{"axis", int64_t{1}}})
          .at(0),
      F64({1, 5}, {1, 5.2, 3, 4, 5}), "elements");
}

// Compares mean and variance with the uniform distribution, within five standard errors; other streams give other
// numbers.
TEST(OpsValueTest, RandomNumbersAreUniform) {
  constexpr int64_t kCount = 100000;
  const auto draw = [](double seed, int64_t stream) {
    return Compute("random_uniform", {I64({}, {seed})}, {{"shape", Ints{kCount / 100, 100}}, {"stream", stream}}).at(0);
  };
  for (const auto& [seed, stream] : {std::pair(0, 0), std::pair(1, 0), std::pair(0, 1), std::pair(-7, 3)}) {
    const Literal value = draw(seed, stream);
    double sum = 0, squares = 0;
    for (double x : value.elements) {
      ASSERT_GE(x, 0);
      ASSERT_LT(x, 1);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
    EXPECT_NEAR(squares / kCount, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
  }
  EXPECT_EQ(draw(0, 0).elements, draw(0, 0).elements);
  EXPECT_NE(draw(0, 0).elements, draw(0, 1).elements);
  EXPECT_NE(draw(0, 0).elements, draw(1, 0).elements);
  // The first word of the published vector of zeros.
  EXPECT_EQ(draw(0, 0).elements[0], std::floor(0x6627e8d5p0 / 256) / 16777216);
}

}  // namespace
}  // namespace rewright
