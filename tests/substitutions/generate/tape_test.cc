// Tapes against the interpreter over the same field, for samples of every operator.
#include "substitutions/generate/tape.h"

#include <random>

#include "core/interpreter/evaluate_field.h"
#include "core/interpreter/interpreter.h"
#include "gtest/gtest.h"

namespace rewright::generate {
namespace {

TEST(Tape, AgreesWithTheInterpreterOnEveryOperator) {
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
      if (!tape.ok() || !floats) continue;  // positions and conversions are not for tapes
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
      const auto expected = Interpret(*applied->meaning, bindings, applied->outputs, sample.inputs, inputs,
                                      {.carrier = Carrier::kPrimeField});
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

}  // namespace
}  // namespace rewright::generate
