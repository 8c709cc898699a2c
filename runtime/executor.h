// Runs a compiled schedule, on the memory of this machine or on a device's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/index_range.h"
#include "runtime/host_memory.h"
#include "runtime/instance.h"
#include "runtime/memory_plan.h"
#include "runtime/signature.h"

namespace rewright {

// Executables whose activations may lie in memory of their caller: executables that run one by one share it.
class ArenaUser {
 public:
  virtual ~ArenaUser() = default;
  // Bytes that it takes of such memory; 0: it has its own, and keeps that.
  virtual int64_t shared_bytes() const = 0;
  // From now on runs take turns and work in `arena`, which has shared_bytes() bytes, aligned to
  // DeviceMemory::kAlignment, and may be written by others between two runs. REQUIRES: no run goes on, shared_bytes() >
  // 0.
  virtual void UseArena(std::shared_ptr<void> arena) = 0;
};

// The static schedule of one graph, ready to run again and again. A run allocates nothing except output tensors that
// the caller did not bring, and an instance (runtime/instance.h) where as many runs go on as never before.
//
// On this machine's memory inputs and outputs are used where the caller has them, without a copy, unless the schedule
// leaves an output inside another buffer. On a device's own, inputs are copied in, all steps are recorded once and
// enqueued as a whole, outputs are copied out.
//
// Thread-safe. Runs take turns where the device says so, and where the schedule has states: then there is one instance.
class Executor : public Executable, public ArenaUser {
 public:
  // `memory` outlives the executor. `externals` and `only` of the options are set by the executor itself. Errors: those
  // of PlanMemory and of the memory, too little memory, and a schedule that does not fit the graph (faults of the
  // device).
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Graph& graph, Schedule schedule,
                                                          DeviceMemory& memory = HostMemory(),
                                                          const PlanOptions& options = {});

  // Tensors in `outputs` that have the right type are written in place (other tensors of the same memory see it);
  // others are replaced by fresh ones, and so is one that shares its memory with an input. Errors: a wrong number of
  // inputs, an input of the wrong type, and what steps find.
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override;
  absl::Status RunAgain(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override;

  absl::StatusOr<Tensor> ReadState(const std::string& name) override;
  absl::StatusOr<Tensor> ViewState(const std::string& name) override;
  absl::Status WriteState(const std::string& name, const Tensor& value) override;

  // Run on this machine's memory; adds the seconds that step i took to (*seconds)[i].
  absl::Status RunTimed(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs, std::vector<double>* seconds);

  // On this machine's memory; states stay where they are.
  int64_t shared_bytes() const override;
  void UseArena(std::shared_ptr<void> arena) override;

  int64_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t constant_bytes() const override {
    int64_t bytes = 0;
    for (const Buffer& buffer : schedule_.buffers) {
      const bool counts = buffer.kind == Buffer::Kind::kConstant && buffer.data != nullptr && buffer.alias_of < 0;
      if (counts) bytes += static_cast<int64_t>(buffer.bytes);
    }
    return bytes;
  }
  int64_t peak_live_bytes() const override { return plan_.peak_live_bytes; }
  int64_t stored_bytes() const override { return plan_.stored_bytes; }
  const Schedule& schedule() const { return schedule_; }

 private:
  // An argument of a step that is `offset` bytes into the memory of input or output number `external`.
  struct Patch {
    int step, position;
    size_t external;  // inputs first, then outputs
    int64_t offset;
  };
  // The state of one run; runs at the same time have one each.
  struct Worker {
    std::unique_ptr<Instance> instance;
    std::vector<void*> externals;           // of the present run, on this machine's memory
    std::function<absl::Status()> enqueue;  // all steps, on a device's own
  };
  class Lease;

  Executor(const Graph& graph, Schedule schedule, DeviceMemory& memory)
      : schedule_(std::move(schedule)), memory_(memory), signature_(graph), index_inputs_(IndexInputs(graph)) {}
  absl::Status Init(const Graph& graph, const PlanOptions& options);
  // Makes activations that are whole results outputs: steps write them where the caller wants them.
  absl::Status ReturnActivations();
  absl::Status CheckFit() const;
  absl::Status FindExternals();
  absl::StatusOr<std::unique_ptr<Worker>> MakeWorker() const;
  using RunSteps = std::function<absl::Status(Instance&)>;
  absl::Status RunOnHost(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs, const RunSteps& run);
  absl::Status RunOnDevice(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs);

  Schedule schedule_;  // as it is after Init
  DeviceMemory& memory_;
  const Signature signature_;
  const std::vector<IndexInput> index_inputs_;  // which generated kernels do not check
  MemoryPlan plan_;
  AddressRanges constants_;
  std::string activations_;  // for messages: what takes most memory
  // By buffer, on this machine's memory: the input or output that it is, inputs first; -1: none.
  std::vector<int> externals_;
  std::vector<Patch> patches_;
  std::vector<size_t> copied_;   // outputs that are not written where the caller wants them
  std::mutex* turns_ = nullptr;  // null: runs do not take turns
  std::mutex shared_;            // turns of runs that share states or an arena
  std::mutex mutex_;             // of what follows
  std::vector<std::unique_ptr<Worker>> idle_;
};

// A GraphRunner over a device, on this machine's memory or on its own, which must outlive it and what it prepares.
std::unique_ptr<GraphRunner> MakeGraphRunner(Device& device);

}  // namespace rewright
