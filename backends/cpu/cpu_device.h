// The CPU device: oneDNN for convolutions and pooling, own vectorized kernels for everything else.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/device_factory.h"
#include "core/device/device.h"

namespace rewright::cpu {

// Thread-safe except for Cost, which measures: two measurements at once would disturb each other. Compile makes
// schedules that are run by one thread at a time.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const DeviceOptions& options);

// The index of the kernel that runs, by the seconds that each takes: the fastest where they are known exactly. A few
// runs do not tell kernels of about the same speed apart: the first of these is chosen, so that one file runs by the
// same kernels every time. `seconds` is not empty; the operator's own kernel stands first, then laws by the size of
// their errors.
size_t KernelToRun(const std::vector<double>& seconds, bool exact);

}  // namespace rewright::cpu
