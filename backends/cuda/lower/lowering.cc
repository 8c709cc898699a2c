#include "backends/cuda/lower/lowering.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cuda/codegen/kernel_prelude.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/memory/queues.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "runtime/instance.h"

namespace rewright::cuda {
namespace {

class GeneratedStep : public Kernel {
 public:
  GeneratedStep(int64_t blocks, int threads, int arguments)
      : blocks_(blocks), threads_(threads), arguments_(arguments) {}
  void set_function(std::shared_ptr<const Function> function) { function_ = std::move(function); }
  absl::Status Run(void* const* buffers, RunContext&) const override {
    return StatusOf(function_->Launch(blocks_, threads_, buffers, arguments_));
  }

 private:
  const int64_t blocks_;
  const int threads_;
  const int arguments_;
  std::shared_ptr<const Function> function_;
};

}  // namespace

Layout DenseLike(const Layout& like, const Shape& dims) {
  const std::vector<size_t> order = AxesByStride(like);
  Layout layout = Layout::RowMajor(dims);
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    layout.strides[order[k]] = stride;
    stride *= std::max<int64_t>(dims[order[k]], 1);
  }
  return layout;
}

Lowering::Lowering(Gpu& gpu, const Graph& graph, LoweringOptions options)
    : gpu_(gpu), memory_(gpu), graph_(graph), options_(std::move(options)) {}

absl::StatusOr<Schedule> Lowering::Run() {
  const std::vector<FusedGroup> groups = FuseGraph(graph_, FusionOptionsOf(options_));
  RETURN_IF_ERROR(FoldConstants());
  AddInputs(graph_, options_.input_layouts, [&](Value input, const Layout& layout) {
    const Storage storage = options_.inside ? StorageOf(graph_.type(input).dtype) : Storage::kNative;
    const int buffer = AddBuffer(Buffer::Kind::kInput, Bytes(input, layout, storage));
    places_[input].push_back({buffer, layout, true, storage});
    return buffer;
  });
  AddStates(graph_, [&](Value state, int buffer, const Layout& layout) {
    places_[state].push_back({buffer, layout, true, Storage::kNative});
  });
  for (const Output& output : graph_.results()) results_.insert(output.value);
  for (const FusedGroup& group : groups) {
    if (group.kind == FusedGroup::Kind::kConcat) PlaceConcat(group);
  }
  for (const FusedGroup& group : groups) {
    group_ = static_cast<int>(schedule_.groups.size());
    schedule_.groups.push_back(group.group);
    if (absl::Status status = LowerGroup(group); !status.ok()) {
      return ErrorAt(GroupLabel(graph_, group.group), status);
    }
  }
  group_ = -1;
  RETURN_IF_ERROR(Finish());
  RETURN_IF_ERROR(CompilePending());
  RETURN_IF_ERROR(RunConstantSteps());
  const auto key_of = [&](const Step& step) { return KeyOf(step); };
  RETURN_IF_ERROR(RunSideBySide(memory_, key_of, &schedule_));
  return std::move(schedule_);
}

// ---------------------------------------------------------------- constants

absl::Status Lowering::FoldConstants() {
  const std::vector<Value> wanted = FoldedValues(graph_);
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ComputeKnown(graph_.arena(), wanted, NumThreads(0)));
  for (size_t i = 0; i < wanted.size(); ++i) folded_[wanted[i]] = std::move(tensors[i]);
  return absl::OkStatus();
}

absl::StatusOr<int> Lowering::Upload(const void* data, size_t bytes) {
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory, memory_.Allocate(bytes));
  RETURN_IF_ERROR(memory_.CopyIn(memory.get(), data, bytes));
  return AddConstant(std::move(memory), bytes);
}

// ---------------------------------------------------------------- buffers and places

Storage Lowering::StorageOf(DType dtype) const {
  if (dtype != DType::kFloat32) return Storage::kNative;
  if (options_.precision == Precision::kFp16) return Storage::kFp16;
  return options_.precision == Precision::kBf16 ? Storage::kBf16 : Storage::kNative;
}

size_t Lowering::Bytes(Value value, const Layout& layout, Storage storage) const {
  return static_cast<size_t>(layout.Span() * ElementBytes(value, storage));
}

absl::StatusOr<Lowering::Place> Lowering::Find(Value value) {
  if (const auto found = places_.find(value); found != places_.end()) return found->second.front();
  const Node& node = graph_.node(value.node);
  const auto folded = folded_.find(value);
  if (folded == folded_.end() && (node.op != nullptr || !graph_.IsKnown(node))) {
    return absl::InternalError(absl::StrCat("value ", value.node, ".", value.output, " is read before it is computed"));
  }
  const Tensor& tensor = folded != folded_.end() ? folded->second : *graph_.arena()->Elements(value.node);
  const size_t bytes = tensor.num_bytes();
  ASSIGN_OR_RETURN(const int uploaded, Upload(tensor.data(), bytes));
  const Place place{uploaded, Layout::RowMajor(tensor.shape()), true};
  places_[value].push_back(place);
  return place;
}

absl::StatusOr<Lowering::Place> Lowering::FindAs(Value value, const Layout& layout, Storage storage, bool aligned) {
  RETURN_IF_ERROR(Find(value).status());
  for (const Place& place : places_[value]) {
    if (place.layout == layout && place.storage == storage && (place.aligned || !aligned)) return place;
  }
  const Place place = MakePlace(value, layout, storage);
  RETURN_IF_ERROR(EmitGenerated({}, value, place, "reorder"));
  places_[value].push_back(place);
  return place;
}

// A graph output lies where the caller reads it, as soon as it has the form for that.
Lowering::Place Lowering::MakePlace(Value value, const Layout& layout, Storage storage) {
  const bool output = results_.contains(value) && layout == Layout::RowMajor(graph_.type(value).shape) &&
                      storage == Storage::kNative && !options_.inside && output_taken_.insert(value).second;
  return {AddBuffer(output ? Buffer::Kind::kOutput : Buffer::Kind::kActivation, Bytes(value, layout, storage)), layout,
          true, storage};
}

Lowering::Place Lowering::Define(Value value, const Layout& layout, bool by_library) {
  const bool direct = results_.contains(value) && layout.IsRowMajor() && !options_.inside && !by_library;
  const Place place = MakePlace(value, layout, direct ? Storage::kNative : StorageOf(graph_.type(value).dtype));
  places_[value].push_back(place);
  return place;
}

// ---------------------------------------------------------------- steps

absl::StatusOr<Lowering::GeneratedWork> Lowering::Generate(const std::vector<NodeId>& nodes, Value result,
                                                           const Place& out) {
  // Operands have places by now, or are constants that get theirs.
  absl::Status status;
  auto place_of = [&](Value value) -> const Place* {
    absl::StatusOr<Place> found = Find(value);
    if (!found.ok()) {
      status.Update(found.status());
      return nullptr;
    }
    return &places_[value].front();
  };
  KernelRequest request;
  request.nodes = nodes;
  request.result = result;
  request.out = out.layout;
  request.out_storage = out.storage;
  request.min_vectorized = options_.min_vectorized;
  request.layout_of = [&](Value value) {
    const Place* place = place_of(value);
    return place == nullptr ? Layout::RowMajor(graph_.type(value).shape) : place->layout;
  };
  request.storage_of = [&](Value value) {
    const Place* place = place_of(value);
    return place == nullptr ? Storage::kNative : place->storage;
  };
  request.out_aligned = out.aligned;
  request.aligned = [&](Value value) {
    const Place* place = place_of(value);
    return place != nullptr && place->aligned;
  };
  request.single_constant = [&](Value value) { return SingleConstant(graph_, value); };
  ASSIGN_OR_RETURN(GeneratedKernel kernel, GenerateKernel(graph_, request));
  RETURN_IF_ERROR(status);
  std::vector<int> buffers;
  for (Value argument : kernel.arguments) buffers.push_back(places_.at(argument).front().buffer);
  buffers.push_back(out.buffer);
  return GeneratedWork{std::move(kernel), std::move(buffers)};
}

void Lowering::EmitWork(GeneratedWork work, const std::string& label) {
  const GeneratedKernel& kernel = work.kernel;
  if (kernel.blocks == 0) return;
  std::vector<BufferUse> uses;
  for (int id : work.buffers) uses.push_back(Read(id));
  uses.back().access = Access::kWrite;
  auto step = std::make_unique<GeneratedStep>(kernel.blocks, kernel.threads, static_cast<int>(uses.size()));
  Emit(std::move(step), std::move(uses), label);
  pending_.push_back({schedule_.steps.size() - 1, std::move(work.kernel)});
}

absl::Status Lowering::EmitGenerated(const std::vector<NodeId>& nodes, Value result, const Place& out,
                                     const std::string& label) {
  ASSIGN_OR_RETURN(GeneratedWork work, Generate(nodes, result, out));
  EmitWork(std::move(work), label);
  return absl::OkStatus();
}

absl::Status Lowering::CompilePending(size_t first) {
  std::vector<Gpu::Source> sources;
  for (size_t i = first; i < pending_.size(); ++i) {
    sources.push_back({pending_[i].kernel.name, pending_[i].kernel.source});
  }
  std::vector<std::shared_ptr<const Function>> functions;
  RETURN_IF_ERROR(StatusOf(gpu_.Compile(KernelPrelude(), sources, &functions)));
  for (size_t i = first; i < pending_.size(); ++i) {
    static_cast<GeneratedStep&>(*schedule_.steps[pending_[i].step].kernel).set_function(functions[i - first]);
  }
  return absl::OkStatus();
}

absl::Status Lowering::RunConstantSteps() {
  std::vector<int> writers(schedule_.buffers.size());  // of what has memory of its own
  for (const Step& step : schedule_.steps) {
    for (const BufferUse& use : step.buffers) writers[Root(use.buffer)] += Writes(use.access) ? 1 : 0;
  }
  const auto is_fixed = [&](const BufferUse& use) {
    const int root = Root(use.buffer);
    if (use.access == Access::kRead) return buffer(root).kind == Buffer::Kind::kConstant;
    return use.access == Access::kWrite && buffer(root).kind == Buffer::Kind::kActivation && writers[root] == 1;
  };
  std::vector<Step> rest;
  for (Step& step : schedule_.steps) {
    if (!std::all_of(step.buffers.begin(), step.buffers.end(), is_fixed)) {
      rest.push_back(std::move(step));
      continue;
    }
    std::vector<void*> addresses;
    for (const BufferUse& use : step.buffers) {
      const ResolvedBuffer at = ResolveBuffer(schedule_.buffers, use.buffer);
      Buffer& root = buffer(at.root);
      if (use.access == Access::kWrite) {
        ASSIGN_OR_RETURN(root.data, memory_.Allocate(root.bytes));
        root.kind = Buffer::Kind::kConstant;
      }
      addresses.push_back(static_cast<char*>(root.data.get()) + at.offset);
    }
    RETURN_IF_ERROR(RunKernel(*step.kernel, addresses.data()));
  }
  schedule_.steps = std::move(rest);
  // Nothing is freed before it was read.
  RETURN_IF_ERROR(memory_.Synchronize());
  DropUnusedConstants();
  return absl::OkStatus();
}

// Group, layouts, label and sizes; the label says whether a library or a kernel does it.
std::string Lowering::KeyOf(const Step& step) const {
  std::string key = absl::StrCat("precision ", static_cast<int>(options_.precision), " ", step.label);
  for (const BufferUse& use : step.buffers) absl::StrAppend(&key, " ", buffer(use.buffer).bytes);
  if (step.group < 0) return key;
  const auto layout = [&](Value value) {
    const auto found = places_.find(value);
    return found == places_.end() ? "" : found->second.front().layout.ToString();
  };
  return absl::StrCat(key, " ", GroupSignature(graph_, schedule_.groups[step.group], layout));
}

std::optional<Layout> Lowering::LayoutOf(Value value) const {
  const auto found = places_.find(value);
  return found == places_.end() ? std::nullopt : std::optional(found->second.front().layout);
}

absl::StatusOr<Lowering::Place> Lowering::FindBeside(Value value, Buffer::Kind kind) {
  const Layout layout = Layout::RowMajor(graph_.type(value).shape);
  ASSIGN_OR_RETURN(Place place, FindAs(value, layout, Storage::kNative));
  if (buffer(Root(place.buffer)).kind == Buffer::Kind::kState) {
    place = {AddBuffer(kind, Bytes(value, layout, Storage::kNative)), layout, true, Storage::kNative};
    RETURN_IF_ERROR(EmitGenerated({}, value, place, "state"));
  }
  // Later readers read it at this place: the first place may be a view of a state.
  std::vector<Place>& places = places_[value];
  if (places.front().buffer != place.buffer) places.insert(places.begin(), place);
  return place;
}

absl::Status Lowering::CommitStates() {
  // First whatever reads a state, then what writes one: states may take each other's values.
  for (const Output& output : graph_.outputs()) {
    if (output.updates.node >= 0) RETURN_IF_ERROR(FindBeside(output.value, Buffer::Kind::kActivation).status());
  }
  for (const Output& output : graph_.outputs()) {
    if (output.updates.node < 0) continue;
    const Place to{schedule_.states.at(graph_.node(output.updates.node).name),
                   Layout::RowMajor(graph_.type(output.updates).shape), true, Storage::kNative};
    RETURN_IF_ERROR(EmitGenerated({}, output.value, to, "update"));
  }
  return absl::OkStatus();
}

absl::Status Lowering::Finish() {
  for (const Output& output : graph_.results()) {
    ASSIGN_OR_RETURN(const Place place,
                     options_.inside ? Find(output.value) : FindBeside(output.value, Buffer::Kind::kOutput));
    int written = place.buffer;
    // A copy for a reader may lie where the caller reads, though it was not needed for that.
    for (const Place& other : places_[output.value]) {
      if (buffer(other.buffer).kind == Buffer::Kind::kOutput && buffer(other.buffer).alias_of < 0) {
        written = other.buffer;
      }
    }
    schedule_.outputs.push_back(written);
  }
  return CommitStates();
}

// ---------------------------------------------------------------- groups

absl::Status Lowering::LowerGroup(const FusedGroup& group) {
  switch (group.kind) {
    case FusedGroup::Kind::kConv: return LowerConv(group);
    case FusedGroup::Kind::kMatmul: return LowerMatmul(group);
    case FusedGroup::Kind::kAttention: return LowerAttention(group);
    case FusedGroup::Kind::kConcat: return LowerConcat(group);
    case FusedGroup::Kind::kView: return LowerView(group);
    case FusedGroup::Kind::kSiblings:
      for (const FusedGroup& part : group.parts) {
        RETURN_IF_ERROR(LowerGroup(part));
      }
      return absl::OkStatus();
    case FusedGroup::Kind::kKernel: break;
  }
  return LowerKernel(group);
}

absl::Status Lowering::LowerView(const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = graph_.node(id);
  for (Value result : group.group.outputs) {
    const TensorType& type = graph_.type(result);
    absl::StatusOr<Place> place = Place();  // of the operand that is moved
    const std::optional<MovedView> moved = MovedViewOf(graph_, result, [&](size_t operand) {
      place = Find(node.operands[operand]);
      return place.ok() ? place->layout : Layout::RowMajor(type.shape);
    });
    RETURN_IF_ERROR(place.status());
    if (!moved || !moved->is_view || type.num_elements() == 0) {
      const Place out = Define(result, Layout::RowMajor(type.shape));
      RETURN_IF_ERROR(EmitGenerated({id}, result, out, node.op->name));
      continue;
    }
    const size_t bytes = moved->offset * ElementBytes(result, place->storage);
    places_[result].push_back({AddView(place->buffer, bytes, Bytes(result, moved->layout, place->storage)),
                               moved->layout, place->aligned && bytes % kVectorBytes == 0, place->storage});
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerKernel(const FusedGroup& group) {
  const std::string label = GroupLabel(graph_, group.group);
  absl::flat_hash_map<Value, Layout> inside;
  const auto of = [&](Value value) {
    if (const auto found = inside.find(value); found != inside.end()) return found->second;
    return LayoutOf(value).value_or(Layout::RowMajor(graph_.type(value).shape));
  };
  for (NodeId id : group.group.nodes) {
    for (size_t k = 0; k < graph_.node(id).outputs.size(); ++k) {
      const Value value{id, static_cast<int32_t>(k)};
      inside[value] = ResultLayout(graph_, value, options_.channels_last, of);
    }
  }
  for (Value result : group.group.outputs) {
    // The caller gets results row-major: a kernel that writes them so saves a copy.
    const bool returned = results_.contains(result) && !options_.inside;
    const Place out = Define(result, returned ? Layout::RowMajor(graph_.type(result).shape) : inside.at(result));
    RETURN_IF_ERROR(EmitFaster(group, result, out, label));
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- concatenations in place

void Lowering::PlaceConcat(const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Value result{id, 0};
  const Storage storage = StorageOf(graph_.type(result).dtype);
  const Place whole = MakePlace(result, ConcatLayout(graph_.type(result).shape, options_.channels_last), storage);
  const auto slots = ConcatSlots(graph_, id, options_.channels_last, static_cast<int>(ElementBytes(result, storage)));
  const std::vector<Value>& operands = graph_.node(id).operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (slots[i].has_value()) slots_[operands[i]] = {whole.buffer, *slots[i]};
  }
  wholes_[result] = whole;
}

const ConcatSlot* Lowering::SlotOf(Value value) const {
  const auto found = slots_.find(value);
  return found == slots_.end() ? nullptr : &found->second.second;
}

Lowering::Place Lowering::DefineCall(Value value, const Layout& layout) {
  const auto found = slots_.find(value);
  if (found == slots_.end() || found->second.second.layout != layout) return Define(value, layout, /*by_library=*/true);
  const Storage storage = StorageOf(graph_.type(value).dtype);
  const size_t offset = found->second.second.offset * ElementBytes(value, storage);
  const Place place{AddPart(found->second.first, offset, Bytes(value, layout, storage)), layout, true, storage};
  places_[value].push_back(place);
  return place;
}

// Parts that are not where they belong are copied there.
absl::Status Lowering::LowerConcat(const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = graph_.node(id);
  const Place whole = wholes_.at(Value{id, 0});
  const size_t axis = Int(node, "axis");
  int64_t begin = 0;
  for (Value operand : node.operands) {
    const Shape& dims = graph_.type(operand).shape;
    const int64_t bytes = begin * whole.layout.strides[axis] * ElementBytes(operand, whole.storage);
    begin += dims[axis];
    const auto slot = slots_.find(operand);
    const auto placed = places_.find(operand);
    const bool in_place =
        slot != slots_.end() && placed != places_.end() && Root(placed->second.front().buffer) == Root(whole.buffer);
    if (in_place || NumElements(dims) == 0) continue;
    const Layout layout{dims, whole.layout.strides, 0};
    const Place part{AddPart(whole.buffer, static_cast<size_t>(bytes), Bytes(operand, layout, whole.storage)), layout,
                     bytes % kVectorBytes == 0, whole.storage};
    RETURN_IF_ERROR(EmitGenerated({}, operand, part, node.op->name));
  }
  places_[Value{id, 0}].push_back(whole);
  return absl::OkStatus();
}

}  // namespace rewright::cuda
