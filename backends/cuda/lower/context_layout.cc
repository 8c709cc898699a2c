#include "backends/cuda/lower/context_layout.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cuda/lower/lowering.h"
#include "core/ops/ops.h"

namespace rewright::cuda {
namespace {

constexpr int kMaxEpilogue = 3;  // nodes behind a product

// Returns whether a library call gives the value, for node `reader` alone.
bool IsCallResult(const Graph& graph, Value value, NodeId reader) {
  int user = graph.index(reader);
  for (int depth = 0; depth <= kMaxEpilogue; ++depth) {
    const Node& node = graph.node(value.node);
    if (!graph.IsRun(node) || node.outputs.size() != 1 || graph.is_output(value)) return false;
    if (node.outputs[0].dtype != DType::kFloat32 || node.outputs[0].num_elements() == 0) return false;
    const int at = graph.index(value.node);
    const std::vector<int>& users = graph.users(at);
    if (users.size() != 1 || users[0] != user) return false;
    if (node.op == ops::Conv2d() || node.op == ops::Matmul()) return true;
    if (node.op == ops::Relu()) {
      value = node.operands[0];
    } else if (node.op == ops::Add()) {
      // The other summand must be a bias; any other value would have to lie like the result.
      const bool first = graph.IsKnown(node.operands[1]);
      if (!first && !graph.IsKnown(node.operands[0])) return false;
      value = node.operands[first ? 0 : 1];
    } else {
      return false;
    }
    user = at;
  }
  return false;
}

}  // namespace

Layout ConcatLayout(const Shape& dims, bool channels_last) {
  return channels_last && dims.size() == 4 ? Layout::ChannelsLast(dims) : Layout::RowMajor(dims);
}

std::vector<std::optional<ConcatSlot>> ConcatSlots(const Graph& graph, NodeId id, bool channels_last,
                                                   int element_bytes) {
  const Node& node = graph.node(id);
  if (node.op == nullptr || node.op != ops::Concat() || graph.IsKnown(node)) return {};
  constexpr int64_t kAlignment = 16;
  const Layout whole = ConcatLayout(node.outputs[0].shape, channels_last);
  const size_t axis = Int(node, "axis");
  // Where channels are innermost, every pixel begins at a multiple of the channels.
  const bool aligned_rows = whole.IsRowMajor() || whole.dims[1] * element_bytes % kAlignment == 0;
  std::vector<std::optional<ConcatSlot>> slots;
  int64_t begin = 0;
  for (Value operand : node.operands) {
    const Shape& dims = graph.type(operand).shape;
    const int64_t offset = begin * whole.strides[axis];
    begin += dims[axis];
    slots.emplace_back();
    if (!aligned_rows || offset * element_bytes % kAlignment != 0) continue;
    if (std::count(node.operands.begin(), node.operands.end(), operand) != 1) continue;
    if (IsCallResult(graph, operand, id)) slots.back() = ConcatSlot{Layout{dims, whole.strides, 0}, offset};
  }
  return slots;
}

Layout ResultLayout(const Graph& graph, Value value, bool channels_last, const std::function<Layout(Value)>& of) {
  const Node& node = graph.node(value.node);
  const Shape& shape = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(shape);
  if (NumElements(shape) == 0) return row_major;
  const auto of_operand = [&](size_t operand) { return of(node.operands[operand]); };
  if (const std::optional<MovedView> moved = MovedViewOf(graph, value, of_operand)) {
    return moved->is_view ? moved->layout : row_major;
  }
  if (node.op == ops::Conv2d()) return channels_last ? Layout::ChannelsLast(shape) : row_major;
  if (node.op == ops::Matmul()) return ProductLayout(graph, value);
  if (node.op == ops::Concat()) return ConcatLayout(shape, channels_last);
  for (Value operand : node.operands) {
    if (graph.IsKnown(operand)) continue;
    // The first operand of the same rank passes the order of its axes on.
    const Layout layout = of(operand);
    if (layout.dims.size() == shape.size()) return DenseLike(layout, shape);
  }
  return row_major;
}

Layout CudaLayouts::Of(const Graph& graph, Value value) {
  Prepare(graph, value);
  return Known(graph, value);
}

uint64_t CudaLayouts::HashOf(const Graph& graph, const Group& group) {
  uint64_t hash = 0;
  for (Value input : group.inputs) {
    Prepare(graph, input);
    const Layout* layout = known_.at(input).get();
    hash = hash * 0x9e3779b97f4a7c15 + (layout == nullptr ? 0 : absl::HashOf(layout->block, layout->strides));
  }
  return hash;
}

std::string CudaLayouts::SignatureOf(const Graph& graph, const Group& group) {
  return GroupSignature(graph, group, [&](Value value) { return Of(graph, value).ToString(); });
}

Layout CudaLayouts::Known(const Graph& graph, Value value) const {
  const auto found = known_.find(value);
  const Layout* layout = found != known_.end() ? found->second.get() : nullptr;
  return layout != nullptr ? *layout : Layout::RowMajor(graph.type(value).shape);
}

void CudaLayouts::Prepare(const Graph& graph, Value value) {
  if (arena_.lock() != graph.arena()) {
    arena_ = graph.arena();
    known_.clear();
  }
  // Producers first, without recursion: chains may be long.
  std::vector<Value> stack = {value};
  while (!stack.empty()) {
    const Value top = stack.back();
    if (known_.contains(top)) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    const Node& node = graph.node(top.node);
    const bool computed = graph.IsRun(node);
    if (computed) {
      for (Value operand : node.operands) {
        if (known_.contains(operand)) continue;
        stack.push_back(operand);
        ready = false;
      }
    }
    if (!ready) continue;
    stack.pop_back();
    std::unique_ptr<const Layout>& known = known_[top];
    if (!computed) continue;
    const auto of = [&](Value operand) { return Known(graph, operand); };
    Layout layout = ResultLayout(graph, top, channels_last_, of);
    if (!layout.IsRowMajor()) known = std::make_unique<const Layout>(std::move(layout));
  }
}

}  // namespace rewright::cuda
