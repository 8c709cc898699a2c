#include "backends/cuda/lowering.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "backends/cuda/gpu_status.h"
#include "backends/cuda/half.h"
#include "backends/cuda/kernel_prelude.h"
#include "backends/group.h"
#include "backends/meaning.h"
#include "core/check.h"
#include "core/interpreter.h"

namespace rewright::cuda {
namespace {

constexpr size_t kVectorBytes = 16;

class GeneratedStep : public Kernel {
 public:
  GeneratedStep(int64_t blocks, int threads, int arguments)
      : blocks_(blocks), threads_(threads), arguments_(arguments) {}
  void set_function(std::shared_ptr<const Function> function) { function_ = std::move(function); }
  void Run(void* const* buffers) const override { function_->Launch(blocks_, threads_, buffers, arguments_); }

 private:
  const int64_t blocks_;
  const int threads_;
  const int arguments_;
  std::shared_ptr<const Function> function_;
};

class CallStep : public Kernel {
 public:
  explicit CallStep(std::unique_ptr<LibraryCall> call) : call_(std::move(call)) {}
  void Run(void* const* buffers) const override { call_->Run(buffers); }

 private:
  const std::unique_ptr<LibraryCall> call_;
};

// Elements as they are stored: to the nearest, ties to even.
std::vector<char> Stored(const float* values, int64_t count, Storage storage) {
  std::vector<char> bytes(static_cast<size_t>(count) * (storage == Storage::kNative ? 4 : 2));
  for (int64_t i = 0; i < count; ++i) {
    char* to = bytes.data() + i * (storage == Storage::kNative ? 4 : 2);
    if (storage == Storage::kNative) {
      std::memcpy(to, &values[i], 4);
    } else {
      const uint16_t bits = storage == Storage::kFp16 ? Fp16Bits(values[i]) : Bf16Bits(values[i]);
      std::memcpy(to, &bits, 2);
    }
  }
  return bytes;
}

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

Layout ChannelsLast(const Shape& dims) {
  Layout layout = Layout::RowMajor(dims);
  layout.strides = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
  return layout;
}

Lowering::Lowering(Gpu& gpu, const Graph& graph, LoweringOptions options)
    : gpu_(gpu), graph_(graph), options_(std::move(options)) {}

absl::StatusOr<Schedule> Lowering::Run() {
  const std::vector<FusedGroup> groups = FuseGraph(graph_);
  if (absl::Status status = FoldConstants(); !status.ok()) return status;
  for (Value input : graph_.inputs()) {
    if (!graph_.contains(input.node)) {
      schedule_.inputs.push_back(-1);
      continue;
    }
    const auto given = options_.input_layouts.find(input);
    const Layout layout =
        given != options_.input_layouts.end() ? given->second : Layout::RowMajor(graph_.type(input).shape);
    const Storage storage = options_.inside ? StorageOf(graph_.type(input).dtype) : Storage::kNative;
    const int buffer = AddBuffer(Buffer::Kind::kInput, Bytes(input, layout, storage));
    schedule_.inputs.push_back(buffer);
    places_[input].push_back({buffer, layout, true, storage});
  }
  for (const FusedGroup& group : groups) {
    group_ = static_cast<int>(schedule_.groups.size());
    schedule_.groups.push_back(group.group);
    if (absl::Status status = LowerGroup(group); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(GroupLabel(graph_, group.group), ": ", status.message()));
    }
  }
  group_ = -1;
  if (absl::Status status = Finish(); !status.ok()) return status;
  if (absl::Status status = CompilePending(); !status.ok()) return status;
  return std::move(schedule_);
}

// ---------------------------------------------------------------- constants

absl::Status Lowering::FoldConstants() {
  std::vector<Output> wanted;
  for (Value value : FoldedValues(graph_)) wanted.push_back({value, ""});
  if (wanted.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<Tensor>> values = InterpretGraph(Graph(graph_.arena(), {}, wanted), {});
  if (!values.ok()) return values.status();
  for (size_t i = 0; i < wanted.size(); ++i) folded_[wanted[i].value] = std::move((*values)[i]);
  return absl::OkStatus();
}

absl::StatusOr<int> Lowering::Upload(const void* data, size_t bytes) {
  absl::StatusOr<std::shared_ptr<void>> memory = Allocate(gpu_, bytes);
  if (!memory.ok()) return memory.status();
  if (absl::Status status = StatusOf(gpu_.CopyIn(memory->get(), data, bytes)); !status.ok()) return status;
  return AddConstant(*std::move(memory), bytes);
}

// ---------------------------------------------------------------- buffers and places

Storage Lowering::StorageOf(DType dtype) const {
  if (dtype != DType::kFloat32) return Storage::kNative;
  if (options_.precision == Precision::kFp16) return Storage::kFp16;
  return options_.precision == Precision::kBf16 ? Storage::kBf16 : Storage::kNative;
}

int64_t Lowering::ElementBytes(Value value, Storage storage) const {
  return storage == Storage::kNative ? static_cast<int64_t>(DTypeSize(graph_.type(value).dtype)) : 2;
}

size_t Lowering::Bytes(Value value, const Layout& layout, Storage storage) const {
  return static_cast<size_t>(layout.Span() * ElementBytes(value, storage));
}

absl::StatusOr<Lowering::Place> Lowering::Find(Value value) {
  if (const auto found = places_.find(value); found != places_.end()) return found->second.front();
  const Node& node = graph_.node(value.node);
  const auto folded = folded_.find(value);
  if (folded == folded_.end() && (node.op != nullptr || !node.weight_only)) {
    return absl::InternalError(absl::StrCat("value ", value.node, ".", value.output, " is read before it is computed"));
  }
  const Tensor& tensor = folded != folded_.end() ? folded->second : node.data;
  const size_t bytes = static_cast<size_t>(tensor.num_bytes());
  absl::StatusOr<int> uploaded = Upload(tensor.data(), bytes);
  if (!uploaded.ok()) return uploaded.status();
  const Place place{*uploaded, Layout::RowMajor(tensor.shape()), true};
  places_[value].push_back(place);
  return place;
}

absl::StatusOr<Lowering::Place> Lowering::FindAs(Value value, const Layout& layout, Storage storage) {
  absl::StatusOr<Place> from = Find(value);
  if (!from.ok()) return from;
  for (const Place& place : places_[value]) {
    if (place.layout == layout && place.storage == storage) return place;
  }
  const Place place = MakePlace(value, layout, storage);
  if (absl::Status status = EmitGenerated({}, value, place, "reorder"); !status.ok()) return status;
  places_[value].push_back(place);
  return place;
}

// A graph output lies where the caller reads it, as soon as it has the form for that.
Lowering::Place Lowering::MakePlace(Value value, const Layout& layout, Storage storage) {
  const bool output = graph_.is_output(value) && layout.IsRowMajor() && storage == Storage::kNative &&
                      !options_.inside && output_taken_.insert(value).second;
  return {AddBuffer(output ? Buffer::Kind::kOutput : Buffer::Kind::kActivation, Bytes(value, layout, storage)), layout,
          true, storage};
}

Lowering::Place Lowering::Define(Value value, const Layout& layout, bool by_library) {
  const bool direct = graph_.is_output(value) && layout.IsRowMajor() && !options_.inside && !by_library;
  const Place place = MakePlace(value, layout, direct ? Storage::kNative : StorageOf(graph_.type(value).dtype));
  places_[value].push_back(place);
  return place;
}

// ---------------------------------------------------------------- steps

absl::Status Lowering::EmitGenerated(const std::vector<NodeId>& nodes, Value result, const Place& out,
                                     const std::string& label) {
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
  request.aligned = [&](Value value) {
    if (value == result && !nodes.empty()) return out.aligned;
    const Place* place = place_of(value);
    return place != nullptr && place->aligned;
  };
  request.single_constant = [&](Value value) { return SingleConstant(graph_, value); };
  absl::StatusOr<GeneratedKernel> kernel = GenerateKernel(graph_, request);
  if (!kernel.ok()) return kernel.status();
  if (!status.ok()) return status;
  if (kernel->blocks == 0) return absl::OkStatus();
  std::vector<int> buffers;
  for (Value argument : kernel->arguments) {
    absl::StatusOr<Place> place = Find(argument);
    if (!place.ok()) return place.status();
    buffers.push_back(place->buffer);
  }
  buffers.push_back(out.buffer);
  auto step = std::make_unique<GeneratedStep>(kernel->blocks, kernel->threads, static_cast<int>(buffers.size()));
  Emit(std::move(step), std::move(buffers), {out.buffer}, label);
  pending_.push_back({schedule_.steps.size() - 1, *std::move(kernel)});
  return absl::OkStatus();
}

absl::Status Lowering::EmitCall(std::unique_ptr<LibraryCall> call, std::vector<int> buffers, int result,
                                const std::string& label) {
  const int scratch = AddScratch(call->workspace_bytes());
  buffers.push_back(scratch);
  Emit(std::make_unique<CallStep>(std::move(call)), std::move(buffers), {result, scratch}, label);
  return absl::OkStatus();
}

absl::Status Lowering::CompilePending() {
  std::vector<Gpu::Source> sources;
  for (const PendingKernel& pending : pending_) sources.push_back({pending.kernel.name, pending.kernel.source});
  std::vector<std::shared_ptr<const Function>> functions;
  if (absl::Status status = StatusOf(gpu_.Compile(kKernelPrelude, sources, &functions)); !status.ok()) return status;
  for (size_t i = 0; i < pending_.size(); ++i) {
    static_cast<GeneratedStep&>(*schedule_.steps[pending_[i].step].kernel).set_function(functions[i]);
  }
  return absl::OkStatus();
}

absl::Status Lowering::Finish() {
  for (const Output& output : graph_.outputs()) {
    absl::StatusOr<Place> place =
        options_.inside ? Find(output.value)
                        : FindAs(output.value, Layout::RowMajor(graph_.type(output.value).shape), Storage::kNative);
    if (!place.ok()) return place.status();
    schedule_.outputs.push_back(place->buffer);
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- groups

absl::Status Lowering::LowerGroup(const FusedGroup& group) {
  switch (group.kind) {
    case FusedGroup::Kind::kConv: return LowerConv(group);
    case FusedGroup::Kind::kMatmul: return LowerMatmul(group);
    case FusedGroup::Kind::kView: return LowerView(group);
    case FusedGroup::Kind::kKernel: break;
  }
  return LowerKernel(group);
}

absl::Status Lowering::LowerView(const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = graph_.node(id);
  for (Value result : group.group.outputs) {
    const TensorType& type = graph_.type(result);
    Layout layout;
    int64_t offset = 0;
    const std::optional<CopyAccess> access = CopyAccessOf(graph_, node, result.output);
    const Value from = node.operands[access ? static_cast<size_t>(access->input) : 0];
    absl::StatusOr<Place> place = Find(from);
    if (!place.ok()) return place.status();
    const bool view = type.num_elements() > 0 &&
                      (access ? ViewOf(place->layout, *access, type.shape, &layout, &offset)
                              : ReshapeLayout(place->layout, type.shape, &layout));
    if (!view) {
      const Place out = Define(result, Layout::RowMajor(type.shape));
      if (absl::Status status = EmitGenerated({id}, result, out, node.op->name); !status.ok()) return status;
      continue;
    }
    const size_t bytes = static_cast<size_t>(offset * ElementBytes(result, place->storage));
    places_[result].push_back({AddView(place->buffer, bytes, Bytes(result, layout, place->storage)), layout,
                               place->aligned && bytes % kVectorBytes == 0, place->storage});
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerKernel(const FusedGroup& group) {
  const std::string label = GroupLabel(graph_, group.group);
  for (Value result : group.group.outputs) {
    const Shape& shape = graph_.type(result).shape;
    // The first operand of the same rank passes the order of its axes on.
    Layout layout = Layout::RowMajor(shape);
    for (Value input : group.group.inputs) {
      const auto found = places_.find(input);
      if (found == places_.end() || graph_.node(input.node).weight_only || graph_.type(input).rank() != layout.rank()) {
        continue;
      }
      if (found->second.front().layout.IsDense()) layout = DenseLike(found->second.front().layout, shape);
      break;
    }
    const Place out = Define(result, layout);
    if (absl::Status status = EmitGenerated(group.group.nodes, result, out, label); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// A bias is stored like the result, one element for each channel.
absl::StatusOr<Lowering::Place> Lowering::Bias(Value value, int64_t channels) {
  const auto folded = folded_.find(value);
  const Tensor& given = folded != folded_.end() ? folded->second : graph_.node(value.node).data;
  std::vector<float> values(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    values[static_cast<size_t>(c)] = static_cast<float>(given.At(given.num_elements() == 1 ? 0 : c));
  }
  const Storage storage = StorageOf(DType::kFloat32);
  const std::vector<char> stored = Stored(values.data(), channels, storage);
  absl::StatusOr<int> uploaded = Upload(stored.data(), stored.size());
  if (!uploaded.ok()) return uploaded.status();
  return Place{*uploaded, Layout::RowMajor({channels}), true, storage};
}

absl::Status Lowering::AddEpilogue(const FusedGroup& group, int64_t channels, const Layout& out,
                                   std::vector<int>* buffers) {
  if (group.bias.node >= 0) {
    absl::StatusOr<Place> bias = Bias(group.bias, channels);
    if (!bias.ok()) return bias.status();
    buffers->push_back(bias->buffer);
  }
  if (group.residual.node >= 0) {
    absl::StatusOr<Place> place = FindAs(group.residual, out, StorageOf(DType::kFloat32));
    if (!place.ok()) return place.status();
    buffers->push_back(place->buffer);
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerConv(const FusedGroup& group) {
  const Node& node = graph_.node(group.group.nodes[0]);
  const Value result = group.group.outputs[0];
  auto image = [&](const Shape& dims) { return options_.channels_last ? ChannelsLast(dims) : Layout::RowMajor(dims); };
  const Storage storage = StorageOf(DType::kFloat32);
  absl::StatusOr<Place> x = FindAs(node.operands[0], image(graph_.type(node.operands[0]).shape), storage);
  if (!x.ok()) return x.status();
  absl::StatusOr<Place> w = FindAs(node.operands[1], image(graph_.type(node.operands[1]).shape), storage);
  if (!w.ok()) return w.status();
  const Layout out = image(graph_.type(result).shape);
  ConvProblem problem;
  for (size_t k = 0; k < 4; ++k) {
    problem.x[k] = x->layout.dims[k];
    problem.x_strides[k] = x->layout.strides[k];
    problem.w[k] = w->layout.dims[k];
    problem.w_strides[k] = w->layout.strides[k];
    problem.out[k] = out.dims[k];
    problem.out_strides[k] = out.strides[k];
    problem.pads[k] = Ints(node, "pads")[k];
  }
  for (size_t k = 0; k < 2; ++k) {
    problem.strides[k] = Ints(node, "strides")[k];
    problem.dilations[k] = Ints(node, "dilations")[k];
  }
  problem.groups = Int(node, "groups");
  problem.bias = group.bias.node >= 0;
  problem.residual = group.residual.node >= 0;
  problem.relu = group.relu;
  problem.precision = options_.precision;
  std::vector<int> buffers = {x->buffer, w->buffer, -1};
  if (absl::Status status = AddEpilogue(group, out.dims[1], out, &buffers); !status.ok()) return status;
  buffers[2] = Define(result, out, /*by_library=*/true).buffer;
  std::unique_ptr<LibraryCall> call;
  if (absl::Status status = StatusOf(gpu_.Plan(problem, &call)); !status.ok()) return status;
  const int written = buffers[2];
  return EmitCall(std::move(call), std::move(buffers), written, GroupLabel(graph_, group.group));
}

// The stride at which a row-major walk over the leading axes `batch` moves; false where there is no one stride.
static bool BatchStride(const Layout& layout, const Shape& batch, int64_t* stride) {
  const size_t leading = layout.dims.size() - 2;
  int64_t expected = -1;
  *stride = 0;
  for (size_t k = batch.size(); k-- > 0;) {
    const size_t missing = batch.size() - leading;
    const int64_t step = k < missing || layout.dims[k - missing] == 1 ? 0 : layout.strides[k - missing];
    if (batch[k] == 1) continue;
    if (expected < 0) {
      *stride = expected = step;
    } else if (step != expected) {
      return false;
    }
    expected *= batch[k];
  }
  return true;
}

absl::StatusOr<MatrixLayout> Lowering::Matrix(Value value, const Shape& batch, Place* place) {
  absl::StatusOr<Place> found = Find(value);
  if (!found.ok()) return found.status();
  auto describe = [&](const Layout& layout, MatrixLayout* matrix) {
    const size_t rank = layout.dims.size();
    const int64_t rows = layout.dims[rank - 2], columns = layout.dims[rank - 1];
    matrix->row = layout.strides[rank - 2];
    matrix->column = layout.strides[rank - 1];
    // An axis of size one may have any stride.
    if (columns == 1) matrix->column = 1;
    if (rows == 1) matrix->row = matrix->column == 1 ? columns : 1;
    const bool by_rows = matrix->column == 1 && matrix->row >= columns;
    const bool by_columns = matrix->row == 1 && matrix->column >= rows;
    return (by_rows || by_columns) && BatchStride(layout, batch, &matrix->batch);
  };
  MatrixLayout matrix;
  const Storage storage = StorageOf(DType::kFloat32);
  if (found->storage == storage && describe(found->layout, &matrix)) {
    *place = *found;
    return matrix;
  }
  found = FindAs(value, Layout::RowMajor(graph_.type(value).shape), storage);
  if (!found.ok()) return found.status();
  *place = *found;
  if (!describe(found->layout, &matrix)) return absl::UnimplementedError("batch axes that broadcast in turns");
  return matrix;
}

absl::Status Lowering::LowerMatmul(const FusedGroup& group) {
  const Node& node = graph_.node(group.group.nodes[0]);
  const Value result = group.group.outputs[0];
  const Shape& shape = graph_.type(result).shape;
  const Shape& left = graph_.type(node.operands[0]).shape;
  const Shape& right = graph_.type(node.operands[1]).shape;
  const Shape batch(shape.begin(), shape.end() - 2);
  MatmulProblem problem;
  problem.batch = NumElements(batch);
  problem.m = left[left.size() - 2];
  problem.k = left.back();
  problem.n = right.back();
  Place a, b;
  absl::StatusOr<MatrixLayout> left_matrix = Matrix(node.operands[0], batch, &a);
  absl::StatusOr<MatrixLayout> right_matrix = Matrix(node.operands[1], batch, &b);
  if (!left_matrix.ok() || !right_matrix.ok()) {
    // No single stride walks over the batches: the general way.
    const Place out = Define(result, Layout::RowMajor(shape));
    return EmitGenerated(group.group.nodes, result, out, GroupLabel(graph_, group.group));
  }
  problem.left = *left_matrix;
  problem.right = *right_matrix;
  problem.out = {problem.n, 1, problem.m * problem.n};
  // One factor for all batches: their rows are the rows of one product.
  if (problem.batch > 1 && problem.right.batch == 0 && problem.left.column == 1 &&
      problem.left.batch == problem.m * problem.left.row) {
    problem.m *= problem.batch;
    problem.batch = 1;
    problem.left.batch = problem.out.batch = 0;
  }
  problem.bias = group.bias.node >= 0;
  problem.residual = group.residual.node >= 0;
  problem.relu = group.relu;
  problem.precision = options_.precision;
  const Layout out = Layout::RowMajor(shape);
  std::vector<int> buffers = {a.buffer, b.buffer, -1};
  if (absl::Status status = AddEpilogue(group, problem.n, out, &buffers); !status.ok()) return status;
  const int written = buffers[2] = Define(result, out, /*by_library=*/true).buffer;
  std::unique_ptr<LibraryCall> call;
  if (absl::Status status = StatusOf(gpu_.Plan(problem, &call)); !status.ok()) return status;
  return EmitCall(std::move(call), std::move(buffers), written, GroupLabel(graph_, group.group));
}

}  // namespace rewright::cuda
