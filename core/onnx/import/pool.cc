// Windows sliding over images: the attributes that convolutions and pools share, and the pools.
#include <algorithm>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

absl::Status CheckList(const std::string& name, const std::vector<int64_t>& values, size_t count, int64_t min) {
  if (values.size() != count) {
    return InvalidArgument("attribute ", name, " has ", values.size(), " entries; expected ", count);
  }
  for (int64_t value : values) {
    if (value < min) return InvalidArgument("attribute ", name, ": ", value, "; expected at least ", min);
  }
  return OnnxNode::CheckMagnitude("attribute " + name, values);
}

// Returns the padding of auto_pad: as many windows as strides fit into the axis, the odd element at the end (upper) or
// the beginning (lower).
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
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * count, 0));
  RETURN_IF_ERROR(CheckList("pads", pads, 2 * count, 0));
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    SamePadding(shape, window, auto_pad == "SAME_UPPER", pads);
  } else if (auto_pad == "VALID") {
    std::fill(pads.begin(), pads.end(), 0);
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return InvalidArgument("attribute auto_pad is \"", auto_pad,
                           "\"; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  return pads;
}

// Reads the attribute for an operand of one to three spatial axes.
absl::StatusOr<std::vector<int64_t>> PoolKernel(OnnxNode& node) {
  const int rank = node.input_rank(0);
  if (rank < 3) return InvalidArgument("operand ", node.input_type(0).ToString(), "; expected [n, c, spatial..]");
  if (rank > 5) return Unimplemented(rank - 2, "-dimensional pools");
  return node.Ints("kernel_shape");
}

// A pool over two axes of [n, c, h, w].
using Pool2d = Value (*)(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode, bool count_include_pad);

// MaxPool in two dimensions. Integers of up to 16 bits go by way of f32, which holds them exactly.
Value MaxPool2d(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode, bool) {
  const DType dtype = node.type(x).dtype;
  if (!IsFloating(dtype)) {
    if (!IsInteger(dtype) || BitsOf(dtype) > 16) {
      return node.Fail(Unimplemented("elements of type ", DTypeName(dtype)));
    }
    x = node.CastTo(x, DType::kFloat32);
  }
  const Value y = node("max_pool2d", {x},
                       {{"kernel", window.kernel},
                        {"strides", window.strides},
                        {"pads", window.pads},
                        {"dilations", window.dilations},
                        {"ceil_mode", int64_t{ceil_mode}}});
  return node.CastTo(y, dtype);
}

Value AveragePool2d(OnnxNode& node, Value x, const OnnxWindow& window, bool ceil_mode, bool count_include_pad) {
  return node("avg_pool2d", {x},
              {{"kernel", window.kernel},
               {"strides", window.strides},
               {"pads", window.pads},
               {"ceil_mode", int64_t{ceil_mode}},
               {"count_include_pad", int64_t{count_include_pad}}});
}

// Windows are boxes, so a pool over three axes is one over the last two, then one over the first. The elements of a
// mean form a box as well, also at the border.
absl::StatusOr<Value> Pool(OnnxNode& node, Value input, Pool2d pool, bool ceil_mode, bool count_include_pad) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  const Shape x = node.input_type(0).shape;
  if (x.size() < 5) {
    ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, x, kernel));
    const Value images = ToImages(node, window, input);
    return FromImages(node, window, pool(node, images, window, ceil_mode, count_include_pad));
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
  Value y = node.Reshape(input, {x[0], x[1] * x[2], x[3], x[4]});
  y = pool(node, y, rows, ceil_mode, count_include_pad);
  const Shape pooled = node.shape(y);
  y = node.Reshape(y, {x[0], x[1], x[2], pooled[2] * pooled[3]});
  y = pool(node, y, depth, ceil_mode, count_include_pad);
  return node.Reshape(y, {x[0], x[1], node.shape(y)[2], pooled[2], pooled[3]});
}

// Returns the positions of the taps of each window in an image of that height and width, row by row: i64 [rows,
// columns, taps]. A tap beyond the image gets the position of the first tap inside, which leaves the maximum unchanged.
Tensor TapsOf(const OnnxWindow& window, int64_t height, int64_t width, int64_t rows, int64_t columns) {
  const int64_t taps = window.kernel[0] * window.kernel[1];
  Tensor table(TensorType{DType::kInt64, {rows, columns, taps}});
  for (int64_t at = 0; at < rows * columns; ++at) {
    int64_t first = -1;
    for (const bool inside : {true, false}) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t h =
            at / columns * window.strides[0] - window.pads[0] + tap / window.kernel[1] * window.dilations[0];
        const int64_t w =
            at % columns * window.strides[1] - window.pads[1] + tap % window.kernel[1] * window.dilations[1];
        if ((h >= 0 && h < height && w >= 0 && w < width) != inside) continue;
        if (inside && first < 0) first = h * width + w;
        table.SetInt(at * taps + tap, inside ? h * width + w : first);
      }
    }
  }
  return table;
}

// Returns the positions of MaxPool's maxima in the whole operand, the first of equal ones; `maxima` have the same
// shape.
absl::StatusOr<Value> MaxPositions(OnnxNode& node, Value maxima) {
  if (node.Int("storage_order", 0) != 0) return Unimplemented("output 1 with storage_order = 1");
  const Shape x = node.input_type(0).shape;
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  if (x.size() > 4) return Unimplemented("output 1 of a pool over ", x.size() - 2, " axes");
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, x, kernel));
  RETURN_IF_ERROR(node.status());
  const Shape images = node.shape(ToImages(node, window, node.input(0)));
  const Shape places = node.shape(ToImages(node, window, maxima));
  const int64_t size = images[2] * images[3], taps = window.kernel[0] * window.kernel[1];
  RETURN_IF_ERROR(node.CheckListed(places[2] * places[3] * taps));
  const Tensor table = TapsOf(window, images[2], images[3], places[2], places[3]);
  const Value lines = node.Reshape(node.input(0), {images[0], images[1], size});
  const Attrs along = {{"axis", int64_t{2}}};
  const Value seen = node("gather", {lines, node.Constant(table)}, along);
  const Value largest = node("argmax", {seen}, {{"axis", int64_t{4}}, {"keepdims", int64_t{0}}});
  // The number of the tap in the table, whose windows are concatenated.
  const Value windows = node.Reshape(node.CountAlong(places[2] * places[3], 0, 1), {places[2], places[3]});
  const Value tap =
      node("add", {largest, node("mul", {windows, node.Number(DType::kInt64, static_cast<double>(taps))})});
  const Value flat = node.Reshape(node.Constant(table), {table.num_elements()});
  const Value within = node("gather", {flat, tap}, {{"axis", int64_t{0}}});
  const Value image = node.Reshape(node.CountAlong(images[0] * images[1], 0, 1), {images[0], images[1], 1, 1});
  const Value before = node("mul", {image, node.Number(DType::kInt64, static_cast<double>(size))});
  return FromImages(node, window, node("add", {within, before}));
}

Values MaxPool(OnnxNode& node) {
  node.Ignore({"storage_order"});  // of the second output
  ASSIGN_OR_RETURN(const Value maxima, Pool(node, node.input(0), MaxPool2d, node.Flag("ceil_mode"), false));
  if (!node.wants_output(1)) return std::vector<Value>{maxima};
  ASSIGN_OR_RETURN(const Value positions, MaxPositions(node, maxima));
  return std::vector<Value>{maxima, positions};
}

// Returns the sum of each window, by a convolution with ones, for any number of axes, also dilated. `counts` gives, by
// axis, the number of elements of each window: those of the operand, or with padding.
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
    if (padded < reach) return InvalidArgument("a window of ", reach, " in an axis of ", padded);
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
  const Value kernel = node.Expand(node.Number(x, 1), ones);
  result.sum =
      node("convolution", {x, kernel},
           {{"strides", window.strides}, {"pads", pads}, {"rhs_dilations", window.dilations}, {"groups", shape[1]}});
  return result;
}

absl::StatusOr<Value> DilatedAveragePool(OnnxNode& node, Value x, const std::vector<int64_t>& kernel, bool ceil_mode,
                                         bool count_include_pad) {
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadAxes(node, node.input_type(0).shape, kernel));
  ASSIGN_OR_RETURN(const WindowSums sums, SumWindows(node, x, window, ceil_mode, count_include_pad));
  Value y = sums.sum;
  for (size_t i = 0; i < sums.counts.size(); ++i) {
    Shape shape(sums.counts.size() - i, 1);
    shape[0] = static_cast<int64_t>(sums.counts[i].size());
    y = node("div", {y, node.Constant(Tensor::FromVector(node.type(sums.sum).dtype, shape, sums.counts[i]))});
  }
  return y;
}

Values AveragePool(OnnxNode& node) { return OneOutput(AveragePoolOf(node, node.input(0))); }

// Returns the p-norm of each window.
Values LpPool(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  const int64_t p = node.Int("p", 2);
  if (p < 1) return InvalidArgument("attribute p is ", p, "; expected at least 1");
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadAxes(node, node.input_type(0).shape, kernel));
  const Value x = node.input(0);
  const Value size = node("abs", {x});
  const Value power = p == 1 ? size : node("pow", {size, node.Number(x, static_cast<double>(p))});
  ASSIGN_OR_RETURN(const WindowSums sums, SumWindows(node, power, window, node.Flag("ceil_mode"), false));
  if (p == 1) return OneOutput(sums.sum);
  const auto root = [&](Value sum) { return node("pow", {sum, node.Number(x, 1 / static_cast<double>(p))}); };
  if (!node.differentiated()) return OneOutput(root(sums.sum));
  // As in NormOf, the gradient at a window of zeros is 0.
  const Value zero = node.Number(x, 0), none = node("equal", {sums.sum, zero});
  return OneOutput(node("where", {none, zero, root(node("where", {none, node.Number(x, 1), sums.sum}))}));
}

// Pools over all axes except the first two.
Values GlobalPool(OnnxNode& node) {
  const int rank = node.input_rank(0);
  if (rank < 3) return InvalidArgument("operand ", node.input_type(0).ToString(), "; expected [n, c, spatial..]");
  return OneOutput(node(node.op(), {node.input(0)}, {{"axes", AxesFrom(2, rank)}, {"keepdims", int64_t{1}}}));
}

}  // namespace

absl::StatusOr<Value> AveragePoolOf(OnnxNode& node, Value x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, PoolKernel(node));
  const bool ceil_mode = node.Flag("ceil_mode"), count_include_pad = node.Flag("count_include_pad");
  const std::vector<int64_t> dilations = node.Ints("dilations");
  const bool dilated = std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
  return dilated ? DilatedAveragePool(node, x, kernel, ceil_mode, count_include_pad)
                 : Pool(node, x, AveragePool2d, ceil_mode, count_include_pad);
}

absl::StatusOr<OnnxWindow> ReadAxes(OnnxNode& node, const Shape& shape, const std::vector<int64_t>& kernel) {
  const size_t count = shape.size() - 2;
  OnnxWindow window;
  window.kernel = kernel;
  RETURN_IF_ERROR(CheckList("kernel_shape", window.kernel, count, 1));
  const std::vector<int64_t> ones(count, 1);
  window.strides = node.Ints("strides", ones);
  RETURN_IF_ERROR(CheckList("strides", window.strides, count, 1));
  window.dilations = node.Ints("dilations", ones);
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

Value ToImages(OnnxNode& node, const OnnxWindow& window, Value x) {
  if (!window.one_dimensional) return x;
  const Shape& shape = node.shape(x);
  return node.Reshape(x, {shape[0], shape[1], 1, shape[2]});
}

Value FromImages(OnnxNode& node, const OnnxWindow& window, Value y) {
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
