// The forms in ONNX of operators that cut, move, repeat, order and scatter elements.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/onnx/export/writer.h"
#include "core/onnx/operators.h"

namespace rewright {

std::string WritePad(OnnxWriter& writer, const ExportedNode& node, std::string x, Shape shape,
                     const std::vector<int64_t>& before, std::vector<int64_t> after,
                     const std::vector<int64_t>& interior, double value) {
  const std::string number = writer.Number(node.operand_types[0].dtype, value);
  for (size_t axis = 0; axis < interior.size(); ++axis) {
    if (interior[axis] == 0) continue;
    Shape parted = shape;
    parted.insert(parted.begin() + static_cast<int64_t>(axis) + 1, 1);
    std::vector<int64_t> pads(2 * parted.size(), 0);
    pads[parted.size() + axis + 1] = interior[axis];
    x = Step(writer, node, "Reshape", {x, writer.Ints(parted)});
    x = Step(writer, node, "Pad", {x, writer.Ints(pads), number});
    shape[axis] *= interior[axis] + 1;
    x = Step(writer, node, "Reshape", {x, writer.Ints(shape)});
    after[axis] -= interior[axis];
  }
  std::vector<int64_t> pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  return Step(writer, node, "Pad", {x, writer.Ints(pads), number});
}

namespace {

void Split(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("Split", {node.inputs[0], writer.Ints(node.Ints("sizes"))}, node.outputs,
                 {{"axis", node.Int("axis")}});
}

// Writes only the axes that are cut.
void Slice(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& shape = node.operand_types[0].shape;
  const std::vector<int64_t>& all_starts = node.Ints("starts");
  const std::vector<int64_t>& all_stops = node.Ints("stops");
  const std::vector<int64_t>& all_steps = node.Ints("steps");
  std::vector<int64_t> starts, stops, axes, steps;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t step = all_steps.empty() ? 1 : all_steps[axis];
    if (all_starts[axis] == 0 && all_stops[axis] == shape[axis] && step == 1) continue;
    starts.push_back(all_starts[axis]);
    stops.push_back(all_stops[axis]);
    axes.push_back(static_cast<int64_t>(axis));
    steps.push_back(step);
  }
  if (axes.empty()) return writer.AddNode("Identity", node.inputs, node.outputs);
  std::vector<std::string> inputs = {node.inputs[0], writer.Ints(starts), writer.Ints(stops), writer.Ints(axes)};
  const bool stepped = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  if (stepped) inputs.push_back(writer.Ints(steps));
  writer.AddNode("Slice", inputs, node.outputs);
}

void Reverse(OnnxWriter& writer, const ExportedNode& node) {
  const std::vector<int64_t>& axes = node.Ints("axes");
  if (axes.empty()) return writer.AddNode("Identity", node.inputs, node.outputs);
  const std::vector<int64_t> minus_ones(axes.size(), -1);
  const std::vector<int64_t> beginning(axes.size(), std::numeric_limits<int64_t>::min());
  writer.AddNode(
      "Slice",
      {node.inputs[0], writer.Ints(minus_ones), writer.Ints(beginning), writer.Ints(axes), writer.Ints(minus_ones)},
      node.outputs);
}

void Pad(OnnxWriter& writer, const ExportedNode& node) {
  const std::string padded = WritePad(writer, node, node.inputs[0], node.operand_types[0].shape, node.Ints("before"),
                                      node.Ints("after"), node.Ints("interior"), node.Real("value"));
  writer.AddNode("Identity", {padded}, node.outputs);
}

// Writes numbers counted along an axis: Range, reshaped and repeated.
void Iota(OnnxWriter& writer, const ExportedNode& node) {
  const TensorType& type = node.type();
  const size_t axis = node.Int("axis");
  const double size = static_cast<double>(type.shape[axis]);
  Shape line(type.shape.size(), 1);
  line[axis] = type.shape[axis];
  const std::string range =
      Step(writer, node, "Range",
           {writer.Number(type.dtype, 0), writer.Number(type.dtype, size), writer.Number(type.dtype, 1)});
  writer.AddNode("Expand", {Step(writer, node, "Reshape", {range, writer.Ints(line)}), writer.Ints(type.shape)},
                 node.outputs);
}

// Writes expand: the axes in the order of the result, axes of size one between them, then repeated.
void BroadcastInDim(OnnxWriter& writer, const ExportedNode& node) {
  const std::vector<int64_t>& dims = node.Ints("dims");
  const Shape& x = node.operand_types[0].shape;
  std::vector<int64_t> perm = AxesFrom(0, std::ssize(dims));
  std::sort(perm.begin(), perm.end(), [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
  Shape laid(node.Ints("shape").size(), 1);
  for (size_t k = 0; k < dims.size(); ++k) laid[dims[k]] = x[k];
  const std::string turned = Step(writer, node, "Transpose", node.inputs, {{"perm", perm}});
  writer.AddNode("Expand",
                 {Step(writer, node, "Reshape", {turned, writer.Ints(laid)}), writer.Ints(node.Ints("shape"))},
                 node.outputs);
}

// Returns an operand of integers as i64.
std::string Indices(OnnxWriter& writer, const ExportedNode& node, size_t input) {
  const std::string& indices = node.inputs[input];
  return node.operand_types[input].dtype == DType::kInt64 ? indices : CastTo(writer, node, indices, DType::kInt64);
}

// Returns max(0, min(start, most)).
std::string ClampedStart(OnnxWriter& writer, const ExportedNode& node, size_t input, int64_t most) {
  const std::string low = Step(writer, node, "Min",
                               {Indices(writer, node, input), writer.Number(DType::kInt64, static_cast<double>(most))});
  return Step(writer, node, "Max", {low, writer.Number(DType::kInt64, 0)});
}

std::string GatherAxis(OnnxWriter& writer, const ExportedNode& node, const std::string& x, const std::string& indices,
                       size_t axis) {
  return Step(writer, node, "Gather", {x, indices}, {{"axis", static_cast<int64_t>(axis)}});
}

// Gathers the indices axis by axis.
void DynamicSlice(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& shape = node.operand_types[0].shape;
  std::string x = node.inputs[0];
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t size = node.type().shape[axis];
    const std::string start = ClampedStart(writer, node, 1 + axis, shape[axis] - size);
    x = GatherAxis(writer, node, x, Step(writer, node, "Add", {writer.Ints(AxesFrom(0, size)), start}), axis);
  }
  writer.AddNode("Identity", {x}, node.outputs);
}

// Gathers spread the update over the whole tensor; positions in the window select it.
void DynamicUpdateSlice(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& shape = node.operand_types[0].shape;
  const Shape& window = node.operand_types[1].shape;
  if (NumElements(window) == 0) return writer.AddNode("Identity", {node.inputs[0]}, node.outputs);
  std::string update = node.inputs[1], inside;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto number = [&](int64_t value) { return writer.Number(DType::kInt64, static_cast<double>(value)); };
    const std::string start = ClampedStart(writer, node, 2 + axis, shape[axis] - window[axis]);
    const std::string place = Step(writer, node, "Sub", {writer.Ints(AxesFrom(0, shape[axis])), start});
    const std::string low = Step(writer, node, "Max", {place, number(0)});
    const std::string held = Step(writer, node, "Min", {low, number(window[axis] - 1)});
    update = GatherAxis(writer, node, update, held, axis);
    Shape line(shape.size(), 1);
    line[axis] = shape[axis];
    const std::string mask =
        Step(writer, node, "Reshape", {Step(writer, node, "Equal", {place, held}), writer.Ints(line)});
    inside = axis == 0 ? mask : Step(writer, node, "And", {inside, mask});
  }
  writer.AddNode("Where", {inside, update, node.inputs[0]}, node.outputs);
}

// ---------------------------------------------------------------- scattered sums, orders, random numbers

// ScatterND adds along the first axis: another axis, and those of the indices in the updates, are moved there.
void ScatterAdd(OnnxWriter& writer, const ExportedNode& node) {
  const int64_t axis = node.Int("axis");
  Shape shape = node.operand_types[1].shape;
  const auto picked = static_cast<int64_t>(shape.size());
  shape.push_back(1);
  const std::string indices = Step(writer, node, "Reshape", {Indices(writer, node, 1), writer.Ints(shape)});
  // Moves `count` axes from `axis` on to the front.
  const auto to_front = [axis](int rank, int64_t count) {
    std::vector<int64_t> perm = AxesFrom(0, rank);
    std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + count);
    return OnnxAttrs{{"perm", perm}};
  };
  const int rank = node.type().rank();
  std::string x = node.inputs[0], updates = node.inputs[2], sum = node.outputs[0];
  if (axis > 0) {
    x = Step(writer, node, "Transpose", {x}, to_front(rank, 1));
    updates = Step(writer, node, "Transpose", {updates}, to_front(rank - 1 + static_cast<int>(picked), picked));
    sum = writer.Temporary(node);
  }
  writer.AddNode("ScatterND", {x, indices, updates}, {sum}, {{"reduction", "add"}});
  if (axis == 0) return;
  std::vector<int64_t> back = AxesFrom(0, rank);
  std::rotate(back.begin(), back.begin() + 1, back.begin() + axis + 1);
  writer.AddNode("Transpose", {sum}, node.outputs, {{"perm", back}});
}

void CumSum(OnnxWriter& writer, const ExportedNode& node) {
  const std::string axis = writer.Number(DType::kInt64, static_cast<double>(node.Int("axis")));
  writer.AddNode("CumSum", {node.inputs[0], axis}, node.outputs,
                 {{"exclusive", node.Int("exclusive")}, {"reverse", node.Int("reverse")}});
}

void ScatterElementsAdd(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("ScatterElements", node.inputs, node.outputs, {{"axis", node.Int("axis")}, {"reduction", "add"}});
}

void TopK(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("TopK", {node.inputs[0], writer.Ints({node.Int("k")})}, node.outputs,
                 {{"axis", node.Int("axis")}, {"largest", node.Int("largest")}});
}

// ONNX has no operator for random numbers that are equal on every device; its own leave the numbers open.
void RandomUniform(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("RandomUniform", node.inputs, node.outputs, AttrsOf(node));
  writer.nodes().back().set_domain(kOwnDomain);
}

}  // namespace

const absl::flat_hash_map<std::string, OnnxForm>& MovementForms() {
  static const auto* const forms = new absl::flat_hash_map<std::string, OnnxForm>{
      {"split", {Split}},
      {"slice", {Slice}},
      {"dynamic_slice", {DynamicSlice}},
      {"dynamic_update_slice", {DynamicUpdateSlice}},
      {"reverse", {Reverse}},
      {"pad", {Pad}},
      {"broadcast_in_dim", {BroadcastInDim}},
      {"iota", {Iota}},
      {"scatter_add", {ScatterAdd, "", 16}},
      {"scatter_elements_add", {ScatterElementsAdd, "", 16}},
      {"cumsum", {CumSum}},
      {"top_k", {TopK}},
      {"random_uniform", {RandomUniform}},
      {"random_uniform_from", {RandomUniform}},
  };
  return *forms;
}

}  // namespace rewright
