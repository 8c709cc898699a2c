// The CPU device: oneDNN for convolutions and pooling, own vectorized kernels for everything else.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/device_factory.h"
#include "core/ir/device.h"

namespace rewright::cpu {

// Thread-safe except for Cost, which measures: two measurements at once would disturb each other. Compile makes
// schedules that are run by one thread at a time.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const DeviceOptions& options);

}  // namespace rewright::cpu
