// Cuts a pair of models that differ down to the nodes that make the difference: delta debugging (Zeller, Hildebrandt,
// TSE 2002) of two programs at a time.
//
// Both models are run on inputs at which they differ. A tensor whose elements are the same in both becomes a common
// input, with these elements, so that all before it is left out. A pair of tensors that ought to be equal and is not
// becomes the output, so that all after it is left out. Such a pair has one name, or is read by two equal applications
// whose other operands are equal. A pair is only taken if it explains the difference: B with the elements of A in its
// place gives what A gives. (Programs give the name of a tensor to another one at times.)
//
// The nodes of the reduced pair are those of the files. The pair is tried on the elements of the run, as rounded to the
// inputs' types.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/interpreter/interpreter.h"
#include "core/onnx/onnx.h"

namespace rewright {

using TensorsByName = absl::flat_hash_map<std::string, Tensor>;

struct ReduceOptions {
  // Elements are computed in f64, where only folded weights round, or in the models' own types.
  Precision precision = Precision::kFloat64;
  int threads = 1;
  // Decides if a smaller pair still differs, beside its values on the inputs. Null: these decide alone.
  std::function<absl::StatusOr<bool>(const Graph& a, const Graph& b)> differs;
};

struct ReducedModel {
  std::string bytes;               // a serialized model
  std::vector<std::string> nodes;  // the operators, without constants
};

struct ReducedPair {
  ReducedModel a, b;
  std::vector<std::pair<std::string, Tensor>> inputs;  // at which they differ
  std::string output;                                  // the only one
  std::vector<int64_t> at;                             // where it differs most
  double value_a = 0, value_b = 0;
};

// `a` and `b` have their sources (ImportOptions::keep_source) and all inputs in common; `output` differs on `inputs`.
// Errors: the output does not differ there; a model cannot be run.
absl::StatusOr<ReducedPair> ReducePair(const ImportedModel& a, const ImportedModel& b, const TensorsByName& inputs,
                                       const std::string& output, const ReduceOptions& options);

}  // namespace rewright
