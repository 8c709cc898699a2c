// Compares derived gradients and tangents of every operator with central differences, with the definition as a scatter,
// and with each other.
#include "core/adjoint/operators.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/adjoint/adjoint.h"
#include "core/interpreter/interpreter.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/adjoint/derivative_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// Returns the inputs that have a gradient; of a variadic one, the first two members.
std::vector<int> DifferentiableInputs(const OpDef& op) {
  std::vector<int> inputs;
  for (int k = 0; k < static_cast<int>(op.inputs.size()) + op.variadic; ++k) {
    if (GradientOp(op, k).ok()) inputs.push_back(k);
  }
  return inputs;
}

class EveryOperatorDerived : public ::testing::TestWithParam<const OpDef*> {};

std::string NameOf(const ::testing::TestParamInfo<const OpDef*>& info) { return info.param->name; }

TEST_P(EveryOperatorDerived, FirstDerivatives) {
  const OpDef& op = *GetParam();
  if (!TangentOp(op).ok()) {
    EXPECT_TRUE(DifferentiableInputs(op).empty());
    GTEST_SKIP() << "no floating-point numbers go in and out";
  }
  EXPECT_FALSE(DifferentiableInputs(op).empty());
  const DerivativeErrors worst = CheckDerivatives(op, Cases(100), 1e-6);
  EXPECT_LE(worst.kinks, worst.gradients / 20) << "of " << worst.gradients;
  RecordProperty("central", absl::StrCat(worst.central));
  RecordProperty("gather", absl::StrCat(worst.gather));
  RecordProperty("dual", absl::StrCat(worst.dual));
}

TEST_P(EveryOperatorDerived, SecondDerivatives) {
  for (int k : DifferentiableInputs(*GetParam())) {
    const OpDef& gradient = **GradientOp(*GetParam(), k);
    const DerivativeErrors worst = CheckDerivatives(gradient, Cases(20), 1e-5);
    EXPECT_LE(worst.kinks, worst.gradients / 10) << gradient.name << " of " << worst.gradients;
    RecordProperty(gradient.name, absl::StrCat(worst.central));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Adjoint, EveryOperatorDerived, ::testing::ValuesIn(AllOps()), NameOf);

// ---------------------------------------------------------------- names and documentation pages

TEST(DerivedOperators, AreFoundByName) {
  const OpDef* gradient = FindOp("conv2d_grad_x");
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(gradient, *GradientOp(*FindOp("conv2d"), 0));
  EXPECT_THAT(gradient->inputs, testing::ElementsAre("w", "u"));
  const OpDef* second = FindOp("conv2d_grad_x_grad_u");
  ASSERT_NE(second, nullptr);
  EXPECT_THAT(second->inputs, testing::ElementsAre("w", "v"));
  ASSERT_NE(FindOp("conv2d_grad_x_tangent"), nullptr);
  EXPECT_THAT(FindOp("conv2d_tangent")->inputs, testing::ElementsAre("x", "w", "dx", "dw"));
  EXPECT_EQ(FindOp("concat_grad_x3")->name, "concat_grad_x3");
  EXPECT_EQ(FindOp("conv2d_scatter_x"), *ScatteredGradientOp(*FindOp("conv2d"), 0));
  EXPECT_TRUE(FindOp("split_grad_x")->variadic);
  for (const char* name : {"conv2d_grad_y", "conv2d_grad_", "_grad_x", "nothing_grad_x", "argmax_grad_x",
                           "concat_grad_x", "concat_grad_x03", "less_tangent", "conv2d_scatter_y"}) {
    EXPECT_EQ(FindOp(name), nullptr) << name;
  }
  EXPECT_THAT(GradientOp(*FindOp("argmax"), 0).status().message(), HasSubstr("argmax has no gradient by its input"));
  EXPECT_THAT(GradientOp(*FindOp("relu"), 1).status().message(), HasSubstr("relu has no input number 1"));
}

// Each member of a variadic input has a gradient and a page, even if samples have few members.
TEST(DerivedOperators, KnowEveryMemberOfAList) {
  const OpDef* ninth = FindOp("concat_grad_x8");
  ASSERT_NE(ninth, nullptr);
  EXPECT_EQ(*GradientOp(*FindOp("concat"), 8), ninth);
  EXPECT_THAT(DescribeOp(*ninth), HasSubstr("x_shape14"));
  EXPECT_THAT(DescribeOp(*FindOp("concat_tangent_grad_dx6")), HasSubstr("dx6"));
  EXPECT_THAT(DescribeOp(*FindOp("split_grad_x_grad_u7")), HasSubstr("sizes7"));
  EXPECT_EQ(FindOp("concat_grad_x4096"), nullptr);
}

TEST(DerivedOperators, AreMadeOnceByAllThreads) {
  std::vector<std::thread> threads;
  std::vector<const OpDef*> found(8);
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&found, i] { found[i] = FindOp("layer_norm_grad_scale_grad_x"); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(found[0], nullptr);
  EXPECT_EQ(std::set<const OpDef*>(found.begin(), found.end()).size(), 1u);
}

TEST(DerivedOperators, FormulasAreSimple) {
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"mul_grad_a", "= u[p0, p1] * b[p0, p1]\n"},
      {"neg_grad_x", "= -u[p0, p1]\n"},
      {"abs_grad_x", "= 0 < x[p0, p1] ? u[p0, p1] : x[p0, p1] < 0 ? -u[p0, p1] : 0\n"},
      {"relu_grad_x", "= 0 < x[p0, p1] ? u[p0, p1] : 0\n"},
      {"matmul_grad_a", "= sum n < |b|1: u[p0, n] * b[p1, n]\n"},
      {"matmul_grad_b", "= sum m < |a|0: u[m, p1] * a[m, p0]\n"},
      {"transpose_grad_x", "= u[p1, p0]\n"},
      {"reshape_grad_x", "= u[(p0 * x_shape1 + p1) div shape1, (p0 * x_shape1 + p1) mod shape1]\n"},
      {"concat_grad_x1", "= u[p0, x_shape1 + p1]\n"},
      {"split_grad_x", "= p1 < sizes0 ? u0[p0, p1] : u1[p0, p1 - sizes0]\n"},
      {"reverse_grad_x", "= u[p0, x_shape1 - p1 - 1]\n"},
      {"batch_norm_grad_x", "= u[p0, p1] * scale[p1] / sqrt(var[p1] + epsilon)\n"},
      {"conv2d_grad_x",
       "u[p0, p1 div |w|1 * (|w|0 div groups) + o', (pads0 + p2 - r * dilations0) div strides0, "
       "(pads1 + p3 - s * dilations1) div strides1] * w[p1 div |w|1 * (|w|0 div groups) + o', p1 mod |w|1, r, s]\n"},
  };
  for (const auto& [name, formula] : expected) {
    ASSERT_NE(FindOp(name), nullptr) << name;
    EXPECT_THAT(DescribeOp(*FindOp(name)), HasSubstr(formula));
  }
}

// Softmax does not depend on the maximum that it subtracts: no gradient searches for its position.
TEST(DerivedOperators, TakeShiftsForConstants) {
  for (const char* name : {"softmax_grad_x", "log_softmax_grad_x", "softmax_grad_x_grad_x", "softmax_tangent"}) {
    const std::string page = DescribeOp(*FindOp(name));
    EXPECT_THAT(page, HasSubstr("max k < |x|")) << name;
    EXPECT_THAT(page, testing::Not(HasSubstr("=="))) << name;
  }
}

TEST(DerivedOperators, RefuseWhatDoesNotFit) {
  MeaningCache cache;
  const OpDef& gradient = *FindOp("matmul_grad_a");
  const TensorType b{DType::kFloat32, {4, 5}}, u{DType::kFloat32, {3, 5}};
  EXPECT_TRUE(Apply(gradient, {b, u}, {{"a_shape", std::vector<int64_t>{3, 4}}}, cache).ok());
  EXPECT_THAT(Apply(gradient, {b, u}, {{"a_shape", std::vector<int64_t>{2, 4}}}, cache).status().message(),
              HasSubstr("u must have the shape of the output (found 3 = 2)"));
  EXPECT_THAT(Apply(gradient, {b, {DType::kFloat64, {3, 5}}}, {{"a_shape", std::vector<int64_t>{3, 4}}}, cache)
                  .status()
                  .message(),
              HasSubstr("one element type"));
  EXPECT_THAT(Apply(gradient, {b, u}, {{"a_shape", std::vector<int64_t>{0, 4}}}, cache).status().message(),
              HasSubstr("found 0, expected at least 1"));
  EXPECT_THAT(Apply(gradient, {b, u}, {}, cache).status().message(), HasSubstr("attribute a_shape is missing"));
  // An axis of an input that is no operand of the gradient.
  const TensorType indices{DType::kInt64, {3}}, rows{DType::kFloat32, {3, 5}};
  const auto picked = [&](int64_t axis) {
    const Attrs attrs = {{"axis", axis}, {"x_shape", std::vector<int64_t>{4, 5}}};
    return Apply(*FindOp("gather_grad_x"), {indices, rows}, attrs, cache).status();
  };
  EXPECT_TRUE(picked(0).ok()) << picked(0);
  EXPECT_THAT(picked(2).message(), HasSubstr("axis 2 of a tensor with 2 axes"));
  const Attrs unsorted = {{"axes", std::vector<int64_t>{1, 0}}, {"keepdims", 0}, {"x_shape", Shape{4, 5}}};
  EXPECT_THAT(Apply(*FindOp("reduce_sum_grad_x"), {{DType::kFloat32, {}}}, unsorted, cache).status().message(),
              HasSubstr("found [1,0], expected [0,1]"));
}

// ---------------------------------------------------------------- kinks

struct Kink {
  const char* op;
  Attrs attrs;
  std::vector<std::vector<double>> inputs;     // of one axis, or of `shape`
  std::vector<std::vector<double>> gradients;  // by every input; cotangents are 1, 2, 3..
  Shape shape = {};
};

// PyTorch's values.
TEST(DerivedOperators, KinksAndTies) {
  const std::vector<int64_t> ones = {1, 1};
  const std::vector<Kink> table = {
      {"relu", {}, {{-1, 0, 2}}, {{0, 0, 3}}},
      {"abs", {}, {{-1, 0, 2}}, {{-1, 0, 3}}},
      {"sign", {}, {{-1, 0, 2}}, {{0, 0, 0}}},
      {"leaky_relu", {{"alpha", 0.25}}, {{-1, 0, 2}}, {{0.25, 0.5, 3}}},
      {"clip", {{"min", -1.0}, {"max", 1.0}}, {{-2, -1, 0, 1, 2}}, {{0, 0, 3, 0, 0}}},
      {"max", {}, {{1, 2, 3}, {2, 2, 2}}, {{0, 1, 3}, {1, 1, 0}}},
      {"min", {}, {{1, 2, 3}, {2, 2, 2}}, {{1, 1, 0}, {0, 1, 3}}},
      {"clamp", {}, {{1, 1}, {1, 2}, {2, 2}}, {{0.5, 0}, {0.5, 1}, {0, 1}}},
      {"pow", {}, {{0, 0, 0, 2}, {0, 1, 2, 0}}, {{0, 2, 0, 0}, {0, 0, 0, 4 * std::log(2.0)}}},
      {"reduce_max", {{"axes", std::vector<int64_t>{0}}}, {{3, 1, 3, 3}}, {{1 / 3.0, 0, 1 / 3.0, 1 / 3.0}}},
      {"reduce_min", {{"axes", std::vector<int64_t>{0}}}, {{1, 1, 3}}, {{0.5, 0.5, 0}}},
      {"reduce_prod", {{"axes", std::vector<int64_t>{0}}}, {{0, 2, 3}}, {{6, 0, 0}}},
      {"reduce_prod", {{"axes", std::vector<int64_t>{0}}}, {{0, 2, 0}}, {{0, 0, 0}}},
      // Windows 0..1 and 1..2 of one row: the first of equals takes all.
      {"max_pool2d",
       {{"kernel", std::vector<int64_t>{1, 2}}, {"strides", ones}},
       {{5, 5, 5}},
       {{1, 2, 0}},
       {1, 1, 1, 3}},
      {"max_pool2d",
       {{"kernel", std::vector<int64_t>{2, 2}}, {"strides", ones}},
       {{1, 4, 4, 2}},
       {{0, 1, 0, 0}},
       {1, 1, 2, 2}},
      {"floor", {}, {{-1, 0, 0.5}}, {{0, 0, 0}}},
      {"sqrt", {}, {{4}}, {{0.25}}},
  };
  MeaningCache cache;
  for (const Kink& kink : table) {
    const OpDef& op = *FindOp(kink.op);
    std::vector<TensorType> types;
    std::vector<Tensor> inputs;
    for (const std::vector<double>& values : kink.inputs) {
      const Shape shape = kink.shape.empty() ? Shape{static_cast<int64_t>(values.size())} : kink.shape;
      inputs.push_back(Tensor::FromVector(DType::kFloat64, shape, values));
      types.push_back(inputs.back().type());
    }
    const Point point = PointAt(op, types, kink.attrs, inputs, cache);
    for (size_t k = 0; k < kink.inputs.size(); ++k) {
      const Tensor gradient = GradientAt(point, static_cast<int>(k), cache);
      ASSERT_EQ(gradient.num_elements(), static_cast<int64_t>(kink.gradients[k].size())) << kink.op;
      for (int64_t i = 0; i < gradient.num_elements(); ++i) {
        EXPECT_DOUBLE_EQ(gradient.At(i), kink.gradients[k][i]) << point.text << " by input " << k << " at " << i;
      }
    }
  }
}

// ---------------------------------------------------------------- operators of this test

// An operator of which only the declaration is written: two outputs, a window, a guard, a cast, data as an index.
const OpDef& Declared() {
  static const OpDef* const op =
      new OpDef{.name = "test_windows",
                .summary = "Sums of squares of picked rows, and their greatest products with w.",
                .inputs = {"x", "w", "rows"},
                .attrs = {{.name = "step", .kind = AttrKind::kInt, .fallback = Attr(2), .doc = "", .min = 1}},
                .meaning =
                    [](OpBuilder& b) {
                      const Index n = b.size(0, 0), m = b.size(0, 1), taps = b.size(1, 0), step = b.Sym("step");
                      b.Require(taps <= m, "taps must fit");
                      const auto row = [&](const Index& i) { return Mod(ToIndex(b.Read(2, {i})), n); };
                      b.Output(b.dtype(0), {b.size(2, 0), CeilDiv(m, step)}, [&](const std::vector<Index>& i) {
                        return b.Sum({{"t", taps}}, [&](const std::vector<Index>& k) {
                          const Index at = i[1] * step + k[0];
                          const Scalar value = Select(at < m, b.Read(0, {row(i[0]), at}), 0.0);
                          return value * value * b.Read(1, k);
                        });
                      });
                      b.Output(DType::kFloat64, {b.size(2, 0)}, [&](const std::vector<Index>& i) {
                        return Cast(b.MaxOver({{"t", taps}},
                                              [&](const std::vector<Index>& k) {
                                                return b.Read(0, {row(i[0]), k[0]}) * b.Read(1, k);
                                              }),
                                    DType::kFloat64);
                      });
                      return absl::OkStatus();
                    },
                .sample =
                    [](Rng& rng) {
                      const int64_t n = 1 + static_cast<int64_t>(rng() % 3), m = 3 + static_cast<int64_t>(rng() % 4);
                      return OpSample{.inputs = {{DType::kFloat32, {n, m}},
                                                 {DType::kFloat32, {1 + static_cast<int64_t>(rng() % 3)}},
                                                 {DType::kInt64, {2}}},
                                      .attrs = {{"step", static_cast<int64_t>(1 + rng() % 3)}}};
                    }};
  return *op;
}

TEST(DerivedOperators, OfAnOperatorDeclaredHere) {
  CheckDerivatives(Declared(), 50, 1e-6);
  const OpDef* by_x = *GradientOp(Declared(), 0);
  EXPECT_EQ(by_x->name, "test_windows_grad_x");
  EXPECT_THAT(by_x->inputs, testing::ElementsAre("x", "w", "rows", "u0", "u1"));
  CheckDerivatives(*by_x, 10, 1e-5);
  CheckDerivatives(**GradientOp(*by_x, 1), 5, 1e-5);
  EXPECT_FALSE(GradientOp(Declared(), 2).ok());
}

// Equations that stay conditions of sums: only those that elements decide.
TEST(DerivedOperators, AllEquationsWithoutDataAreSolved) {
  std::set<std::string> unsolved;
  for (const OpDef* op : AllOps()) {
    MeaningCache cache;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Rng rng(seed);
      const OpSample sample = op->sample(rng);
      const auto application = Apply(*op, sample.inputs, sample.attrs, cache);
      ASSERT_TRUE(application.ok());
      if (!IsFloating(application->outputs[0].dtype)) continue;
      const StructuralKey key = StructuralKeyOf(*op, sample.inputs, application->attrs);
      for (size_t k = 0; k < sample.inputs.size(); ++k) {
        if (!IsFloating(sample.inputs[k].dtype)) continue;
        if (GradientOf(*op, key, *application->meaning, static_cast<int>(k)).unsolved > 0) unsolved.insert(op->name);
      }
    }
  }
  // The open choices: a row or element, the greatest element of a window, and the blocks that a block with elements of
  // its neighbours overlaps.
  EXPECT_THAT(unsolved, testing::ElementsAre("gather", "gather_elements", "gather_rows", "halo", "max_pool2d"));
}

// ---------------------------------------------------------------- sources

TEST(DerivedOperators, NoOperatorIsNamedInTheSources) {
  // Sums of cotangents, zeros, parts of a cotangent, concatenated parts.
  const std::set<std::string> allowed = {"add", "expand", "slice", "concat"};
  int files = 0;
  for (const char* folder : {"core/adjoint", "core/autodiff"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(REWRIGHT_SOURCE_DIR "/") + folder)) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string source = text.str();
      ++files;
      for (const OpDef* op : AllOps()) {
        if (allowed.contains(op->name) && std::string(folder) == "core/autodiff") continue;
        EXPECT_THAT(source, testing::Not(HasSubstr("\"" + op->name + "\""))) << entry.path();
      }
      EXPECT_THAT(source, testing::Not(HasSubstr("ops::"))) << entry.path();
    }
  }
  EXPECT_GT(files, 8);
}

}  // namespace
}  // namespace rewright
