#include "runtime/host_memory.h"

#include <cstring>

#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {

absl::StatusOr<std::shared_ptr<void>> HostDeviceMemory::Allocate(size_t bytes) {
  return AllocateBytes(bytes, kAlignment);
}

absl::Status HostDeviceMemory::CopyIn(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status HostDeviceMemory::RunQueues(const std::vector<QueueStep>& steps,
                                         const std::function<absl::Status(int)>& enqueue) {
  for (size_t i = 0; i < steps.size(); ++i) RETURN_IF_ERROR(enqueue(static_cast<int>(i)));
  return absl::OkStatus();
}

DeviceMemory& HostMemory() {
  static HostDeviceMemory host;
  return host;
}

}  // namespace rewright
