// Channels and points exchanged: a copy between two views with the block's rows and columns as axes of their own.
#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0], out{id, 0};
  ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(x));
  const int64_t b = Int(node, "block");
  const Shape& dims = graph.type(x).shape;
  const std::vector<int64_t>& s = place.layout.strides;
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
  const int result = lowering.Define(out, Layout::RowMajor(graph.type(out).shape)).buffer;
  const size_t element = DTypeSize(graph.type(x).dtype);
  lowering.Emit(MakeCopyKernel(from, 0, Layout::RowMajor(from.dims), 0, element, lowering.threads()),
                {Lowering::Read(place.buffer), Lowering::Write(result)}, node.op->name);
  return true;
}

}  // namespace

KernelEntry DepthSpaceEntry() { return {.ops = {ops::DepthToSpace(), ops::SpaceToDepth()}, .plan = Plan}; }

}  // namespace rewright::cpu
