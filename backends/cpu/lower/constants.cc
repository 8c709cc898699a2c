// Values that are known before the run.
#include "absl/strings/str_cat.h"
#include "backends/cpu/lower/lowering.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

// Weights of at least this many bytes are computed one after the other, when they are packed, and not held all at once.
constexpr int64_t kLargePart = int64_t{1} << 20;

}  // namespace

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
  if (const auto part = part_of_.find(value); part != part_of_.end()) {
    RETURN_IF_ERROR(Compute(parts_[part->second]));
    return folded_.at(value);
  }
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
  std::vector<Value> small;
  for (std::vector<Value>& part : IndependentParts(*graph_.arena(), wanted)) {
    int64_t bytes = 0;
    for (Value value : part) bytes += graph_.type(value).num_bytes();
    if (bytes < kLargePart) {
      small.insert(small.end(), part.begin(), part.end());
      continue;
    }
    for (Value value : part) part_of_[value] = parts_.size();
    parts_.push_back(std::move(part));
  }
  return Compute(small);
}

absl::Status Lowering::Compute(const std::vector<Value>& values) {
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ComputeKnown(graph_.arena(), values, threads()));
  for (size_t i = 0; i < values.size(); ++i) folded_[values[i]] = std::move(tensors[i]);
  return absl::OkStatus();
}

void Lowering::ForgetConstant(Value value) {
  folded_.erase(value);
  Tensor base;
  Layout layout;
  int64_t offset = 0;
  if (ConstantView(value, &base, &layout, &offset)) ReleasePages(base.data(), base.num_bytes());
  const auto placed = places_.find(value);
  if (placed == places_.end()) return;
  for (const Place& place : placed->second) DropIfUnused(place.buffer);
  places_.erase(placed);  // who reads it nevertheless finds it anew
}

}  // namespace rewright::cpu
