#include "tests/core/interpreter/interpreter_util.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace rewright {

InterpreterCase MakeCase(const OpDef& op, const std::vector<TensorType>& input_types, const Attrs& attrs, double low,
                         double high, Rng& rng, MeaningCache& cache) {
  InterpreterCase c;
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

InterpreterCase SampleCase(const OpDef& op, Rng& rng, MeaningCache& cache) {
  const OpSample sample = op.sample(rng);
  return MakeCase(op, sample.inputs, sample.attrs, sample.low, sample.high, rng, cache);
}

absl::StatusOr<std::vector<Tensor>> RunTuned(const InterpreterCase& c, const InterpretTuning& tuning, int threads) {
  auto compiled =
      CompiledMeaning::Compile(*c.app.meaning, c.bindings, c.input_types, c.app.outputs, Precision::kNative, tuning);
  if (!compiled.ok()) return compiled.status();
  return compiled->Run(c.inputs, threads);
}

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

Tensor Float32s(Shape shape, const std::vector<double>& values) {
  return Tensor::FromVector(DType::kFloat32, std::move(shape), values);
}

}  // namespace rewright
