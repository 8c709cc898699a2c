// Operators that cut, join, move and repeat elements.
#include <algorithm>
#include <numeric>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

Values Transpose(OnnxNode& node) {
  std::vector<int64_t> reversed(static_cast<size_t>(node.input_rank(0)));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return OneOutput(node.Transpose(node.input(0), node.Ints("perm", reversed)));
}

Values Concat(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(std::nullopt, node.input_rank(0)));
  // Drops empty parts (exporters write them in shape arithmetic).
  std::vector<Value> parts;
  for (Value part : node.inputs()) {
    const bool empty = node.type(part).rank() == node.input_rank(0) && node.shape(part)[axis] == 0;
    if (!empty) parts.push_back(part);
  }
  if (parts.empty()) return std::vector<Value>{node.input(0)};
  return OneOutput(node.Concat(parts, axis));
}

// Returns the sizes of the parts: given by attribute or (from opset 13) input, or equal; with num_outputs (opset 18)
// the last may be smaller.
absl::StatusOr<std::vector<int64_t>> SplitSizes(OnnxNode& node, int64_t size) {
  if (node.opset() >= 13 ? node.has_input(1) : node.HasAttribute("split")) {
    return node.opset() >= 13 ? node.IntsInput(1, "split") : node.Ints("split");
  }
  int64_t parts = node.num_outputs();
  if (node.opset() >= 18) {
    const int64_t declared = node.Int("num_outputs", parts);
    if (declared != parts) {
      return InvalidArgument("num_outputs is ", declared, ", but there are ", parts, " outputs");
    }
  } else if (parts == 0 || size % parts != 0) {
    return InvalidArgument("size ", size, " does not divide into ", parts, " equal parts");
  }
  if (parts == 0) return InvalidArgument("there are no outputs");
  const int64_t part = (size + parts - 1) / parts;
  std::vector<int64_t> sizes(static_cast<size_t>(parts), part);
  sizes.back() = size - part * (parts - 1);
  return sizes;
}

Values Split(OnnxNode& node) {
  const Value x = node.input(0);
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(0, node.type(x).rank()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, SplitSizes(node, node.shape(x)[axis]));
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("sizes of the parts", sizes));
  if (static_cast<int>(sizes.size()) != node.num_outputs()) {
    return InvalidArgument(sizes.size(), " sizes for ", node.num_outputs(), " outputs");
  }
  if (sizes.size() == 1 && sizes[0] == node.shape(x)[axis]) return std::vector<Value>{x};
  // split of core/ops makes no empty parts.
  std::vector<int64_t> wide;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(wide), [](int64_t size) { return size != 0; });
  if (wide.empty()) return Unimplemented("all parts are empty");
  ASSIGN_OR_RETURN(const std::vector<Value> parts, node.ApplyAll("split", {x}, {{"axis", axis}, {"sizes", wide}}));
  std::vector<Value> values;
  auto next = parts.begin();
  for (int64_t size : sizes) {
    TensorType empty = node.type(x);
    empty.shape[axis] = 0;
    values.push_back(size != 0 ? *next++ : node.Constant(Tensor(empty)));
  }
  return values;
}

// One axis of a slice as a range of the axis, which is reversed first if the step is negative.
struct AxisRange {
  int64_t start = 0, stop = 0, step = 1;
  bool reversed = false;
};

AxisRange RangeOf(int64_t start, int64_t end, int64_t step, int64_t size) {
  constexpr int64_t kMaxStep = int64_t{1} << 41;  // longer than any axis
  AxisRange range;
  range.reversed = step < 0;
  range.step = std::abs(std::clamp(step, -kMaxStep, kMaxStep));
  const auto from_front = [&](int64_t bound) { return bound < 0 ? bound + size : bound; };
  if (!range.reversed) {
    range.start = std::clamp<int64_t>(from_front(start), 0, size);
    range.stop = std::clamp<int64_t>(from_front(end), range.start, size);
  } else {
    const int64_t first = std::clamp<int64_t>(from_front(start), -1, size - 1);
    const int64_t last = std::clamp<int64_t>(from_front(end), -1, first);
    range.start = size - 1 - first;
    range.stop = size - 1 - last;
  }
  return range;
}

struct SliceBounds {
  std::vector<int64_t> starts, ends, axes, steps;
};

// Attributes became inputs in opset 10.
absl::StatusOr<SliceBounds> ReadSliceBounds(OnnxNode& node) {
  SliceBounds bounds;
  bool has_axes = false;
  if (node.opset() < 10) {
    bounds.starts = node.Ints("starts");
    bounds.ends = node.Ints("ends");
    has_axes = node.HasAttribute("axes");
    bounds.axes = node.Ints("axes");
  } else {
    if (!node.has_input(1) || !node.has_input(2)) return InvalidArgument("starts or ends are missing");
    bounds.starts = node.IntsInput(1, "starts");
    bounds.ends = node.IntsInput(2, "ends");
    has_axes = node.has_input(3);
    if (has_axes) bounds.axes = node.IntsInput(3, "axes");
    if (node.has_input(4)) bounds.steps = node.IntsInput(4, "steps");
  }
  const size_t count = bounds.starts.size();
  if (!has_axes) bounds.axes = AxesFrom(0, static_cast<int64_t>(count));
  if (bounds.steps.empty()) bounds.steps.assign(count, 1);
  if (bounds.ends.size() != count || bounds.axes.size() != count || bounds.steps.size() != count) {
    return InvalidArgument(count, " starts, ", bounds.ends.size(), " ends, ", bounds.axes.size(), " axes, ",
                           bounds.steps.size(), " steps");
  }
  ASSIGN_OR_RETURN(bounds.axes, OnnxNode::Axes(bounds.axes, node.input_rank(0)));
  return bounds;
}

Values Slice(OnnxNode& node) {
  Value x = node.input(0);
  const Shape shape = node.shape(x);
  ASSIGN_OR_RETURN(const SliceBounds bounds, ReadSliceBounds(node));
  std::vector<int64_t> starts(shape.size(), 0), stops = shape, steps(shape.size(), 1), reversed;
  for (size_t i = 0; i < bounds.axes.size(); ++i) {
    if (bounds.steps[i] == 0) return InvalidArgument("a step is zero");
    const size_t axis = bounds.axes[i];
    const AxisRange range = RangeOf(bounds.starts[i], bounds.ends[i], bounds.steps[i], shape[axis]);
    starts[axis] = range.start;
    stops[axis] = range.stop;
    steps[axis] = range.step;
    if (range.reversed) reversed.push_back(bounds.axes[i]);
  }
  if (!reversed.empty()) x = node("reverse", {x}, {{"axes", reversed}});
  const bool stepped = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  if (!stepped && stops == shape && std::all_of(starts.begin(), starts.end(), [](int64_t s) { return s == 0; })) {
    return std::vector<Value>{x};
  }
  Attrs attrs = {{"starts", starts}, {"stops", stops}};
  if (stepped) attrs["steps"] = steps;
  return OneOutput(node("slice", {x}, attrs));
}

// ---------------------------------------------------------------- padding

struct Padding {
  std::vector<int64_t> before, after;
};

// Attributes became inputs in opset 11; axes were added in opset 18.
absl::StatusOr<Padding> ReadPadding(OnnxNode& node) {
  const int rank = node.input_rank(0);
  std::vector<int64_t> pads, axes = AxesFrom(0, rank);
  if (node.opset() < 11) {
    pads = node.Ints("pads");
  } else {
    if (!node.has_input(1)) return InvalidArgument("pads are missing");
    pads = node.IntsInput(1, "pads");
    if (node.has_input(3)) {
      ASSIGN_OR_RETURN(axes, OnnxNode::Axes(node.IntsInput(3, "axes"), rank));
    }
  }
  if (pads.size() != 2 * axes.size()) return InvalidArgument(pads.size(), " pads; expected ", 2 * axes.size());
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("pads", pads));
  Padding padding{std::vector<int64_t>(static_cast<size_t>(rank), 0),
                  std::vector<int64_t>(static_cast<size_t>(rank), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    padding.before[axes[i]] = pads[i];
    padding.after[axes[i]] = pads[axes.size() + i];
  }
  return padding;
}

absl::StatusOr<Tensor> PadValue(OnnxNode& node) {
  if (node.opset() < 11) return Tensor::Scalar(DType::kFloat64, node.Float("value", 0));
  if (!node.has_input(2)) return Tensor::Scalar(DType::kFloat64, 0);
  const Tensor value = node.ConstantInput(2, "constant_value");
  if (value.num_elements() != 1) return InvalidArgument("constant_value is not one number");
  return value;
}

// The operator's value is a double. If that cannot hold an integer v, v around x is 0 around x - v, plus v.
Value PadWith(OnnxNode& node, Value x, const Padding& padding, const Tensor& value) {
  const auto pad = [&](Value padded, double by) {
    return node("pad", {padded}, {{"before", padding.before}, {"after", padding.after}, {"value", by}});
  };
  constexpr int64_t kExact = int64_t{1} << 53;
  const int64_t integer = value.dtype() == DType::kInt64 ? value.AtInt(0) : 0;
  if (integer >= -kExact && integer <= kExact) return pad(x, value.At(0));
  Tensor scalar(TensorType{DType::kInt64, {}});
  scalar.SetInt(0, integer);
  const Value by = node.Constant(scalar);
  return node("add", {pad(node("sub", {x, by}), 0), by});
}

// True if more is cut off an axis than it has, so that padding of the other side is cut as well.
bool CutsItsPadding(const Shape& shape, const Padding& padding) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t cut = std::max<int64_t>(0, -padding.before[axis]) + std::max<int64_t>(0, -padding.after[axis]);
    if (cut > shape[axis]) return true;
  }
  return false;
}

// Cuts off the operand as negative pads tell; their entries become zero.
Value Crop(OnnxNode& node, Value x, Padding& padding) {
  std::vector<int64_t> starts(padding.before.size(), 0), stops = node.shape(x);
  bool crops = false;
  for (size_t axis = 0; axis < stops.size(); ++axis) {
    starts[axis] = std::max<int64_t>(0, -padding.before[axis]);
    stops[axis] -= std::max<int64_t>(0, -padding.after[axis]);
    if (starts[axis] > stops[axis]) return node.Fail(InvalidArgument("pads cut off more than there is"));
    crops = crops || padding.before[axis] < 0 || padding.after[axis] < 0;
    padding.before[axis] = std::max<int64_t>(0, padding.before[axis]);
    padding.after[axis] = std::max<int64_t>(0, padding.after[axis]);
  }
  return crops ? node("slice", {x}, {{"starts", starts}, {"stops", stops}}) : x;
}

// Returns the elements before (or after) the operand along one axis, in the modes that repeat elements of it.
Value Border(OnnxNode& node, const std::string& mode, Value x, int64_t axis, int64_t count, bool before) {
  const int64_t size = node.shape(x)[axis];
  if (mode == "edge") {
    if (size == 0) return node.Fail(InvalidArgument("an empty axis has no edge"));
    Shape shape = node.shape(x);
    shape[axis] = count;
    return node.Expand(node.SliceAxis(x, axis, before ? 0 : size - 1, before ? 1 : size), shape);
  }
  const int64_t available = mode == "reflect" ? size - 1 : size;
  if (count > available) return node.Fail(Unimplemented(count, " elements of padding by a tensor of ", size));
  if (mode == "wrap") return node.SliceAxis(x, axis, before ? size - count : 0, before ? size : count);
  const Value part = node.SliceAxis(x, axis, before ? 1 : size - 1 - count, before ? count + 1 : size - 1);
  return node("reverse", {part}, {{"axes", std::vector<int64_t>{axis}}});
}

Values Pad(OnnxNode& node) {
  const std::string mode = node.String("mode", "constant");
  ASSIGN_OR_RETURN(Padding padding, ReadPadding(node));
  ASSIGN_OR_RETURN(const Tensor value, PadValue(node));
  if (mode == "constant" && CutsItsPadding(node.shape(node.input(0)), padding)) {
    return OneOutput(PadWith(node, node.input(0), padding, value));
  }
  Value x = Crop(node, node.input(0), padding);
  const auto is_zero = [](int64_t count) { return count == 0; };
  if (std::all_of(padding.before.begin(), padding.before.end(), is_zero) &&
      std::all_of(padding.after.begin(), padding.after.end(), is_zero)) {
    return std::vector<Value>{x};
  }
  if (mode == "constant") return OneOutput(PadWith(node, x, padding, value));
  if (mode != "edge" && mode != "reflect" && mode != "wrap") {
    return InvalidArgument("attribute mode is \"", mode, "\"; expected constant, edge, reflect or wrap");
  }
  for (size_t axis = 0; axis < padding.before.size(); ++axis) {
    const int64_t at = static_cast<int64_t>(axis);
    std::vector<Value> parts;
    if (padding.before[axis] > 0) parts.push_back(Border(node, mode, x, at, padding.before[axis], true));
    parts.push_back(x);
    if (padding.after[axis] > 0) parts.push_back(Border(node, mode, x, at, padding.after[axis], false));
    x = node.Concat(parts, at);
  }
  return std::vector<Value>{x};
}

// ---------------------------------------------------------------- repeating

Values Expand(OnnxNode& node) {
  const Value x = node.input(0);
  Shape shape = node.IntsInput(1, "shape");
  // Both sides may be expanded.
  const Shape& old_shape = node.shape(x);
  if (shape.size() < old_shape.size()) shape.insert(shape.begin(), old_shape.size() - shape.size(), 1);
  const size_t added = shape.size() - old_shape.size();
  for (size_t axis = 0; axis < old_shape.size(); ++axis) {
    if (shape[added + axis] == 1) shape[added + axis] = old_shape[axis];
  }
  return OneOutput(node.Expand(x, shape));
}

Values Tile(OnnxNode& node) {
  const Value x = node.input(0);
  const std::vector<int64_t> repeats = node.IntsInput(1, "repeats");
  if (static_cast<int>(repeats.size()) != node.type(x).rank()) {
    return InvalidArgument(repeats.size(), " repeats for ", node.type(x).ToString());
  }
  for (int64_t repeat : repeats) {
    if (repeat < 1) return InvalidArgument("repeats ", repeat, " times");
  }
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("repeats", repeats));
  return OneOutput(Repeat(node, x, repeats, /*inner=*/false));
}

// ---------------------------------------------------------------- selecting

// Gather and GatherElements.
Values Gather(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(0, node.input_rank(0)));
  RETURN_IF_ERROR(CheckIndices(node, node.input(1), axis));
  return OneOutput(node(node.op(), node.inputs(), {{"axis", axis}}));
}

absl::StatusOr<int64_t> BlockSize(OnnxNode& node) {
  const int64_t block = node.Int("blocksize");
  if (block < 1 || block > 1024) return InvalidArgument("blocksize is ", block, "; expected 1 to 1024");
  return block;
}

Values DepthToSpace(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t block, BlockSize(node));
  const std::string mode = node.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return InvalidArgument("attribute mode is \"", mode, "\"; expected DCR or CRD");
  const Attrs attrs = {{"block", block}, {"channel_first", int64_t{mode == "CRD"}}};
  return OneOutput(node("depth_to_space", {node.input(0)}, attrs));
}

Values SpaceToDepth(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t block, BlockSize(node));
  const std::string mode = node.String("mode", "DCR");
  const Value y = node("space_to_depth", {node.input(0)}, {{"block", block}});
  RETURN_IF_ERROR(node.status());
  if (mode == "DCR") return std::vector<Value>{y};
  if (mode != "CRD") return InvalidArgument("attribute mode is \"", mode, "\"; expected DCR or CRD");
  // Permutes channels [block * block, c] to [c, block * block].
  const Shape& x = node.input_type(0).shape;
  const Shape& deep = node.shape(y);
  const Value parted = node.Reshape(y, {deep[0], block * block, x[1], deep[2], deep[3]});
  return OneOutput(node.Reshape(node.Transpose(parted, {0, 2, 1, 3, 4}), deep));
}

// Compares row numbers and column numbers: the part from diagonal k on (upper), or up to it.
Values Trilu(OnnxNode& node) {
  const bool upper = node.Flag("upper", true);
  int64_t diagonal = 0;
  if (node.has_input(1)) {
    const std::vector<int64_t> given = node.IntsInput(1, "k");
    if (given.size() != 1) return InvalidArgument("k is not one number");
    diagonal = given[0];
  }
  const Value x = node.input(0);
  const Shape& shape = node.shape(x);
  if (shape.size() < 2) return InvalidArgument("operand ", node.type(x).ToString(), "; expected matrices");
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape[shape.size() - 1];
  diagonal = std::clamp(diagonal, -rows, columns);
  RETURN_IF_ERROR(node.ChargeGenerated({DType::kInt64, {rows + columns}}));
  const Value row = node.Reshape(node.Constant(Tensor::Int64s(AxesFrom(diagonal, diagonal + rows))), {rows, 1});
  const Value column = node.Constant(Tensor::Int64s(AxesFrom(0, columns)));
  const Value kept = upper ? node("less_equal", {row, column}) : node("less_equal", {column, row});
  return OneOutput(node("where", {kept, x, node.Number(x, 0)}));
}

}  // namespace

// Reshapes [a, b] to [1, a, 1, b], expands to [r, a, s, b], reshapes to [r*a, s*b]; `inner` begins with [a, 1, b, 1].
Value Repeat(OnnxNode& node, Value x, const std::vector<int64_t>& repeats, bool inner) {
  const Shape shape = node.shape(x);
  Shape parted, expanded;
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    const int64_t size = shape[axis];
    if (repeats[axis] == 1) {
      parted.push_back(size);
      expanded.push_back(size);
    } else if (inner) {
      parted.insert(parted.end(), {size, 1});
      expanded.insert(expanded.end(), {size, repeats[axis]});
    } else {
      parted.insert(parted.end(), {1, size});
      expanded.insert(expanded.end(), {repeats[axis], size});
    }
  }
  if (const absl::Status status = CheckedElements(expanded).status(); !status.ok()) return node.Fail(status);
  Shape result;
  for (size_t axis = 0; axis < repeats.size(); ++axis) result.push_back(shape[axis] * repeats[axis]);
  return node.Reshape(node.Expand(node.Reshape(x, parted), expanded), result);
}

absl::Status CheckIndices(const OnnxNode& node, Value indices, int64_t axis) {
  const Tensor* known = node.KnownTensor(indices);
  const int64_t size = node.input_type(0).shape[axis];
  for (int64_t i = 0; known != nullptr && i < known->num_elements(); ++i) {
    const int64_t index = known->AtInt(i);
    if (index < -size || index >= size) {
      return InvalidArgument("index ", index, " along axis ", axis, " of ", node.input_type(0).ToString());
    }
  }
  return absl::OkStatus();
}

OnnxOperatorList MoveOperators() {
  return {
      {"Transpose", {1, 25, 1, 1, Transpose}},
      {"Concat", {4, 13, 1, -1, Concat}},
      {"Split", {2, 18, 1, 2, Split}},
      {"Slice", {1, 13, 1, 5, Slice}},
      {"Pad", {2, 25, 1, 4, Pad}},
      {"Expand", {8, 13, 2, 2, Expand}},
      {"Tile", {6, 13, 2, 2, Tile}},
      {"Gather", {1, 13, 2, 2, Gather, "gather"}},
      {"GatherElements", {11, 13, 2, 2, Gather, "gather_elements"}},
      {"DepthToSpace", {1, 28, 1, 1, DepthToSpace}},
      {"SpaceToDepth", {1, 28, 1, 1, SpaceToDepth}},
      {"Trilu", {14, 14, 1, 2, Trilu}},
  };
}

}  // namespace rewright
