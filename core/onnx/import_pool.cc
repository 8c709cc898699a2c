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

// The attribute, for an operand of one to three spatial axes.
absl::StatusOr<std::vector<int64_t>> PoolKernel(OnnxNode& node) {
  const int rank = node.input_rank(0);
  if (rank < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("operand ", node.input_type(0).ToString(), "; expected [n, c, spatial..]"));
  }
  if (rank > 5) return node.Unsupported(absl::StrCat(rank - 2, "-dimensional pools"));
  return node.Ints("kernel_shape", {});
}

// A pool over two axes of [n, c, h, w].
using Pool2d = absl::StatusOr<Value> (*)(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode,
                                         bool count_include_pad);

// Of small integers as f32, which has them all.
absl::StatusOr<Value> MaxPool2d(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode, bool) {
  const DType dtype = node.type(x).dtype;
  if (!IsFloating(dtype)) {
    if (!IsInteger(dtype) || BitsOf(dtype) > 16) {
      return node.Unsupported(absl::StrCat("elements of type ", DTypeName(dtype)));
    }
    ASSIGN_OR_RETURN(x, node.CastTo(x, DType::kFloat32));
  }
  ASSIGN_OR_RETURN(const Value y, node.Apply("max_pool2d", {x},
                                             {{"kernel", window.kernel},
                                              {"strides", window.strides},
                                              {"pads", window.pads},
                                              {"dilations", window.dilations},
                                              {"ceil_mode", int64_t{ceil_mode}}}));
  return node.CastTo(y, dtype);
}

absl::StatusOr<Value> AveragePool2d(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode,
                                    bool count_include_pad) {
  return node.Apply("avg_pool2d", {x},
                    {{"kernel", window.kernel},
                     {"strides", window.strides},
                     {"pads", window.pads},
                     {"ceil_mode", int64_t{ceil_mode}},
                     {"count_include_pad", int64_t{count_include_pad}}});
}

// Windows are boxes, so a pool over three axes is one over the last two and then one over the first; the elements that
// a mean is over are a box as well, also at the border.
Values Pool(OnnxNode& node, Value input, Pool2d pool, bool ceil_mode, bool count_include_pad) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  const Shape x = node.input_type(0).shape;
  if (x.size() < 5) {
    ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, x, kernel));
    ASSIGN_OR_RETURN(const Value images, ToImages(node, window, input));
    ASSIGN_OR_RETURN(const Value y, pool(node, images, window, ceil_mode, count_include_pad));
    return OneOutput(FromImages(node, window, y));
  }
  ASSIGN_OR_RETURN(const OnnxWindow all, ReadAxes(node, x, kernel));
  const auto part = [](const std::vector<int64_t>& list, size_t i) {
    return std::vector<int64_t>{list[i], list[i + 1]};
  };
  const OnnxWindow rows{part(all.kernel, 1),
                        part(all.strides, 1),
                        {all.pads[1], all.pads[2], all.pads[4], all.pads[5]},
                        part(all.dilations, 1)};
  const OnnxWindow depth{
      {all.kernel[0], 1}, {all.strides[0], 1}, {all.pads[0], 0, all.pads[3], 0}, {all.dilations[0], 1}};
  ASSIGN_OR_RETURN(Value y, node.Reshape(input, {x[0], x[1] * x[2], x[3], x[4]}));
  ASSIGN_OR_RETURN(y, pool(node, y, rows, ceil_mode, count_include_pad));
  const Shape pooled = node.shape(y);
  ASSIGN_OR_RETURN(y, node.Reshape(y, {x[0], x[1], x[2], pooled[2] * pooled[3]}));
  ASSIGN_OR_RETURN(y, pool(node, y, depth, ceil_mode, count_include_pad));
  return OneOutput(node.Reshape(y, {x[0], x[1], node.shape(y)[2], pooled[2], pooled[3]}));
}

Values MaxPool(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t ceil_mode, node.Int("ceil_mode", 0));
  node.Ignore({"storage_order"});  // of the second output
  return Pool(node, node.input(0), MaxPool2d, ceil_mode != 0, false);
}

// The sum of each window, by a convolution with ones; any number of axes, dilated ones too. `counts` are, by axis, the
// elements of the window of each position: those of the operand, or with padding.
struct WindowSums {
  Value sum;
  std::vector<std::vector<double>> counts;
};
absl::StatusOr<WindowSums> SumWindows(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode,
                                      bool count_padding) {
  const Shape shape = node.shape(x);
  const size_t axes = window.kernel.size();
  WindowSums result;
  std::vector<int64_t> pads = window.pads;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t size = shape[2 + i], before = window.pads[i], stride = window.strides[i];
    const int64_t padded = size + before + window.pads[axes + i];
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    if (padded < reach) return node.Invalid(absl::StrCat("a window of ", reach, " in an axis of ", padded));
    int64_t count = (padded - reach + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (count - 1) * stride >= size + before) --count;  // it would lie in the padding
    pads[axes + i] += std::max<int64_t>(0, (count - 1) * stride + reach - padded);
    RETURN_IF_ERROR(node.CheckListed(count * window.kernel[i]));
    std::vector<double> counts(static_cast<size_t>(count), 0);
    for (int64_t o = 0; o < count; ++o) {
      for (int64_t k = 0; k < window.kernel[i]; ++k) {
        const int64_t at = o * stride + k * window.dilations[i] - before;
        counts[static_cast<size_t>(o)] += count_padding ? at < padded - before : at >= 0 && at < size;
      }
    }
    result.counts.push_back(std::move(counts));
  }
  Shape ones = window.kernel;
  ones.insert(ones.begin(), {shape[1], 1});
  RETURN_IF_ERROR(CheckedElements(ones).status());
  ASSIGN_OR_RETURN(const Value kernel, node.Expand(node.Number(node.type(x).dtype, 1), ones));
  ASSIGN_OR_RETURN(
      result.sum,
      node.Apply(
          "convolution", {x, kernel},
          {{"strides", window.strides}, {"pads", pads}, {"rhs_dilations", window.dilations}, {"groups", shape[1]}}));
  return result;
}

Values DilatedAveragePool(OnnxNode& node, Value x, const std::vector<int64_t>& kernel, bool ceil_mode,
                          bool count_include_pad) {
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadAxes(node, node.input_type(0).shape, kernel));
  ASSIGN_OR_RETURN(const WindowSums sums, SumWindows(node, x, window, ceil_mode, count_include_pad));
  Formula f(node);
  Value y = sums.sum;
  for (size_t i = 0; i < sums.counts.size(); ++i) {
    Shape shape(sums.counts.size() - i, 1);
    shape[0] = static_cast<int64_t>(sums.counts[i].size());
    y = f("div", {y, node.Constant(Tensor::FromVector(node.type(sums.sum).dtype, shape, sums.counts[i]))});
  }
  return f.Output(y);
}

Values AveragePool(OnnxNode& node) { return OneOutput(AveragePoolOf(node, node.input(0))); }

// The same for what stands in the place of input 0.
Values AveragePoolAt(OnnxNode& node, Value x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  ASSIGN_OR_RETURN(const int64_t ceil_mode, node.Int("ceil_mode", 0));
  ASSIGN_OR_RETURN(const int64_t count_include_pad, node.Int("count_include_pad", 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, node.Ints("dilations", {}));
  if (std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; })) {
    return DilatedAveragePool(node, x, kernel, ceil_mode != 0, count_include_pad != 0);
  }
  return Pool(node, x, AveragePool2d, ceil_mode != 0, count_include_pad != 0);
}

// The p-norm of each window.
Values LpPool(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  ASSIGN_OR_RETURN(const int64_t p, node.Int("p", 2));
  ASSIGN_OR_RETURN(const int64_t ceil_mode, node.Int("ceil_mode", 0));
  if (p < 1) return node.Invalid(absl::StrCat("attribute p is ", p, "; expected at least 1"));
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadAxes(node, node.input_type(0).shape, kernel));
  const Value x = node.input(0);
  Formula f(node);
  const Value size = f("abs", {x});
  ASSIGN_OR_RETURN(const Value power, f.Done(p == 1 ? size : f("pow", {size, f.Number(x, static_cast<double>(p))})));
  ASSIGN_OR_RETURN(const WindowSums sums, SumWindows(node, power, window, ceil_mode != 0, false));
  return f.Output(p == 1 ? sums.sum : f("pow", {sums.sum, f.Number(x, 1 / static_cast<double>(p))}));
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

absl::StatusOr<Value> AveragePoolOf(OnnxNode& node, Value x) {
  ASSIGN_OR_RETURN(const std::vector<Value> values, AveragePoolAt(node, x));
  return values[0];
}

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
      {"LpPool", {11, 22, 1, 1, LpPool}},
      {"GlobalAveragePool", {1, 22, 1, 1, GlobalPool, "reduce_mean"}},
      {"GlobalMaxPool", {1, 22, 1, 1, GlobalPool, "reduce_max"}},
  };
}

}  // namespace rewright
