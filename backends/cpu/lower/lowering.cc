#include "backends/cpu/lower/lowering.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/group_order.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/onednn/reorder.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
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

Lowering::Lowering(std::shared_ptr<const DnnlContext> context, const Graph& graph, LoweringOptions options)
    : context_(std::move(context)), graph_(graph), options_(std::move(options)) {}

absl::StatusOr<Schedule> Lowering::Run() {
  ASSIGN_OR_RETURN(const std::vector<FusedGroup> groups, OrderedGroups());
  RETURN_IF_ERROR(FoldConstants());
  for (const FusedGroup& group : groups) {
    schedule_.groups.push_back(group.group);
    for (Value input : group.group.inputs) ++readers_[input];
  }
  for (const Output& output : graph_.outputs()) ++readers_[output.value];
  for (const Output& output : graph_.results()) results_.insert(output.value);
  absl::flat_hash_set<Value> updated;
  for (const Output& output : graph_.outputs()) {
    if (output.updates.node < 0) continue;
    states_of_.emplace(output.value, output.updates);
    updated.insert(output.updates);
  }
  AddInputs(graph_, options_.input_layouts, [&](Value input, const Layout& layout) {
    const int buffer = AddBuffer(Buffer::Kind::kInput, Bytes(input, layout));
    schedule_.buffers[static_cast<size_t>(buffer)].replaced = updated.contains(input);
    DefineAt(input, buffer, layout);
    return buffer;
  });
  AddStates(graph_, [&](Value state, int buffer, const Layout& layout) { DefineAt(state, buffer, layout); });
  for (size_t i = 0; i < groups.size(); ++i) {
    group_ = static_cast<int>(i);
    current_ = &groups[i].group;
    RETURN_IF_ERROR(StopScope::Check());
    if (absl::Status status = PlanGroup(*this, groups[i]); !status.ok()) {
      return ErrorAt(GroupLabel(graph_, groups[i].group), status);
    }
    for (Value input : groups[i].group.inputs) {
      if (--readers_[input] == 0 && IsConstant(input)) ForgetConstant(input);
    }
  }
  group_ = -1;
  current_ = nullptr;
  RETURN_IF_ERROR(Finish());
  schedule_.sparing = options_.sparing;
  return std::move(schedule_);
}

// At inference the order of the graph is good for memory, and better for caches.
absl::StatusOr<std::vector<FusedGroup>> Lowering::OrderedGroups() const {
  std::vector<FusedGroup> groups = FuseGraph(graph_);
  if (context_->folds != nullptr && options_.law_of != nullptr) {
    absl::Status status;
    groups = context_->folds->Join(graph_, std::move(groups), [&](const FusedGroup& group) {
      const absl::StatusOr<std::string> law = options_.law_of(group);
      if (!law.ok()) status.Update(law.status());
      return law.ok() && *law == kFoldLaw;
    });
    RETURN_IF_ERROR(status);
  }
  if (graph_.mode() != Mode::kTraining || options_.keep_output_layouts) return groups;
  std::vector<OrderedGroup> parts;
  for (const FusedGroup& group : groups) {
    // The order is that of a graph from which nothing is fetched: what waits elsewhere would else be no reason to use
    // it soon.
    const bool is_fetch = graph_.node(group.group.nodes[0]).op == ops::Fetch();
    parts.push_back({&group.group, is_fetch || group.kind == FusedGroup::Kind::kView, group.is_last});
  }
  std::vector<FusedGroup> ordered;
  for (int position : OrderForMemory(graph_, parts)) ordered.push_back(std::move(groups[position]));
  return ordered;
}

// ---------------------------------------------------------------- buffers

size_t Lowering::Bytes(Value value, const Layout& layout) const {
  return static_cast<size_t>(layout.Span()) * DTypeSize(graph_.type(value).dtype);
}

// ---------------------------------------------------------------- places

absl::StatusOr<Place> Lowering::Find(Value value) {
  const auto found = places_.find(value);
  if (found != places_.end()) return found->second.front();
  if (!IsConstant(value)) {
    return absl::InternalError(absl::StrCat("value ", value.node, ".", value.output, " is read before it is computed"));
  }
  Tensor tensor;
  Layout layout;
  int64_t offset = 0;
  if (!folded_.contains(value) && ConstantView(value, &tensor, &layout, &offset)) {
    const auto held = std::make_shared<Tensor>(tensor);
    char* const data = held->as<char>() + offset * static_cast<int64_t>(DTypeSize(tensor.dtype()));
    const int constant = AddConstant(std::shared_ptr<void>(held, data), Bytes(value, layout));
    if (tensor.owns()) weights_.insert(constant);
    DefineAt(value, constant, layout);
  } else {
    ASSIGN_OR_RETURN(tensor, ConstantTensor(value));
    DefineAt(value, AddConstant(tensor), Layout::RowMajor(tensor.shape()));
  }
  return places_[value].front();
}

absl::StatusOr<Place> Lowering::FindAs(Value value, const Layout& layout) {
  ASSIGN_OR_RETURN(Place from, Find(value));
  const Layout wanted = Simplified(layout);
  for (const Place& place : places_[value]) {
    if (Simplified(place.layout) == wanted) return Place{place.buffer, layout};
  }
  const DType dtype = graph_.type(value).dtype;
  absl::StatusOr<KernelPtr> converter = Converter(from.layout, layout, dtype);
  if (!converter.ok() && !from.layout.IsRowMajor() && !layout.IsRowMajor()) {
    // Repeated elements (strides of 0) have no direct way into a block that is partly padding.
    ASSIGN_OR_RETURN(from, FindRowMajor(value));
    converter = Converter(from.layout, layout, dtype);
  }
  ASSIGN_OR_RETURN(KernelPtr kernel, std::move(converter));
  const size_t bytes = Bytes(value, layout);
  Place place{-1, layout};
  if (schedule_.buffers[from.buffer].kind == Buffer::Kind::kConstant) {
    const std::string what = absl::StrCat("the weight ", graph_.type(value).ToString(), " in another layout");
    RETURN_IF_ERROR(CheckMemory(static_cast<int64_t>(bytes), what));
    ASSIGN_OR_RETURN(std::shared_ptr<void> data, AllocateBytes(bytes));
    void* addresses[] = {schedule_.buffers[from.buffer].data.get(), data.get()};
    RETURN_IF_ERROR(RunKernel(*kernel, addresses));
    place.buffer = AddConstant(std::move(data), bytes);
  } else {
    place.buffer = AddResult(value, layout);
    Emit(std::move(kernel), {Read(from.buffer), Write(place.buffer)}, "reorder");
    // A conversion before a group is work of that group.
    values_in_memory_[Root(place.buffer)].push_back(value);
  }
  places_[value].push_back(place);
  return place;
}

absl::StatusOr<Place> Lowering::FindRowMajor(Value value) {
  return FindAs(value, Layout::RowMajor(graph_.type(value).shape));
}

absl::StatusOr<BufferUse> Lowering::ReadAs(Value value, const Layout& layout) {
  ASSIGN_OR_RETURN(const Place place, FindAs(value, layout));
  return Read(place.buffer);
}

absl::StatusOr<BufferUse> Lowering::ReadRowMajor(Value value) {
  return ReadAs(value, Layout::RowMajor(graph_.type(value).shape));
}

absl::StatusOr<Place> Lowering::FindPlain(Value value) {
  ASSIGN_OR_RETURN(const Place place, Find(value));
  return place.layout.blocked() ? FindRowMajor(value) : place;
}

Layout Lowering::LayoutOf(const FusedGroup& group, Value value) const {
  const auto of = [&](Value input) {
    return IsConstant(input) ? std::nullopt : std::optional(places_.at(input).front().layout);
  };
  const bool returned = graph_.is_output(value) && !options_.keep_output_layouts;
  return ResultLayout({*context_, graph_, group, value, returned, of});
}

Place Lowering::Define(Value value, const Layout& layout) {
  const int buffer = AddResult(value, layout);
  DefineAt(value, buffer, layout);
  return {buffer, layout};
}

bool Lowering::IsReturnedIn(Value value, const Layout& layout) const {
  return results_.contains(value) && layout.IsRowMajor() && !options_.keep_output_layouts;
}

int Lowering::AddResult(Value value, const Layout& layout) {
  const bool output = IsReturnedIn(value, Simplified(layout)) && output_taken_.insert(value).second;
  return AddBuffer(output ? Buffer::Kind::kOutput : Buffer::Kind::kActivation, Bytes(value, layout));
}

absl::Status Lowering::EmitRowMajor(NodeId id, std::unique_ptr<Kernel> kernel, const std::string& label) {
  const Node& node = graph_.node(id);
  std::vector<BufferUse> uses;
  for (Value operand : node.operands) {
    ASSIGN_OR_RETURN(uses.emplace_back(), ReadRowMajor(operand));
  }
  for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) {
    uses.push_back(WriteRowMajor({id, output}));
  }
  Emit(std::move(kernel), std::move(uses), label);
  return absl::OkStatus();
}

int Lowering::EmitToScratch(std::unique_ptr<Kernel> kernel, int from, size_t bytes, const std::string& label) {
  const int to = AddScratch(bytes);
  Emit(std::move(kernel), {Read(from), Write(to)}, label);
  return to;
}

void Lowering::EmitCopy(const Place& from, const Place& to, DType dtype, const std::string& label, int64_t from_offset,
                        int64_t to_offset) {
  Emit(MakeCopyKernel(from.layout, from_offset, to.layout, to_offset, DTypeSize(dtype), threads()),
       {Read(from.buffer), Write(to.buffer)}, label);
}

void Lowering::DefineAt(Value value, int buffer, const Layout& layout) {
  places_[value].push_back({buffer, Simplified(layout)});
  values_in_memory_[Root(buffer)].push_back(value);
}

bool Lowering::IsAlone(Value value) const {
  const auto found = values_in_memory_.find(Root(places_.at(value).front().buffer));
  if (found == values_in_memory_.end()) return true;
  return std::none_of(found->second.begin(), found->second.end(), [&](Value other) {
    const auto left = readers_.find(other);
    return other != value && left != readers_.end() && left->second > 0;
  });
}

bool Lowering::IsExpendable(Value value) const {
  if (IsConstant(value) || graph_.is_output(value) || readers_.at(value) != 1) return false;
  return schedule_.buffers[Root(places_.at(value).front().buffer)].kind == Buffer::Kind::kActivation && IsAlone(value);
}

std::optional<Value> Lowering::NextValueOf(Value value, const Layout& layout) const {
  const auto found = states_of_.find(value);
  if (found == states_of_.end() || results_.contains(value) || !layout.IsRowMajor()) return std::nullopt;
  const Value state = found->second;
  const bool reads = std::find(current_->inputs.begin(), current_->inputs.end(), state) != current_->inputs.end();
  const auto left = readers_.find(state);
  if (left != readers_.end() && left->second > (reads ? 1 : 0)) return std::nullopt;
  return IsAlone(state) ? std::optional(state) : std::nullopt;
}

bool Lowering::CanOverwrite(Value operand, const Place& place, Value result, const Layout& layout) const {
  if (IsReturnedIn(result, layout)) return false;
  if (place.layout != layout || DTypeSize(graph_.type(operand).dtype) != DTypeSize(graph_.type(result).dtype)) {
    return false;
  }
  // Converted for this group alone, or its own memory.
  const std::vector<Place>& places = places_.at(operand);
  if (places.front().buffer != place.buffer || !IsExpendable(operand)) return false;
  for (Value other : current_->inputs) {
    if (other == operand || IsConstant(other)) continue;
    for (const Place& at : places_.at(other)) {
      if (Root(at.buffer) == Root(place.buffer)) return false;
    }
  }
  return true;
}

bool Lowering::ClaimPart(int buffer, size_t bytes, int whole, size_t offset) {
  Buffer& part = schedule_.buffers[buffer];
  if (part.kind != Buffer::Kind::kActivation || part.alias_of >= 0 || part.bytes != bytes ||
      !concat_parts_.insert(buffer).second) {
    return false;
  }
  std::vector<Value>& within = values_in_memory_[Root(whole)];
  std::vector<Value>& moved = values_in_memory_[buffer];
  within.insert(within.end(), moved.begin(), moved.end());
  values_in_memory_.erase(buffer);
  part.alias_of = whole;
  part.offset = offset;
  part.part = true;
  return true;
}

absl::Status Lowering::EmitConversion(const Place& from, const Place& to, DType dtype) {
  ASSIGN_OR_RETURN(KernelPtr kernel, Converter(from.layout, to.layout, dtype));
  Emit(std::move(kernel), {Read(from.buffer), Write(to.buffer)}, "reorder");
  return absl::OkStatus();
}

absl::StatusOr<KernelPtr> Lowering::Converter(const Layout& from, const Layout& to, DType dtype) {
  const bool own = !from.IsPadded() && !to.IsPadded() && (from.block == 0 || to.block == 0 || from.block == to.block);
  const auto channels_last = [](const Layout& layout) {
    return layout.rank() == 4 && !layout.blocked() && layout.strides[1] == 1;
  };
  const bool in_runs = own && (channels_last(from) || channels_last(to));
  if (dtype == DType::kFloat32 && (from.blocked() || to.blocked()) && !in_runs) {
    const std::optional<dnnl::memory::desc> source = DescOf(from), target = DescOf(to);
    if (source && target) {
      absl::StatusOr<KernelPtr> kernel = MakeReorder(context_, *source, *target);
      if (kernel.ok() || !own) return kernel;
    }
  }
  if (!own) {
    return absl::InternalError(absl::StrCat("no conversion from ", from.ToString(), " to ", to.ToString()));
  }
  return MakeCopyKernel(from, 0, to, 0, DTypeSize(dtype), context_->threads);
}

absl::StatusOr<Place> Lowering::FindBeside(Value value, Buffer::Kind kind) {
  ASSIGN_OR_RETURN(Place place, FindRowMajor(value));
  const Buffer::Kind root = schedule_.buffers[Root(place.buffer)].kind;
  if (root != Buffer::Kind::kState && root != Buffer::Kind::kInput) return place;
  const Place copy{AddBuffer(kind, Bytes(value, place.layout)), place.layout};
  EmitCopy(place, copy, graph_.type(value).dtype, "state");
  return copy;
}

absl::Status Lowering::CommitStates() {
  // First whatever reads a state, then what writes one: states may take each other's values.
  std::vector<std::pair<Value, Place>> next;
  for (const Output& output : graph_.outputs()) {
    if (output.updates.node < 0) continue;
    ASSIGN_OR_RETURN(Place place, FindRowMajor(output.value));
    if (place.buffer == StateBuffer(output.updates)) continue;  // it was written there, or is the state's own
    ASSIGN_OR_RETURN(place, FindBeside(output.value, Buffer::Kind::kActivation));
    next.push_back({output.updates, place});
  }
  for (const auto& [state, place] : next) {
    Emit(MakeCopyKernel(place.layout, 0, place.layout, 0, DTypeSize(graph_.type(state).dtype), threads()),
         {Read(place.buffer), Update(StateBuffer(state))}, "update");
  }
  return absl::OkStatus();
}

absl::Status Lowering::Finish() {
  for (const Output& output : graph_.results()) {
    ASSIGN_OR_RETURN(const Place place, options_.keep_output_layouts ? Find(output.value)
                                        : graph_.mode() == Mode::kTraining || !states_of_.empty()
                                            ? FindBeside(output.value, Buffer::Kind::kOutput)
                                            : FindRowMajor(output.value));
    schedule_.outputs.push_back(place.buffer);
  }
  RETURN_IF_ERROR(CommitStates());
  DropUnusedConstants();
  return absl::OkStatus();
}

// ---------------------------------------------------------------- values that are known before the run

bool Lowering::ConstantView(Value value, Tensor* base, Layout* layout, int64_t* offset) const {
  std::vector<std::pair<Value, std::optional<CopyAccess>>> views;  // down to a leaf; a reshape has no access
  while (graph_.node(value.node).op != nullptr) {
    const Node& node = graph_.node(value.node);
    if (graph_.type(value).num_elements() == 0) return false;
    std::optional<CopyAccess> access;
    if (node.op != ops::Reshape() && !(access = CopyAccessOf(graph_, node, value.output))) return false;
    const size_t input = access ? access->input : 0;
    views.emplace_back(value, std::move(access));
    value = node.operands[input];
  }
  *base = *graph_.arena()->Elements(value.node);
  *layout = Layout::RowMajor(base->shape());
  *offset = 0;
  for (; !views.empty(); views.pop_back()) {
    const auto& [view, access] = views.back();
    const Layout from = *layout;
    const Shape& dims = graph_.type(view).shape;
    int64_t further = 0;
    if (!(access ? ViewOf(from, *access, dims, layout, &further) : ReshapeLayout(from, dims, layout))) return false;
    *offset += further;
  }
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
  if (!ConstantView(value, &base, &layout, &offset)) {  // within a group: what the run reads is computed of it
    RETURN_IF_ERROR(Compute({value}));
    return folded_.at(value);
  }
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
