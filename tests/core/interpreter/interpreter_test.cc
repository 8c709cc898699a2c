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
#include "core/ops/ops.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/interpreter/interpreter_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 20240917;
const int kSamples = Cases(1200);

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
    const InterpreterCase c = SampleCase(op(), rng, cache);
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
    const InterpreterCase c = SampleCase(op(), rng, cache);
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
    const InterpreterCase c = MakeCase(op(), sample.inputs, sample.attrs, sample.low, sample.high, rng, cache);
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
    const InterpreterCase c = MakeCase(*FindOp(large.op), large.inputs, large.attrs, -2, 2, rng, cache);
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

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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
