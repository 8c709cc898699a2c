#include "backends/cpu/lower/lower_pointwise.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kLargeOperand = 4096;  // elements from which a badly strided operand is laid out anew

// An operand of sizes `dims` that is read along these axes has the axes of the result.
bool IsAligned(const std::vector<int>& axes, const Shape& dims, const Shape& out) {
  if (dims.size() != out.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1 && axes[d] != static_cast<int>(d)) return false;
  }
  return true;
}

// Returns whether several positions read one element, as in the result of `expand`.
bool Repeats(const Layout& layout) {
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    if (layout.dims[d] > 1 && layout.strides[d] == 0) return true;
  }
  return false;
}

Layout PointOf(size_t axes) { return Layout::RowMajor(Shape(axes, 1)); }

// A part of the program that depends on constants alone, computed now.
absl::StatusOr<Place> ComputeConstant(Lowering& lowering, const PointwiseProgram& program) {
  std::vector<Layout> layouts;
  std::vector<void*> addresses;
  for (const PointwiseOperand& operand : program.operands) {
    ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(operand.value));
    layouts.push_back(place.layout);
    addresses.push_back(lowering.buffer(place.buffer).data.get());
  }
  const Layout layout = layouts[0];
  ASSIGN_OR_RETURN(const KernelPtr kernel, MakePointwiseKernel(program, layouts, layout, {-1}, lowering.threads()));
  ASSIGN_OR_RETURN(Tensor tensor,
                   AllocateTensor({program.TypeOf(program.results[0]), layout.dims}, "a weight computed beforehand"));
  addresses.push_back(tensor.data());
  RETURN_IF_ERROR(RunKernel(*kernel, addresses.data()));
  return Place{lowering.AddConstant(std::move(tensor)), layout};
}

absl::StatusOr<PointwiseProgram> ProgramOf(Lowering& lowering, const Group& group, const PointwiseOperand* row) {
  absl::Status status;
  Tensor single;
  const auto single_constant = [&](Value value) -> const Tensor* {
    if (!lowering.IsConstant(value) || lowering.graph().type(value).num_elements() != 1) return nullptr;
    absl::StatusOr<Tensor> constant = lowering.ConstantTensor(value);
    status.Update(constant.status());
    if (!constant.ok()) return nullptr;
    single = *std::move(constant);
    return &single;
  };
  absl::StatusOr<PointwiseProgram> program = BuildProgram(lowering.graph(), group, single_constant, row);
  RETURN_IF_ERROR(status);
  return program;
}

// A constant by channels in row-major order, with zeros for what fills the last block.
Place FilledUp(Lowering& lowering, const Place& place, const std::vector<int>& axes, int64_t channels) {
  const auto* const numbers = static_cast<const float*>(lowering.buffer(place.buffer).data.get());
  std::vector<float> filled(numbers, numbers + place.layout.num_elements());
  filled.resize(static_cast<size_t>(channels));
  Shape dims = place.layout.dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (axes[d] == 1) dims[d] = channels;
  }
  return {lowering.AddConstantNumbers(std::move(filled)), Layout::RowMajor(dims)};
}

absl::StatusOr<std::vector<ProgramOperand>> OperandsOf(Lowering& lowering, const Layout& layout,
                                                       PointwiseProgram* program) {
  const Shape& dims = layout.dims;
  const int64_t channels = layout.IsPadded() ? WithPadding(layout).dims[1] : 0;
  std::map<int, Place> computed;
  const auto is_constant = [&](Value value) { return lowering.IsConstant(value); };
  for (const HoistedProgram& hoisted : HoistConstants(is_constant, program)) {
    ASSIGN_OR_RETURN(computed[hoisted.operand], ComputeConstant(lowering, hoisted.program));
  }
  std::vector<ProgramOperand> operands;
  for (size_t i = 0; i < program->operands.size(); ++i) {
    const PointwiseOperand& operand = program->operands[i];
    const auto found = computed.find(static_cast<int>(i));
    Place place;
    if (found != computed.end()) {
      place = found->second;
    } else if (layout.IsPadded() && !is_constant(operand.value)) {
      ASSIGN_OR_RETURN(place, lowering.FindAs(operand.value, layout));
    } else {
      ASSIGN_OR_RETURN(place, lowering.Find(operand.value));
      if (place.layout.IsPadded() || layout.IsPadded()) {
        ASSIGN_OR_RETURN(place, lowering.FindRowMajor(operand.value));
      }
    }
    if (!place.layout.blocked() && layout.IsPadded()) place = FilledUp(lowering, place, operand.axes, channels);
    const bool full = place.layout.dims == dims && IsAligned(operand.axes, dims, dims);
    operands.push_back({place, found != computed.end(), full && found == computed.end(), operand.value});
  }
  return operands;
}

// Lays operands out anew that the kernel cannot read beside a result in `layout`, or only slowly.
absl::Status Convert(Lowering& lowering, const PointwiseProgram& program, const Layout& layout,
                     std::vector<ProgramOperand>* operands) {
  for (size_t i = 0; i < operands->size(); ++i) {
    ProgramOperand& operand = (*operands)[i];
    Place& place = operand.place;
    const bool aligned = IsAligned(program.operands[i].axes, place.layout.dims, layout.dims);
    if (place.layout.blocked() && (!aligned || place.layout.block != layout.block)) {
      ASSIGN_OR_RETURN(place, lowering.FindRowMajor(operand.value));
    }
    if (operand.full && place.layout != layout && layout.num_elements() >= kLargeOperand && !Repeats(place.layout)) {
      ASSIGN_OR_RETURN(place, lowering.FindAs(operand.value, layout));
    }
  }
  return absl::OkStatus();
}

// The memory that a result may take over, of an operand or of the state whose next value it is; -1: none. `taken`: what
// other results took.
int InPlace(const Lowering& lowering, const std::vector<ProgramOperand>& operands, Value out, const Layout& layout,
            const std::vector<int>& taken) {
  const auto may_take = [&](const ProgramOperand& operand) {
    const auto reads = std::count_if(operands.begin(), operands.end(),
                                     [&](const ProgramOperand& other) { return other.value == operand.value; });
    return reads == 1 && operand.full && std::count(taken.begin(), taken.end(), operand.place.buffer) == 0;
  };
  if (const std::optional<Value> state = lowering.NextValueOf(out, layout)) {
    const auto read = std::find_if(operands.begin(), operands.end(),
                                   [&](const ProgramOperand& operand) { return operand.value == *state; });
    if (read == operands.end() || may_take(*read)) return lowering.StateBuffer(*state);
  }
  for (const ProgramOperand& operand : operands) {
    if (!operand.computed && may_take(operand) && !lowering.IsConstant(operand.value) &&
        lowering.CanOverwrite(operand.value, operand.place, out, layout)) {
      return operand.place.buffer;
    }
  }
  return -1;
}

absl::StatusOr<bool> PlanPointwise(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kPointwise) return false;
  const std::vector<Value>& results = group.group.outputs;
  ASSIGN_OR_RETURN(PlannedProgram planned, PlanProgram(lowering, group.group, lowering.LayoutOf(group, results[0])));
  const std::vector<int> over = PlaceResults(lowering, results, planned);
  ASSIGN_OR_RETURN(KernelPtr kernel,
                   MakePointwiseKernel(planned.program, planned.layouts, WithPadding(planned.layout), over,
                                       lowering.threads()));
  lowering.Emit(std::move(kernel), std::move(planned.buffers), GroupLabel(lowering.graph(), group.group));
  return true;
}

// The values that the group reads, once for each list of axes by which a value is read.
std::vector<std::pair<Value, std::vector<int>>> ReadsOf(const Graph& graph, const Group& group) {
  std::vector<std::pair<Value, std::vector<int>>> reads;
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    for (PointwiseRead& read : PointwiseReads(*node.meaning)) {
      const Value value = node.operands[read.input];
      if (std::find(group.inputs.begin(), group.inputs.end(), value) == group.inputs.end()) continue;
      std::pair<Value, std::vector<int>> found(value, std::move(read.axes));
      if (std::find(reads.begin(), reads.end(), found) == reads.end()) reads.push_back(std::move(found));
    }
  }
  return reads;
}

// Returns whether the group gives zeros where everything but single numbers is 0, as it is in what fills a block:
// operands, and constants by channels, or what is computed of these beforehand.
bool GivesZeroOfZeros(const Graph& graph, const Group& group) {
  absl::StatusOr<PointwiseProgram> program =
      BuildProgram(graph, group, [&](Value value) { return SingleConstant(graph, value); });
  if (!program.ok()) return false;
  HoistConstants([&](Value value) { return graph.IsKnown(value); }, &*program);
  std::vector<Layout> layouts;
  for (const PointwiseOperand& operand : program->operands) {
    if (operand.dtype != DType::kFloat32) return false;
    layouts.push_back(PointOf(operand.axes.size()));
  }
  const absl::StatusOr<KernelPtr> kernel =
      MakePointwiseKernel(*program, layouts, PointOf(4), std::vector<int>(program->results.size(), -1), 1);
  if (!kernel.ok()) return false;
  std::vector<double> numbers(layouts.size() + program->results.size(), 0.0);
  std::vector<void*> addresses;
  for (double& number : numbers) addresses.push_back(&number);
  if (!RunKernel(**kernel, addresses.data()).ok()) return false;
  for (size_t r = 0; r < program->results.size(); ++r) {
    const bool is_zero = program->TypeOf(program->results[r]) == DType::kFloat32 &&
                         *static_cast<const float*>(addresses[layouts.size() + r]) == 0;
    if (!is_zero) return false;
  }
  return true;
}

// A constant with an element for each of the channels.
bool IsByChannels(const Graph& graph, Value value, const std::vector<int>& axes, int64_t channels) {
  const Shape& dims = graph.type(value).shape;
  bool by_channels = graph.IsKnown(value) && graph.type(value).num_elements() == channels;
  for (size_t d = 0; d < dims.size(); ++d) by_channels = by_channels && (dims[d] == 1 || axes[d] == 1);
  return by_channels;
}

// The blocks of operands whose last one is filled up, where what fills it may be computed like channels.
std::optional<Layout> PaddedBlocks(const LayoutQuery& query) {
  const Graph& graph = query.graph;
  const Shape& dims = query.dims();
  std::optional<Layout> padded;
  for (const auto& [value, axes] : ReadsOf(graph, query.group.group)) {
    if (graph.type(value).dtype != DType::kFloat32) return std::nullopt;
    if (SingleConstant(graph, value) != nullptr) continue;
    if (dims.size() > 1 && IsByChannels(graph, value, axes, dims[1])) continue;
    const std::optional<Layout> layout = query.of(value);
    if (!layout || layout->dims != dims || !IsAligned(axes, dims, dims)) return std::nullopt;
    if (layout->IsPadded()) padded = Layout::Blocked(dims, layout->block);
  }
  const bool keeps = padded && !query.returned && graph.mode() != Mode::kTraining;
  return keeps && GivesZeroOfZeros(graph, query.group.group) ? padded : std::nullopt;
}

std::optional<Layout> PointwiseLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kPointwise) return std::nullopt;
  if (const std::optional<Layout> padded = PaddedBlocks(query)) return padded;
  const Layout layout = LayoutOfMost(query.graph, query.group.group, query.dims(), query.of);
  return query.returned && !layout.blocked() ? Layout::RowMajor(query.dims()) : layout;
}

}  // namespace

// In doubt row-major, and where operands are padded, since the padding might be filled.
Layout LayoutOfMost(const Graph& graph, const Group& group, const Shape& dims,
                    const std::function<std::optional<Layout>(Value)>& of) {
  const Layout row_major = Layout::RowMajor(dims);
  std::vector<std::pair<Layout, int>> votes = {{row_major, 0}};
  for (const auto& [value, axes] : ReadsOf(graph, group)) {
    std::optional<Layout> layout = of(value);
    if (!layout || layout->dims != dims || !IsAligned(axes, layout->dims, layout->dims)) continue;
    if (layout->IsPadded()) layout = row_major;
    if (!layout->IsDense()) continue;
    auto vote = std::find_if(votes.begin(), votes.end(), [&](const auto& v) { return v.first == *layout; });
    if (vote == votes.end()) vote = votes.insert(votes.end(), {*layout, 0});
    ++vote->second;
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(votes.begin(), votes.end(), fewer)->first;
}

std::vector<int> PlaceResults(Lowering& lowering, const std::vector<Value>& results, PlannedProgram& planned) {
  const PointwiseProgram& program = planned.program;
  const bool passes_on = std::any_of(program.results.begin(), program.results.end(),
                                     [&](int result) { return result < static_cast<int>(program.operands.size()); });
  std::vector<int> taken, over;
  for (Value out : results) {
    const bool in_place = results.size() == 1 || !passes_on;
    const int found = in_place ? InPlace(lowering, planned.operands, out, planned.layout, taken) : -1;
    if (found >= 0) taken.push_back(found);
    const int buffer = lowering.DefineOver(out, planned.layout, found);
    planned.buffers.push_back(Lowering::Write(buffer));
    const auto read = std::find_if(planned.operands.begin(), planned.operands.end(),
                                   [&](const ProgramOperand& operand) { return operand.place.buffer == buffer; });
    over.push_back(read == planned.operands.end() ? -1 : static_cast<int>(read - planned.operands.begin()));
  }
  return over;
}

absl::StatusOr<PlannedProgram> PlanProgram(Lowering& lowering, const Group& group, const Layout& layout,
                                           const PointwiseOperand* row) {
  PlannedProgram planned;
  planned.layout = layout;
  ASSIGN_OR_RETURN(planned.program, ProgramOf(lowering, group, row));
  ASSIGN_OR_RETURN(planned.operands, OperandsOf(lowering, layout, &planned.program));
  RETURN_IF_ERROR(Convert(lowering, planned.program, layout, &planned.operands));
  for (const ProgramOperand& operand : planned.operands) {
    planned.layouts.push_back(WithPadding(operand.place.layout));
    planned.buffers.push_back(Lowering::Read(operand.place.buffer));
  }
  return planned;
}

KernelEntry PointwiseEntry() { return {.ops = {}, .plan = PlanPointwise, .layout = PointwiseLayout, .version = 4}; }

}  // namespace rewright::cpu
