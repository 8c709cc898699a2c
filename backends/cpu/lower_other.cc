// Pooling, reductions, normalization over rows, and everything that has no kernel of its own.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "backends/cpu/lowering.h"
#include "backends/cpu/simd/simd.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
absl::Status Lowering::LowerPool(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0];
  PoolProblem problem;
  problem.max = node.op == ops::MaxPool2d();
  problem.dst = node.outputs[0].shape;
  problem.kernel = Ints(node, "kernel");
  problem.strides = Ints(node, "strides");
  problem.pads = Ints(node, "pads");
  problem.dilations = problem.max ? Ints(node, "dilations") : std::vector<int64_t>{1, 1};
  problem.count_padding = !problem.max && Int(node, "count_include_pad") != 0;
  const Shape& dims = graph_.type(x).shape;
  for (size_t k = 0; k < 2; ++k) {
    const int64_t extent = (problem.kernel[k] - 1) * problem.dilations[k] + 1;
    const int64_t reach = (problem.dst[2 + k] - 1) * problem.strides[k] + extent;
    const int64_t padded = dims[2 + k] + problem.pads[k] + problem.pads[2 + k];
    // The kernel divides by the whole window where padding counts.
    if (problem.count_padding && reach > padded) return LowerGeneric(id);
  }
  absl::StatusOr<Place> place = Find(x);
  if (!place.ok()) return place.status();
  if (!CanPool(problem, place->layout)) {
    const Layout blocked = Layout::Blocked(dims, context_->block);
    if (!CanPool(problem, blocked)) return LowerGeneric(id);
    place = FindAs(x, blocked);
    if (!place.ok()) return place.status();
  }
  const int result = Define(Value{id, 0}, Layout::Blocked(problem.dst, place->layout.block)).buffer;
  Emit(MakePoolKernel(problem, place->layout, context_->threads), {Read(place->buffer), Write(result)},
       absl::StrCat(node.op->name, " (", Simd().name, ")"));
  return absl::OkStatus();
}

absl::Status Lowering::LowerLrn(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0];
  const int64_t size = Int(node, "size");
  // oneDNN's window is symmetric.
  if (size % 2 == 0) return LowerGeneric(id);
  absl::StatusOr<Place> place = Find(x);
  if (place.ok() && !place->layout.blocked()) place = FindRowMajor(x);
  if (!place.ok()) return place.status();
  absl::StatusOr<LrnPlan> plan =
      MakeLrn(context_, place->layout, size, Real(node, "alpha"), Real(node, "beta"), Real(node, "bias"));
  if (!plan.ok()) return LowerGeneric(id);
  const int result = Define(Value{id, 0}, plan->dst).buffer;
  std::vector<BufferUse> buffers = {Read(place->buffer), Write(result)};
  if (plan->scratch_bytes > 0) buffers.push_back(Scratch(AddScratch(plan->scratch_bytes)));
  Emit(std::move(plan->kernel), std::move(buffers), node.op->name);
  return absl::OkStatus();
}

absl::Status Lowering::LowerReduce(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0], out{id, 0};
  absl::StatusOr<Place> place = Find(x);
  if (place.ok() && place->layout.IsPadded()) place = FindRowMajor(x);
  if (!place.ok()) return place.status();
  const Shape& dims = graph_.type(x).shape;
  std::vector<bool> reduced(dims.size(), false);
  for (int64_t axis : Ints(node, "axes")) reduced[axis] = true;
  Shape kept = dims;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (reduced[k]) kept[k] = 1;
  }
  const Layout row_major = Layout::RowMajor(graph_.type(out).shape);
  const int result = Define(out, row_major).buffer;
  const OpDef* const op = node.op;
  const Reduction reduction = op == ops::ReduceSum()    ? Reduction::kSum
                              : op == ops::ReduceMean() ? Reduction::kMean
                              : op == ops::ReduceMax()  ? Reduction::kMax
                                                        : Reduction::kMin;
  Emit(MakeReduceKernel(reduction, place->layout, reduced, Layout::RowMajor(kept), context_->threads),
       {Read(place->buffer), Write(result)}, op->name);
  return absl::OkStatus();
}

absl::Status Lowering::LowerSoftmax(NodeId id) {
  const Node& node = graph_.node(id);
  const Value x = node.operands[0], out{id, 0};
  const Shape& dims = graph_.type(x).shape;
  const size_t axis = Int(node, "axis");
  // The axis must be innermost: the result keeps the layout in which it is.
  Layout layout = Layout::RowMajor(dims);
  int64_t inner = 1;
  for (size_t k = axis + 1; k < dims.size(); ++k) inner *= dims[k];
  if (inner != 1) {
    for (size_t k = axis + 1; k < dims.size(); ++k) layout.strides[k] *= dims[axis];
    layout.strides[axis] = 1;
  }
  absl::StatusOr<Place> place = FindAs(x, layout);
  if (!place.ok()) return place.status();
  int result = -1;
  if (CanOverwrite(x, *place, out, layout)) {
    result = place->buffer;
    DefineAt(out, result, layout);
  } else {
    result = Define(out, layout).buffer;
  }
  const RowOp op = node.op == ops::Softmax() ? RowOp::kSoftmax : RowOp::kLogSoftmax;
  Emit(MakeSoftmaxKernel(op, NumElements(dims) / dims[axis], dims[axis], context_->threads),
       {Read(place->buffer), Write(result)}, node.op->name);
  return absl::OkStatus();
}

absl::Status Lowering::LowerLayerNorm(NodeId id) {
  const Node& node = graph_.node(id);
  const Value out{id, 0};
  std::vector<BufferUse> buffers;
  for (Value operand : node.operands) {
    absl::StatusOr<Place> place = FindRowMajor(operand);
    if (!place.ok()) return place.status();
    buffers.push_back(Read(place->buffer));
  }
  const int64_t size = graph_.type(node.operands[1]).num_elements();
  const int result = Define(out, Layout::RowMajor(graph_.type(out).shape)).buffer;
  buffers.push_back(Write(result));
  Emit(MakeLayerNormKernel(graph_.type(out).num_elements() / size, size, Real(node, "epsilon"), context_->threads),
       std::move(buffers), node.op->name);
  return absl::OkStatus();
}

absl::Status Lowering::LowerGeneric(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<BufferUse> buffers;
  for (Value operand : node.operands) {
    absl::StatusOr<Place> place = FindRowMajor(operand);
    if (!place.ok()) return place.status();
    buffers.push_back(Read(place->buffer));
  }
  for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) {
    const Value out{id, output};
    buffers.push_back(Write(Define(out, Layout::RowMajor(graph_.type(out).shape)).buffer));
  }
  absl::StatusOr<KernelPtr> kernel = MakeGenericKernel(graph_, id, context_->threads);
  if (!kernel.ok()) return kernel.status();
  Emit(*std::move(kernel), std::move(buffers), node.op->name);
  return absl::OkStatus();
}

}  // namespace rewright::cpu
