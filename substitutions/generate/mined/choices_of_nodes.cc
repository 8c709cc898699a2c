#include "substitutions/generate/mined/choices_of_nodes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "substitutions/generate/enumerate/terms.h"
#include "substitutions/generate/presets/choices.h"

namespace rewright::generate {
namespace {

constexpr int64_t kLargestNumber = 8;

bool IsSupported(const Graph& graph, const Node& node) {
  if (node.operands.empty() || node.operands.size() > size_t{kMaxArity}) return false;
  if (node.outputs.size() > size_t{kMaxOutputs} || node.meaning->IsOpaque()) return false;
  const auto is_real = [](const TensorType& type) { return type.dtype == DType::kFloat32 && type.num_elements() > 0; };
  const std::vector<TensorType> operands = graph.types(node.operands);
  return std::all_of(operands.begin(), operands.end(), is_real) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), is_real);
}

// The axes of `from` whose product each axis of `to` is; nothing where an axis is divided.
std::optional<std::vector<std::vector<int>>> MergedAxes(const Shape& from, const Shape& to) {
  std::vector<std::vector<int>> merged;
  size_t next = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    std::vector<int>& axes = merged.emplace_back();
    int64_t product = 1;
    while (next < from.size() && (axes.empty() || product < to[axis] || axis + 1 == to.size())) {
      axes.push_back(static_cast<int>(next));
      product *= from[next++];
    }
    if (axes.empty() || product != to[axis]) return std::nullopt;
  }
  if (next != from.size() || merged.size() == from.size()) return std::nullopt;
  return merged;
}

// The only axis that the slice shortens, at its end.
std::optional<int64_t> FirstPartAxis(const Shape& shape, const Attrs& attrs) {
  const auto list = [&](const char* name) { return std::get<std::vector<int64_t>>(attrs.at(name)); };
  const std::vector<int64_t> starts = list("starts"), stops = list("stops"), steps = list("steps");
  if (std::any_of(starts.begin(), starts.end(), [](int64_t start) { return start != 0; })) return std::nullopt;
  if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; })) return std::nullopt;
  std::optional<int64_t> axis;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (stops[k] == shape[k]) continue;
    if (axis) return std::nullopt;
    axis = static_cast<int64_t>(k);
  }
  return axis;
}

// Describes how operand 1 is stretched to the shape of operand 0, if it is.
void DescribeBroadcast(const Graph& graph, const Node& node, NodeChoice* found) {
  OperatorChoice& choice = found->choice;
  if (!node.op->broadcasts || node.operands.size() != 2) return;
  Shape a = graph.type(node.operands[0]).shape, b = graph.type(node.operands[1]).shape;
  choice.commutative = a == b && node.op->commutative;
  if (a == b) {
    choice.same_shape = true;
    choice.ranks.clear();
    return;
  }
  found->swapped = node.op->commutative && node.outputs[0].shape == b;
  if (found->swapped) {
    std::swap(a, b);
    std::swap(choice.ranks[0], choice.ranks[1]);
  }
  choice.stretched = node.outputs[0].shape == a;
}

// False: there is no such choice.
bool DescribeMovement(const Graph& graph, const Node& node, OperatorChoice* choice) {
  const std::string& op = node.op->name;
  const Shape& shape = graph.type(node.operands[0]).shape;
  if (op == "conv2d") {
    choice->derived = Derived::kGroups;
    choice->attrs.erase("groups");
    choice->no_kernel_input = choice->kernel_second = true;
    const Shape& kernel = graph.type(node.operands[1]).shape;
    choice->kernel = {kernel[2], kernel[3]};
  } else if (op == "split") {
    choice->derived = Derived::kParts;
    choice->attrs.erase("sizes");
    choice->parts = static_cast<int>(node.outputs.size());
  } else if (op == "slice") {
    const std::optional<int64_t> axis = FirstPartAxis(shape, node.attrs);
    if (!axis) return false;
    choice->derived = Derived::kFirst;
    choice->attrs.clear();
    choice->axis = *axis;
  } else if (op == "reshape" || op == "expand") {
    const Shape& to = node.outputs[0].shape;
    choice->attrs.clear();
    const auto merged = op == "reshape" ? MergedAxes(shape, to) : std::nullopt;
    choice->derived = merged ? Derived::kMerge : Derived::kShape;
    if (merged) choice->merged = *merged;
    if (!merged) {
      for (int64_t size : to) choice->shape.push_back(Num(size));
    }
  }
  return true;
}

std::string NameOf(const OperatorChoice& choice) {
  std::vector<std::string> parts = {choice.op};
  for (const auto& [name, value] : choice.attrs) {
    parts.push_back(absl::StrCat(name, absl::StrReplaceAll(AttrString(value), {{"[", ""}, {"]", ""}, {",", "."}})));
  }
  if (!choice.kernel.empty()) parts.push_back(absl::StrJoin(choice.kernel, "x"));
  if (choice.derived == Derived::kParts) parts.push_back(absl::StrCat("in", choice.parts));
  if (choice.derived == Derived::kFirst) parts.push_back(absl::StrCat("first", choice.axis));
  if (choice.derived == Derived::kShape) parts.push_back(absl::StrCat("to", choice.shape.size()));
  for (const std::vector<int>& axes : choice.merged) parts.push_back(absl::StrCat("of", absl::StrJoin(axes, "")));
  if (choice.same_shape) parts.push_back(choice.distinct ? "same" : "itself");
  if (choice.stretched) parts.push_back("stretched");
  if (!choice.ranks.empty()) parts.push_back(absl::StrCat(absl::StrJoin(choice.ranks, "."), "d"));
  return absl::StrJoin(parts, "_");
}

}  // namespace

std::optional<NodeChoice> ChoiceOf(const Graph& graph, const Node& node) {
  if (!IsSupported(graph, node)) return std::nullopt;
  NodeChoice found;
  OperatorChoice& choice = found.choice;
  choice.op = node.op->name;
  choice.arity = static_cast<int>(node.operands.size());
  choice.distinct = choice.arity == 2 && node.operands[0] != node.operands[1];
  for (Value operand : node.operands) choice.ranks.push_back(graph.type(operand).rank());
  int reals = 0;
  for (const AttrSpec& spec : node.op->attrs) {
    const Attr& value = node.attrs.at(spec.name);
    if (spec.kind == AttrKind::kReal) ++reals;
    if (!spec.fallback || *spec.fallback != value) choice.attrs[spec.name] = value;
    // A rule about one number holds of any, but of zero.
    if (spec.kind == AttrKind::kReal && std::get<double>(value) != 0) choice.any_attr = spec.name;
  }
  if (reals > 1) choice.any_attr.clear();
  DescribeBroadcast(graph, node, &found);
  if (!DescribeMovement(graph, node, &choice)) return std::nullopt;
  choice.name = NameOf(choice);
  return found;
}

std::optional<int64_t> WholeNumber(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  if (node.leaf != LeafKind::kConstant || node.data.dtype() != DType::kFloat32 || node.data.num_elements() != 1) {
    return std::nullopt;
  }
  const double number = node.data.At(0);
  if (number != std::floor(number) || std::abs(number) > kLargestNumber) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace rewright::generate
