// Applications that tests of the interpreter run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"

namespace rewright {

// One application with its inputs.
struct InterpreterCase {
  std::string text;
  std::vector<TensorType> input_types;
  Application app;
  Bindings bindings;
  std::vector<Tensor> inputs;
};

// Inputs are drawn between `low` and `high`.
InterpreterCase MakeCase(const OpDef& op, const std::vector<TensorType>& input_types, const Attrs& attrs, double low,
                         double high, Rng& rng, MeaningCache& cache);
// A random application of the operator.
InterpreterCase SampleCase(const OpDef& op, Rng& rng, MeaningCache& cache);
absl::StatusOr<std::vector<Tensor>> RunTuned(const InterpreterCase& c, const InterpretTuning& tuning, int threads);

using Declare = std::function<void(OpBuilder&)>;
// The results of an operator that is declared for a test alone.
absl::StatusOr<std::vector<Tensor>> RunDeclared(const Declare& declare, const std::vector<Tensor>& inputs);
// The elements of the first result.
std::vector<double> Elements(const absl::StatusOr<std::vector<Tensor>>& result);
Tensor Float32s(Shape shape, const std::vector<double>& values);

}  // namespace rewright
