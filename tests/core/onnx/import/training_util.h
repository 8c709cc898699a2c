// Models that tests import for training, and their runs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/interpreter/interpreter.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {

inline ImportOptions Training(OnnxTraining training, uint64_t seed = 1) {
  ImportOptions options;
  options.training = training;
  options.seed = seed;
  return options;
}

// Returns all results of a run by name, including next values of states. `values` gives inputs, and states whose values
// differ from the first ones.
inline std::map<std::string, Tensor> Compute(const Graph& graph,
                                             const absl::flat_hash_map<std::string, Tensor>& values) {
  const auto results = InterpretGraph(graph, values);
  EXPECT_TRUE(results.ok()) << results.status();
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; results.ok() && i < results->size(); ++i) by_name[graph.outputs()[i].name] = (*results)[i];
  return by_name;
}

}  // namespace rewright
