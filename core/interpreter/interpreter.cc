#include "core/interpreter/interpreter.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/interpreter/program.h"
#include "core/interpreter/run.h"
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

// Fills `out`. If several blocks fail, the error of the first one is returned.
absl::Status RunStage(const Stage& stage, const std::vector<const void*>& operands, int threads, Undefined undefined,
                      void* out) {
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
    BlockRunner runner(stage, operands, undefined);
    std::vector<int64_t> start, size;
    for (int64_t block = next++; block < blocks.count(); block = next++) {
      blocks.Get(block, &start, &size);
      runner.Run(start, size, out);
      if (runner.status().ok()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      if (block < failed_block) {
        failed_block = block;
        status = runner.status();
      }
      return;
    }
  };
  return Guarded([&] {
    OnThreads(std::min<int64_t>(threads, blocks.count()), work);
    return status;
  });
}

absl::Status CheckInputs(const Program& program, std::vector<Tensor>& inputs) {
  if (inputs.size() != program.inputs.size()) {
    return InvalidArgument(inputs.size(), " input tensors, expected ", program.inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& expected = program.inputs[i];
    RETURN_IF_ERROR(ToElements(StoredDType(program.precision, inputs[i].dtype()), "an operand", &inputs[i]));
    if (inputs[i].type() != expected) {
      return InvalidArgument("input ", i, " is ", inputs[i].type().ToString(), ", expected ", expected.ToString());
    }
    if (program.reference == nullptr) {
      RETURN_IF_ERROR(ToElements(program.computed[i].dtype, "an operand", &inputs[i]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> RunReference(const Program& program, const std::vector<Tensor>& inputs) {
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
  CompiledMeaning compiled;
  compiled.program_ = std::move(program);
  return compiled;
}

absl::StatusOr<std::vector<Tensor>> CompiledMeaning::Run(const std::vector<Tensor>& inputs, int threads,
                                                         Undefined undefined) const {
  const interp::Program& program = *program_;
  std::vector<Tensor> tensors = inputs;  // operands: inputs, then the results of stages
  RETURN_IF_ERROR(interp::CheckInputs(program, tensors));
  if (program.reference != nullptr) return interp::RunReference(program, tensors);
  std::vector<const void*> operands;
  operands.reserve(tensors.size() + program.stages.size());
  tensors.reserve(tensors.size() + program.stages.size());
  for (const Tensor& tensor : tensors) operands.push_back(tensor.data());
  for (const interp::Stage& stage : program.stages) {
    const int stage_threads = stage.cost < program.tuning.min_parallel ? 1 : threads;
    ASSIGN_OR_RETURN(Tensor result, AllocateUninitialized({interp::DTypeOf(stage.rep()), stage.extents}, "a result"));
    RETURN_IF_ERROR(interp::RunStage(stage, operands, stage_threads, undefined, result.data()));
    operands.push_back(result.data());
    tensors.push_back(std::move(result));
  }
  std::vector<Tensor> outputs;
  outputs.reserve(program.outputs.size());
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    outputs.push_back(tensors[inputs.size() + static_cast<size_t>(program.output_stages[k])]);
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

}  // namespace rewright
