// Elements by lists of indices: pairs and tuples of them, one-hot rows, windows laid out and laid back.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

constexpr int64_t kMaxWindow = 1024;  // positions of a window that are added one by one

int64_t Product(const Shape& shape, size_t begin, size_t end) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(begin), shape.begin() + static_cast<ptrdiff_t>(end),
                         int64_t{1}, std::multiplies<>());
}

Values OneHot(OnnxNode& node) {
  const int rank = node.input_rank(0);
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, rank + 1));
  ASSIGN_OR_RETURN(const Tensor depths, node.ConstantInput(1, "depth"));
  if (depths.num_elements() != 1 || !(depths.At(0) >= 1 && depths.At(0) < 2147483648.0)) {
    return node.Invalid("depth is not one number, of at least 1");
  }
  const auto depth = static_cast<int64_t>(depths.At(0));
  const Value values = node.input(2);
  if (node.shape(values) != Shape{2}) return node.Invalid(absl::StrCat("values are ", node.type(values).ToString()));
  ASSIGN_OR_RETURN(Value indices, node.CastTo(node.input(0), DType::kInt64));
  Shape shape = node.shape(indices);
  shape.insert(shape.begin() + axis, 1);
  ASSIGN_OR_RETURN(indices, node.Reshape(indices, shape));
  ASSIGN_OR_RETURN(const Value numbers, node.CountAlong(depth, axis, rank + 1));
  std::vector<Value> off_on(2);
  for (int64_t k = 0; k < 2; ++k) {
    ASSIGN_OR_RETURN(const Value one, node.SliceAxis(values, 0, k, k + 1));
    ASSIGN_OR_RETURN(off_on[static_cast<size_t>(k)], node.Reshape(one, {}));
  }
  Formula f(node);
  // Counted from the end where negative; beyond both ends nothing is hot.
  const Value from_end = f("add", {indices, f.Number(indices, static_cast<double>(depth))});
  const Value index = f("where", {f("less", {indices, f.Number(indices, 0)}), from_end, indices});
  return f.Output(f("where", {f("equal", {index, numbers}), off_on[1], off_on[0]}));
}

// One at the first maximum along the axis, zero elsewhere. Before opset 13 over all axes from `axis` on.
Values Hardmax(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", node.opset() < 13 ? 1 : -1));
  Value x = node.input(0);
  const Shape shape = node.shape(x);
  ASSIGN_OR_RETURN(int64_t axis, OnnxNode::Axis(given_axis, node.input_rank(0)));
  if (node.opset() < 13) {
    ASSIGN_OR_RETURN(const Shape matrix, AsMatrix(shape, axis));
    ASSIGN_OR_RETURN(x, node.Reshape(x, matrix));
    axis = 1;
  }
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const Value numbers, node.CountAlong(node.shape(x)[static_cast<size_t>(axis)], axis, rank));
  Formula f(node);
  const Value first = f("argmax", {x}, {{"axis", axis}, {"keepdims", int64_t{1}}});
  ASSIGN_OR_RETURN(const Value y, f.Done(f("where", {f("equal", {first, numbers}), f.Number(x, 1), f.Number(x, 0)})));
  return OneOutput(node.Reshape(y, shape));
}

Values GatherNd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t batch, node.Int("batch_dims", 0));
  const Shape shape = node.input_type(0).shape;
  ASSIGN_OR_RETURN(Value indices, node.CastTo(node.input(1), DType::kInt64));
  const Shape index_shape = node.shape(indices);
  const auto batches = static_cast<size_t>(batch);
  if (batch < 0 || index_shape.size() <= batches || shape.size() < batches ||
      !std::equal(shape.begin(), shape.begin() + batch, index_shape.begin())) {
    return node.Invalid(
        absl::StrCat(batch, " batch axes of ", node.input_type(0).ToString(), " and ", node.input_type(1).ToString()));
  }
  const int64_t count = index_shape.back();
  if (count < 1 || batches + static_cast<size_t>(count) > shape.size()) {
    return node.Invalid(absl::StrCat("tuples of ", count, " indices into ", node.input_type(0).ToString()));
  }
  const size_t end = batches + static_cast<size_t>(count);
  ASSIGN_OR_RETURN(Value index, JoinIndices(node, indices, shape, batches));
  Shape flat(shape.begin() + static_cast<ptrdiff_t>(end), shape.end());
  const int64_t joined = Product(shape, batches, end);
  const int64_t parts = Product(shape, 0, batches);
  flat.insert(flat.begin(), parts * joined);
  if (flat[0] == 0) return node.Unsupported("indices into an empty tensor");
  if (batches > 0) {  // the parts of the batch lie one behind the other
    Shape by_part = node.shape(index);
    const Shape wanted = by_part;
    by_part = {parts, Product(wanted, batches, wanted.size())};
    ASSIGN_OR_RETURN(index, node.Reshape(index, by_part));
    ASSIGN_OR_RETURN(const Value number, node.CountAlong(parts, 0, 2));
    Formula f(node);
    ASSIGN_OR_RETURN(index,
                     f.Done(f("add", {f("mul", {number, f.Number(number, static_cast<double>(joined))}), index})));
    ASSIGN_OR_RETURN(index, node.Reshape(index, wanted));
  }
  ASSIGN_OR_RETURN(const Value data, node.Reshape(node.input(0), flat));
  return OneOutput(node.Apply("gather", {data, index}, {{"axis", int64_t{0}}}));
}

// The elements where a condition holds that is known.
Values Compress(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Tensor condition, node.ConstantInput(1, "condition"));
  Value x = node.input(0);
  int64_t axis = 0;
  if (node.HasAttribute("axis")) {
    ASSIGN_OR_RETURN(const int64_t given, node.Int("axis", 0));
    ASSIGN_OR_RETURN(axis, OnnxNode::Axis(given, node.input_rank(0)));
  } else {
    ASSIGN_OR_RETURN(x, node.Reshape(x, {node.type(x).num_elements()}));
  }
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < condition.num_elements(); ++i) {
    if (condition.At(i) == 0) continue;
    if (i >= node.shape(x)[static_cast<size_t>(axis)]) {
      return node.Invalid(absl::StrCat("element ", i, " of ", node.type(x).ToString()));
    }
    indices.push_back(i);
  }
  if (indices.empty()) return node.Unsupported("nothing is left");
  return OneOutput(node.Apply("gather", {x, node.Constant(Tensor::Int64s(indices))}, {{"axis", axis}}));
}

// The first so many elements of each sequence in the opposite order.
Values ReverseSequence(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t batch_axis, node.Int("batch_axis", 1));
  ASSIGN_OR_RETURN(const int64_t time_axis, node.Int("time_axis", 0));
  const Value x = node.input(0);
  const Shape shape = node.shape(x);
  if (shape.size() < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0) {
    return node.Invalid("batch_axis and time_axis are 0 and 1 of at least two axes");
  }
  const int64_t steps = shape[static_cast<size_t>(time_axis)];
  const int64_t batch = shape[static_cast<size_t>(batch_axis)];
  if (node.input_type(1).shape != Shape{batch}) {
    return node.Invalid(absl::StrCat("lengths ", node.input_type(1).ToString(), "; expected ", batch));
  }
  ASSIGN_OR_RETURN(Value lengths, node.CastTo(node.input(1), DType::kInt64));
  ASSIGN_OR_RETURN(lengths, node.Reshape(lengths, batch_axis == 0 ? Shape{batch, 1} : Shape{1, batch}));
  ASSIGN_OR_RETURN(const Value time, node.CountAlong(steps, time_axis, 2));
  Formula f(node);
  const Value mirrored = f("sub", {f("sub", {lengths, f.Number(lengths, 1)}), time});
  ASSIGN_OR_RETURN(Value index, f.Done(f("where", {f("less", {time, lengths}), mirrored, time})));
  Shape spread(shape.size(), 1);
  spread[0] = shape[0];
  spread[1] = shape[1];
  ASSIGN_OR_RETURN(index, node.Reshape(index, spread));
  ASSIGN_OR_RETURN(index, node.Expand(index, shape));
  return OneOutput(node.Apply("gather_elements", {x, index}, {{"axis", time_axis}}));
}

Values CenterCropPad(OnnxNode& node) {
  Value x = node.input(0);
  const Shape shape = node.shape(x);
  std::vector<int64_t> all(shape.size());
  std::iota(all.begin(), all.end(), 0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.Ints("axes", all));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, OnnxNode::Axes(given, node.input_rank(0)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, node.IntsInput(1, "shape"));
  if (sizes.size() != axes.size()) return node.Invalid(absl::StrCat(sizes.size(), " sizes for ", axes.size(), " axes"));
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("shape", sizes));
  std::vector<int64_t> before(shape.size(), 0), after(shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (sizes[i] < 1) return node.Invalid(absl::StrCat("size ", sizes[i]));
    const int64_t missing = sizes[i] - shape[axis];
    if (missing > 0) {
      before[axis] = missing / 2;
      after[axis] = missing - before[axis];
    } else {
      ASSIGN_OR_RETURN(x, node.SliceAxis(x, axes[i], -missing / 2, -missing / 2 + sizes[i]));
    }
  }
  if (std::count(after.begin(), after.end(), 0) == std::ssize(after)) return std::vector<Value>{x};
  return OneOutput(node.Apply("pad", {x}, {{"before", before}, {"after", after}, {"value", 0.0}}));
}

// [n, c * window, positions] as images: each element of a window is spread over where its windows lie, and all are
// added up.
Values Col2Im(OnnxNode& node) {
  const Shape shape = node.input_type(0).shape;
  ASSIGN_OR_RETURN(const std::vector<int64_t> image, node.IntsInput(1, "image_shape"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> window, node.IntsInput(2, "block_shape"));
  const size_t axes = image.size();
  const std::vector<int64_t> ones(axes, 1);
  ASSIGN_OR_RETURN(const std::vector<int64_t> strides, node.Ints("strides", ones));
  ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, node.Ints("dilations", ones));
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.Ints("pads", std::vector<int64_t>(2 * axes, 0)));
  for (const auto& [list, least] :
       {std::pair(&image, int64_t{1}), {&window, 1}, {&strides, 1}, {&dilations, 1}, {&pads, 0}}) {
    RETURN_IF_ERROR(OnnxNode::CheckMagnitude("sizes", *list));
    if (std::any_of(list->begin(), list->end(), [least = least](int64_t x) { return x < least; }) ||
        list->size() != (list == &pads ? 2 * axes : axes)) {
      return node.Invalid(
          "image_shape, block_shape, strides, dilations and pads are of so many axes, and not negative");
    }
  }
  Shape windows;  // how many lie along each axis
  for (size_t i = 0; i < axes; ++i) {
    windows.push_back((image[i] + pads[i] + pads[axes + i] - dilations[i] * (window[i] - 1) - 1) / strides[i] + 1);
  }
  RETURN_IF_ERROR(CheckedElements(window).status());
  const int64_t size = Product(window, 0, axes);
  if (size > kMaxWindow) return node.Unsupported(absl::StrCat("windows of ", size, " elements"));
  if (axes == 0 || shape.size() != 3 || shape[1] % size != 0 || *std::min_element(windows.begin(), windows.end()) < 1 ||
      shape[2] != Product(windows, 0, axes)) {
    return node.Invalid(absl::StrCat("operand ", node.input_type(0).ToString(), " for an image ", ShapeString(image),
                                     " and windows ", ShapeString(window)));
  }
  Shape parted = {shape[0], shape[1] / size, size};
  parted.insert(parted.end(), windows.begin(), windows.end());
  ASSIGN_OR_RETURN(const Value columns, node.Reshape(node.input(0), parted));
  parted.erase(parted.begin() + 2);
  Formula f(node);
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
    ASSIGN_OR_RETURN(const Value element, node.SliceAxis(columns, 2, k, k + 1));
    ASSIGN_OR_RETURN(const Value points, node.Reshape(element, parted));
    const Value spread =
        f("pad", {points}, {{"before", before}, {"after", after}, {"interior", interior}, {"value", 0.0}});
    sum = k == 0 ? spread : f("add", {sum, spread});
  }
  return f.Output(sum);
}

}  // namespace

absl::StatusOr<Value> JoinIndices(OnnxNode& node, Value indices, const Shape& shape, size_t begin) {
  const int last = node.type(indices).rank() - 1;
  const int64_t count = node.shape(indices)[static_cast<size_t>(last)];
  if (const Tensor* known = node.KnownTensor(indices)) {
    for (int64_t i = 0; i < known->num_elements(); ++i) {
      const int64_t size = shape[begin + static_cast<size_t>(i % count)];
      if (known->AtInt(i) < -size || known->AtInt(i) >= size) {
        return node.Invalid(absl::StrCat("index ", known->AtInt(i), " into an axis of ", size));
      }
    }
  }
  Shape single = node.shape(indices);
  single.pop_back();
  Value joined;
  for (int64_t k = 0; k < count; ++k) {
    ASSIGN_OR_RETURN(Value index, node.SliceAxis(indices, last, k, k + 1));
    ASSIGN_OR_RETURN(index, node.Reshape(index, single));
    Formula f(node);
    const Value size = f.Number(index, static_cast<double>(shape[begin + static_cast<size_t>(k)]));
    if (count > 1) index = f("mod", {index, size});  // from the end where negative
    if (k > 0) index = f("add", {f("mul", {joined, size}), index});
    ASSIGN_OR_RETURN(joined, f.Done(index));
  }
  return joined;
}

OnnxOperatorList SelectOperators() {
  return {
      {"OneHot", {9, 28, 3, 3, OneHot}},
      {"Hardmax", {1, 13, 1, 1, Hardmax}},
      {"GatherND", {11, 13, 2, 2, GatherNd}},
      {"Compress", {9, 28, 2, 2, Compress}},
      {"ReverseSequence", {10, 28, 2, 2, ReverseSequence}},
      {"CenterCropPad", {18, 18, 2, 2, CenterCropPad}},
      {"Col2Im", {18, 18, 3, 3, Col2Im}},
  };
}

}  // namespace rewright
