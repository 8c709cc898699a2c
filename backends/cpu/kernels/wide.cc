// Groups that compute on 16-bit floats: in f32, by the kernels of f32. Operands are widened before (weights once, when
// the graph is compiled), results rounded behind; inside of a group nothing is rounded (docs/decisions/054).
// Convolutions hand on their images in the blocks of channels in which those of f32 do, and go by the laws of those;
// without a law those of bf16 are left to oneDNN where the processor multiplies such numbers (kernels/conv.h).
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ir/pointwise.h"
#include "core/ops/foreign.h"
#include "core/tensor/dtype.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

class ConvertKernel : public Kernel {
 public:
  ConvertKernel(DType from, DType to, int64_t count, int threads)
      : from_(from), to_(to), count_(count), threads_(ThreadsFor(count, kSharedElements, count, threads)) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    ForParts(count_, threads_, [&](int64_t begin, int64_t end) {
      const void* const from = static_cast<const char*>(buffers[0]) + begin * static_cast<int64_t>(DTypeSize(from_));
      void* const to = static_cast<char*>(buffers[1]) + begin * static_cast<int64_t>(DTypeSize(to_));
      if (from_ == DType::kBFloat16 && to_ == DType::kFloat32) {
        Simd().widen_bf16(static_cast<float*>(to), static_cast<const uint16_t*>(from), end - begin);
      } else if (from_ == DType::kFloat32 && to_ == DType::kBFloat16) {
        Simd().narrow_bf16(static_cast<uint16_t*>(to), static_cast<const float*>(from), end - begin);
      } else {
        ConvertElements(from_, from, to_, to, end - begin);
      }
    });
    return absl::OkStatus();
  }

 private:
  const DType from_, to_;
  const int64_t count_;
  const int threads_;
};

DType Widened(DType dtype) { return IsHalf(dtype) ? DType::kFloat32 : dtype; }
TensorType Widened(const TensorType& type) { return {Widened(type.dtype), type.shape}; }

bool ReadsOrGivesHalves(const Graph& graph, const Group& group) {
  return std::any_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    const auto half = [](const TensorType& type) { return IsHalf(type.dtype); };
    return std::any_of(node.outputs.begin(), node.outputs.end(), half) ||
           std::any_of(node.operands.begin(), node.operands.end(), [&](Value x) { return half(graph.type(x)); });
  });
}

// Pointwise programs, what moves elements and nodes of model files that are not known here take 16 bits as they are.
bool Computes(const Graph& graph, const FusedGroup& group) {
  if (group.kind == FusedGroup::Kind::kPointwise || group.kind == FusedGroup::Kind::kView) return false;
  if (IsForeign(graph.node(group.group.nodes[0]))) return false;
  return ReadsOrGivesHalves(graph, group.group) &&
         !std::all_of(group.group.nodes.begin(), group.group.nodes.end(),
                      [&](NodeId id) { return MovesElements(*graph.node(id).meaning); });
}

// True for a known operand whose elements are put into the kernels of f32. Where memory is scarce a weight of 16 bits
// that the first node reads is an operand like others, widened by each run; a step of an epilogue has to be known.
bool IsFixed(Lowering& lowering, const Group& group, Value input) {
  if (!lowering.IsConstant(input)) return false;
  const Graph& graph = lowering.graph();
  const TensorType& type = graph.type(input);
  if (lowering.PacksFactors() || !IsHalf(type.dtype) || type.num_elements() == 1) return true;
  return std::any_of(group.nodes.begin() + 1, group.nodes.end(), [&](NodeId id) {
    const std::vector<Value>& operands = graph.node(id).operands;
    return std::find(operands.begin(), operands.end(), input) != operands.end();
  });
}

// The group as a graph of its own, with f32 in the place of 16-bit floats.
absl::StatusOr<Graph> WideGraph(Lowering& lowering, const Group& group) {
  const Graph& graph = lowering.graph();
  const auto arena = std::make_shared<Arena>();
  std::map<Value, Value> values;
  std::vector<Value> inputs;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Value input = group.inputs[i];
    const std::string name = absl::StrCat("x", i);
    if (!IsFixed(lowering, group, input)) {
      ASSIGN_OR_RETURN(values[input], arena->AddInput(name, Widened(graph.type(input))));
      inputs.push_back(values[input]);
      continue;
    }
    ASSIGN_OR_RETURN(Tensor elements, lowering.ConstantTensor(input));
    if (IsHalf(elements.dtype())) {
      ASSIGN_OR_RETURN(Tensor wide, AllocateTensor(Widened(elements.type()), "a weight in f32"));
      ConvertElements(elements.dtype(), elements.data(), wide.dtype(), wide.data(), wide.num_elements());
      elements = std::move(wide);
    }
    if (elements.num_elements() == 1) {
      values[input] = arena->AddConstant(elements);
    } else {
      ASSIGN_OR_RETURN(values[input], arena->AddState(name, elements));
    }
  }
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    std::vector<Value> operands;
    for (Value operand : node.operands) operands.push_back(values.at(operand));
    Attrs attrs = node.attrs;
    for (auto& [name, attr] : attrs) {
      if (DType* dtype = std::get_if<DType>(&attr)) *dtype = Widened(*dtype);
    }
    ASSIGN_OR_RETURN(const NodeId added, arena->Add(*node.op, std::move(operands), std::move(attrs)));
    for (const TensorType& type : arena->node(added).outputs) {  // else this kernel would get the group again, for ever
      if (IsHalf(type.dtype)) return absl::InternalError(node.op->name + " gives 16 bits of operands of 32");
    }
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) values[Value{id, k}] = Value{added, k};
  }
  std::vector<Output> outputs;
  for (size_t i = 0; i < group.outputs.size(); ++i) {
    outputs.push_back({values.at(group.outputs[i]), absl::StrCat("y", i)});
  }
  return Graph(arena, std::move(inputs), std::move(outputs));
}

// The layout of a convolution's result is that of the f32 kernel, if its blocks are filled; every other result is
// row-major.
std::optional<Layout> WideLayout(const LayoutQuery& query) {
  if (!Computes(query.graph, query.group)) return std::nullopt;
  if (query.group.kind == FusedGroup::Kind::kConv) {
    const std::optional<Layout> blocked = ConvEntry().layout(query);
    if (blocked && blocked->IsDense()) return blocked;
  }
  return Layout::RowMajor(query.dims());
}

// The place from which an operand is widened: an image may lie in blocks.
absl::StatusOr<Place> PlaceOfOperand(Lowering& lowering, const FusedGroup& group, Value value) {
  if (group.kind == FusedGroup::Kind::kConv) {
    ASSIGN_OR_RETURN(const Place place, lowering.Find(value));
    if (place.layout.IsDense()) return place;
  }
  return lowering.FindRowMajor(value);
}

// Puts the schedule of a group into that of the whole graph.
class Splice {
 public:
  Splice(Lowering& lowering, Schedule schedule) : lowering_(lowering), schedule_(std::move(schedule)) {}

  // `places` of the inputs that are not fixed, `layouts` of the outputs.
  void Run(const Group& group, const std::vector<Place>& places, const std::vector<Layout>& layouts) {
    numbers_.assign(schedule_.buffers.size(), -1);
    size_t at = 0;
    for (Value input : group.inputs) {
      if (IsFixed(lowering_, group, input)) continue;
      Take(input, places[at], schedule_.inputs[at]);
      ++at;
    }
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) AddBuffer(i);
    for (Step& step : schedule_.steps) {
      std::vector<BufferUse> uses = step.buffers;
      for (BufferUse& use : uses) use.buffer = numbers_[use.buffer];
      lowering_.Emit(std::move(step.kernel), std::move(uses), step.label);
    }
    for (size_t i = 0; i < group.outputs.size(); ++i) Give(group.outputs[i], layouts[i], schedule_.outputs[i]);
  }

 private:
  DType TypeOf(Value value) const { return lowering_.graph().type(value).dtype; }
  void Convert(Value value, DType from, DType to, int in, int out) {
    const int64_t count = lowering_.graph().type(value).num_elements();
    lowering_.Emit(std::make_unique<ConvertKernel>(from, to, count, lowering_.threads()),
                   {Lowering::Read(in), Lowering::Write(out)}, absl::StrCat(DTypeName(from), "-", DTypeName(to)));
  }

  void Take(Value input, const Place& place, int buffer) {
    if (buffer < 0) return;
    numbers_[buffer] = place.buffer;
    const DType dtype = TypeOf(input);
    if (!IsHalf(dtype)) return;
    numbers_[buffer] = lowering_.AddScratch(schedule_.buffers[buffer].bytes);
    Convert(input, dtype, Widened(dtype), place.buffer, numbers_[buffer]);
  }

  // Views lie behind what they are views of, in no order of their numbers.
  int AddBuffer(size_t i) {
    if (numbers_[i] >= 0) return numbers_[i];
    const Buffer& given = schedule_.buffers[i];
    const int base = given.alias_of < 0 ? -1 : AddBuffer(static_cast<size_t>(given.alias_of));
    numbers_[i] = given.kind == Buffer::Kind::kConstant ? lowering_.AddConstant(given.data, given.bytes)
                                                        : lowering_.AddScratch(given.bytes);
    Buffer& made = lowering_.buffer(numbers_[i]);
    made.alias_of = base;
    made.offset = given.offset;
    made.alignment = given.alignment;
    made.part = given.part;
    return numbers_[i];
  }

  void Give(Value output, const Layout& layout, int buffer) {
    const DType dtype = TypeOf(output);
    const Place place = lowering_.Define(output, layout);
    Convert(output, Widened(dtype), dtype, numbers_[buffer], place.buffer);
  }

  Lowering& lowering_;
  Schedule schedule_;
  std::vector<int> numbers_;  // by buffer of the group, that of the whole; -1: none yet
};

absl::StatusOr<bool> PlanWide(Lowering& lowering, const FusedGroup& group) {
  if (!Computes(lowering.graph(), group)) return false;
  ASSIGN_OR_RETURN(const std::string law, lowering.LawOf(group));
  if (group.kind == FusedGroup::Kind::kConv && (law.empty() || MultipliesTilesOfBf16()) &&
      ConvRunsInBf16(*lowering.context(), lowering.graph(), group)) {
    return false;
  }
  ASSIGN_OR_RETURN(const Graph wide, WideGraph(lowering, group.group));
  LoweringOptions options;
  options.law_of = [&](const FusedGroup&) { return law; };
  options.sparing = !lowering.PacksFactors();
  std::vector<Place> places;
  for (Value input : group.group.inputs) {
    if (IsFixed(lowering, group.group, input)) continue;
    ASSIGN_OR_RETURN(places.emplace_back(), PlaceOfOperand(lowering, group, input));
    options.input_layouts[wide.inputs()[places.size() - 1]] = places.back().layout;
  }
  std::vector<Layout> layouts;
  for (Value output : group.group.outputs) {
    layouts.push_back(lowering.LayoutOf(group, output));
    options.keep_output_layouts |= !layouts.back().IsRowMajor();
  }
  Lowering inner(lowering.context(), wide, options);
  ASSIGN_OR_RETURN(Schedule schedule, inner.Run());
  for (size_t i = 0; options.keep_output_layouts && i < layouts.size(); ++i) {
    ASSIGN_OR_RETURN(const Place place, inner.Find(wide.outputs()[i].value));
    CHECK(place.layout == Simplified(layouts[i])) << place.layout.ToString() << ", not " << layouts[i].ToString();
  }
  Splice(lowering, std::move(schedule)).Run(group.group, places, layouts);
  return true;
}

}  // namespace

KernelEntry WideEntry() { return {.ops = {}, .plan = PlanWide, .layout = WideLayout, .version = 3}; }

}  // namespace rewright::cpu
