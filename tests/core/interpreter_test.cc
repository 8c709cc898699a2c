// The interpreter against the naive evaluator and against itself, over all operators.
#include "core/interpreter.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/compare.h"
#include "core/evaluate.h"
#include "core/random_tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/interpreter_naive_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 20240917;
constexpr int kSamples = 120;

// One random application with its inputs.
struct Case {
  std::string text;
  std::vector<TensorType> input_types;
  Application app;
  Bindings bindings;
  std::vector<Tensor> inputs;
};

Case MakeCase(const OpDef& op, const std::vector<TensorType>& input_types, const Attrs& attrs, double low, double high,
              Rng& rng, MeaningCache& cache) {
  Case c;
  c.input_types = input_types;
  c.text = absl::StrCat(op.name, " (", AttrsString(attrs), ")");
  for (const TensorType& type : input_types) absl::StrAppend(&c.text, " ", type.ToString());
  auto app = Apply(op, input_types, attrs, cache);
  EXPECT_TRUE(app.ok()) << c.text << ": " << app.status();
  if (!app.ok()) return c;
  c.app = *std::move(app);
  c.bindings = BindingsOf(*c.app.meaning, input_types, c.app.attrs);
  for (const TensorType& type : input_types) c.inputs.push_back(RandomTensor(type, rng, low, high));
  return c;
}

Case SampleCase(const OpDef& op, Rng& rng, MeaningCache& cache) {
  const OpSample sample = op.sample(rng);
  return MakeCase(op, sample.inputs, sample.attrs, sample.low, sample.high, rng, cache);
}

absl::StatusOr<std::vector<Tensor>> RunTuned(const Case& c, const InterpretTuning& tuning, int threads) {
  auto compiled = CompiledMeaning::Compile(*c.app.meaning, c.bindings, c.input_types, c.app.outputs, Carrier::kNative,
                                           tuning);
  if (!compiled.ok()) return compiled.status();
  return compiled->Run(c.inputs, threads);
}

class AllOpsTest : public ::testing::TestWithParam<const OpDef*> {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(kSeed)); }
  const OpDef& op() const { return *GetParam(); }
};

// Values, types and bounds; whole and cut into tiny blocks with every hoisting; one thread and three.
TEST_P(AllOpsTest, AgreesWithNaiveEvaluation) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed);
  MeaningCache cache;
  const InterpretTuning tiny{.max_lanes = 7, .min_hoisted = 1, .min_parallel = 0};
  for (int i = 0; i < kSamples; ++i) {
    const Case c = SampleCase(op(), rng, cache);
    ASSERT_FALSE(HasFailure());
    const auto naive = NaiveInterpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto whole = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto cut = RunTuned(c, tiny, 1);
    const auto threaded = RunTuned(c, tiny, 3);
    ASSERT_EQ(naive.ok(), whole.ok()) << c.text << ": " << naive.status() << " and " << whole.status();
    if (!naive.ok()) {  // an integer division by zero is all that may happen
      EXPECT_TRUE(absl::IsOutOfRange(naive.status())) << c.text << ": " << naive.status();
      EXPECT_TRUE(absl::IsOutOfRange(whole.status())) << c.text << ": " << whole.status();
      EXPECT_EQ(cut.status().code(), whole.status().code()) << c.text;
      continue;
    }
    ASSERT_TRUE(cut.ok() && threaded.ok()) << c.text << ": " << cut.status() << " " << threaded.status();
    ASSERT_EQ(whole->size(), c.app.outputs.size()) << c.text;
    for (size_t k = 0; k < whole->size(); ++k) {
      ASSERT_EQ((*whole)[k].type(), c.app.outputs[k]) << c.text;
      const Comparison comparison = Compare((*whole)[k], (*naive)[k]);
      ASSERT_TRUE(comparison.close) << c.text << ": " << comparison.text;
      ASSERT_TRUE((*cut)[k].BitEqual((*whole)[k])) << c.text << ": " << Compare((*cut)[k], (*whole)[k]).text;
      ASSERT_TRUE((*threaded)[k].BitEqual((*whole)[k])) << c.text;
    }
  }
}

TEST_P(AllOpsTest, Float64IsCloseToFloat32) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed + 1);
  MeaningCache cache;
  for (int i = 0; i < kSamples / 4; ++i) {
    const Case c = SampleCase(op(), rng, cache);
    const auto native = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto wide = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.input_types, c.inputs,
                                {.carrier = Carrier::kFloat64});
    ASSERT_EQ(native.ok(), wide.ok()) << c.text << ": " << native.status() << " and " << wide.status();
    if (!native.ok()) continue;
    for (size_t k = 0; k < native->size(); ++k) {
      ASSERT_EQ((*wide)[k].dtype(), StoredDType(Carrier::kFloat64, c.app.outputs[k].dtype)) << c.text;
      const Comparison comparison = Compare(*ToCarrier((*native)[k], Carrier::kFloat64), (*wide)[k], 2e-5, 2e-5);
      EXPECT_TRUE(comparison.close) << c.text << ": " << comparison.text;
    }
  }
}

// True when the meaning computes with + - * and copies alone, so that integers stay integers in every carrier.
bool IsPolynomial(const ExprPtr& e) {
  if (e->kind == ExprKind::kConst && e->real != std::floor(e->real)) return false;
  if (e->kind == ExprKind::kParam || e->kind == ExprKind::kCast) return false;
  if (e->kind == ExprKind::kCall && e->fn != Fn::kAdd && e->fn != Fn::kSub && e->fn != Fn::kMul && e->fn != Fn::kNeg) {
    return false;
  }
  if (e->kind == ExprKind::kReduce && e->reduce != ReduceKind::kSum && e->reduce != ReduceKind::kProd) return false;
  for (const ExprPtr& arg : e->args) {
    if (!IsPolynomial(arg)) return false;
  }
  return true;
}

TEST_P(AllOpsTest, CarriersAgreeOnPolynomials) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed + 2);
  MeaningCache cache;
  for (int i = 0; i < kSamples / 4; ++i) {
    Case c = SampleCase(op(), rng, cache);
    bool polynomial = true;
    for (const OutputMeaning& output : c.app.meaning->outputs) polynomial &= IsPolynomial(output.element);
    if (!polynomial) continue;
    std::vector<Tensor> exact_inputs, field_inputs;
    for (Tensor& input : c.inputs) {
      for (int64_t k = 0; IsFloating(input.dtype()) && k < input.num_elements(); ++k) {
        input.Set(k, std::floor(input.At(k)));
      }
      exact_inputs.push_back(*ToCarrier(input, Carrier::kExactInteger));
      field_inputs.push_back(*ToCarrier(input, Carrier::kPrimeField));
    }
    const auto native = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto exact = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.input_types, exact_inputs,
                                 {.carrier = Carrier::kExactInteger});
    const auto field = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.input_types, field_inputs,
                                 {.carrier = Carrier::kPrimeField});
    ASSERT_TRUE(native.ok() && exact.ok() && field.ok())
        << c.text << ": " << native.status() << exact.status() << field.status();
    for (size_t k = 0; k < native->size(); ++k) {
      EXPECT_TRUE((*exact)[k].BitEqual(*ToCarrier((*native)[k], Carrier::kExactInteger))) << c.text;
      EXPECT_TRUE((*field)[k].BitEqual(*ToCarrier((*native)[k], Carrier::kPrimeField))) << c.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, AllOpsTest, ::testing::ValuesIn(AllOps()),
                         [](const auto& info) { return info.param->name; });

// ---------------------------------------------------------------- larger sizes: several blocks, boxes, hoisting

TEST(InterpreterTest, LargerApplicationsAgreeWithNaiveEvaluation) {
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  using Ints = std::vector<int64_t>;
  struct Large {
    const char* op;
    std::vector<TensorType> inputs;
    Attrs attrs;
  };
  const Large cases[] = {
      {"matmul", {f32({3, 50, 37}), f32({3, 37, 90})}, {}},
      {"matmul", {f32({1, 64}), f32({64, 3000})}, {}},
      {"conv2d", {f32({2, 6, 17, 19}), f32({10, 6, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}}},
      {"conv2d", {f32({1, 8, 30, 30}), f32({16, 2, 3, 3})}, {{"pads", Ints{1, 0, 2, 1}}, {"groups", int64_t{4}},
                                                            {"strides", Ints{2, 2}}}},
      {"conv2d", {f32({1, 12, 20, 20}), f32({12, 1, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}, {"groups", int64_t{12}}}},
      {"max_pool2d", {f32({1, 9, 33, 31})}, {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}},
                                             {"pads", Ints{1, 1, 1, 1}}}},
      {"softmax", {f32({40, 130})}, {{"axis", int64_t{1}}}},
      {"softmax", {f32({70, 90})}, {{"axis", int64_t{0}}}},
      {"reshape", {f32({12, 10, 63})}, {{"shape", Ints{4, 9, 35, 6}}}},
      {"transpose", {f32({60, 80, 3})}, {{"perm", Ints{2, 1, 0}}}},
      {"concat", {f32({40, 30, 5}), f32({40, 61, 5}), f32({40, 7, 5})}, {{"axis", int64_t{1}}}},
  };
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed + 3);
  MeaningCache cache;
  for (const Large& large : cases) {
    const Case c = MakeCase(*FindOp(large.op), large.inputs, large.attrs, -2, 2, rng, cache);
    ASSERT_FALSE(HasFailure());
    const auto naive = NaiveInterpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto fast = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs, {.threads = 1});
    const auto threaded = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs, {.threads = 2});
    ASSERT_TRUE(naive.ok() && fast.ok() && threaded.ok()) << c.text << ": " << fast.status();
    const Comparison comparison = Compare((*fast)[0], (*naive)[0]);
    EXPECT_TRUE(comparison.close) << c.text << ": " << comparison.text;
    EXPECT_TRUE((*threaded)[0].BitEqual((*fast)[0])) << c.text;
  }
}

}  // namespace
}  // namespace rewright
