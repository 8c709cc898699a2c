// Compares the interpreter with the oracle and with itself, over all operators.
#include "core/interpreter/interpreter.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/oracle.h"
#include "core/ir/random_tensors.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 20240917;
const int kSamples = Cases(1200);

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
  auto compiled =
      CompiledMeaning::Compile(*c.app.meaning, c.bindings, c.input_types, c.app.outputs, Precision::kNative, tuning);
  if (!compiled.ok()) return compiled.status();
  return compiled->Run(c.inputs, threads);
}

class AllOpsTest : public ::testing::TestWithParam<const OpDef*> {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(kSeed)); }
  const OpDef& op() const { return *GetParam(); }
};

// Checks values, types and bounds: whole and in tiny blocks with every hoisting, on one thread and on three.
TEST_P(AllOpsTest, AgreesWithTheOracle) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed);
  MeaningCache cache;
  const InterpretTuning tiny{.max_lanes = 7, .min_hoisted = 1, .min_parallel = 0, .min_residues = 0};
  for (int i = 0; i < kSamples; ++i) {
    const Case c = SampleCase(op(), rng, cache);
    ASSERT_FALSE(HasFailure());
    const auto oracle = RunOracle(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto whole = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto cut = RunTuned(c, tiny, 1);
    const auto threaded = RunTuned(c, tiny, 3);
    ASSERT_EQ(oracle.ok(), whole.ok()) << c.text << ": " << oracle.status() << " and " << whole.status();
    if (!oracle.ok()) {  // an integer division by zero is the only possible error
      EXPECT_TRUE(absl::IsOutOfRange(oracle.status())) << c.text << ": " << oracle.status();
      EXPECT_TRUE(absl::IsOutOfRange(whole.status())) << c.text << ": " << whole.status();
      EXPECT_EQ(cut.status().code(), whole.status().code()) << c.text;
      continue;
    }
    ASSERT_TRUE(cut.ok() && threaded.ok()) << c.text << ": " << cut.status() << " " << threaded.status();
    ASSERT_EQ(whole->size(), c.app.outputs.size()) << c.text;
    for (size_t k = 0; k < whole->size(); ++k) {
      ASSERT_EQ((*whole)[k].type(), c.app.outputs[k]) << c.text;
      const Comparison comparison = Compare((*whole)[k], (*oracle)[k]);
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
                                {.precision = Precision::kFloat64});
    ASSERT_EQ(native.ok(), wide.ok()) << c.text << ": " << native.status() << " and " << wide.status();
    if (!native.ok()) continue;
    for (size_t k = 0; k < native->size(); ++k) {
      ASSERT_EQ((*wide)[k].dtype(), StoredDType(Precision::kFloat64, c.app.outputs[k].dtype)) << c.text;
      const DType dtype = c.app.outputs[k].dtype;
      const double tolerance = IsHalf(dtype) ? 2 * RoundingOf(dtype) : 2e-5;
      const Tensor stored = *ToPrecision((*native)[k], Precision::kFloat64);
      const Comparison comparison = Compare(stored, (*wide)[k], tolerance, tolerance);
      EXPECT_TRUE(comparison.close) << c.text << ": " << comparison.text;
    }
  }
}

// Runs keep runners of stages: a program that has run, or failed, on other inputs gives what a new one gives.
TEST_P(AllOpsTest, ARunLeavesNothingBehind) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed + 2);
  MeaningCache cache;
  for (int i = 0; i < kSamples / 8; ++i) {
    const OpSample sample = op().sample(rng);
    const Case c = MakeCase(op(), sample.inputs, sample.attrs, sample.low, sample.high, rng, cache);
    const auto compiled =
        CompiledMeaning::Compile(*c.app.meaning, c.bindings, c.input_types, c.app.outputs, Precision::kNative);
    ASSERT_TRUE(compiled.ok()) << c.text << ": " << compiled.status();
    for (int run = 0; run < 4; ++run) {
      std::vector<Tensor> inputs;
      for (const TensorType& type : c.input_types) {
        inputs.push_back(RandomTensor(type, rng, sample.low, sample.high));
      }
      const auto again = compiled->Run(inputs);
      const auto once = Interpret(*c.app.meaning, c.bindings, c.app.outputs, inputs);
      ASSERT_EQ(again.status().code(), once.status().code()) << c.text << ": " << again.status();
      for (size_t k = 0; once.ok() && k < once->size(); ++k) {
        ASSERT_TRUE((*again)[k].BitEqual((*once)[k])) << c.text << ": " << Compare((*again)[k], (*once)[k]).text;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, AllOpsTest, ::testing::ValuesIn(AllOps()),
                         [](const auto& info) { return info.param->name; });

// ---------------------------------------------------------------- narrow types

// Computed in f32, sums included, and rounded once: 2048 + 1 + 1 is 2050 in f16; two roundings give 2048.
TEST(InterpreterTest, SixteenBitsAreRoundedOnceAnOperator) {
  MeaningCache cache;
  const auto run = [&](const char* op, const std::vector<Tensor>& inputs, const Attrs& attrs = {}) {
    std::vector<TensorType> types;
    for (const Tensor& input : inputs) types.push_back(input.type());
    const auto app = Apply(*FindOp(op), types, attrs, cache);
    EXPECT_TRUE(app.ok()) << app.status();
    return (*Interpret(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), app->outputs, inputs))[0];
  };
  const auto halves = [](DType dtype, const std::vector<double>& values) {
    return Tensor::FromVector(dtype, {static_cast<int64_t>(values.size())}, values);
  };
  const Attrs all = {{"axes", std::vector<int64_t>{0}}};
  EXPECT_EQ(run("reduce_sum", {halves(DType::kFloat16, {2048, 1, 1})}, all).At(0), 2050);
  EXPECT_EQ(run("add", {halves(DType::kFloat16, {2048}), halves(DType::kFloat16, {1})}).At(0), 2048);  // a tie: to even
  EXPECT_EQ(run("add", {halves(DType::kFloat16, {2050}), halves(DType::kFloat16, {1})}).At(0), 2052);
  EXPECT_EQ(run("mul", {halves(DType::kFloat16, {300}), halves(DType::kFloat16, {300})}).At(0), HUGE_VAL);
  EXPECT_EQ(run("mul", {halves(DType::kBFloat16, {300}), halves(DType::kBFloat16, {300})}).At(0), 90112);
  EXPECT_EQ(run("cast", {halves(DType::kFloat32, {1 + 0x1p-9, 1e-8})}, {{"to", DType::kFloat16}}).At(0), 1 + 0x1p-9);
  EXPECT_EQ(run("add", {halves(DType::kInt8, {100}), halves(DType::kInt8, {100})}).At(0), -56);
  EXPECT_EQ(run("sub", {halves(DType::kUInt8, {1}), halves(DType::kUInt8, {2})}).At(0), 255);
  EXPECT_EQ(run("cast", {halves(DType::kFloat32, {-1})}, {{"to", DType::kUInt8}}).At(0), 255);
  EXPECT_EQ(run("less", {halves(DType::kUInt64, {0x1p62}), halves(DType::kUInt64, {1})}).At(0), 0);
  EXPECT_EQ(run("shift_right", {halves(DType::kUInt8, {200}), halves(DType::kUInt8, {3})}).At(0), 25);
  EXPECT_EQ(run("shift_left", {halves(DType::kUInt8, {200}), halves(DType::kUInt8, {1})}).At(0), 144);
  EXPECT_EQ(run("bit_xor", {halves(DType::kInt8, {5}), halves(DType::kInt8, {-1})}).At(0), -6);
}

// ---------------------------------------------------------------- larger sizes: several blocks, boxes, hoisting

TEST(InterpreterTest, LargerApplicationsAgreeWithTheOracle) {
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  const auto i64 = [](Shape shape) { return TensorType{DType::kInt64, std::move(shape)}; };
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
      {"conv2d",
       {f32({1, 8, 30, 30}), f32({16, 2, 3, 3})},
       {{"pads", Ints{1, 0, 2, 1}}, {"groups", int64_t{4}}, {"strides", Ints{2, 2}}}},
      {"conv2d", {f32({1, 12, 20, 20}), f32({12, 1, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}, {"groups", int64_t{12}}}},
      {"max_pool2d",
       {f32({1, 9, 33, 31})},
       {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"softmax", {f32({40, 130})}, {{"axis", int64_t{1}}}},
      {"softmax", {f32({70, 90})}, {{"axis", int64_t{0}}}},
      {"reshape", {f32({12, 10, 63})}, {{"shape", Ints{4, 9, 35, 6}}}},
      {"transpose", {f32({60, 80, 3})}, {{"perm", Ints{2, 1, 0}}}},
      {"concat", {f32({40, 30, 5}), f32({40, 61, 5}), f32({40, 7, 5})}, {{"axis", int64_t{1}}}},
      {"scatter_add", {f32({9, 50, 5}), i64({31, 3}), f32({9, 31, 3, 5})}, {{"axis", int64_t{1}}}},
      {"scatter_add", {f32({50, 37}), i64({90}), f32({90, 37})}, {}},
      {"scatter_add", {f32({37, 50}), i64({90}), f32({37, 90})}, {{"axis", int64_t{1}}}},
      {"scatter_elements_add", {f32({20, 50, 4}), i64({19, 70, 3}), f32({19, 70, 3})}, {{"axis", int64_t{1}}}},
      {"random_uniform", {i64({})}, {{"shape", Ints{7, 300, 3}}, {"stream", int64_t{5}}}},
      {"top_k", {f32({13, 200})}, {{"k", int64_t{17}}, {"axis", int64_t{1}}}},
  };
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed + 3);
  MeaningCache cache;
  for (const Large& large : cases) {
    const Case c = MakeCase(*FindOp(large.op), large.inputs, large.attrs, -2, 2, rng, cache);
    ASSERT_FALSE(HasFailure());
    const auto oracle = RunOracle(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
    const auto fast = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs, {.threads = 1});
    const auto threaded = Interpret(*c.app.meaning, c.bindings, c.app.outputs, c.inputs, {.threads = 2});
    ASSERT_TRUE(oracle.ok() && fast.ok() && threaded.ok()) << c.text << ": " << fast.status();
    const Comparison comparison = Compare((*fast)[0], (*oracle)[0]);
    EXPECT_TRUE(comparison.close) << c.text << ": " << comparison.text;
    EXPECT_TRUE((*threaded)[0].BitEqual((*fast)[0])) << c.text;
  }
}

// ---------------------------------------------------------------- meanings made for single properties

using Declare = std::function<void(OpBuilder&)>;

absl::StatusOr<std::vector<Tensor>> RunDeclared(const Declare& declare, const std::vector<Tensor>& inputs) {
  OpDef op{.name = "test", .inputs = std::vector<std::string>(inputs.size(), "x")};
  op.meaning = [&](OpBuilder& b) {
    declare(b);
    return absl::OkStatus();
  };
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  MeaningCache cache;
  auto app = Apply(op, types, {}, cache);
  if (!app.ok()) return app.status();
  return Interpret(*app->meaning, BindingsOf(*app->meaning, types, {}), app->outputs, inputs);
}

std::vector<double> Elements(const absl::StatusOr<std::vector<Tensor>>& result) {
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<double> values;
  for (int64_t i = 0; result.ok() && i < (*result)[0].num_elements(); ++i) values.push_back((*result)[0].At(i));
  return values;
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor Float32s(Shape shape, const std::vector<double>& values) {
  return Tensor::FromVector(DType::kFloat32, std::move(shape), values);
}

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::NanSensitiveDoubleEq;
using At = std::vector<Index>;

TEST(InterpreterTest, ReadOutsideIsAnInternalErrorWithOperandAndIndex) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kFloat32, {b.size(1, 0)}, [&](const At& i) { return b.Read(0, {i[0] + 1}); });
      },
      {Float32s({3}, {1, 2, 3}), Float32s({3}, {1, 2, 3})});
  EXPECT_TRUE(absl::IsInternal(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("operand 0: index 3 on axis 0 of size 3"));
}

TEST(InterpreterTest, ReadAtAWrongElementIsTheCallersFault) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kFloat32, {b.size(1, 0)}, [&](const At& i) { return b.Read(0, {ToIndex(b.Read(1, {i[0]}))}); });
      },
      {Float32s({3}, {1, 2, 3}), Tensor::Int64s({0, -1})});
  EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("operand 0: index -1 on axis 0 of size 3"));
}

TEST(InterpreterTest, OnlyTheChosenSideIsEvaluated) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kInt64, {Index(5)}, [&](const At& i) {
          const Scalar x = b.Read(1, {Min(i[0], 4)});
          const Cond exists = InRange(i[0], 1, 4) && Holds(Call(Fn::kLess, {Constant(0, DType::kInt64), x}));
          return Select(exists, b.Read(0, {i[0] - 1}) / x, -1.0);
        });
      },
      {Tensor::Int64s({-7, 8, 9}), Tensor::Int64s({0, 2, 0, 2, 0})});
  EXPECT_THAT(Elements(result), ElementsAre(-1, -3, -1, 4, -1));
}

TEST(InterpreterTest, IntegerDivisionByZeroIsAnError) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kInt64, b.sizes(0), [&](const At& i) { return b.Read(0, i) / b.Read(1, i); });
      },
      {Tensor::Int64s({1, 2}), Tensor::Int64s({1, 0})});
  EXPECT_TRUE(absl::IsOutOfRange(result.status())) << result.status();
}

TEST(InterpreterTest, MaxAndMinPropagateNaN) {
  const Tensor x = Float32s({4, 2}, {1, 2, kNaN, 1, 1, kNaN, kNaN, kNaN});
  for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
    const auto reduced = RunDeclared(
        [&](OpBuilder& b) {
          b.Output(DType::kFloat32, {Index(4)}, [&](const At& i) {
            return b.Reduce(kind, {{"j", Index(2)}}, [&](const At& j) { return b.Read(0, {i[0], j[0]}); });
          });
        },
        {x});
    EXPECT_THAT(Elements(reduced), ElementsAre(DoubleEq(kind == ReduceKind::kMax ? 2 : 1), NanSensitiveDoubleEq(kNaN),
                                               NanSensitiveDoubleEq(kNaN), NanSensitiveDoubleEq(kNaN)));
  }
}

TEST(InterpreterTest, EmptyReductionsGiveTheirNeutralElement) {
  for (const auto& [kind, expected] : std::vector<std::pair<ReduceKind, double>>{{ReduceKind::kSum, 0},
                                                                                 {ReduceKind::kProd, 1},
                                                                                 {ReduceKind::kMax, -kInf},
                                                                                 {ReduceKind::kMin, kInf},
                                                                                 {ReduceKind::kArgMax, 0},
                                                                                 {ReduceKind::kArgMin, 0}}) {
    for (const bool by_guard : {false, true}) {
      const auto result = RunDeclared(
          [&, kind = kind](OpBuilder& b) {
            const auto element = [&](const At& i) {
              const Scalar r = b.Reduce(
                  kind, {{"j", Index(by_guard ? 3 : 0)}}, [&](const At&) { return b.Read(0, {i[0]}); },
                  [&](const At& j) { return i[0] + 5 <= j[0]; });
              return Cast(r, DType::kFloat32);
            };
            b.Output(DType::kFloat32, {Index(2)}, element);
          },
          {Float32s({2}, {3, 4})});
      EXPECT_THAT(Elements(result), ElementsAre(expected, expected)) << ReduceName(kind);
    }
  }
}

TEST(InterpreterTest, ArgmaxTakesTheFirstAndPrefersNaN) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kInt64, {Index(3)}, [&](const At& i) {
          return b.Reduce(ReduceKind::kArgMax, {{"j", Index(4)}}, [&](const At& j) { return b.Read(0, {i[0], j[0]}); });
        });
      },
      {Float32s({3, 4}, {1, 5, 5, 2, 0, kNaN, 9, kNaN, -kInf, -kInf, -kInf, -kInf})});
  EXPECT_THAT(Elements(result), ElementsAre(1, 1, 0));
}

TEST(InterpreterTest, IndexDivisionRoundsDownAndElementDivisionTowardZero) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kInt32, {Index(7)}, [&](const At& i) {
          const Index x = i[0] - 3;
          const Scalar y = FromIndex(x, DType::kInt32);
          return FromIndex(FloorDiv(x, 2) * 100 + Mod(x, 2) * 10, DType::kInt32) + y / Constant(2, DType::kInt32);
        });
      },
      {Float32s({1}, {0})});
  EXPECT_THAT(Elements(result), ElementsAre(-191, -101, -90, 0, 10, 101, 111));
}

TEST(InterpreterTest, IndicesThatDoNotFitAreRefused) {
  const auto places = [](int64_t step) {
    return RunDeclared(
        [step](OpBuilder& b) {
          b.Output(DType::kInt64, {Index(3)},
                   [&](const At& i) { return FromIndex(i[0] * Index(step) * Index(2) - i[0], DType::kInt64); });
        },
        {Float32s({1}, {0})});
  };
  EXPECT_THAT(Elements(places(int64_t{1} << 40)), ElementsAre(0, 2199023255551., 4398046511102.));
  for (int64_t step : {int64_t{1} << 61, int64_t{1} << 62, std::numeric_limits<int64_t>::max()}) {
    const auto refused = places(step);
    ASSERT_FALSE(refused.ok()) << step;
    EXPECT_EQ(refused.status().message(), "an index does not fit 64 bits");
  }
}

TEST(InterpreterTest, DivisorsThatAreNotPositiveDoNotMatterWhereTheyAreExcluded) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kInt64, {Index(4)}, [&](const At& i) {
          const Scalar none = Constant(-1, DType::kInt64);
          const Scalar by_zero =
              Select(Cond(i[0] < b.size(0, 0) - 1), FromIndex(FloorDiv(i[0], b.size(0, 0) - 1), DType::kInt64), none);
          return by_zero + Select(1 < i[0],
                                  FromIndex(FloorDiv(Index(9), i[0] - 1) + Mod(Index(9), i[0] - 1), DType::kInt64),
                                  none);
        });
      },
      {Float32s({1}, {0})});
  EXPECT_THAT(Elements(result), ElementsAre(-2, -2, 8, 4));
}

TEST(InterpreterTest, Int32WrapsAround) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kInt32, {Index(1)}, [&](const At& i) { return b.Read(0, i) + b.Read(0, i); });
      },
      {Tensor::FromVector<double>(DType::kInt32, {1}, {2147483647})});
  EXPECT_THAT(Elements(result), ElementsAre(-2));
}

TEST(InterpreterTest, SumsInTheDeclaredOrderInFloat) {
  // 2^24 + 1 + 1 is 2^24 in floats from the left, and 2^24 + 2 in doubles.
  const Tensor x = Float32s({3}, {16777216, 1, 1});
  const Declare sum = [](OpBuilder& b) {
    b.Output(DType::kFloat32, {}, [&](const At&) {
      return b.Sum({{"j", b.size(0, 0)}}, [&](const At& j) { return b.Read(0, j); });
    });
  };
  EXPECT_THAT(Elements(RunDeclared(sum, {x})), ElementsAre(16777216));
}

TEST(InterpreterTest, WrongInputsAreReported) {
  MeaningCache cache;
  const std::vector<TensorType> types = {{DType::kFloat32, {2}}, {DType::kFloat32, {2}}};
  const auto app = Apply(*FindOp("add"), types, {}, cache);
  ASSERT_TRUE(app.ok());
  const auto compiled = CompiledMeaning::Compile(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), types,
                                                 app->outputs, Precision::kNative);
  ASSERT_TRUE(compiled.ok());
  EXPECT_THAT(std::string(compiled->Run({Float32s({2}, {1, 2})}).status().message()), HasSubstr("1 input tensors"));
  EXPECT_THAT(std::string(compiled->Run({Float32s({2}, {1, 2}), Float32s({1}, {1})}).status().message()),
              HasSubstr("input 1 is f32[1], expected f32[2]"));
}

// ---------------------------------------------------------------- opaque operators

TEST(InterpreterTest, ReferencesGetBindingsAndFillAllOutputs) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        const Index n = b.size(0, 0);
        const auto reference = [](const Bindings& bindings, const std::vector<Tensor>& inputs,
                                  std::vector<Tensor>* outputs) {
          for (int64_t i = 0; i < 3; ++i) (*outputs)[0].Set(i, inputs[0].At(2 - i));
          (*outputs)[1].SetInt(0, bindings.variables[0]);
          return absl::OkStatus();
        };
        b.Opaque({{DType::kFloat32, {n}}, {DType::kInt64, {}}}, reference, n);
      },
      {Float32s({3}, {1, 2, 3})});
  EXPECT_THAT(Elements(result), ElementsAre(3, 2, 1));
  ASSERT_EQ(result->size(), 2u);
  EXPECT_EQ((*result)[1].AtInt(0), 3);
}

TEST(InterpreterTest, AReferenceThatFailsEndsTheRun) {
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Opaque(
            {{DType::kFloat32, {}}},
            [](const Bindings&, const std::vector<Tensor>&, std::vector<Tensor>*) {
              return absl::OutOfRangeError("no such element");
            },
            1);
      },
      {Float32s({3}, {1, 2, 3})});
  EXPECT_EQ(result.status(), absl::OutOfRangeError("no such element"));
}

// ---------------------------------------------------------------- scattered sums

// A million terms at a million positions do not take a million times a million steps.
TEST(InterpreterTest, ScatteredSumsTakeTimeByTheNumberOfTerms) {
  constexpr int64_t kCount = 1000000;
  Tensor x(TensorType{DType::kInt64, {kCount}}), indices(x.type()), updates(x.type());
  std::vector<int64_t> expected(kCount);
  for (int64_t k = 0; k < kCount; ++k) {
    x.SetInt(k, k);
    indices.SetInt(k, k * k % kCount - (k % 2 == 0 ? kCount : 0));
    updates.SetInt(k, k % 1000);
    expected[k] += k;
    expected[k * k % kCount] += k % 1000;
  }
  const std::vector<TensorType> types(3, x.type());
  MeaningCache cache;
  const auto app = Apply(*FindOp("scatter_add"), types, {}, cache);
  ASSERT_TRUE(app.ok()) << app.status();
  const auto result =
      Interpret(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), app->outputs, {x, indices, updates});
  ASSERT_TRUE(result.ok()) << result.status();
  for (int64_t k = 0; k < kCount; ++k) ASSERT_EQ((*result)[0].AtInt(k), expected[k]) << k;
}

// Compares guards of every kind with the oracle, whole and with every possible reduction scattered.
TEST(InterpreterTest, SumsWhosePositionsAreDataAgreeWithTheOracle) {
  const auto index = [](OpBuilder& b, const Index& k) { return ToIndex(b.Read(1, {k})); };
  const auto declare = [](ReduceKind kind, const std::function<Cond(OpBuilder&, const At&, const Index&)>& guard,
                          const std::function<Scalar(OpBuilder&, const At&, const Index&)>& body, bool flat = true) {
    return [=](OpBuilder& b) {
      const std::vector<Index> shape = flat ? At{6} : At{2, 3};
      b.Output(DType::kFloat32, shape, [&](const At& i) {
        return b.Reduce(
            kind, {{"k", b.size(0, 0)}}, [&](const At& k) { return body(b, i, k[0]); },
            [&](const At& k) { return guard(b, i, k[0]); });
      });
    };
  };
  const auto update = [](OpBuilder& b, const At&, const Index& k) { return b.Read(0, {k}); };
  const std::pair<const char*, Declare> cases[] = {
      {"an index outside is no position",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; }, update)},
      {"a maximum",
       declare(
           ReduceKind::kMax, [&](OpBuilder& b, const At& i, const Index& k) { return i[0] == index(b, k); }, update)},
      {"a product of a position's own",
       declare(
           ReduceKind::kProd, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; },
           [&](OpBuilder& b, const At& i, const Index& k) {
             return b.Read(0, {k}) * FromIndex(i[0] + 1, DType::kFloat32) + b.Read(0, {i[0]});
           })},
      {"a multiple",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0] * 2 + 1; },
           update)},
      {"digits of two axes",
       declare(
           ReduceKind::kSum,
           [&](OpBuilder& b, const At& i, const Index& k) { return Mod(index(b, k), 6) == i[0] * 3 + i[1]; }, update,
           /*flat=*/false)},
      {"one axis of two",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; },
           [&](OpBuilder& b, const At& i, const Index& k) { return b.Read(0, {k}) + b.Read(0, {i[1]}); },
           /*flat=*/false)},
      {"other conditions", declare(
                               ReduceKind::kSum,
                               [&](OpBuilder& b, const At& i, const Index& k) {
                                 return Mod(k, 3) < 2 && Mod(index(b, k), 6) == i[0] && i[0] < k && index(b, k) < 5;
                               },
                               update)},
      {"a position that data picks on both sides",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == index(b, i[0]); },
           update)},
      {"not determined",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == Mod(i[0], 4); },
           update)},
      {"a reduction inside",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; },
           [&](OpBuilder& b, const At& i, const Index& k) {
             return b.Read(0, {k}) * b.Sum({{"s", b.size(0, 0)}}, [&](const At& s) {
               return b.Read(0, {Mod(s[0] + i[0] + k, b.size(0, 0))});
             });
           })},
  };
  std::vector<double> values;
  std::vector<int> places;
  for (int k = 0; k < 40; ++k) {
    values.push_back(1 + k % 7 * 0.25);
    places.push_back((k * k + 3 * k) % 17 - 4);
  }
  const std::vector<Tensor> inputs = {Float32s({40}, values), Tensor::FromVector(DType::kInt64, {40}, places)};
  for (const auto& [what, declared] : cases) {
    OpDef op{.name = "test", .inputs = {"x", "i"}};
    op.meaning = [&, &declared = declared](OpBuilder& b) {
      declared(b);
      return absl::OkStatus();
    };
    const std::vector<TensorType> types = {inputs[0].type(), inputs[1].type()};
    MeaningCache cache;
    const auto app = Apply(op, types, {}, cache);
    ASSERT_TRUE(app.ok()) << app.status();
    const Bindings bindings = BindingsOf(*app->meaning, types, {});
    const auto oracle = RunOracle(*app->meaning, bindings, app->outputs, inputs);
    ASSERT_TRUE(oracle.ok()) << what << ": " << oracle.status();
    for (double min_hoisted : {1.0, 1e9}) {
      const auto compiled = CompiledMeaning::Compile(*app->meaning, bindings, types, app->outputs, Precision::kNative,
                                                     {.max_lanes = 7, .min_hoisted = min_hoisted, .min_parallel = 0});
      ASSERT_TRUE(compiled.ok()) << what << ": " << compiled.status();
      const auto result = compiled->Run(inputs, 2);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << what << ": " << Compare((*result)[0], (*oracle)[0]).text;
    }
  }
}

// Each of a million positions has a million possible terms, of which at most one exists: no loop runs over the others.
TEST(InterpreterTest, GuardedSumsTakeTimeByTheTermsThatExist) {
  constexpr int64_t kCount = 1000000;
  std::vector<double> values(kCount);
  for (int64_t k = 0; k < kCount; ++k) values[k] = static_cast<double>(k % 1000);
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kFloat32, {b.size(0, 0)}, [&](const At& i) {
          return b.Reduce(
              ReduceKind::kSum, {{"k", b.size(0, 0)}}, [&](const At& k) { return b.Read(0, {k[0]}); },
              [&](const At& k) { return k[0] * 3 + 1 == i[0]; });
        });
      },
      {Float32s({kCount}, values)});
  ASSERT_TRUE(result.ok()) << result.status();
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ((*result)[0].At(i), i % 3 == 1 ? static_cast<double>(i / 3 % 1000) : 0) << i;
  }
}

// Equations between indices, compared bit by bit: terms come in the declared order.
TEST(InterpreterTest, SumsUnderEquationsAgreeWithTheOracle) {
  using Equation = std::function<Cond(const Index& i, const Index& r, const Index& s)>;
  const std::pair<const char*, Equation> cases[] = {
      {"taps of a stride", [](auto& i, auto& r, auto&) { return Mod(i - r, 3) == Index(1); }},
      {"of two strides",
       [](auto& i, auto& r, auto& s) { return Mod(i + r, 2) == Index(0) && Mod(i - s, 3) == Index(2); }},
      {"of a difference", [](auto& i, auto& r, auto& s) { return Mod(i + r * 2 - s, 3) == Index(1); }},
      {"the last by the first", [](auto& i, auto& r, auto& s) { return r + s == i; }},
      {"the first by the last", [](auto& i, auto& r, auto& s) { return r + s * 3 == i; }},
      {"a point", [](auto& i, auto& r, auto& s) { return r * 7 + s == i * 2; }},
      {"no term", [](auto& i, auto& r, auto&) { return r * 2 + 1 == i * 4; }},
      {"beside bounds", [](auto& i, auto& r, auto& s) { return r < s && Mod(r + i, 2) == Index(1) && i < r + s; }},
      {"a quotient", [](auto& i, auto& r, auto& s) { return FloorDiv(r + i, 3) == s; }},
      {"nothing bound", [](auto& i, auto&, auto&) { return Mod(i, 2) == Index(1); }},
  };
  std::vector<double> values;
  for (int k = 0; k < 77; ++k) values.push_back(std::sin(k) * 1000 + 1);
  const std::vector<Tensor> inputs = {Float32s({77}, values)};
  for (const ReduceKind kind : {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kProd}) {
    for (const auto& [what, equation] : cases) {
      OpDef op{.name = "test", .inputs = {"x"}};
      op.meaning = [&, &equation = equation](OpBuilder& b) {
        b.Output(DType::kFloat32, {Index(11)}, [&](const At& i) {
          return b.Reduce(
              kind, {{"r", Index(11)}, {"s", Index(7)}}, [&](const At& k) { return b.Read(0, {k[0] * 7 + k[1]}); },
              [&](const At& k) { return equation(i[0], k[0], k[1]); });
        });
        return absl::OkStatus();
      };
      const std::vector<TensorType> types = {inputs[0].type()};
      MeaningCache cache;
      const auto app = Apply(op, types, {}, cache);
      ASSERT_TRUE(app.ok()) << app.status();
      const Bindings bindings = BindingsOf(*app->meaning, types, {});
      const auto oracle = RunOracle(*app->meaning, bindings, app->outputs, inputs);
      ASSERT_TRUE(oracle.ok()) << what << ": " << oracle.status();
      const auto result = Interpret(*app->meaning, bindings, app->outputs, inputs);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << what << ": " << Compare((*result)[0], (*oracle)[0]).text;
    }
  }
}

// Gradients of convolutions: guards of padding, strides and dilations over sums of products, compared bit by bit. Terms
// that do not exist count for nothing, also where the other factor is infinite or NaN.
TEST(InterpreterTest, GuardedSumsOfProductsAgreeWithTheOracle) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Rng rng(kSeed);
  MeaningCache cache;
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  const auto extent = [](int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pads) {
    return (out - 1) * stride + (kernel - 1) * dilation + 1 - pads;
  };
  for (int i = 0; i < Cases(200); ++i) {
    const int64_t groups = pick(1, 2), o = groups * pick(1, 5), c = groups * pick(1, 9), n = pick(1, 2);
    const int64_t r = pick(1, 3), s = pick(1, 3), y = pick(1, 6), z = pick(1, 6);
    const std::vector<int64_t> strides = {pick(1, 3), pick(1, 2)}, dilations = {pick(1, 2), pick(1, 3)};
    std::vector<int64_t> pads = {pick(0, r - 1), pick(0, s - 1), pick(0, r - 1), pick(0, s - 1)};
    const int64_t h = extent(y, r, strides[0], dilations[0], pads[0] + pads[2]);
    const int64_t w = extent(z, s, strides[1], dilations[1], pads[1] + pads[3]);
    if (h < 1 || w < 1) continue;
    const Attrs attrs = {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"groups", groups}};
    Attrs of_image = attrs;
    of_image["x_shape"] = Shape{n, c, h, w};
    Case backward = MakeCase(*FindOp("conv2d_grad_x"), {f32({o, c / groups, r, s}), f32({n, o, y, z})}, of_image, -2, 2,
                             rng, cache);
    Case forward =
        MakeCase(*FindOp("conv2d"), {f32({n, c, h, w}), f32({o, c / groups, r, s})}, attrs, -2, 2, rng, cache);
    ASSERT_FALSE(HasFailure());
    for (Case* made : {&backward, &forward}) {
      for (Tensor& input : made->inputs) {
        if (rng() % 2 == 0) continue;
        const double odd[] = {kInf, -kInf, kNaN, -0.0};
        for (int k = 0; k < 3; ++k) input.Set(pick(0, input.num_elements() - 1), odd[rng() % 4]);
      }
      const auto oracle = RunOracle(*made->app.meaning, made->bindings, made->app.outputs, made->inputs);
      ASSERT_TRUE(oracle.ok()) << oracle.status();
      for (const int64_t lanes : {4096, 7}) {
        const auto result = RunTuned(*made, {.max_lanes = lanes}, 1);
        ASSERT_TRUE(result.ok()) << result.status();
        for (int64_t at = 0; at < (*oracle)[0].num_elements(); ++at) {
          const double expected = (*oracle)[0].At(at), found = (*result)[0].At(at);
          if (std::isnan(expected) && std::isnan(found)) continue;
          ASSERT_TRUE(expected == found && std::signbit(expected) == std::signbit(found))
              << made->text << ": " << found << " and not " << expected << " at " << at;
        }
      }
    }
  }
}

// A sum over one place is its term, with the sign of a zero; other sums begin with 0. The size decides, and not how an
// operator is declared where it is known to be one (docs/decisions/127).
TEST(InterpreterTest, ASumOverOnePlaceIsItsTerm) {
  const Tensor zeros = Float32s({2, 1}, {-0.0, 3});
  const auto sum_of = [](const Tensor& x, const Cond& guard) {
    return RunDeclared(
        [&](OpBuilder& b) {
          b.Output(DType::kFloat32, {b.size(0, 0)}, [&](const At& i) {
            return b.Reduce(
                ReduceKind::kSum, {{"j", b.size(0, 1)}},
                [&](const At& j) {
                  return b.Read(0, {i[0], j[0]});
                },
                [&](const At&) { return guard; });
          });
        },
        {x});
  };
  const auto sign_of_first = [](const absl::StatusOr<std::vector<Tensor>>& result) {
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result)[0].At(0), 0);
    return std::signbit((*result)[0].At(0));
  };
  EXPECT_TRUE(sign_of_first(sum_of(zeros, Cond(true))));
  EXPECT_FALSE(sign_of_first(sum_of(zeros, Cond(false))));
  EXPECT_FALSE(sign_of_first(sum_of(Float32s({1, 2}, {-0.0, -0.0}), Cond(true))));

  Rng rng(kSeed);
  MeaningCache cache;
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  Case product = MakeCase(*FindOp("matmul"), {f32({2, 1}), f32({1, 3})}, {}, 0, 1, rng, cache);
  Case gradient =
      MakeCase(*FindOp("matmul_grad_a"), {f32({3, 1}), f32({2, 1})}, {{"a_shape", Shape{2, 3}}}, 0, 1, rng, cache);
  product.inputs = {Float32s({2, 1}, {-2, 3}), Float32s({1, 3}, {0, 1, -0.0})};
  gradient.inputs = {product.inputs[1], product.inputs[0]};
  gradient.inputs[0] = Float32s({3, 1}, {0, 1, -0.0});
  const auto forward = RunTuned(product, {}, 1), backward = RunTuned(gradient, {}, 1);
  ASSERT_TRUE(forward.ok() && backward.ok()) << forward.status() << backward.status();
  EXPECT_TRUE((*forward)[0].BitEqual((*backward)[0]));
  EXPECT_TRUE(std::signbit((*forward)[0].At(0)));
  for (const Case* c : {&product, &gradient}) {
    const auto oracle = RunOracle(*c->app.meaning, c->bindings, c->app.outputs, c->inputs);
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    EXPECT_TRUE((*oracle)[0].BitEqual((*forward)[0]));
  }
}

// An integer without a value ends the run, or is -1 on request; other elements keep their values.
TEST(InterpreterTest, IntegersWithoutAValueCanBeMinusOne) {
  MeaningCache cache;
  const std::vector<TensorType> types = {{DType::kInt64, {4}}, {DType::kInt64, {4}}};
  const auto app = Apply(*FindOp("div"), types, {}, cache);
  ASSERT_TRUE(app.ok());
  const auto compiled = CompiledMeaning::Compile(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), types,
                                                 app->outputs, Precision::kNative);
  ASSERT_TRUE(compiled.ok());
  const std::vector<Tensor> inputs = {Tensor::Int64s({7, 8, -9, 0}), Tensor::Int64s({2, 0, 3, 0})};
  EXPECT_TRUE(absl::IsOutOfRange(compiled->Run(inputs).status()));
  const auto marked = compiled->Run(inputs, 1, Undefined::kMinusOne);
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_TRUE((*marked)[0].BitEqual(Tensor::Int64s({3, -1, -3, -1})));
}

// ---------------------------------------------------------------- hand-computed values

absl::StatusOr<std::vector<Tensor>> RunOp(const std::string& name, const std::vector<Tensor>& inputs,
                                          const Attrs& attrs) {
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  MeaningCache cache;
  auto app = Apply(*FindOp(name), types, attrs, cache);
  if (!app.ok()) return app.status();
  return Interpret(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), app->outputs, inputs);
}

TEST(InterpreterTest, Conv2dByHand) {
  const Tensor x = Float32s({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor w = Float32s({1, 1, 2, 2}, {1, 10, 100, 1000});
  EXPECT_THAT(Elements(RunOp("conv2d", {x, w}, {})), ElementsAre(5421, 6532, 8754, 9865));
  const Attrs padded = {{"pads", std::vector<int64_t>{1, 1, 0, 0}}, {"strides", std::vector<int64_t>{2, 2}}};
  EXPECT_THAT(Elements(RunOp("conv2d", {x, w}, padded)), ElementsAre(1000, 3200, 7040, 9865));
}

TEST(InterpreterTest, MaxPool2dInCeilModeByHand) {
  const Tensor x = Float32s({1, 1, 3, 3}, {-1, -2, -3, -4, -5, -6, -7, -8, -9});
  const Attrs attrs = {{"kernel", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}};
  EXPECT_THAT(Elements(RunOp("max_pool2d", {x}, attrs)), ElementsAre(-1));
  Attrs ceil = attrs;
  ceil["ceil_mode"] = int64_t{1};
  EXPECT_THAT(Elements(RunOp("max_pool2d", {x}, ceil)), ElementsAre(-1, -3, -7, -9));
}

TEST(InterpreterTest, SoftmaxByHand) {
  const auto result = RunOp("softmax", {Float32s({2, 2}, {0, std::log(3.0), 1000, -kInf})}, {});
  const std::vector<double> values = Elements(result);
  ASSERT_EQ(values.size(), 4u);
  EXPECT_NEAR(values[0], 0.25, 1e-7);
  EXPECT_NEAR(values[1], 0.75, 1e-7);
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(values[3], 0);
}

}  // namespace
}  // namespace rewright
