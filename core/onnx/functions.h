// Elementwise functions that are an operator both here and in ONNX, with the same operands and real attributes: for
// import and export.
#pragma once

#include <utility>
#include <vector>

namespace rewright {

struct OnnxFunction {
  const char* op;       // our operator
  const char* op_type;  // ONNX's
  int first_opset;
  int newest_version;
  int operands = 1;
  std::vector<std::pair<const char*, float>> attrs = {};  // real numbers, in places of one name; ONNX's defaults
};
const std::vector<OnnxFunction>& OnnxFunctions();

}  // namespace rewright
