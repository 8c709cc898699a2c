// Selections by lists of indices: pairs and tuples of them, one-hot rows, windows extracted and added back; scattered
// sums, orders of elements, random numbers.
#include <algorithm>
#include <numeric>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

constexpr int64_t kMaxWindow = 1024;  // positions of a window that are added one by one

int64_t Product(const Shape& shape, size_t begin, size_t end) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(begin), shape.begin() + static_cast<ptrdiff_t>(end),
                         int64_t{1}, std::multiplies<>());
}

Values OneHot(OnnxNode& node) {
  const int rank = node.input_rank(0);
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(-1, rank + 1));
  const Tensor depths = node.ConstantInput(1, "depth");
  if (depths.num_elements() != 1 || !(depths.At(0) >= 1 && depths.At(0) < 2147483648.0)) {
    return InvalidArgument("depth is not one number, of at least 1");
  }
  const auto depth = static_cast<int64_t>(depths.At(0));
  const Value values = node.input(2);
  if (node.shape(values) != Shape{2}) return InvalidArgument("values are ", node.type(values).ToString());
  Value indices = node.CastTo(node.input(0), DType::kInt64);
  Shape shape = node.shape(indices);
  shape.insert(shape.begin() + axis, 1);
  indices = node.Reshape(indices, shape);
  const Value numbers = node.CountAlong(depth, axis, rank + 1);
  std::vector<Value> off_on;
  for (int64_t k = 0; k < 2; ++k) off_on.push_back(node.Reshape(node.SliceAxis(values, 0, k, k + 1), {}));
  // A negative index counts from the end; one beyond both ends gives no 1.
  const Value from_end = node("add", {indices, node.Number(indices, static_cast<double>(depth))});
  const Value index = node("where", {node("less", {indices, node.Number(indices, 0)}), from_end, indices});
  return OneOutput(node("where", {node("equal", {index, numbers}), off_on[1], off_on[0]}));
}

// One at the first maximum along the axis, zero elsewhere. Before opset 13 all axes from `axis` on are joined.
Values Hardmax(OnnxNode& node) {
  const int64_t given_axis = node.Int("axis", node.opset() < 13 ? 1 : -1);
  Value x = node.input(0);
  const Shape shape = node.shape(x);
  ASSIGN_OR_RETURN(int64_t axis, OnnxNode::Axis(given_axis, node.input_rank(0)));
  if (node.opset() < 13) {
    ASSIGN_OR_RETURN(const Shape matrix, AsMatrix(shape, axis));
    x = node.Reshape(x, matrix);
    axis = 1;
  }
  const int rank = node.type(x).rank();
  const Value numbers = node.CountAlong(node.shape(x)[static_cast<size_t>(axis)], axis, rank);
  const Value first = node("argmax", {x}, {{"axis", axis}, {"keepdims", int64_t{1}}});
  const Value y = node("where", {node("equal", {first, numbers}), node.Number(x, 1), node.Number(x, 0)});
  return OneOutput(node.Reshape(y, shape));
}

// Joins tuples of indices into the axes [begin, begin + k) of a tensor to single indices into these axes joined to one.
// The indices are i64, and their last axis disappears. A single index into the first axis may still count from the end.
Value JoinIndices(OnnxNode& node, Value indices, const Shape& shape, size_t begin) {
  const int last = node.type(indices).rank() - 1;
  const int64_t count = node.shape(indices)[static_cast<size_t>(last)];
  if (const Tensor* known = node.KnownTensor(indices)) {
    for (int64_t i = 0; i < known->num_elements(); ++i) {
      const int64_t size = shape[begin + static_cast<size_t>(i % count)];
      if (known->AtInt(i) < -size || known->AtInt(i) >= size) {
        return node.Fail(InvalidArgument("index ", known->AtInt(i), " into an axis of ", size));
      }
    }
  }
  Shape single = node.shape(indices);
  single.pop_back();
  Value joined;
  for (int64_t k = 0; k < count; ++k) {
    Value index = node.Reshape(node.SliceAxis(indices, last, k, k + 1), single);
    const Value size = node.Number(index, static_cast<double>(shape[begin + static_cast<size_t>(k)]));
    if (count > 1 || begin > 0) index = node("mod", {index, size});  // from the end where negative
    if (k > 0) index = node("add", {node("mul", {joined, size}), index});
    joined = index;
  }
  return joined;
}

Values GatherNd(OnnxNode& node) {
  const int64_t batch = node.Int("batch_dims", 0);
  const Shape shape = node.input_type(0).shape;
  Value indices = node.CastTo(node.input(1), DType::kInt64);
  const Shape index_shape = node.shape(indices);
  const auto batches = static_cast<size_t>(batch);
  if (batch < 0 || index_shape.size() <= batches || shape.size() < batches ||
      !std::equal(shape.begin(), shape.begin() + batch, index_shape.begin())) {
    return InvalidArgument(batch, " batch axes of ", node.input_type(0).ToString(), " and ",
                           node.input_type(1).ToString());
  }
  const int64_t count = index_shape.back();
  if (count < 1 || batches + static_cast<size_t>(count) > shape.size()) {
    return InvalidArgument("tuples of ", count, " indices into ", node.input_type(0).ToString());
  }
  const size_t end = batches + static_cast<size_t>(count);
  Value index = JoinIndices(node, indices, shape, batches);
  Shape flat(shape.begin() + static_cast<ptrdiff_t>(end), shape.end());
  const int64_t joined = Product(shape, batches, end);
  const int64_t parts = Product(shape, 0, batches);
  flat.insert(flat.begin(), parts * joined);
  if (flat[0] == 0) return Unimplemented("indices into an empty tensor");
  if (batches > 0) {  // the parts of the batch lie one behind the other
    RETURN_IF_ERROR(node.status());
    const Shape wanted = node.shape(index);
    index = node.Reshape(index, {parts, Product(wanted, batches, wanted.size())});
    const Value number = node.CountAlong(parts, 0, 2);
    index = node("add", {node("mul", {number, node.Number(number, static_cast<double>(joined))}), index});
    index = node.Reshape(index, wanted);
  }
  return OneOutput(node("gather", {node.Reshape(node.input(0), flat), index}, {{"axis", int64_t{0}}}));
}

// Selects the elements at which a known condition holds.
Values Compress(OnnxNode& node) {
  const Tensor condition = node.ConstantInput(1, "condition");
  Value x = node.input(0);
  int64_t axis = 0;
  if (node.HasAttribute("axis")) {
    ASSIGN_OR_RETURN(axis, node.AxisAttribute(0, node.input_rank(0)));
  } else {
    x = node.Reshape(x, {node.type(x).num_elements()});
  }
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < condition.num_elements(); ++i) {
    if (condition.At(i) == 0) continue;
    if (i >= node.shape(x)[static_cast<size_t>(axis)]) {
      return InvalidArgument("element ", i, " of ", node.type(x).ToString());
    }
    indices.push_back(i);
  }
  if (indices.empty()) return Unimplemented("nothing is left");
  return OneOutput(node("gather", {x, node.Constant(Tensor::Int64s(indices))}, {{"axis", axis}}));
}

// Reverses the first elements of each sequence, as many as its length says.
Values ReverseSequence(OnnxNode& node) {
  const int64_t batch_axis = node.Int("batch_axis", 1);
  const int64_t time_axis = node.Int("time_axis", 0);
  const Value x = node.input(0);
  const Shape shape = node.shape(x);
  if (shape.size() < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0) {
    return InvalidArgument("batch_axis and time_axis are 0 and 1 of at least two axes");
  }
  const int64_t steps = shape[static_cast<size_t>(time_axis)];
  const int64_t batch = shape[static_cast<size_t>(batch_axis)];
  if (node.input_type(1).shape != Shape{batch}) {
    return InvalidArgument("lengths ", node.input_type(1).ToString(), "; expected ", batch);
  }
  Value lengths = node.CastTo(node.input(1), DType::kInt64);
  lengths = node.Reshape(lengths, batch_axis == 0 ? Shape{batch, 1} : Shape{1, batch});
  const Value time = node.CountAlong(steps, time_axis, 2);
  const Value mirrored = node("sub", {node("sub", {lengths, node.Number(lengths, 1)}), time});
  Value index = node("where", {node("less", {time, lengths}), mirrored, time});
  Shape spread(shape.size(), 1);
  spread[0] = shape[0];
  spread[1] = shape[1];
  index = node.Expand(node.Reshape(index, spread), shape);
  return OneOutput(node("gather_elements", {x, index}, {{"axis", time_axis}}));
}

Values CenterCropPad(OnnxNode& node) {
  Value x = node.input(0);
  const Shape shape = node.shape(x);
  const std::vector<int64_t> given = node.Ints("axes", AxesFrom(0, node.input_rank(0)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, OnnxNode::Axes(given, node.input_rank(0)));
  const std::vector<int64_t> sizes = node.IntsInput(1, "shape");
  if (sizes.size() != axes.size()) return InvalidArgument(sizes.size(), " sizes for ", axes.size(), " axes");
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("shape", sizes));
  std::vector<int64_t> before(shape.size(), 0), after(shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (sizes[i] < 1) return InvalidArgument("size ", sizes[i]);
    const int64_t missing = sizes[i] - shape[axis];
    if (missing > 0) {
      before[axis] = missing / 2;
      after[axis] = missing - before[axis];
    } else {
      x = node.SliceAxis(x, axes[i], -missing / 2, -missing / 2 + sizes[i]);
    }
  }
  if (std::count(after.begin(), after.end(), 0) == std::ssize(after)) return std::vector<Value>{x};
  return OneOutput(node("pad", {x}, {{"before", before}, {"after", after}, {"value", 0.0}}));
}

// Adds windows [n, c * window, positions] up to images: each element of a window is spread over the positions of its
// windows.
Values Col2Im(OnnxNode& node) {
  const Shape shape = node.input_type(0).shape;
  const std::vector<int64_t> image = node.IntsInput(1, "image_shape");
  const std::vector<int64_t> window = node.IntsInput(2, "block_shape");
  const size_t axes = image.size();
  const std::vector<int64_t> ones(axes, 1);
  const std::vector<int64_t> strides = node.Ints("strides", ones);
  const std::vector<int64_t> dilations = node.Ints("dilations", ones);
  const std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  for (const auto& [list, least] :
       {std::pair(&image, int64_t{1}), {&window, 1}, {&strides, 1}, {&dilations, 1}, {&pads, 0}}) {
    RETURN_IF_ERROR(OnnxNode::CheckMagnitude("sizes", *list));
    if (std::any_of(list->begin(), list->end(), [least = least](int64_t x) { return x < least; }) ||
        list->size() != (list == &pads ? 2 * axes : axes)) {
      return InvalidArgument(
          "image_shape, block_shape, strides, dilations and pads are of so many axes, and not negative");
    }
  }
  Shape windows;  // how many lie along each axis
  for (size_t i = 0; i < axes; ++i) {
    windows.push_back((image[i] + pads[i] + pads[axes + i] - dilations[i] * (window[i] - 1) - 1) / strides[i] + 1);
  }
  RETURN_IF_ERROR(CheckedElements(window).status());
  const int64_t size = Product(window, 0, axes);
  if (size > kMaxWindow) return Unimplemented("windows of ", size, " elements");
  if (axes == 0 || shape.size() != 3 || shape[1] % size != 0 || *std::min_element(windows.begin(), windows.end()) < 1 ||
      shape[2] != Product(windows, 0, axes)) {
    return InvalidArgument("operand ", node.input_type(0).ToString(), " for an image ", ShapeString(image),
                           " and windows ", ShapeString(window));
  }
  Shape parted = {shape[0], shape[1] / size, size};
  parted.insert(parted.end(), windows.begin(), windows.end());
  const Value columns = node.Reshape(node.input(0), parted);
  parted.erase(parted.begin() + 2);
  Value sum;
  for (int64_t k = 0; k < size; ++k) {
    std::vector<int64_t> before(2, 0), after(2, 0), interior(2, 0);
    int64_t rest = k;
    std::vector<int64_t> at(axes);
    for (size_t i = axes; i-- > 0;) {
      at[i] = rest % window[i];
      rest /= window[i];
    }
    for (size_t i = 0; i < axes; ++i) {
      before.push_back(at[i] * dilations[i] - pads[i]);
      interior.push_back(strides[i] - 1);
      after.push_back(image[i] - before.back() - ((windows[i] - 1) * strides[i] + 1));
    }
    const Value points = node.Reshape(node.SliceAxis(columns, 2, k, k + 1), parted);
    const Value spread =
        node("pad", {points}, {{"before", before}, {"after", after}, {"interior", interior}, {"value", 0.0}});
    sum = k == 0 ? spread : node("add", {sum, spread});
  }
  return OneOutput(sum);
}

// ---------------------------------------------------------------- scattered sums, orders, random numbers

// True if updates are added, false if they replace. Replacing requires known indices, no two of them equal, since the
// order of updates is open.
absl::StatusOr<bool> ReadsAdds(OnnxNode& node) {
  const std::string reduction = node.String("reduction", "none");
  if (reduction != "add" && reduction != "none") {
    return Unimplemented("reduction = ", reduction, "; expected add or none");
  }
  return reduction == "add";
}

// Scatters updates into `data` by `op`, which adds them at the indices. Replacing adds to zeros, at the positions of a
// mask.
absl::StatusOr<Value> Scatter(OnnxNode& node, bool adds, const std::string& op, Value data, Value indices,
                              Value updates, const Attrs& attrs) {
  if (adds) return node(op, {data, indices, updates}, attrs);
  const TensorType type = node.type(data);
  RETURN_IF_ERROR(node.CheckKnown(1, "indices"));
  RETURN_IF_ERROR(node.status());
  if (type.dtype == DType::kBool) return Unimplemented("reduction = none of truth values");
  RETURN_IF_ERROR(node.ChargeGenerated({DType::kInt64, type.shape}));
  const Value zeros = node.Expand(node.Number(DType::kInt64, 0), type.shape);
  const Value ones = node.Expand(node.Number(DType::kInt64, 1), node.shape(updates));
  const Value counts = node(op, {zeros, indices, ones}, attrs);
  RETURN_IF_ERROR(node.status());
  ASSIGN_OR_RETURN(const Tensor known, EvaluateWeightOnly(node.shared_arena(), counts));
  for (int64_t i = 0; i < known.num_elements(); ++i) {
    if (known.AtInt(i) > 1) return Unimplemented("reduction = none at indices that are there twice");
  }
  const Value empty = node.Expand(node.Number(type.dtype, 0), type.shape);
  const Value placed = node(op, {empty, indices, updates}, attrs);
  return node("where", {node("equal", {node.Constant(known), node.Number(zeros, 1)}), placed, data});
}

Values ScatterElements(OnnxNode& node) {
  ASSIGN_OR_RETURN(const bool adds, ReadsAdds(node));
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(0, node.input_rank(0)));
  RETURN_IF_ERROR(CheckIndices(node, node.input(1), axis));
  return OneOutput(
      Scatter(node, adds, "scatter_elements_add", node.input(0), node.input(1), node.input(2), {{"axis", axis}}));
}

// ScatterND; the indices are into the first axes, which are joined to one.
Values ScatterNd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const bool adds, ReadsAdds(node));
  const Shape shape = node.input_type(0).shape;
  const Shape index_shape = node.input_type(1).shape;
  if (index_shape.empty()) return InvalidArgument("the indices are a scalar");
  const int64_t count = index_shape.back();
  if (count < 1 || static_cast<size_t>(count) > shape.size()) {
    return InvalidArgument("tuples of ", count, " indices into ", node.input_type(0).ToString());
  }
  const Value indices = JoinIndices(node, node.CastTo(node.input(1), DType::kInt64), shape, 0);
  Shape flat(shape.begin() + count, shape.end());
  int64_t joined = 1;
  for (int64_t k = 0; k < count; ++k) joined *= shape[static_cast<size_t>(k)];
  flat.insert(flat.begin(), joined);
  if (joined == 0) return Unimplemented("indices into an empty tensor");
  const Value data = node.Reshape(node.input(0), flat);
  ASSIGN_OR_RETURN(const Value y,
                   Scatter(node, adds, "scatter_add", data, indices, node.input(2), {{"axis", int64_t{0}}}));
  return OneOutput(node.Reshape(y, shape));
}

// Unless they are requested in order, the elements may come in any order: here they are sorted.
Values TopK(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(-1, node.input_rank(0)));
  int64_t k = 0;
  bool largest = true;
  if (node.opset() >= 10) {
    if (!node.has_input(1)) return InvalidArgument("k is missing");
    const std::vector<int64_t> ks = node.IntsInput(1, "k");
    if (ks.size() != 1) return InvalidArgument("k has ", ks.size(), " elements, expected one");
    k = ks[0];
  } else {
    k = node.Int("k");
  }
  if (node.opset() >= 11) {
    largest = node.Flag("largest", true);
    node.Ignore({"sorted"});
  }
  return node.ApplyAll("top_k", {node.input(0)}, {{"axis", axis}, {"k", k}, {"largest", int64_t{largest}}});
}

Values RandomUniform(OnnxNode& node) {
  const std::vector<int64_t> shape = node.Ints("shape");
  const int64_t stream = node.Int("stream", 0);
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("shape", shape));
  const char* op = node.inputs().size() > 1 ? "random_uniform_from" : "random_uniform";
  return OneOutput(node(op, node.inputs(), {{"shape", shape}, {"stream", stream}}));
}

}  // namespace

OnnxOperatorList SelectOperators() {
  return {
      {"OneHot", {9, 28, 3, 3, OneHot}},
      {"Hardmax", {1, 13, 1, 1, Hardmax}},
      {"GatherND", {11, 13, 2, 2, GatherNd}},
      {"Compress", {9, 28, 2, 2, Compress}},
      {"ReverseSequence", {10, 28, 2, 2, ReverseSequence}},
      {"CenterCropPad", {18, 18, 2, 2, CenterCropPad}},
      {"Col2Im", {18, 18, 3, 3, Col2Im}},
      {"Scatter", {9, 11, 3, 3, ScatterElements}},
      {"ScatterElements", {11, 18, 3, 3, ScatterElements}},
      {"ScatterND", {11, 18, 3, 3, ScatterNd}},
      {"TopK", {1, 24, 1, 2, TopK}},
      {absl::StrCat(kOwnDomain, ".RandomUniform"), {1, 1, 1, 2, RandomUniform}},
  };
}

}  // namespace rewright
