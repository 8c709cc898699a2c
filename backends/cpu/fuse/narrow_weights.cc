#include "backends/cpu/fuse/narrow_weights.h"

#include <optional>

#include "backends/common/node_access.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

bool IsWide(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kFloat32; }

// The value before conversions that keep all integers of 8 bits, and differences of two.
Value BeforeCasts(const Graph& graph, Value value) {
  while (graph.node(value.node).op == ops::Cast() && IsWide(graph.type(value).dtype)) {
    value = graph.node(value.node).operands[0];
  }
  return value;
}

// The part that a product of one operand with another as its scale is.
std::optional<NarrowPart> PartOf(const Graph& graph, Value centred, Value scale, const Shape& shape) {
  NarrowPart part{.scale = scale};
  part.codes = BeforeCasts(graph, centred);
  if (const Node& node = graph.node(part.codes.node); node.op == ops::Sub()) {
    if (!IsWide(node.outputs[0].dtype)) return std::nullopt;
    part.zero = node.operands[1];
    part.codes = BeforeCasts(graph, node.operands[0]);
  }
  const TensorType& codes = graph.type(part.codes);
  if ((codes.dtype != DType::kInt8 && codes.dtype != DType::kUInt8) || codes.shape != shape) return std::nullopt;
  return part;
}

std::optional<NarrowPart> ProductAt(const Graph& graph, const Node& node) {
  const TensorType& type = node.outputs[0];
  if (node.op != ops::Mul() || type.dtype != DType::kFloat32) return std::nullopt;
  std::optional<NarrowPart> part = PartOf(graph, node.operands[0], node.operands[1], type.shape);
  if (!part) part = PartOf(graph, node.operands[1], node.operands[0], type.shape);
  if (part) part->view = Layout::RowMajor(type.shape);
  return part;
}

// A product, or a view of one.
std::optional<NarrowPart> ViewedPart(const Graph& graph, Value value) {
  std::vector<Value> views;
  std::optional<NarrowPart> part;
  while (true) {
    const Node& node = graph.node(value.node);
    if (node.op == nullptr) return std::nullopt;
    if ((part = ProductAt(graph, node))) break;
    if (!OnlyMoves(graph, node) || node.operands.size() != 1) return std::nullopt;
    views.push_back(value);
    value = node.operands[0];
  }
  for (; !views.empty(); views.pop_back()) {
    const std::optional<MovedView> moved = MovedViewOf(graph, views.back(), [&](size_t) { return part->view; });
    if (!moved || !moved->is_view) return std::nullopt;
    part->offset += moved->offset;
    part->view = moved->layout;
  }
  return part;
}

}  // namespace

std::vector<NarrowPart> NarrowPartsOf(const Graph& graph, Value matrix) {
  const TensorType& type = graph.type(matrix);
  if (!graph.IsKnown(matrix) || type.rank() != 2 || type.dtype != DType::kFloat32) return {};
  const Node& node = graph.node(matrix.node);
  if (node.op != ops::Concat()) {
    const std::optional<NarrowPart> part = ViewedPart(graph, matrix);
    return part ? std::vector{*part} : std::vector<NarrowPart>();
  }
  if (Int(node, "axis") != 1) return {};
  std::vector<NarrowPart> parts;
  for (Value operand : node.operands) {
    const std::vector<NarrowPart> more = NarrowPartsOf(graph, operand);
    if (more.empty()) return {};
    parts.insert(parts.end(), more.begin(), more.end());
  }
  return parts;
}

}  // namespace rewright::cpu
