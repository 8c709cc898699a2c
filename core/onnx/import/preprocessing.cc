// Operators of scikit-learn's preprocessing as converters write them (domain ai.onnx.ml): scaling, norms, thresholds,
// missing values, categories. The values are those of onnxruntime.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Reads a list of numbers of a type: one for each element along the last axis, or one for all of them.
absl::StatusOr<Value> AlongFeatures(OnnxNode& node, const std::string& name, const std::vector<double>& numbers,
                                    DType dtype) {
  const Shape& shape = node.input_type(0).shape;
  const auto count = static_cast<int64_t>(numbers.size());
  if (count != 1 && (shape.empty() || count != shape.back())) {
    return InvalidArgument("attribute ", name, " has ", count, " numbers; expected one, or one for each feature of ",
                           node.input_type(0).ToString());
  }
  return node.Constant(Tensor::FromVector(dtype, count == 1 ? Shape{} : Shape{count}, numbers));
}

std::vector<double> FloatsOr(OnnxNode& node, const std::string& name, double otherwise) {
  return node.HasAttribute(name) ? node.Floats(name) : std::vector<double>{otherwise};
}

// (x - offset) * scale
Values Scaler(OnnxNode& node) {
  const Value x = node.CastTo(node.input(0), DType::kFloat32);
  ASSIGN_OR_RETURN(const Value offset, AlongFeatures(node, "offset", FloatsOr(node, "offset", 0), DType::kFloat32));
  ASSIGN_OR_RETURN(const Value scale, AlongFeatures(node, "scale", FloatsOr(node, "scale", 1), DType::kFloat32));
  return OneOutput(node("mul", {node("sub", {x, offset}), scale}));
}

// x divided along the last axis by its maximum, the sum of its magnitudes, or the root of the sum of its squares; rows
// for which that is zero stay.
Values Normalizer(OnnxNode& node) {
  const std::string norm = node.String("norm", "MAX");
  const Value x = node.CastTo(node.input(0), DType::kFloat32);
  if (node.type(x).rank() < 1) return InvalidArgument("the operand is a scalar");
  const Attrs attrs = {{"axes", std::vector<int64_t>{node.type(x).rank() - 1}}, {"keepdims", int64_t{1}}};
  Value size;
  if (norm == "MAX") {
    size = node("reduce_max", {x}, attrs);
  } else if (norm == "L1") {
    size = node("reduce_sum", {node("abs", {x})}, attrs);
  } else if (norm == "L2") {
    size = node("sqrt", {node("reduce_sum", {node("mul", {x, x})}, attrs)});
  } else {
    return InvalidArgument("attribute norm is \"", norm, "\"; expected MAX, L1 or L2");
  }
  const Value divisor = node("where", {node("equal", {size, node.Number(size, 0)}), node.Number(size, 1), size});
  return OneOutput(node("div", {x, divisor}));
}

// 1 where x is greater than the threshold, else 0
Values Binarizer(OnnxNode& node) {
  const Value x = node.input(0);
  const double threshold = node.Float("threshold", 0);
  const DType dtype = node.type(x).dtype;
  // Comparing an integer to the threshold is comparing it to the threshold rounded down.
  const double bound = IsFloating(dtype) ? threshold : std::floor(threshold);
  return OneOutput(node.CastTo(node("less", {node.Number(x, bound), x}), dtype));
}

// Replaces missing elements: NaN, or those equal to a number.
Values Imputer(OnnxNode& node) {
  const Value x = node.input(0);
  const DType dtype = node.type(x).dtype;
  std::vector<double> numbers;
  double missing = std::nan("");
  if (IsFloating(dtype)) {
    numbers = node.Floats("imputed_value_floats");
    missing = node.Float("replaced_value_float", missing);
  } else {
    for (int64_t number : node.Ints("imputed_value_int64s")) numbers.push_back(static_cast<double>(number));
    missing = static_cast<double>(node.Int("replaced_value_int64", 0));
  }
  node.Ignore({"imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"});
  ASSIGN_OR_RETURN(const Value imputed, AlongFeatures(node, "imputed_value", numbers, dtype));
  const Value present = std::isnan(missing) ? node("equal", {x, x}) : node("not_equal", {x, node.Number(x, missing)});
  return OneOutput(node("where", {present, x, imputed}));
}

// Selects the elements at known positions of the last axis.
Values ArrayFeatureExtractor(OnnxNode& node) {
  const Value x = node.input(0);
  const Shape shape = node.shape(x);
  if (shape.empty()) return InvalidArgument("the operand is a scalar");
  Value indices = node.CastTo(node.input(1), DType::kInt64);
  indices = node.Reshape(indices, {node.type(indices).num_elements()});
  const int64_t axis = static_cast<int64_t>(shape.size()) - 1;
  RETURN_IF_ERROR(CheckIndices(node, indices, axis));
  const Value y = node("gather", {x, indices}, {{"axis", axis}});
  RETURN_IF_ERROR(node.status());
  return OneOutput(shape.size() == 1 ? node.Reshape(y, {1, node.shape(y)[0]}) : y);
}

// Concatenates features of several tensors, as floats.
Values FeatureVectorizer(OnnxNode& node) {
  const std::vector<int64_t> sizes = node.Ints("inputdimensions");
  std::vector<Value> parts;
  for (const Value& input : node.inputs()) {
    Value part = node.CastTo(input, DType::kFloat32);
    const Shape& shape = node.shape(part);
    if (shape.size() == 1) part = node.Reshape(part, {1, shape[0]});
    if (node.type(part).rank() != 2) return Unimplemented("features of ", node.type(input).ToString());
    const size_t k = parts.size();
    if (k >= sizes.size() || node.shape(part)[1] != sizes[k]) {
      return Unimplemented("inputdimensions that are not the features of the inputs");
    }
    parts.push_back(part);
  }
  return OneOutput(node.Concat(parts, 1));
}

// One-hot rows by the category of each element, along a new last axis; zeros for elements of no category.
Values OneHotEncoder(OnnxNode& node) {
  if (node.HasAttribute("cats_strings")) return Unimplemented("categories that are strings");
  const std::vector<int64_t> categories = node.Ints("cats_int64s");
  if (!node.Flag("zeros", true)) return Unimplemented("zeros = 0, by which other elements are errors");
  const Value x = node.CastTo(node.input(0), DType::kInt64);
  Shape shape = node.shape(x);
  shape.push_back(1);
  const Value equal = node("equal", {node.Reshape(x, shape), node.Constant(Tensor::Int64s(categories))});
  return OneOutput(node.CastTo(equal, DType::kFloat32));
}

}  // namespace

OnnxOperatorList PreprocessingOperators() {
  OnnxOperatorList list = {
      {"Scaler", {1, 1, 1, 1, Scaler}},
      {"Normalizer", {1, 1, 1, 1, Normalizer}},
      {"Binarizer", {1, 1, 1, 1, Binarizer}},
      {"Imputer", {1, 1, 1, 1, Imputer}},
      {"ArrayFeatureExtractor", {1, 1, 2, 2, ArrayFeatureExtractor}},
      {"FeatureVectorizer", {1, 1, 1, -1, FeatureVectorizer}},
      {"OneHotEncoder", {1, 1, 1, 1, OneHotEncoder}},
  };
  for (auto& [name, op] : list) name = absl::StrCat("ai.onnx.ml.", name);
  return list;
}

}  // namespace rewright
