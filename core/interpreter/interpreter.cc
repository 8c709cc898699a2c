#include "core/interpreter/interpreter.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "core/base/threads.h"
#include "core/interpreter/box.h"
#include "core/interpreter/program.h"
#include "core/interpreter/run.h"
#include "core/interpreter/scatter.h"
#include "core/ir/index_range.h"
#include "core/tensor/dtype.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

// Converts the tensor to elements of that type, rounded or wrapped. A tensor that has the type is not touched: programs
// of few elements are run by the million.
absl::Status ToElements(DType dtype, const char* what, Tensor* tensor) {
  if (dtype == tensor->dtype()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor converted, AllocateUninitialized({dtype, tensor->shape()}, what));
  ConvertElements(tensor->dtype(), tensor->data(), dtype, converted.data(), tensor->num_elements());
  *tensor = std::move(converted);
  return absl::OkStatus();
}

}  // namespace

namespace interp {
namespace {

// The blocks of a stage in row-major order.
class Blocks {
 public:
  explicit Blocks(const Stage& stage) : stage_(stage) {
    for (size_t axis = 0; axis < stage.box.size(); ++axis) {
      per_axis_.push_back((stage.extents[axis] + stage.box[axis] - 1) / stage.box[axis]);
      count_ *= per_axis_.back();
    }
  }
  int64_t count() const { return count_; }
  void Get(int64_t block, std::vector<int64_t>* start, std::vector<int64_t>* size) const {
    start->resize(per_axis_.size());
    size->resize(per_axis_.size());
    for (size_t axis = per_axis_.size(); axis-- > 0;) {
      (*start)[axis] = block % per_axis_[axis] * stage_.box[axis];
      (*size)[axis] = std::min(stage_.box[axis], stage_.extents[axis] - (*start)[axis]);
      block /= per_axis_[axis];
    }
  }

 private:
  const Stage& stage_;
  std::vector<int64_t> per_axis_;
  int64_t count_ = 1;
};

// Fills `out` with the stage of that number. If several blocks fail, the error of the first one is returned.
absl::Status RunStage(const Program& program, size_t number, const std::vector<const void*>& operands, int threads,
                      Undefined undefined, void* out) {
  const Stage& stage = program.stages[number];
  if (stage.scatter) {
    RunScatter(stage, operands, out);
    return absl::OkStatus();
  }
  const Blocks blocks(stage);
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  absl::Status status;
  int64_t failed_block = std::numeric_limits<int64_t>::max();
  const auto work = [&] {
    std::unique_ptr<BlockRunner> runner = program.runners->Take(number, stage);
    runner->Bind(&operands, undefined);
    std::vector<int64_t> start, size;
    for (int64_t block = next++; block < blocks.count(); block = next++) {
      const bool stopped = StopScope::Stopped();
      blocks.Get(block, &start, &size);
      if (!stopped) runner->Run(start, size, out);
      if (!stopped && runner->status().ok()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      if (block < failed_block) {
        failed_block = block;
        status = stopped ? absl::CancelledError("interrupted") : runner->status();
      }
      return;
    }
    program.runners->Return(number, std::move(runner));
  };
  return Guarded([&] {
    OnThreads(std::min<int64_t>(threads, blocks.count()), work);
    return status;
  });
}

// Gives an input the type in which the program stores it, and then that in which stages read it.
absl::Status ConvertInput(const Program& program, size_t i, Tensor* input) {
  const TensorType& expected = program.inputs[i];
  RETURN_IF_ERROR(ToElements(StoredDType(program.precision, input->dtype()), "an operand", input));
  if (input->type() != expected) {
    return InvalidArgument("input ", i, " is ", input->type().ToString(), ", expected ", expected.ToString());
  }
  if (program.reference != nullptr) return absl::OkStatus();
  return ToElements(program.computed[i].dtype, "an operand", input);
}

absl::StatusOr<std::vector<Tensor>> RunReference(const Program& program, std::vector<Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) RETURN_IF_ERROR(ConvertInput(program, i, &inputs[i]));
  std::vector<Tensor> outputs;
  for (const TensorType& type : program.outputs) {
    ASSIGN_OR_RETURN(outputs.emplace_back(), AllocateTensor(type, "a result"));
  }
  RETURN_IF_ERROR(program.reference(program.bindings, inputs, &outputs));
  return outputs;
}

}  // namespace

Rep RepOf(Precision precision, DType dtype) {
  switch (ComputedDType(dtype)) {
    case DType::kBool: return Rep::kBool;
    case DType::kInt32: return Rep::kInt32;
    case DType::kInt64: return Rep::kInt64;
    case DType::kUInt64: return Rep::kUInt64;
    case DType::kFloat32: return precision == Precision::kNative ? Rep::kFloat : Rep::kDouble;
    default: return Rep::kDouble;
  }
}

DType DTypeOf(Rep rep) {
  switch (rep) {
    case Rep::kBool: return DType::kBool;
    case Rep::kInt32: return DType::kInt32;
    case Rep::kInt64: return DType::kInt64;
    case Rep::kUInt64: return DType::kUInt64;
    case Rep::kFloat: return DType::kFloat32;
    case Rep::kDouble: break;
  }
  return DType::kFloat64;
}

size_t RepSize(Rep rep) { return DTypeSize(DTypeOf(rep)); }

}  // namespace interp

DType StoredDType(Precision precision, DType dtype) {
  return precision == Precision::kFloat64 && IsFloating(dtype) ? DType::kFloat64 : dtype;
}

absl::StatusOr<Tensor> ToPrecision(const Tensor& tensor, Precision precision) {
  Tensor result = tensor;
  RETURN_IF_ERROR(ToElements(StoredDType(precision, tensor.dtype()), "an operand", &result));
  return result;
}

absl::StatusOr<CompiledMeaning> CompiledMeaning::Compile(const Meaning& meaning, const Bindings& bindings,
                                                         const std::vector<TensorType>& inputs,
                                                         const std::vector<TensorType>& outputs, Precision precision,
                                                         const InterpretTuning& tuning) {
  ASSIGN_OR_RETURN(std::unique_ptr<interp::Program> program,
                   interp::Lower(meaning, bindings, inputs, outputs, precision, tuning));
  for (interp::Stage& stage : program->stages) {
    if (!stage.scatter) stage.box = interp::ChooseBox(stage, tuning.max_lanes);
  }
  program->runners = std::make_shared<interp::RunnerPool>(program->stages.size());
  CompiledMeaning compiled;
  compiled.program_ = std::move(program);
  return compiled;
}

absl::StatusOr<std::vector<Tensor>> CompiledMeaning::Run(const std::vector<Tensor>& inputs, int threads,
                                                         Undefined undefined) const {
  const interp::Program& program = *program_;
  if (inputs.size() != program.inputs.size()) {
    return InvalidArgument(inputs.size(), " input tensors, expected ", program.inputs.size());
  }
  if (program.reference != nullptr) return interp::RunReference(program, inputs);
  std::vector<const void*> operands;
  operands.reserve(inputs.size() + program.stages.size());
  std::vector<Tensor> made;  // inputs that are converted, then the results of stages
  made.reserve(inputs.size() + program.stages.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* input = &inputs[i];
    if (input->type() != program.inputs[i] || input->dtype() != program.computed[i].dtype) {
      made.push_back(*input);
      RETURN_IF_ERROR(interp::ConvertInput(program, i, &made.back()));
      input = &made.back();
    }
    operands.push_back(input->data());
  }
  const size_t first_result = made.size();
  for (size_t number = 0; number < program.stages.size(); ++number) {
    const interp::Stage& stage = program.stages[number];
    const int stage_threads = stage.cost < program.tuning.min_parallel ? 1 : threads;
    const bool begun = stage.part && stage.part->first_stage != static_cast<int>(number);
    if (begun) {
      made.push_back(made[first_result + static_cast<size_t>(stage.part->first_stage)]);
    } else {
      const Shape& shape = stage.part ? stage.part->shape : stage.extents;
      ASSIGN_OR_RETURN(Tensor result, AllocateUninitialized({interp::DTypeOf(stage.rep()), shape}, "a result"));
      made.push_back(std::move(result));
    }
    operands.push_back(made.back().data());
    RETURN_IF_ERROR(interp::RunStage(program, number, operands, stage_threads, undefined, made.back().data()));
  }
  std::vector<Tensor> outputs;
  outputs.reserve(program.outputs.size());
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    outputs.push_back(made[first_result + static_cast<size_t>(program.output_stages[k])]);
    RETURN_IF_ERROR(ToElements(program.outputs[k].dtype, "a result", &outputs.back()));
  }
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> Interpret(const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& outputs,
                                              const std::vector<TensorType>& input_types,
                                              const std::vector<Tensor>& inputs, const InterpretOptions& options) {
  ASSIGN_OR_RETURN(const CompiledMeaning compiled,
                   CompiledMeaning::Compile(meaning, bindings, input_types, outputs, options.precision));
  return compiled.Run(inputs, options.threads);
}

absl::StatusOr<std::vector<Tensor>> Interpret(const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& outputs, const std::vector<Tensor>& inputs,
                                              const InterpretOptions& options) {
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  return Interpret(meaning, bindings, outputs, types, inputs, options);
}

namespace {

// Key of equal compilations, which share one result: models repeat their layers.
struct CompileKey {
  const Meaning* meaning;
  std::vector<int64_t> variables;
  std::vector<uint64_t> params;  // their bits: -0 is another number than 0
  std::vector<Shape> shapes;
  friend bool operator==(const CompileKey&, const CompileKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const CompileKey& key) {
    return H::combine(std::move(state), key.meaning, key.variables, key.params, key.shapes);
  }
};

// Returns a leaf's tensor as the precision stores it.
absl::StatusOr<Tensor> LeafTensor(const Arena& arena, NodeId id, const absl::flat_hash_map<std::string, Tensor>& inputs,
                                  const InterpretOptions& options) {
  const Precision precision = options.precision;
  if (std::optional<Tensor> other = options.elements ? options.elements(id) : std::nullopt) return *std::move(other);
  const Node& leaf = arena.node(id);
  const auto it = leaf.leaf == LeafKind::kConstant ? inputs.end() : inputs.find(leaf.name);
  const Tensor* elements = arena.Elements(id);
  const bool has_value = elements != nullptr && (elements->data() != nullptr || elements->num_bytes() == 0);
  if (it == inputs.end() && has_value) {
    ASSIGN_OR_RETURN(Tensor stored, ToPrecision(*elements, precision));
    if (stored.data() != elements->data()) ReleasePages(elements->data(), elements->num_bytes());
    return stored;
  }
  if (it == inputs.end()) return InvalidArgument("input ", leaf.name, " is not given");
  TensorType stored = leaf.outputs[0];
  stored.dtype = StoredDType(precision, stored.dtype);
  if (it->second.type() == leaf.outputs[0]) return ToPrecision(it->second, precision);
  if (it->second.type() == stored) return it->second;
  return InvalidArgument("input ", leaf.name, " is ", it->second.type().ToString(), ", expected ",
                         leaf.outputs[0].ToString());
}

// Returns the positions in graph.nodes() after which a node's outputs are no longer needed; outputs of the graph stay.
std::vector<std::vector<int>> DyingAfter(const Graph& graph) {
  std::vector<std::vector<int>> dying(graph.nodes().size());
  std::vector<bool> kept(graph.nodes().size(), false);
  for (const Output& output : graph.outputs()) kept[graph.index(output.value.node)] = true;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (kept[i]) continue;
    const std::vector<int>& users = graph.users(static_cast<int>(i));
    dying[users.empty() ? i : static_cast<size_t>(users.back())].push_back(static_cast<int>(i));
  }
  return dying;
}

absl::Status CheckIndices(const Graph& graph, NodeId id, const std::vector<Tensor>& operands) {
  const auto is_integer = [](const Tensor& operand) { return IsInteger(operand.dtype()); };
  if (std::none_of(operands.begin(), operands.end(), is_integer)) return absl::OkStatus();
  for (const IndexedAxis& at : IndexedAxes(*graph.node(id).meaning)) {
    if (!at.wraps) continue;
    const absl::Status status = IndexRange(graph, id, at).Check(operands[at.indices]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> InterpretGraph(const Graph& graph,
                                                   const absl::flat_hash_map<std::string, Tensor>& inputs,
                                                   const InterpretOptions& options) {
  absl::flat_hash_map<CompileKey, CompiledMeaning> compiled;
  std::vector<std::vector<Tensor>> values(graph.nodes().size());
  // Leaves are not kept: in f64 the weights of a model may be larger than memory.
  const auto value_of = [&](Value value) -> absl::StatusOr<Tensor> {
    if (graph.node(value.node).op == nullptr) return LeafTensor(*graph.arena(), value.node, inputs, options);
    return values[graph.index(value.node)][value.output];
  };
  const std::vector<std::vector<int>> dying = DyingAfter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(graph.nodes()[i]);
    if (node.op == nullptr) continue;
    std::vector<TensorType> types;
    std::vector<Tensor> operands;
    CompileKey key{node.meaning.get(), {}, {}, {}};
    for (Value operand : node.operands) {
      types.push_back(graph.type(operand));
      ASSIGN_OR_RETURN(operands.emplace_back(), value_of(operand));
      key.shapes.push_back(types.back().shape);
    }
    const Bindings bindings = BindingsOf(*node.meaning, types, node.attrs);
    key.variables = bindings.variables;
    for (const double param : bindings.params) key.params.push_back(std::bit_cast<uint64_t>(param));
    auto it = compiled.find(key);
    absl::Status status;
    if (it == compiled.end()) {
      auto made = CompiledMeaning::Compile(*node.meaning, bindings, types, node.outputs, options.precision);
      status = made.status();
      if (made.ok()) it = compiled.emplace(std::move(key), *std::move(made)).first;
    }
    RETURN_IF_ERROR(CheckIndices(graph, graph.nodes()[i], operands));
    if (status.ok()) {
      auto results = it->second.Run(operands, options.threads);
      status = results.status();
      if (results.ok()) values[i] = *std::move(results);
    }
    if (!status.ok()) {
      return ErrorAt(absl::StrCat(node.op->name, " (node ", graph.nodes()[i], ")"), status);
    }
    for (int dead : dying[i]) values[dead].clear();
  }
  std::vector<Tensor> outputs;
  for (const Output& output : graph.outputs()) {
    ASSIGN_OR_RETURN(outputs.emplace_back(), value_of(output.value));
  }
  return outputs;
}

}  // namespace rewright
