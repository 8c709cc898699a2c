#include "core/onnx/operators.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/onnx/onnx.h"

namespace rewright {

const absl::flat_hash_map<std::string, OnnxOperator>& OnnxOperatorTable() {
  static const auto* const table = [] {
    auto* result = new absl::flat_hash_map<std::string, OnnxOperator>;
    for (OnnxOperatorList (*family)() :
         {ElementwiseOperators, ProductOperators, QuantizedOperators, MicrosoftOperators, EinsumOperators,
          PoolOperators,        NormOperators,    TrainingOperators,  ReduceOperators,    ShapeOperators,
          MoveOperators,        ResizeOperators,  AttentionOperators, RecurrentOperators, LinearAttentionOperators,
          SelectOperators,      GridOperators,    SignalOperators,    ConstantOperators,  PreprocessingOperators}) {
      for (auto& [name, op] : family()) {
        CHECK(result->emplace(name, op).second)
            << name << ": found two readers, expected one: in core/onnx/import/, or "
            << "a row of core/onnx/functions.cc";
      }
    }
    return result;
  }();
  return *table;
}

std::vector<OnnxOperatorVersions> OnnxOperators() {
  std::vector<OnnxOperatorVersions> list;
  for (const auto& [name, op] : OnnxOperatorTable()) {
    list.push_back(OnnxOperatorVersions{name, op.first_opset, op.newest_version});
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return list;
}

}  // namespace rewright
