// Operators that move elements: views where the layout allows, copies elsewhere.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "backends/cpu/lowering.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
absl::Status Lowering::LowerView(const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = graph_.node(id);
  if (node.op == ops::Reshape()) return LowerReshape(id);
  for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) {
    RETURN_IF_ERROR(LowerCopy(id, output));
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerReshape(NodeId id) {
  const Value x = graph_.node(id).operands[0], out{id, 0};
  absl::StatusOr<Place> place = Find(x);
  if (!place.ok()) return place.status();
  Layout layout;
  if (!ReshapeLayout(place->layout, graph_.type(out).shape, &layout)) {
    place = FindRowMajor(x);
    if (!place.ok()) return place.status();
    layout = Layout::RowMajor(graph_.type(out).shape);
  }
  DefineAt(out, AddView(place->buffer, 0, Bytes(out, layout)), layout);
  return absl::OkStatus();
}

absl::Status Lowering::LowerCopy(NodeId id, int output) {
  const Node& node = graph_.node(id);
  const Value out{id, output};
  const std::optional<CopyAccess> access = CopyAccessOf(graph_, node, output);
  if (!access) return absl::InternalError("not a copy");
  const Value x = node.operands[access->input];
  const Shape& dims = graph_.type(out).shape;
  absl::StatusOr<Place> place = Find(x);
  if (!place.ok()) return place.status();
  const size_t element = DTypeSize(graph_.type(x).dtype);
  Layout layout;
  int64_t offset = 0;
  bool is_view = ViewOf(place->layout, *access, dims, &layout, &offset);
  if (!is_view && place->layout.blocked()) {
    place = FindRowMajor(x);
    if (!place.ok()) return place.status();
    is_view = ViewOf(place->layout, *access, dims, &layout, &offset);
  }
  if (is_view) {
    DefineAt(out, AddView(place->buffer, static_cast<size_t>(offset) * element, Bytes(out, layout)), layout);
    return absl::OkStatus();
  }
  // Backwards: copy.
  const Layout to = Layout::RowMajor(dims);
  const int result = Define(out, to).buffer;
  Emit(MakeCopyKernel(layout, offset, to, 0, element, context_->threads), {Read(place->buffer), Write(result)},
       node.op->name);
  return absl::OkStatus();
}

absl::Status Lowering::LowerConcat(NodeId id) {
  const Node& node = graph_.node(id);
  const Value out{id, 0};
  const Shape& dims = graph_.type(out).shape;
  const size_t axis = Int(node, "axis");
  const size_t element = DTypeSize(graph_.type(out).dtype);

  // Blocked when all operands are, with whole blocks.
  int64_t block = -1;
  for (Value x : node.operands) {
    absl::StatusOr<Place> place = Find(x);
    if (!place.ok()) return place.status();
    const Layout& layout = place->layout;
    // One point per image is row-major and blocked at once.
    if (block == -1) block = layout.block;
    if (layout.block != block || layout.IsPadded()) block = 0;
  }
  const Layout to = block > 0 ? Layout::Blocked(dims, block) : Layout::RowMajor(dims);
  int64_t outer = 1;
  for (size_t k = 0; k < axis; ++k) outer *= dims[k];

  const int result = Define(out, to).buffer;
  int64_t begin = 0;
  for (Value x : node.operands) {
    const Shape& x_dims = graph_.type(x).shape;
    const Layout own = block > 0 ? Layout::Blocked(x_dims, block) : Layout::RowMajor(x_dims);
    const int64_t offset = block > 0 && axis == 1 ? begin / block * to.strides[1] : begin * to.strides[axis];
    begin += x_dims[axis];
    absl::StatusOr<Place> place = Find(x);
    if (!place.ok()) return place.status();
    Buffer& buffer = schedule_.buffers[place->buffer];
    const bool movable = outer == 1 && place->layout == Simplified(own) && buffer.kind == Buffer::Kind::kActivation &&
                         buffer.alias_of < 0 && buffer.bytes == Bytes(x, own) && claimed_.count(place->buffer) == 0;
    if (movable) {
      claimed_.insert(place->buffer);
      buffer.alias_of = result;
      buffer.offset = static_cast<size_t>(offset) * element;
      buffer.part = true;
      continue;
    }
    Layout target{x_dims, to.strides, to.block};
    if (place->layout.IsPadded() || (place->layout.blocked() && to.blocked() && place->layout.block != to.block)) {
      place = FindAs(x, own);
      if (!place.ok()) return place.status();
    }
    Emit(MakeCopyKernel(place->layout, 0, target, offset, element, context_->threads),
         {Read(place->buffer), Write(result)}, "concat");
  }
  return absl::OkStatus();
}

bool OnlyAdds(const Node& pad) {
  const auto all_of = [&](const char* list, const auto& test) {
    const std::vector<int64_t>& entries = Ints(pad, list);
    return std::all_of(entries.begin(), entries.end(), test);
  };
  const auto adds = [](int64_t entry) { return entry >= 0; };
  return all_of("before", adds) && all_of("after", adds) &&
         all_of("interior", [](int64_t entry) { return entry == 0; });
}

absl::Status Lowering::LowerPad(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0], out{id, 0};
  const std::vector<int64_t>& before = Ints(node, "before");
  const std::vector<int64_t>& after = Ints(node, "after");
  absl::StatusOr<Place> place = Find(x);
  if (!place.ok()) return place.status();
  const bool blocked = place->layout.blocked() && !place->layout.IsPadded() && before[1] == 0 && after[1] == 0;
  if (place->layout.blocked() && !blocked) {
    place = FindRowMajor(x);
    if (!place.ok()) return place.status();
  }
  const Shape& dims = graph_.type(out).shape;
  const Layout to = blocked ? Layout::Blocked(dims, place->layout.block) : Layout::RowMajor(dims);
  const int result = Define(out, to).buffer;
  const DType dtype = graph_.type(out).dtype;
  Emit(MakeFillKernel(to.Span(), dtype, Real(node, "value"), context_->threads), {Write(result)}, "pad");
  int64_t offset = 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (!blocked || k != 1) offset += before[k] * to.strides[k];
  }
  const Layout inner{graph_.type(x).shape, to.strides, to.block};
  Emit(MakeCopyKernel(place->layout, 0, inner, offset, DTypeSize(dtype), context_->threads),
       {Read(place->buffer), Write(result)}, "pad");
  return absl::OkStatus();
}

// Channels and points exchanged: a copy between two views with the block's rows and columns as axes of their own.
absl::Status Lowering::LowerDepthSpace(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0], out{id, 0};
  absl::StatusOr<Place> place = FindRowMajor(x);
  if (!place.ok()) return place.status();
  const int64_t b = Int(node, "block");
  const Shape& dims = graph_.type(x).shape;
  const std::vector<int64_t>& s = place->layout.strides;
  Layout from;
  if (node.op == ops::SpaceToDepth()) {
    from.dims = {dims[0], b, b, dims[1], dims[2] / b, dims[3] / b};
    from.strides = {s[0], s[2], s[3], s[1], s[2] * b, s[3] * b};
  } else {
    const int64_t depth = dims[1] / (b * b);
    const bool channel_first = Int(node, "channel_first") != 0;
    const int64_t channel = (channel_first ? b * b : 1) * s[1], column = (channel_first ? 1 : depth) * s[1];
    from.dims = {dims[0], depth, dims[2], b, dims[3], b};
    from.strides = {s[0], channel, s[2], column * b, s[3], column};
  }
  const int result = Define(out, Layout::RowMajor(graph_.type(out).shape)).buffer;
  Emit(MakeCopyKernel(from, 0, Layout::RowMajor(from.dims), 0, DTypeSize(graph_.type(x).dtype), context_->threads),
       {Read(place->buffer), Write(result)}, node.op->name);
  return absl::OkStatus();
}

absl::Status Lowering::LowerGather(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0], indices = node.operands[1], out{id, 0};
  absl::StatusOr<Place> x_place = FindRowMajor(x);
  if (!x_place.ok()) return x_place.status();
  absl::StatusOr<Place> index_place = FindRowMajor(indices);
  if (!index_place.ok()) return index_place.status();
  const Shape& dims = graph_.type(x).shape;
  const size_t axis = Int(node, "axis");
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < axis; ++k) outer *= dims[k];
  for (size_t k = axis + 1; k < dims.size(); ++k) inner *= dims[k];
  const int result = Define(out, Layout::RowMajor(graph_.type(out).shape)).buffer;
  IndexRange range(graph_, id, {.indices = 1, .indexed = 0, .axis = static_cast<int>(axis), .wraps = true});
  Emit(MakeGatherKernel(std::move(range), outer, inner, graph_.type(indices).num_elements(),
                        DTypeSize(graph_.type(x).dtype), graph_.type(indices).dtype, context_->threads),
       {Read(x_place->buffer), Read(index_place->buffer), Write(result)}, node.op->name);
  return absl::OkStatus();
}

}  // namespace rewright::cpu
