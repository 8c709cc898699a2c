// Tensors that the model creates: constants, shapes, ranges.
#include <algorithm>
#include <cmath>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

// Floating constants of more elements are weights.
constexpr int64_t kMaxConstantReals = 16;

absl::StatusOr<Tensor> ConstantTensor(OnnxNode& node) {
  if (node.HasAttribute("value")) return node.TensorAttribute("value");
  if (node.HasAttribute("value_float")) return Tensor::Scalar(DType::kFloat32, node.Float("value_float"));
  if (node.HasAttribute("value_floats")) {
    const std::vector<double> values = node.Floats("value_floats");
    return Tensor::FromVector(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
  }
  if (node.HasAttribute("value_int")) {
    Tensor tensor(TensorType{DType::kInt64, {}});
    tensor.SetInt(0, node.Int("value_int"));
    return tensor;
  }
  if (node.HasAttribute("value_ints")) return Tensor::Int64s(node.Ints("value_ints"));
  if (node.HasAttribute("sparse_value")) return node.SparseAttribute("sparse_value");
  return Unimplemented("a constant that is neither a tensor nor numbers");
}

Values Constant(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Tensor tensor, ConstantTensor(node));
  if (!node.wants_output(0)) return std::vector<Value>{};
  if (tensor.num_elements() <= kMaxConstantReals) return std::vector<Value>{node.Constant(tensor)};
  return OneOutput(AddModelTensor(node.arena(), node.output_name(0), tensor));
}

// Large floating tensors become weights of equal elements. Other tensors are one number, expanded where they are
// needed.
Values ConstantOfShape(OnnxNode& node) {
  const std::vector<int64_t> shape = node.IntsInput(0, "shape");
  Tensor value = Tensor::Scalar(DType::kFloat32, 0);
  if (node.HasAttribute("value")) {
    value = node.TensorAttribute("value");
    if (value.num_elements() != 1) return InvalidArgument("value is ", value.type().ToString());
  }
  const TensorType type{value.dtype(), shape};
  RETURN_IF_ERROR(CheckedElements(shape).status());
  if (!IsFloating(type.dtype) && type.num_elements() > 0) {
    return OneOutput(node.Expand(node.Reshape(node.Constant(value), {}), shape));
  }
  RETURN_IF_ERROR(node.ChargeGenerated(type));
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, "the tensor"));
  if (value.At(0) != 0 || std::signbit(value.At(0))) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, value.At(0));
  }
  return OneOutput(AddModelTensor(node.arena(), node.output_name(0), tensor));
}

// Opset 15 added start and end, which select a part of the shape.
Values ShapeOf(OnnxNode& node) {
  const Shape& shape = node.input_type(0).shape;
  const int64_t rank = node.input_rank(0);
  int64_t start = 0;
  int64_t end = rank;
  if (node.opset() >= 15) {
    start = node.Int("start", 0);
    end = node.Int("end", rank);
  }
  const auto clamp = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + rank : bound, 0, rank); };
  start = clamp(start);
  end = std::max(start, clamp(end));
  return std::vector<Value>{node.Constant(Tensor::Int64s(Shape(shape.begin() + start, shape.begin() + end)))};
}

Values Size(OnnxNode& node) {
  Tensor size(TensorType{DType::kInt64, {}});
  size.SetInt(0, node.input_type(0).num_elements());
  return std::vector<Value>{node.Constant(size)};
}

absl::StatusOr<int64_t> RangeCount(double start, double limit, double delta) {
  if (delta == 0 || !std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta)) {
    return InvalidArgument("from ", start, " to ", limit, " by ", delta);
  }
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (count > 1e9) return InvalidArgument("a range of ", count, " elements is too large");
  return static_cast<int64_t>(count);
}

absl::StatusOr<int64_t> RangeCount(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return InvalidArgument("from ", start, " to ", limit, " by 0");
  const __int128 span = delta > 0 ? static_cast<__int128>(limit) - start : static_cast<__int128>(start) - limit;
  const __int128 step = delta > 0 ? static_cast<__int128>(delta) : -static_cast<__int128>(delta);
  const __int128 count = span <= 0 ? 0 : (span + step - 1) / step;
  if (count > 1000000000) return InvalidArgument("from ", start, " to ", limit, ": too many elements");
  return static_cast<int64_t>(count);
}

Values Range(OnnxNode& node) {
  node.Ignore({"stash_type"});
  std::vector<Tensor> bounds;
  for (int i = 0; i < 3; ++i) {
    const Tensor bound = node.ConstantInput(i, std::vector<std::string>{"start", "limit", "delta"}[i]);
    if (bound.num_elements() != 1 || bound.dtype() == DType::kBool || bound.dtype() != node.input_type(0).dtype) {
      return InvalidArgument("bound ", bound.type().ToString(), "; expected numbers of one type");
    }
    bounds.push_back(bound);
  }
  const DType dtype = bounds[0].dtype();
  ASSIGN_OR_RETURN(const int64_t count, IsInteger(dtype)
                                            ? RangeCount(bounds[0].AtInt(0), bounds[1].AtInt(0), bounds[2].AtInt(0))
                                            : RangeCount(bounds[0].At(0), bounds[1].At(0), bounds[2].At(0)));
  const TensorType type{dtype, {count}};
  RETURN_IF_ERROR(node.ChargeGenerated(type));
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, "the tensor"));
  for (int64_t i = 0; i < count; ++i) {
    if (IsInteger(dtype)) {
      // Wraps around as the types do.
      const uint64_t step = static_cast<uint64_t>(bounds[2].AtInt(0)) * static_cast<uint64_t>(i);
      tensor.SetInt(i, static_cast<int64_t>(static_cast<uint64_t>(bounds[0].AtInt(0)) + step));
    } else {
      tensor.Set(i, bounds[0].At(0) + static_cast<double>(i) * bounds[2].At(0));
    }
  }
  return std::vector<Value>{node.Constant(tensor)};
}

Values EyeLike(OnnxNode& node) {
  const Shape& shape = node.input_type(0).shape;
  if (shape.size() != 2) return InvalidArgument("operand ", node.input_type(0).ToString(), "; expected a matrix");
  const int64_t diagonal = node.Int("k", 0);
  DType dtype = node.input_type(0).dtype;
  if (node.HasAttribute("dtype")) dtype = node.DTypeAttribute("dtype");
  RETURN_IF_ERROR(node.status());
  const TensorType type{dtype, shape};
  RETURN_IF_ERROR(node.ChargeGenerated(type));
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, "the tensor"));
  for (int64_t row = 0; row < shape[0]; ++row) {
    if (diagonal < -row || diagonal >= shape[1] - row) continue;
    tensor.SetInt(row * shape[1] + row + diagonal, 1);
  }
  return OneOutput(AddModelTensor(node.arena(), node.output_name(0), tensor));
}

}  // namespace

OnnxOperatorList ConstantOperators() {
  return {
      {"Constant", {1, 25, 0, 0, Constant}}, {"ConstantOfShape", {9, 25, 1, 1, ConstantOfShape}},
      {"Shape", {1, 25, 1, 1, ShapeOf}},     {"Size", {1, 25, 1, 1, Size}},
      {"Range", {11, 27, 3, 3, Range}},      {"EyeLike", {9, 22, 1, 1, EyeLike}},
  };
}

}  // namespace rewright
