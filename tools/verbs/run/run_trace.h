// A run of a compiled graph, kernel by kernel, as a trace.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"

namespace rewright {

// Runs once more, one step after the other, and gives the trace for Perfetto (runtime/chrome_trace.h): a lane for each
// queue, and for each step its operators, FLOPs, and the bytes of the buffers that it reads and writes. `threads`: that
// kernels use, 0 for all; `device`: that compiled it, or null. Errors: an executable that is not of our executor on
// this machine's memory; those of the run.
absl::StatusOr<std::string> TraceOfRun(const Graph& graph, Device* device, Executable& executable,
                                       const std::vector<Tensor>& inputs, int64_t threads);

}  // namespace rewright
