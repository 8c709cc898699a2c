#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

// Names the value that takes most of the memory for activations.
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
    return Executing(graph, device_.Compile(graph));
  }
  absl::StatusOr<std::unique_ptr<Executable>> PrepareSparing(const Graph& graph) override {
    return Executing(graph, device_.CompileSparing(graph));
  }

 private:
  absl::StatusOr<std::unique_ptr<Executable>> Executing(const Graph& graph, absl::StatusOr<Schedule> compiled) const {
    ASSIGN_OR_RETURN(Schedule schedule, std::move(compiled));
    DeviceMemory* memory = device_.memory();
    ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                     Executor::Create(graph, std::move(schedule), memory != nullptr ? *memory : HostMemory()));
    return std::unique_ptr<Executable>(std::move(executor));
  }

  Device& device_;
};

}  // namespace

// A worker for one run, back among the idle ones at its end.
class Executor::Lease {
 public:
  explicit Lease(Executor& executor) : executor_(executor) {
    if (executor.turns_ != nullptr) turn_ = std::unique_lock<std::mutex>(*executor.turns_);
  }
  ~Lease() {
    if (worker_ == nullptr) return;
    const std::lock_guard<std::mutex> lock(executor_.mutex_);
    executor_.idle_.push_back(std::move(worker_));
  }
  absl::Status Take() {
    {
      const std::lock_guard<std::mutex> lock(executor_.mutex_);
      if (!executor_.idle_.empty()) {
        worker_ = std::move(executor_.idle_.back());
        executor_.idle_.pop_back();
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(worker_, executor_.MakeWorker());
    return absl::OkStatus();
  }
  Worker& worker() { return *worker_; }

 private:
  Executor& executor_;
  std::unique_lock<std::mutex> turn_;
  std::unique_ptr<Worker> worker_;
};

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Graph& graph, Schedule schedule, DeviceMemory& memory,
                                                           const PlanOptions& options) {
  std::unique_ptr<Executor> executor(new Executor(graph, std::move(schedule), memory));
  RETURN_IF_ERROR(executor->Init(graph, options));
  return executor;
}

absl::Status Executor::Init(const Graph& graph, const PlanOptions& options) {
  PlanOptions own = options;
  own.externals = !memory_.is_host();
  own.only = nullptr;
  if (memory_.is_host()) RETURN_IF_ERROR(ReturnActivations());
  ASSIGN_OR_RETURN(plan_, PlanMemory(schedule_, own));
  RETURN_IF_ERROR(CheckFit());
  if (memory_.is_host()) RETURN_IF_ERROR(FindExternals());
  for (const Buffer& buffer : schedule_.buffers) {
    if (buffer.kind == Buffer::Kind::kConstant && buffer.alias_of < 0) constants_.Add(buffer.data.get(), buffer.bytes);
  }
  activations_ = ActivationsText(graph);
  turns_ = memory_.turns();
  const auto is_state = [](const Buffer& buffer) { return buffer.kind == Buffer::Kind::kState; };
  if (turns_ == nullptr && std::any_of(schedule_.buffers.begin(), schedule_.buffers.end(), is_state)) {
    turns_ = &shared_;
  }
  return Lease(*this).Take();
}

absl::Status Executor::CheckFit() const {
  const std::vector<Buffer>& buffers = schedule_.buffers;
  const std::vector<TensorType>&inputs = signature_.inputs, &outputs = signature_.outputs;
  if (schedule_.inputs.size() != inputs.size() || schedule_.outputs.size() != outputs.size()) {
    return ScheduleFault(absl::StrCat(schedule_.inputs.size(), " inputs and ", schedule_.outputs.size(),
                                      " outputs for a graph with ", inputs.size(), " and ", outputs.size()));
  }
  std::vector<bool> taken(buffers.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int id = schedule_.inputs[i];
    if (id == -1) continue;
    if (id < 0 || static_cast<size_t>(id) >= buffers.size()) {
      return ScheduleFault(absl::StrCat("input ", i, " in buffer ", id, ", of ", buffers.size()));
    }
    const Buffer& buffer = buffers[id];
    if (buffer.kind != Buffer::Kind::kInput || buffer.alias_of >= 0 || taken[id]) {
      return ScheduleFault(absl::StrCat("input ", i, " has no buffer of its own"));
    }
    taken[id] = true;
    if (static_cast<int64_t>(buffer.bytes) != inputs[i].num_bytes()) {
      return ScheduleFault(
          absl::StrCat("input ", i, " has ", inputs[i].num_bytes(), " bytes, its buffer ", buffer.bytes));
    }
  }
  for (const auto& [name, type] : signature_.states) {
    const auto found = schedule_.states.find(name);
    if (found == schedule_.states.end()) return ScheduleFault(absl::StrCat("the state ", name, " has no buffer"));
    const Buffer& buffer = buffers[found->second];
    if (buffer.kind != Buffer::Kind::kState || buffer.alias_of >= 0 ||
        static_cast<int64_t>(buffer.bytes) != type.num_bytes()) {
      return ScheduleFault(absl::StrCat("the state ", name, " has no buffer of its own and of its size"));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Buffer& buffer = buffers[schedule_.outputs[i]];
    if (static_cast<int64_t>(buffer.bytes) != outputs[i].num_bytes()) {
      return ScheduleFault(
          absl::StrCat("output ", i, " has ", outputs[i].num_bytes(), " bytes, its buffer ", buffer.bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::ReturnActivations() {
  ASSIGN_OR_RETURN(const std::vector<ResolvedBuffer> resolved, ResolveBuffers(schedule_.buffers));
  std::vector<int> results(resolved.size(), 0);  // by buffer, how many are in it
  for (int id : schedule_.outputs) ++results[resolved[id].root];
  for (int& id : schedule_.outputs) {
    const ResolvedBuffer at = resolved[id];
    Buffer& root = schedule_.buffers[at.root];
    const bool whole = at.offset == 0 && root.bytes == schedule_.buffers[id].bytes;
    if (root.kind != Buffer::Kind::kActivation || !whole || results[at.root] > 1) continue;
    root.kind = Buffer::Kind::kOutput;
    id = at.root;
  }
  return absl::OkStatus();
}

absl::Status Executor::FindExternals() {
  const std::vector<Buffer>& buffers = schedule_.buffers;
  externals_.assign(buffers.size(), -1);
  for (size_t i = 0; i < schedule_.inputs.size(); ++i) {
    if (schedule_.inputs[i] >= 0) externals_[schedule_.inputs[i]] = static_cast<int>(i);
  }
  for (size_t i = 0; i < schedule_.outputs.size(); ++i) {
    const int id = schedule_.outputs[i];
    if (buffers[id].kind != Buffer::Kind::kOutput || buffers[id].alias_of >= 0 || externals_[id] >= 0) {
      copied_.push_back(i);
    } else {
      externals_[id] = static_cast<int>(schedule_.inputs.size() + i);
    }
  }
  for (size_t s = 0; s < schedule_.steps.size(); ++s) {
    const std::vector<BufferUse>& uses = schedule_.steps[s].buffers;
    for (size_t k = 0; k < uses.size(); ++k) {
      const ResolvedBuffer at = plan_.resolved[uses[k].buffer];
      const Buffer::Kind kind = buffers[at.root].kind;
      if (kind != Buffer::Kind::kInput && kind != Buffer::Kind::kOutput) continue;
      if (externals_[at.root] < 0) return ScheduleFault(absl::StrCat("buffer ", at.root, " is no input or output"));
      patches_.push_back(
          {static_cast<int>(s), static_cast<int>(k), static_cast<size_t>(externals_[at.root]), at.offset});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Executor::Worker>> Executor::MakeWorker() const {
  if (memory_.is_host()) RETURN_IF_ERROR(CheckMemory(plan_.bytes, activations_));
  auto worker = std::make_unique<Worker>();
  absl::StatusOr<std::unique_ptr<Instance>> instance = Instance::Create(schedule_, plan_, memory_);
  if (absl::IsResourceExhausted(instance.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(activations_, " ", instance.status().message()));
  }
  RETURN_IF_ERROR(instance.status());
  worker->instance = *std::move(instance);
  worker->externals.assign(signature_.inputs.size() + signature_.outputs.size(), nullptr);
  if (memory_.is_host()) return worker;
  Instance* const steps = worker->instance.get();
  worker->enqueue = [steps] { return steps->Run(); };
  if (plan_.options.poison) return worker;
  // Once as it is: what kernels do at their first run must not be recorded.
  RETURN_IF_ERROR(worker->enqueue());
  RETURN_IF_ERROR(memory_.Synchronize());
  RETURN_IF_ERROR(steps->Reset());
  ASSIGN_OR_RETURN(worker->enqueue, memory_.Record(worker->enqueue));
  return worker;
}

absl::Status Executor::RunOnHost(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs, const RunSteps& run) {
  RETURN_IF_ERROR(signature_.CheckInputs(inputs));
  Lease lease(*this);
  RETURN_IF_ERROR(lease.Take());
  Instance& instance = *lease.worker().instance;
  std::vector<void*>& externals = lease.worker().externals;
  RETURN_IF_ERROR(signature_.PrepareOutputs(inputs, constants_, outputs));
  for (size_t i = 0; i < inputs.size(); ++i) externals[i] = const_cast<void*>(inputs[i].data());
  for (size_t i = 0; i < outputs->size(); ++i) {
    Tensor& output = (*outputs)[i];
    externals[inputs.size() + i] = output.data();
    if (plan_.options.poison) std::memset(output.data(), 0xff, static_cast<size_t>(output.num_bytes()));
  }
  for (const Patch& patch : patches_) {
    instance.argument(patch.step, patch.position) = static_cast<char*>(externals[patch.external]) + patch.offset;
  }
  if (absl::Status status = run(instance); !status.ok()) {
    memory_.Synchronize().IgnoreError();  // copies that were begun are not to meet the next run
    return status;
  }
  for (size_t i : copied_) {
    const ResolvedBuffer at = plan_.resolved[schedule_.outputs[i]];
    const int external = externals_[at.root];
    const void* from = external < 0 ? instance.address(schedule_.outputs[i])
                                    : static_cast<const char*>(externals[external]) + at.offset;
    RETURN_IF_ERROR(memory_.CopyOut((*outputs)[i].data(), from, static_cast<size_t>((*outputs)[i].num_bytes())));
  }
  return absl::OkStatus();
}

absl::Status Executor::RunOnDevice(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  RETURN_IF_ERROR(signature_.CheckInputs(inputs));
  for (const IndexInput& index : index_inputs_) RETURN_IF_ERROR(index.range.Check(inputs[index.input]));
  Lease lease(*this);
  RETURN_IF_ERROR(lease.Take());
  const Instance& instance = *lease.worker().instance;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (schedule_.inputs[i] < 0) continue;
    RETURN_IF_ERROR(memory_.CopyIn(instance.address(schedule_.inputs[i]), inputs[i].data(),
                                   static_cast<size_t>(inputs[i].num_bytes())));
  }
  RETURN_IF_ERROR(signature_.PrepareOutputs(inputs, constants_, outputs));
  if (absl::Status status = lease.worker().enqueue(); !status.ok()) {
    memory_.Synchronize().IgnoreError();  // what was enqueued before is not to meet the next run
    return status;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    RETURN_IF_ERROR(memory_.CopyOut((*outputs)[i].data(), instance.address(schedule_.outputs[i]),
                                    static_cast<size_t>((*outputs)[i].num_bytes())));
  }
  return memory_.Synchronize();
}

absl::Status Executor::Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  return Guarded([&] {
    if (!memory_.is_host()) return RunOnDevice(inputs, outputs);
    return RunOnHost(inputs, outputs, [](Instance& instance) { return instance.Run(); });
  });
}

absl::Status Executor::RunAgain(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) {
  if (memory_.is_host()) return Run(inputs, outputs);
  Lease lease(*this);
  RETURN_IF_ERROR(lease.Take());
  const absl::Status status = lease.worker().enqueue();
  const absl::Status end = memory_.Synchronize();
  return status.ok() ? end : status;
}

absl::Status Executor::RunTimed(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs,
                                std::vector<double>* seconds) {
  seconds->resize(schedule_.steps.size(), 0);
  return RunOnHost(inputs, outputs, [&](Instance& instance) -> absl::Status {
    auto before = std::chrono::steady_clock::now();
    for (size_t s = 0; s < schedule_.steps.size(); ++s) {
      RETURN_IF_ERROR(instance.RunStep(static_cast<int>(s)));
      const auto after = std::chrono::steady_clock::now();
      (*seconds)[s] += std::chrono::duration<double>(after - before).count();
      before = after;
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Tensor> Executor::ReadState(const std::string& name) {
  ASSIGN_OR_RETURN(const TensorType type, signature_.TypeOfState(name));
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(type, absl::StrCat("the state ", name)));
  Lease lease(*this);
  RETURN_IF_ERROR(lease.Take());
  const void* from = lease.worker().instance->address(schedule_.states.at(name));
  RETURN_IF_ERROR(memory_.CopyOut(value.data(), from, static_cast<size_t>(value.num_bytes())));
  RETURN_IF_ERROR(memory_.Synchronize());
  return value;
}

absl::StatusOr<Tensor> Executor::ViewState(const std::string& name) {
  if (!memory_.is_host()) return ReadState(name);
  ASSIGN_OR_RETURN(const TensorType type, signature_.TypeOfState(name));
  Lease lease(*this);
  RETURN_IF_ERROR(lease.Take());
  return Tensor(type, nullptr, lease.worker().instance->address(schedule_.states.at(name)));
}

absl::Status Executor::WriteState(const std::string& name, const Tensor& value) {
  RETURN_IF_ERROR(signature_.CheckState(name, value));
  Lease lease(*this);
  RETURN_IF_ERROR(lease.Take());
  void* to = lease.worker().instance->address(schedule_.states.at(name));
  RETURN_IF_ERROR(memory_.CopyIn(to, value.data(), static_cast<size_t>(value.num_bytes())));
  return memory_.Synchronize();
}

int64_t Executor::shared_bytes() const { return memory_.is_host() && !plan_.options.separate ? plan_.arena_bytes : 0; }

void Executor::UseArena(std::shared_ptr<void> arena) {
  const std::lock_guard<std::mutex> lock(mutex_);
  turns_ = &shared_;
  idle_.resize(1);
  idle_[0]->instance->MoveTo(std::move(arena));
}

std::unique_ptr<GraphRunner> MakeGraphRunner(Device& device) { return std::make_unique<DeviceRunner>(device); }

}  // namespace rewright
