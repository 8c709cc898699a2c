// Runs a compiled schedule on a device with memory of its own: one arena there, addresses bound once, all kernels
// recorded once and enqueued as a whole.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/ir/device.h"

namespace rewright {

// Everything a run needs is made here; a run copies inputs in, computes, and copies outputs out; RunAgain computes
// alone. `memory` outlives the result. Not thread-safe. Errors: those of PlanMemory and of the memory; of a run also
// inputs of the wrong type and indices among the inputs that are outside what they index.
absl::StatusOr<std::unique_ptr<Executable>> MakeDeviceExecutor(const Graph& graph, Schedule schedule,
                                                               DeviceMemory& memory);

}  // namespace rewright
