// Groups that compute on 16-bit floats: in f32, by the kernels of f32. Operands are widened before (weights once, when
// the graph is compiled), results rounded behind; inside of a group nothing is rounded (docs/decisions/054).
#include <omp.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ir/convert.h"
#include "core/ir/memory.h"
#include "core/ir/moves.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements below which one thread does everything

class ConvertKernel : public Kernel {
 public:
  ConvertKernel(DType from, DType to, int64_t count, int threads) : from_(from), to_(to), count_(count) {
    threads_ = count < kGrain ? 1 : threads;
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const auto part = [&](int64_t begin, int64_t end) {
      ConvertElements(from_, static_cast<const char*>(buffers[0]) + begin * static_cast<int64_t>(DTypeSize(from_)), to_,
                      static_cast<char*>(buffers[1]) + begin * static_cast<int64_t>(DTypeSize(to_)), end - begin);
    };
    if (threads_ <= 1) {
      part(0, count_);
      return absl::OkStatus();
    }
#pragma omp parallel num_threads(threads_)
    {
      const int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
      part(count_ * me / all, count_ * (me + 1) / all);
    }
    return absl::OkStatus();
  }

 private:
  const DType from_, to_;
  const int64_t count_;
  int threads_;
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

// Pointwise programs and what moves elements take 16 bits as they are.
bool Computes(const Graph& graph, const FusedGroup& group) {
  if (group.kind == FusedGroup::Kind::kPointwise || group.kind == FusedGroup::Kind::kView) return false;
  return ReadsOrGivesHalves(graph, group.group) &&
         !std::all_of(group.group.nodes.begin(), group.group.nodes.end(),
                      [&](NodeId id) { return MovesElements(*graph.node(id).meaning); });
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
    if (!lowering.IsConstant(input)) {
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
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) values[Value{id, k}] = Value{added, k};
  }
  std::vector<Output> outputs;
  for (size_t i = 0; i < group.outputs.size(); ++i) {
    outputs.push_back({values.at(group.outputs[i]), absl::StrCat("y", i)});
  }
  return Graph(arena, std::move(inputs), std::move(outputs));
}

// Puts the schedule of a group into that of the whole graph.
class Splice {
 public:
  Splice(Lowering& lowering, Schedule schedule) : lowering_(lowering), schedule_(std::move(schedule)) {}

  absl::Status Run(const Group& group) {
    numbers_.assign(schedule_.buffers.size(), -1);
    size_t at = 0;
    for (Value input : group.inputs) {
      if (lowering_.IsConstant(input)) continue;
      RETURN_IF_ERROR(Take(input, schedule_.inputs[at++]));
    }
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) AddBuffer(i);
    for (Step& step : schedule_.steps) {
      std::vector<BufferUse> uses = step.buffers;
      for (BufferUse& use : uses) use.buffer = numbers_[use.buffer];
      lowering_.Emit(std::move(step.kernel), std::move(uses), step.label);
    }
    for (size_t i = 0; i < group.outputs.size(); ++i) Give(group.outputs[i], schedule_.outputs[i]);
    return absl::OkStatus();
  }

 private:
  DType TypeOf(Value value) const { return lowering_.graph().type(value).dtype; }
  void Convert(Value value, DType from, DType to, int in, int out) {
    const int64_t count = lowering_.graph().type(value).num_elements();
    lowering_.Emit(std::make_unique<ConvertKernel>(from, to, count, lowering_.threads()),
                   {Lowering::Read(in), Lowering::Write(out)}, absl::StrCat(DTypeName(from), "-", DTypeName(to)));
  }

  absl::Status Take(Value input, int buffer) {
    ASSIGN_OR_RETURN(const Place place, lowering_.FindRowMajor(input));
    if (buffer < 0) return absl::OkStatus();
    numbers_[buffer] = place.buffer;
    const DType dtype = TypeOf(input);
    if (!IsHalf(dtype)) return absl::OkStatus();
    numbers_[buffer] = lowering_.AddScratch(schedule_.buffers[buffer].bytes);
    Convert(input, dtype, Widened(dtype), place.buffer, numbers_[buffer]);
    return absl::OkStatus();
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

  void Give(Value output, int buffer) {
    const DType dtype = TypeOf(output);
    const Place place = lowering_.Define(output, Layout::RowMajor(lowering_.graph().type(output).shape));
    Convert(output, Widened(dtype), dtype, numbers_[buffer], place.buffer);
  }

  Lowering& lowering_;
  Schedule schedule_;
  std::vector<int> numbers_;  // by buffer of the group, that of the whole; -1: none yet
};

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  if (!Computes(lowering.graph(), group)) return false;
  ASSIGN_OR_RETURN(const Graph wide, WideGraph(lowering, group.group));
  ASSIGN_OR_RETURN(Schedule schedule, Lowering(lowering.context(), wide, {}).Run());
  RETURN_IF_ERROR(Splice(lowering, std::move(schedule)).Run(group.group));
  return true;
}

std::optional<Layout> WideLayout(const LayoutQuery& query) {
  if (!Computes(query.graph, query.group)) return std::nullopt;
  return Layout::RowMajor(query.dims());
}

}  // namespace

KernelEntry WideEntry() { return {.ops = {}, .plan = Plan, .layout = WideLayout}; }

}  // namespace rewright::cpu
