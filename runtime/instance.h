// A schedule on memory of its own: what one run at a time needs, be it of a compiled model, of steps that are measured
// or tried, or of constants that are computed beforehand.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/memory_plan.h"

namespace rewright {

// Runs one kernel. A failure to allocate memory in it is an error, too.
absl::Status RunKernel(const Kernel& kernel, void* const* buffers);

// Not thread-safe; several instances of a schedule may run at a time where its memory allows it.
class Instance {
 public:
  // All three outlive the instance. `block` is memory of plan.bytes bytes; null: the instance allocates its own. It is
  // filled as by Reset unless that is left to the caller. Errors: ResourceExhausted, those of the memory, and a step
  // without a kernel.
  static absl::StatusOr<std::unique_ptr<Instance>> Create(const Schedule& schedule, const MemoryPlan& plan,
                                                          DeviceMemory& memory, std::shared_ptr<void> block = nullptr,
                                                          bool reset = true);

  // From now on its arena is this memory, of plan.arena_bytes bytes; what lies behind the arena stays where it is. Not
  // for one that runs are recorded of, or that was given its block.
  void MoveTo(std::shared_ptr<void> arena);
  // Null for a buffer that has no memory here.
  void* address(int buffer) const { return addresses_[buffer]; }
  // The address that step `step` passes as its buffer number `position`.
  void*& argument(int step, int position) { return arguments_[first_[step] + position]; }

  // One step, or all of them in the order of the schedule. On a device with queues this enqueues. Errors name the step
  // and its operators.
  absl::Status RunStep(int step);
  absl::Status Run();
  // Contents as before the first run: of states, of copies of constants, and what the plan's options say of all others.
  absl::Status Reset();

 private:
  Instance(const Schedule& schedule, const MemoryPlan& plan, DeviceMemory& memory)
      : schedule_(schedule), plan_(plan), memory_(memory) {}
  absl::Status Bind(std::shared_ptr<void> block);
  // Addresses of buffers, and so arguments of steps.
  void FindAddresses();
  // Poisons what steps [begin, end) used last.
  absl::Status Expire(int begin, int end);
  absl::Status Set(void* to, unsigned char value, int64_t bytes);

  const Schedule& schedule_;
  const MemoryPlan& plan_;
  DeviceMemory& memory_;
  std::shared_ptr<void> arena_, behind_;  // of what the plan has behind the arena
  std::shared_ptr<void> stored_;
  std::vector<void*> addresses_;  // by buffer
  std::vector<void*> arguments_;  // of all steps, one after the other
  std::vector<size_t> first_;     // argument of each step
  std::vector<std::unique_ptr<KernelHandles>> handles_;
};

}  // namespace rewright
