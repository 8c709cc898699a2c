// Compares tapes with the oracle over the same field, for samples of every operator.
#include "substitutions/generate/enumerate/tape.h"

#include <random>

#include "core/interpreter/oracle.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"
#include "substitutions/generate/enumerate/field.h"

namespace rewright::generate {
namespace {

Partial<uint64_t> Existing(uint64_t value) { return {true, value}; }
Partial<uint64_t> Existing(const Partial<uint64_t>& value) { return value; }
// Returns a function's stand-in from its row.
Partial<uint64_t> EvaluateInField(Fn fn, uint64_t a, uint64_t b) {
  switch (fn) {
#define REWRIGHT_CASE(Id) \
  case Fn::k##Id:         \
    return Existing(FieldFn<Fn::k##Id>::Value(a, b));
#define REWRIGHT_REAL(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_UNARY(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_BINARY(Id, ...) REWRIGHT_CASE(Id)
#include "core/ir/functions.def"
#undef REWRIGHT_CASE
  }
  return {false, 0};
}

// The field as an arithmetic of the oracle. An element of floating type is in `integer`; tensors of them are of i64.
class FieldArithmetic : public OracleArithmetic {
 public:
  OracleElement Number(DType dtype, double value) const override {
    return IsFloating(dtype) ? Of(dtype, FieldFromReal(value)) : OracleArithmetic::Number(dtype, value);
  }
  OracleElement FromInteger(DType dtype, int64_t value) const override {
    return IsFloating(dtype) ? Of(dtype, FieldFromInteger(value)) : OracleArithmetic::FromInteger(dtype, value);
  }
  OracleElement Read(DType dtype, const Tensor& tensor, int64_t at) const override {
    return OracleElement{dtype, 0, tensor.AtInt(at)};
  }
  void Write(const OracleElement& element, Tensor* tensor, int64_t at) const override {
    tensor->SetInt(at, element.integer);
  }
  bool Call(Fn fn, const OracleElement& a, const OracleElement& b, OracleElement* value) const override {
    if (!IsFloating(a.dtype)) return OracleArithmetic::Call(fn, a, b, value);
    const uint64_t x = static_cast<uint64_t>(a.integer), y = static_cast<uint64_t>(b.integer);
    const int64_t i = FieldCentered(x), j = FieldCentered(y);
    const auto give = [&](uint64_t result) { return *value = Of(a.dtype, result), true; };
    const auto test = [&](bool result) { return *value = {DType::kBool, 0, result}, true; };
    switch (fn) {
      case Fn::kAdd: return give(FieldReduce(static_cast<unsigned __int128>(x) + y));
      case Fn::kSub: return give(FieldReduce(static_cast<unsigned __int128>(x) + kFieldPrime - y));
      case Fn::kMul: return give(FieldReduce(static_cast<unsigned __int128>(x) * y));
      case Fn::kDiv: return y != 0 && give(FieldMultiply(x, FieldPower(y, kFieldPrime - 2)));
      case Fn::kNeg: return give(FieldReduce(kFieldPrime - x));
      case Fn::kMax: return give(i > j ? x : y);
      case Fn::kMin: return give(i < j ? x : y);
      case Fn::kAbs: return give(i < 0 ? FieldReduce(kFieldPrime - x) : x);
      case Fn::kLess: return test(i < j);
      case Fn::kLessEqual: return test(i <= j);
      case Fn::kEqual: return test(i == j);
      default: break;
    }
    const Partial<uint64_t> stand_in = EvaluateInField(fn, x, y);
    return stand_in.exists && give(stand_in.value);
  }

 private:
  static OracleElement Of(DType dtype, uint64_t value) { return {dtype, 0, static_cast<int64_t>(value)}; }
};

TEST(Tape, AgreesWithTheOracleOnEveryOperator) {
  std::mt19937_64 rng(11);
  int compared = 0;
  for (const OpDef* op : AllOps()) {
    for (int trial = 0; trial < 5; ++trial) {
      const OpSample sample = op->sample(rng);
      bool floats = true;
      for (const TensorType& input : sample.inputs) floats = floats && input.dtype == DType::kFloat32;
      if (!floats) continue;
      MeaningCache meanings;
      const auto applied = Apply(*op, sample.inputs, sample.attrs, meanings);
      ASSERT_TRUE(applied.ok()) << op->name << ": " << applied.status().message();
      for (const TensorType& output : applied->outputs) floats = floats && output.dtype == DType::kFloat32;
      const Bindings bindings = BindingsOf(*applied->meaning, sample.inputs, applied->attrs);
      const auto tape = Tape::Compile(*applied->meaning, bindings, sample.inputs, applied->outputs);
      if (!tape.ok() || !floats) continue;  // tapes do not support positions and conversions
      std::vector<Tensor> inputs;
      std::vector<const uint64_t*> pointers;
      for (const TensorType& type : sample.inputs) {
        Tensor tensor(TensorType{DType::kInt64, type.shape});
        for (int64_t i = 0; i < tensor.num_elements(); ++i) {
          tensor.as<uint64_t>()[i] = FieldFromInteger(static_cast<int64_t>(rng() % 41) - 20);
        }
        inputs.push_back(tensor);
      }
      for (const Tensor& input : inputs) pointers.push_back(input.as<uint64_t>());
      std::vector<TensorType> stored = applied->outputs;
      for (TensorType& type : stored) type.dtype = DType::kInt64;
      const auto expected = RunOracle(*applied->meaning, bindings, stored, inputs, FieldArithmetic());
      std::vector<std::vector<uint64_t>> outputs;
      std::vector<uint64_t*> out;
      for (const TensorType& type : applied->outputs) outputs.emplace_back(static_cast<size_t>(type.num_elements()));
      for (std::vector<uint64_t>& output : outputs) out.push_back(output.data());
      std::vector<uint64_t> scratch;
      const bool defined = tape->Run(pointers.data(), out.data(), &scratch);
      EXPECT_EQ(defined, expected.ok()) << op->name;
      if (!defined || !expected.ok()) continue;
      ++compared;
      for (size_t k = 0; k < outputs.size(); ++k) {
        for (size_t i = 0; i < outputs[k].size(); ++i) {
          ASSERT_EQ(outputs[k][i], (*expected)[k].as<uint64_t>()[i]) << op->name << " output " << k << " at " << i;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

// Products of the largest elements, (-1) (-1): 64 of them do not fit the 128 bits that they are summed in.
TEST(Tape, LongSumsOfLargeProductsAreExact) {
  for (const int64_t depth : {1, 31, 32, 33, 64, 65, 200}) {
    const std::vector<TensorType> types = {{DType::kFloat32, {1, depth}}, {DType::kFloat32, {depth, 1}}};
    MeaningCache meanings;
    const auto applied = Apply(*FindOp("matmul"), types, {}, meanings);
    ASSERT_TRUE(applied.ok()) << applied.status();
    const Bindings bindings = BindingsOf(*applied->meaning, types, applied->attrs);
    const auto tape = Tape::Compile(*applied->meaning, bindings, types, applied->outputs);
    ASSERT_TRUE(tape.ok()) << tape.status();
    const std::vector<uint64_t> minus_ones(static_cast<size_t>(depth), kFieldPrime - 1);
    const uint64_t* const inputs[] = {minus_ones.data(), minus_ones.data()};
    uint64_t sum = 0;
    uint64_t* const outputs[] = {&sum};
    std::vector<uint64_t> scratch;
    ASSERT_TRUE(tape->Run(inputs, outputs, &scratch));
    EXPECT_EQ(sum, static_cast<uint64_t>(depth)) << depth;
  }
}

TEST(Tape, OpaqueOperatorsHaveNone) {
  const std::vector<TensorType> x = {{DType::kFloat32, {4, 5}}};
  MeaningCache meanings;
  const auto applied = Apply(*FindOp("top_k"), x, {{"k", int64_t{2}}}, meanings);
  ASSERT_TRUE(applied.ok()) << applied.status();
  const Bindings bindings = BindingsOf(*applied->meaning, x, applied->attrs);
  EXPECT_EQ(Tape::Compile(*applied->meaning, bindings, x, applied->outputs).status(),
            absl::UnimplementedError("an opaque operator"));
  EXPECT_EQ(TapeCache().Get(*FindOp("top_k"), x, *applied), nullptr);
}

}  // namespace
}  // namespace rewright::generate
