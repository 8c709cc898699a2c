#include "runtime/device_executor.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/index_range.h"
#include "core/ir/memory.h"
#include "runtime/memory_plan.h"

namespace rewright {
namespace {

class DeviceExecutor : public Executable {
 public:
  DeviceExecutor(const Graph& graph, Schedule schedule, DeviceMemory& memory)
      : schedule_(std::move(schedule)), memory_(memory), index_inputs_(IndexInputs(graph)) {
    for (Value input : graph.inputs()) {
      input_names_.push_back(graph.node(input.node).name);
      input_types_.push_back(graph.type(input));
    }
    for (const Output& output : graph.outputs()) output_types_.push_back(graph.type(output.value));
  }

  absl::Status Bind() {
    absl::StatusOr<MemoryPlan> plan = PlanMemory(schedule_);
    if (!plan.ok()) return plan.status();
    plan_ = *std::move(plan);
    absl::StatusOr<std::shared_ptr<void>> arena = memory_.Allocate(static_cast<size_t>(plan_.arena_bytes));
    if (!arena.ok()) return arena.status();
    owned_.push_back(*arena);
    std::vector<void*> roots(schedule_.buffers.size(), nullptr);
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      if (buffer.alias_of >= 0) continue;
      if (buffer.kind == Buffer::Kind::kConstant) {
        roots[i] = buffer.data.get();
      } else if (buffer.kind == Buffer::Kind::kActivation) {
        if (plan_.offsets[i] >= 0) roots[i] = static_cast<char*>(arena->get()) + plan_.offsets[i];
      } else {
        absl::StatusOr<std::shared_ptr<void>> own = memory_.Allocate(buffer.bytes);
        if (!own.ok()) return own.status();
        owned_.push_back(*own);
        roots[i] = own->get();
      }
    }
    for (const ResolvedBuffer& at : plan_.resolved) {
      void* root = roots[at.root];
      addresses_.push_back(root == nullptr ? nullptr : static_cast<char*>(root) + at.offset);
    }
    for (const Step& step : schedule_.steps) {
      for (int id : step.buffers) step_addresses_.push_back(addresses_[id]);
    }
    // Once as it is: what kernels do at their first run must not be recorded.
    Enqueue();
    RETURN_IF_ERROR(memory_.Synchronize());
    absl::StatusOr<std::function<void()>> recorded = memory_.Record([this] { Enqueue(); });
    if (!recorded.ok()) return recorded.status();
    run_ = *std::move(recorded);
    return absl::OkStatus();
  }

  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    if (inputs.size() != input_types_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("run: ", inputs.size(), " inputs given, ", input_types_.size(), " expected"));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].type() != input_types_[i]) {
        return absl::InvalidArgumentError(absl::StrCat("run: input ", input_names_[i], " is ",
                                                       inputs[i].type().ToString(), ", expected ",
                                                       input_types_[i].ToString()));
      }
      if (schedule_.inputs[i] < 0) continue;
      absl::Status status =
          memory_.CopyIn(addresses_[schedule_.inputs[i]], inputs[i].data(), static_cast<size_t>(inputs[i].num_bytes()));
      if (!status.ok()) return status;
    }
    for (const IndexInput& index : index_inputs_) {
      RETURN_IF_ERROR(index.range.Check(inputs[index.input]));
    }
    run_();
    outputs->resize(output_types_.size());
    for (size_t i = 0; i < output_types_.size(); ++i) {
      Tensor& output = (*outputs)[i];
      if (output.data() == nullptr || output.type() != output_types_[i]) {
        absl::StatusOr<Tensor> tensor = AllocateTensor(output_types_[i], absl::StrCat("output ", i));
        if (!tensor.ok()) return tensor.status();
        output = *std::move(tensor);
      }
      absl::Status status =
          memory_.CopyOut(output.data(), addresses_[schedule_.outputs[i]], static_cast<size_t>(output.num_bytes()));
      if (!status.ok()) return status;
    }
    return memory_.Synchronize();
  }

  absl::Status RunAgain(const std::vector<Tensor>&, std::vector<Tensor>*) override {
    run_();
    return memory_.Synchronize();
  }

  int64_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t peak_live_bytes() const override { return plan_.peak_live_bytes; }

 private:
  void Enqueue() const {
    void* const* at = step_addresses_.data();
    for (const Step& step : schedule_.steps) {
      step.kernel->Run(at);
      at += step.buffers.size();
    }
  }

  const Schedule schedule_;
  DeviceMemory& memory_;
  MemoryPlan plan_;
  std::vector<std::string> input_names_;
  std::vector<TensorType> input_types_, output_types_;
  std::vector<std::shared_ptr<void>> owned_;
  std::vector<void*> addresses_;       // by buffer
  std::vector<void*> step_addresses_;  // of the buffers of all steps, one after the other
  const std::vector<IndexInput> index_inputs_;
  std::function<void()> run_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executable>> MakeDeviceExecutor(const Graph& graph, Schedule schedule,
                                                               DeviceMemory& memory) {
  auto executor = std::make_unique<DeviceExecutor>(graph, std::move(schedule), memory);
  RETURN_IF_ERROR(executor->Bind());
  return std::unique_ptr<Executable>(std::move(executor));
}

}  // namespace rewright
