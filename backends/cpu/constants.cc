// Values that are known before the run.
#include "absl/strings/str_cat.h"
#include "backends/cpu/lowering.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/memory.h"
#include "core/ops/ops.h"
#include "runtime/instance.h"

namespace rewright::cpu {

bool Lowering::ConstantView(Value value, Tensor* base, Layout* layout, int64_t* offset) const {
  const Node& node = graph_.node(value.node);
  if (node.op == nullptr) {
    *base = *graph_.arena()->Elements(value.node);
    *layout = Layout::RowMajor(base->shape());
    *offset = 0;
    return true;
  }
  const Shape& dims = graph_.type(value).shape;
  if (NumElements(dims) == 0) return false;
  if (node.op == ops::Reshape()) {
    Layout from;
    return ConstantView(node.operands[0], base, &from, offset) && ReshapeLayout(from, dims, layout);
  }
  const std::optional<CopyAccess> access = CopyAccessOf(graph_, node, value.output);
  if (!access) return false;
  Layout from;
  int64_t before = 0, further = 0;
  if (!ConstantView(node.operands[access->input], base, &from, &before) ||
      !ViewOf(from, *access, dims, layout, &further)) {
    return false;
  }
  *offset = before + further;
  return true;
}

absl::StatusOr<Tensor> Lowering::ConstantTensor(Value value) {
  const Node& node = graph_.node(value.node);
  if (node.op == nullptr) return *graph_.arena()->Elements(value.node);
  if (const auto found = folded_.find(value); found != folded_.end()) return found->second;
  Tensor base;
  Layout layout;
  int64_t offset = 0;
  CHECK(ConstantView(value, &base, &layout, &offset)) << "a constant that was not computed";
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(graph_.type(value), "a view of the weight"));
  void* addresses[] = {base.data(), tensor.data()};
  RETURN_IF_ERROR(RunKernel(
      *MakeCopyKernel(layout, offset, Layout::RowMajor(layout.dims), 0, DTypeSize(base.dtype()), context_->threads),
      addresses));
  return folded_[value] = std::move(tensor);
}

absl::Status Lowering::FoldConstants() {
  std::vector<Value> wanted;
  for (Value value : FoldedValues(graph_)) {
    Tensor base;
    Layout layout;
    int64_t offset = 0;
    if (!ConstantView(value, &base, &layout, &offset)) wanted.push_back(value);
  }
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ComputeKnown(graph_.arena(), wanted, threads()));
  for (size_t i = 0; i < wanted.size(); ++i) folded_[wanted[i]] = std::move(tensors[i]);
  return absl::OkStatus();
}

}  // namespace rewright::cpu
