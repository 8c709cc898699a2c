#include "backends/cuda/trial_memory.h"

#include "backends/cuda/gpu_status.h"
#include "backends/schedule_builder.h"
#include "core/base/status_macros.h"

namespace rewright::cuda {

absl::Status TrialMemory::AddressesOf(const std::vector<int>& buffers, std::vector<void*>* addresses) {
  for (int id : buffers) {
    size_t offset = 0;
    const int root = RootOf(schedule_, id, &offset);
    const Buffer& buffer = schedule_.buffers[root];
    if (buffer.kind == Buffer::Kind::kConstant) {
      addresses->push_back(static_cast<char*>(buffer.data.get()) + offset);
      continue;
    }
    std::shared_ptr<void>& memory = owned_[root];
    if (memory == nullptr) {
      absl::StatusOr<std::shared_ptr<void>> allocated = Allocate(gpu_, buffer.bytes);
      if (!allocated.ok()) return allocated.status();
      memory = *std::move(allocated);
      const std::vector<char> zeros(buffer.bytes);
      RETURN_IF_ERROR(StatusOf(gpu_.CopyIn(memory.get(), zeros.data(), zeros.size())));
    }
    addresses->push_back(static_cast<char*>(memory.get()) + offset);
  }
  return absl::OkStatus();
}

}  // namespace rewright::cuda
