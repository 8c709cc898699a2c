#include "runtime/host_memory.h"

#include <cstring>

#include "core/base/status_macros.h"
#include "core/ir/memory.h"

namespace rewright {
namespace {

class Host : public DeviceMemory {
 public:
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override { return AllocateBytes(bytes, kAlignment); }
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override { return CopyIn(to, from, bytes); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status RunQueues(const std::vector<QueueStep>& steps,
                         const std::function<absl::Status(int)>& enqueue) override {
    for (size_t i = 0; i < steps.size(); ++i) RETURN_IF_ERROR(enqueue(static_cast<int>(i)));
    return absl::OkStatus();
  }
  absl::StatusOr<std::function<absl::Status()>> Record(const std::function<absl::Status()>& work) override {
    return work;
  }
  bool is_host() const override { return true; }
};

}  // namespace

DeviceMemory& HostMemory() {
  static Host host;
  return host;
}

}  // namespace rewright
