#include "runtime/executor.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "runtime/device_executor.h"

namespace rewright {
namespace {

absl::Status DeviceFault(const std::string& message) { return absl::InternalError("schedule: " + message); }

// What takes most of the memory for activations.
std::string ActivationsText(const Graph& graph) {
  std::string text = "what the graph computes";
  int64_t most = 0;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!graph.IsRun(node)) continue;
    for (const TensorType& type : node.outputs) {
      if (type.num_bytes() <= most) continue;
      most = type.num_bytes();
      text = absl::StrCat("what the graph computes, above all ", type.ToString(), " of ", node.op->name, " (node ", id,
                          "),");
    }
  }
  return text;
}

class DeviceRunner : public GraphRunner {
 public:
  explicit DeviceRunner(Device& device) : device_(device) {}
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override {
    absl::StatusOr<Schedule> schedule = device_.Compile(graph);
    if (!schedule.ok()) return schedule.status();
    if (device_.memory() != nullptr) return MakeDeviceExecutor(graph, *std::move(schedule), *device_.memory());
    absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(graph, *std::move(schedule));
    if (!executor.ok()) return executor.status();
    return std::unique_ptr<Executable>(*std::move(executor));
  }

 private:
  Device& device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Graph& graph, Schedule schedule) {
  std::unique_ptr<Executor> executor(new Executor());
  absl::StatusOr<MemoryPlan> plan = PlanMemory(schedule);
  if (!plan.ok()) return plan.status();
  executor->plan_ = *std::move(plan);
  RETURN_IF_ERROR(CheckMemory(executor->plan_.arena_bytes, ActivationsText(graph)));
  executor->schedule_ = std::move(schedule);
  for (Value input : graph.inputs()) {
    executor->input_names_.push_back(graph.node(input.node).name);
    executor->input_types_.push_back(graph.type(input));
  }
  for (const Output& output : graph.outputs()) executor->output_types_.push_back(graph.type(output.value));
  absl::Status status = executor->Bind();
  if (!status.ok()) return status;
  return executor;
}

// Which input or output each buffer is: its number, inputs first; -1 for all others. `copied` says which outputs are
// not written where the caller wants them.
absl::StatusOr<std::vector<int>> Executor::ExternalsOfBuffers(std::vector<bool>* copied) const {
  const std::vector<Buffer>& buffers = schedule_.buffers;
  if (schedule_.inputs.size() != input_types_.size() || schedule_.outputs.size() != output_types_.size()) {
    return DeviceFault(absl::StrCat(schedule_.inputs.size(), " inputs and ", schedule_.outputs.size(),
                                    " outputs for a graph with ", input_types_.size(), " and ", output_types_.size()));
  }
  std::vector<int> externals(buffers.size(), -1);
  for (size_t i = 0; i < schedule_.inputs.size(); ++i) {
    const int id = schedule_.inputs[i];
    if (id == -1) continue;
    if (id < 0 || static_cast<size_t>(id) >= buffers.size()) {
      return DeviceFault(absl::StrCat("input ", i, " in buffer ", id, ", of ", buffers.size()));
    }
    const Buffer& buffer = buffers[id];
    if (buffer.kind != Buffer::Kind::kInput || buffer.alias_of >= 0 || externals[id] >= 0) {
      return DeviceFault(absl::StrCat("input ", i, " has no buffer of its own"));
    }
    if (static_cast<int64_t>(buffer.bytes) != input_types_[i].num_bytes()) {
      return DeviceFault(
          absl::StrCat("input ", i, " has ", input_types_[i].num_bytes(), " bytes, its buffer ", buffer.bytes));
    }
    externals[id] = static_cast<int>(i);
  }
  copied->assign(schedule_.outputs.size(), true);
  for (size_t i = 0; i < schedule_.outputs.size(); ++i) {
    const size_t id = schedule_.outputs[i];
    const Buffer& buffer = buffers[id];
    if (static_cast<int64_t>(buffer.bytes) != output_types_[i].num_bytes()) {
      return DeviceFault(
          absl::StrCat("output ", i, " has ", output_types_[i].num_bytes(), " bytes, its buffer ", buffer.bytes));
    }
    if (buffer.kind != Buffer::Kind::kOutput || buffer.alias_of >= 0 || externals[id] >= 0) continue;
    externals[id] = static_cast<int>(schedule_.inputs.size() + i);
    (*copied)[i] = false;
  }
  return externals;
}

absl::Status Executor::AddSlot(int id, const std::vector<int>& externals) {
  const ResolvedBuffer at = plan_.resolved[id];
  const size_t root = at.root;
  const Buffer& buffer = schedule_.buffers[root];
  void* base = nullptr;
  switch (buffer.kind) {
    case Buffer::Kind::kActivation: base = arena_.get() + plan_.offsets[root]; break;
    case Buffer::Kind::kConstant:
      base = buffer.data.get();
      if (base == nullptr && buffer.bytes > 0) return DeviceFault(absl::StrCat("constant ", root, " has no data"));
      break;
    case Buffer::Kind::kInput:
    case Buffer::Kind::kOutput:
      if (externals[root] < 0) return DeviceFault(absl::StrCat("buffer ", root, " is no input or output"));
      patches_.push_back({addresses_.size(), static_cast<size_t>(externals[root]), at.offset});
      break;
  }
  addresses_.push_back(base == nullptr ? nullptr : static_cast<std::byte*>(base) + at.offset);
  return absl::OkStatus();
}

absl::Status Executor::Bind() {
  const size_t bytes = plan_.arena_bytes + kArenaAlignment;
  arena_ = {static_cast<std::byte*>(std::aligned_alloc(kArenaAlignment, bytes)), std::free};
  if (arena_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes of activations: out of memory"));
  }
  std::vector<bool> copied;
  absl::StatusOr<std::vector<int>> externals = ExternalsOfBuffers(&copied);
  if (!externals.ok()) return externals.status();
  for (size_t s = 0; s < schedule_.steps.size(); ++s) {
    const Step& step = schedule_.steps[s];
    if (step.kernel == nullptr) return DeviceFault(absl::StrCat("step ", s, " (", step.label, ") has no kernel"));
    step_begin_.push_back(addresses_.size());
    for (int id : step.buffers) {
      absl::Status status = AddSlot(id, *externals);
      if (!status.ok()) return status;
    }
  }
  for (size_t i = 0; i < copied.size(); ++i) {
    if (!copied[i]) continue;
    copies_.push_back({addresses_.size(), i});
    absl::Status status = AddSlot(schedule_.outputs[i], *externals);
    if (!status.ok()) return status;
  }
  externals_.assign(input_types_.size() + output_types_.size(), nullptr);
  fallible_ = FallibleKernels(schedule_);
  return absl::OkStatus();
}

absl::Status Executor::PrepareRun(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  if (inputs.size() != input_types_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run: ", inputs.size(), " inputs given, ", input_types_.size(), " expected"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type() != input_types_[i] || inputs[i].data() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "run: input ", input_names_[i], " is ", inputs[i].data() == nullptr ? "empty" : inputs[i].type().ToString(),
          ", expected ", input_types_[i].ToString()));
    }
    externals_[i] = const_cast<void*>(inputs[i].data());
  }
  outputs->resize(output_types_.size());
  for (size_t i = 0; i < output_types_.size(); ++i) {
    Tensor& output = (*outputs)[i];
    bool fresh = output.data() == nullptr || output.type() != output_types_[i];
    for (const Tensor& input : inputs) fresh = fresh || input.data() == output.data();
    for (size_t j = 0; j < i && !fresh; ++j) fresh = (*outputs)[j].data() == output.data();
    if (fresh) {
      absl::StatusOr<Tensor> tensor = AllocateTensor(output_types_[i], absl::StrCat("output ", i));
      if (!tensor.ok()) return tensor.status();
      output = *std::move(tensor);
    }
    externals_[inputs.size() + i] = output.data();
  }
  for (const Patch& patch : patches_) {
    addresses_[patch.slot] = static_cast<std::byte*>(externals_[patch.external]) + patch.offset;
  }
  return absl::OkStatus();
}

absl::Status Executor::FinishRun(std::vector<Tensor>* outputs) const {
  for (const CopyOut& copy : copies_) {
    Tensor& output = (*outputs)[copy.output];
    std::memcpy(output.data(), addresses_[copy.slot], static_cast<size_t>(output.num_bytes()));
  }
  return TakeFaults(fallible_);
}

absl::Status Executor::Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  absl::Status status = PrepareRun(inputs, outputs);
  if (!status.ok()) return status;
  for (size_t s = 0; s < schedule_.steps.size(); ++s) {
    schedule_.steps[s].kernel->Run(addresses_.data() + step_begin_[s]);
  }
  return FinishRun(outputs);
}

absl::Status Executor::RunTimed(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs,
                                std::vector<double>* seconds) {
  absl::Status status = PrepareRun(inputs, outputs);
  if (!status.ok()) return status;
  seconds->resize(schedule_.steps.size(), 0);
  auto before = std::chrono::steady_clock::now();
  for (size_t s = 0; s < schedule_.steps.size(); ++s) {
    schedule_.steps[s].kernel->Run(addresses_.data() + step_begin_[s]);
    const auto after = std::chrono::steady_clock::now();
    (*seconds)[s] += std::chrono::duration<double>(after - before).count();
    before = after;
  }
  return FinishRun(outputs);
}

std::unique_ptr<GraphRunner> MakeGraphRunner(Device& device) { return std::make_unique<DeviceRunner>(device); }

}  // namespace rewright
