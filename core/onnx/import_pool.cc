// Windows sliding over images: the attributes that convolutions and pools share, and the pools.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

absl::Status CheckList(const std::string& name, const std::vector<int64_t>& values, size_t count, int64_t min) {
  if (values.size() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute ", name, " has ", values.size(), " entries; expected ", count));
  }
  for (int64_t value : values) {
    if (value < min) {
      return absl::InvalidArgumentError(absl::StrCat("attribute ", name, ": ", value, "; expected at least ", min));
    }
  }
  return OnnxNode::CheckMagnitude("attribute " + name, values);
}

// The padding for which auto_pad stands: as many windows as strides fit into the axis, the odd element at the end
// (upper) or the beginning (lower).
void SamePadding(const Shape& shape, const OnnxWindow& window, bool upper, std::vector<int64_t>& pads) {
  const size_t count = window.kernel.size();
  for (size_t i = 0; i < count; ++i) {
    const int64_t size = shape[2 + i];
    const int64_t windows = (size + window.strides[i] - 1) / window.strides[i];
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t total = std::max<int64_t>(0, (windows - 1) * window.strides[i] + extent - size);
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[count + i] = total - pads[i];
  }
}

absl::StatusOr<std::vector<int64_t>> ReadPads(OnnxNode& node, const Shape& shape, const OnnxWindow& window) {
  const size_t count = window.kernel.size();
  ASSIGN_OR_RETURN(const std::string auto_pad, node.String("auto_pad", "NOTSET"));
  ASSIGN_OR_RETURN(std::vector<int64_t> pads, node.Ints("pads", std::vector<int64_t>(2 * count, 0)));
  RETURN_IF_ERROR(CheckList("pads", pads, 2 * count, 0));
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    SamePadding(shape, window, auto_pad == "SAME_UPPER", pads);
  } else if (auto_pad == "VALID") {
    std::fill(pads.begin(), pads.end(), 0);
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute auto_pad is \"", auto_pad, "\"; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  }
  return pads;
}

// The attribute, for an operand of one or two spatial axes.
absl::StatusOr<std::vector<int64_t>> PoolKernel(OnnxNode& node) {
  const int rank = node.input_rank(0);
  if (rank < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("operand ", node.input_type(0).ToString(), "; expected [n, c, spatial..]"));
  }
  if (rank > 4) return node.Unsupported(absl::StrCat(rank - 2, "-dimensional pools"));
  return node.Ints("kernel_shape", {});
}

Values MaxPool(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  ASSIGN_OR_RETURN(const int64_t ceil_mode, node.Int("ceil_mode", 0));
  node.Ignore({"storage_order"});  // of the second output
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, node.input_type(0).shape, kernel));
  ASSIGN_OR_RETURN(const Value images, ToImages(node, window, node.input(0)));
  ASSIGN_OR_RETURN(const Value y, node.Apply("max_pool2d", {images},
                                             {{"kernel", window.kernel},
                                              {"strides", window.strides},
                                              {"pads", window.pads},
                                              {"dilations", window.dilations},
                                              {"ceil_mode", int64_t{ceil_mode != 0}}}));
  return OneOutput(FromImages(node, window, y));
}

Values AveragePool(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  ASSIGN_OR_RETURN(const int64_t ceil_mode, node.Int("ceil_mode", 0));
  ASSIGN_OR_RETURN(const int64_t count_include_pad, node.Int("count_include_pad", 0));
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, node.input_type(0).shape, kernel));
  if (window.dilations != std::vector<int64_t>{1, 1}) return node.Unsupported("average pools with dilations");
  ASSIGN_OR_RETURN(const Value images, ToImages(node, window, node.input(0)));
  ASSIGN_OR_RETURN(const Value y, node.Apply("avg_pool2d", {images},
                                             {{"kernel", window.kernel},
                                              {"strides", window.strides},
                                              {"pads", window.pads},
                                              {"ceil_mode", int64_t{ceil_mode != 0}},
                                              {"count_include_pad", int64_t{count_include_pad != 0}}}));
  return OneOutput(FromImages(node, window, y));
}

// Over all axes but the first two.
Values GlobalPool(OnnxNode& node) {
  const int rank = node.input_rank(0);
  if (rank < 3) {
    return node.Invalid(absl::StrCat("operand ", node.input_type(0).ToString(), "; expected [n, c, spatial..]"));
  }
  std::vector<int64_t> axes(static_cast<size_t>(rank - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return OneOutput(node.Apply(node.op(), {node.input(0)}, {{"axes", axes}, {"keepdims", int64_t{1}}}));
}

}  // namespace

absl::StatusOr<OnnxWindow> ReadAxes(OnnxNode& node, const Shape& shape, const std::vector<int64_t>& kernel) {
  const size_t count = shape.size() - 2;
  OnnxWindow window;
  window.kernel = kernel;
  RETURN_IF_ERROR(CheckList("kernel_shape", window.kernel, count, 1));
  const std::vector<int64_t> ones(count, 1);
  ASSIGN_OR_RETURN(window.strides, node.Ints("strides", ones));
  RETURN_IF_ERROR(CheckList("strides", window.strides, count, 1));
  ASSIGN_OR_RETURN(window.dilations, node.Ints("dilations", ones));
  RETURN_IF_ERROR(CheckList("dilations", window.dilations, count, 1));
  ASSIGN_OR_RETURN(window.pads, ReadPads(node, shape, window));
  return window;
}

absl::StatusOr<OnnxWindow> ReadWindow(OnnxNode& node, const Shape& shape, const std::vector<int64_t>& kernel) {
  ASSIGN_OR_RETURN(OnnxWindow window, ReadAxes(node, shape, kernel));
  if (window.kernel.size() == 1) {
    window.one_dimensional = true;
    window.kernel.insert(window.kernel.begin(), 1);
    window.strides.insert(window.strides.begin(), 1);
    window.dilations.insert(window.dilations.begin(), 1);
    window.pads = {0, window.pads[0], 0, window.pads[1]};
  }
  return window;
}

absl::StatusOr<Value> ToImages(OnnxNode& node, const OnnxWindow& window, Value x) {
  if (!window.one_dimensional) return x;
  const Shape& shape = node.shape(x);
  return node.Reshape(x, {shape[0], shape[1], 1, shape[2]});
}

absl::StatusOr<Value> FromImages(OnnxNode& node, const OnnxWindow& window, Value y) {
  if (!window.one_dimensional) return y;
  const Shape& shape = node.shape(y);
  return node.Reshape(y, {shape[0], shape[1], shape[3]});
}

OnnxOperatorList PoolOperators() {
  return {
      {"MaxPool", {1, 22, 1, 1, MaxPool}},
      {"AveragePool", {7, 22, 1, 1, AveragePool}},
      {"GlobalAveragePool", {1, 22, 1, 1, GlobalPool, "reduce_mean"}},
      {"GlobalMaxPool", {1, 22, 1, 1, GlobalPool, "reduce_max"}},
  };
}

}  // namespace rewright
