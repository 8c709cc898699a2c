// The memory of this machine, as schedules see it.
#pragma once

#include "core/device/device.h"

namespace rewright {

// Work is done when it is enqueued. Thread-safe.
class HostDeviceMemory : public DeviceMemory {
 public:
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override;
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override;
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override { return CopyIn(to, from, bytes); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status RunQueues(const std::vector<QueueStep>& steps, const std::function<absl::Status(int)>& enqueue) override;
  absl::StatusOr<std::function<absl::Status()>> Record(const std::function<absl::Status()>& work) override {
    return work;
  }
  bool is_host() const override { return true; }
};

// One for the whole program.
DeviceMemory& HostMemory();

}  // namespace rewright
