// Runs a compiled schedule on the memory of this machine: one arena, addresses bound once, kernels in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/fallible_kernel.h"
#include "core/ir/device.h"
#include "runtime/memory_plan.h"

namespace rewright {

// The static schedule of one graph, ready to run again and again. Everything that a run needs is made by Create;
// a run allocates nothing except output tensors that the caller did not bring. Inputs and outputs are used where the
// caller has them, without a copy, unless the schedule leaves an output inside another buffer.
//
// Not thread-safe: runs share the arena.
class Executor : public Executable {
 public:
  // Errors: those of PlanMemory, too little memory, and a schedule that does not fit the graph (faults of the device).
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Graph& graph, Schedule schedule);

  // Tensors in `outputs` that have the right type are written in place (whoever shares their memory sees it);
  // others are replaced by fresh ones, and so is one that shares its memory with an input.
  // Errors: a wrong number of inputs, an input of the wrong type, and what a FallibleKernel finds.
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override;

  // The same; adds the seconds that step i took to (*seconds)[i].
  absl::Status RunTimed(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs, std::vector<double>* seconds);

  int64_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t peak_live_bytes() const override { return plan_.peak_live_bytes; }
  const Schedule& schedule() const { return schedule_; }

 private:
  // addresses_[slot] is `offset` bytes into the memory of input or output number `external`.
  struct Patch {
    size_t slot;
    size_t external;  // inputs first, then outputs
    int64_t offset;
  };
  // Output number `output` is found at addresses_[slot] after the run.
  struct CopyOut {
    size_t slot;
    size_t output;
  };

  Executor() = default;
  absl::Status Bind();
  absl::StatusOr<std::vector<int>> ExternalsOfBuffers(std::vector<bool>* copied) const;
  absl::Status AddSlot(int buffer, const std::vector<int>& externals);
  absl::Status PrepareRun(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs);
  absl::Status FinishRun(std::vector<Tensor>* outputs) const;

  Schedule schedule_;
  MemoryPlan plan_;
  std::unique_ptr<std::byte, void (*)(void*)> arena_{nullptr, nullptr};
  std::vector<std::string> input_names_;
  std::vector<TensorType> input_types_;
  std::vector<TensorType> output_types_;
  std::vector<void*> addresses_;    // of the buffers of all steps, one after the other, then those of CopyOut
  std::vector<size_t> step_begin_;  // first slot of each step
  std::vector<Patch> patches_;
  std::vector<CopyOut> copies_;
  std::vector<const FallibleKernel*> fallible_;
  std::vector<void*> externals_;  // of the current run
};

// A GraphRunner over a device, on this machine's memory or on its own (device_executor.h), which must outlive it and
// what it prepares.
std::unique_ptr<GraphRunner> MakeGraphRunner(Device& device);

}  // namespace rewright
