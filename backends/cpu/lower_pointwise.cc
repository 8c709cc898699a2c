// Pointwise groups.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/cpu/lowering.h"
#include "backends/group.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kLargeOperand = 4096;  // elements from which a badly strided operand is laid out anew

// The operand's axes are the result's.
bool IsAligned(const PointwiseOperand& operand, const Shape& dims, const Shape& out) {
  if (dims.size() != out.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1 && operand.axes[d] != static_cast<int>(d)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Lowering::Place> Lowering::ComputeConstant(const PointwiseProgram& program) {
  std::vector<Layout> layouts;
  std::vector<void*> addresses;
  for (const PointwiseOperand& operand : program.operands) {
    absl::StatusOr<Place> place = FindRowMajor(operand.value);
    if (!place.ok()) return place.status();
    layouts.push_back(place->layout);
    addresses.push_back(schedule_.buffers[place->buffer].data.get());
  }
  const Layout layout = layouts[0];
  absl::StatusOr<KernelPtr> kernel = MakePointwiseKernel(program, layouts, layout, context_->threads);
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<Tensor> allocated = AllocateTensor({program.dtype, layout.dims}, "a weight computed beforehand");
  if (!allocated.ok()) return allocated.status();
  auto tensor = std::make_shared<Tensor>(*std::move(allocated));
  addresses.push_back(tensor->data());
  RETURN_IF_ERROR(RunKernel(**kernel, addresses.data()));
  const size_t bytes = tensor->num_bytes();
  return Place{AddConstant(std::shared_ptr<void>(tensor, tensor->data()), bytes), layout};
}

absl::Status Lowering::LowerPointwise(const FusedGroup& group) {
  absl::Status status;
  Tensor single;
  absl::StatusOr<PointwiseProgram> program = BuildProgram(graph_, group.group.nodes, [&](Value value) -> const Tensor* {
    if (!IsConstant(value) || graph_.type(value).num_elements() != 1) return nullptr;
    absl::StatusOr<Tensor> constant = ConstantTensor(value);
    status.Update(constant.status());
    if (!constant.ok()) return nullptr;
    single = *std::move(constant);
    return &single;
  });
  RETURN_IF_ERROR(status);
  if (!program.ok()) return program.status();
  const Value out = group.group.outputs[0];
  const Shape& dims = graph_.type(out).shape;
  std::map<int, Place> computed;  // operands that were computed ahead
  for (const HoistedProgram& hoisted : HoistConstants([&](Value v) { return IsConstant(v); }, &*program)) {
    absl::StatusOr<Place> place = ComputeConstant(hoisted.program);
    if (!place.ok()) return place.status();
    computed[hoisted.operand] = *place;
  }

  // The result is laid out like most of its full-sized operands; row-major in doubt.
  std::vector<Place> places;
  std::vector<std::pair<Layout, int>> votes = {{Layout::RowMajor(dims), 0}};
  for (size_t i = 0; i < program->operands.size(); ++i) {
    if (computed.count(static_cast<int>(i)) > 0) {
      places.push_back(computed[static_cast<int>(i)]);
      continue;
    }
    const PointwiseOperand& operand = program->operands[i];
    absl::StatusOr<Place> place = Find(operand.value);
    if (place.ok() && place->layout.IsPadded()) place = FindRowMajor(operand.value);
    if (!place.ok()) return place.status();
    places.push_back(*place);
    const bool full = place->layout.dims == dims && IsAligned(operand, dims, dims);
    if (!full || IsConstant(operand.value) || !place->layout.IsDense()) continue;
    auto vote = std::find_if(votes.begin(), votes.end(), [&](const auto& v) { return v.first == place->layout; });
    if (vote == votes.end()) vote = votes.insert(votes.end(), {place->layout, 0});
    ++vote->second;
  }
  Layout layout = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                    return a.second < b.second;
                  })->first;
  if (graph_.is_output(out) && !layout.blocked() && !options_.keep_output_layouts) layout = Layout::RowMajor(dims);

  std::vector<Layout> layouts;
  std::vector<BufferUse> buffers;
  for (size_t i = 0; i < places.size(); ++i) {
    const PointwiseOperand& operand = program->operands[i];
    const Shape& operand_dims = places[i].layout.dims;
    const bool aligned = IsAligned(operand, operand_dims, dims);
    absl::StatusOr<Place> place = places[i];
    if (place->layout.blocked() && (!aligned || place->layout.block != layout.block)) {
      place = FindRowMajor(operand.value);
    }
    if (!place.ok()) return place.status();
    const bool full = aligned && operand_dims == dims && computed.count(static_cast<int>(i)) == 0;
    if (full && place->layout != layout && NumElements(dims) >= kLargeOperand) place = FindAs(operand.value, layout);
    if (!place.ok()) return place.status();
    layouts.push_back(place->layout);
    buffers.push_back(Read(place->buffer));
    places[i] = *place;
  }

  int result = -1;
  for (size_t i = 0; i < places.size() && result < 0; ++i) {
    const PointwiseOperand& operand = program->operands[i];
    const auto reads = std::count_if(program->operands.begin(), program->operands.end(),
                                     [&](const PointwiseOperand& other) { return other.value == operand.value; });
    if (reads == 1 && computed.count(static_cast<int>(i)) == 0 && layouts[i].dims == dims &&
        IsAligned(operand, dims, dims) && !IsConstant(operand.value) &&
        CanOverwrite(operand.value, places[i], out, layout)) {
      result = places[i].buffer;
    }
  }
  if (result >= 0) {
    DefineAt(out, result, layout);
  } else {
    result = Define(out, layout).buffer;
  }
  absl::StatusOr<KernelPtr> kernel = MakePointwiseKernel(*program, layouts, layout, context_->threads);
  if (!kernel.ok()) return kernel.status();
  buffers.push_back(Write(result));
  Emit(*std::move(kernel), std::move(buffers), GroupLabel(graph_, group.group));
  return absl::OkStatus();
}

}  // namespace rewright::cpu
