#include "backends/cuda/trial_memory.h"

#include "backends/cuda/gpu_status.h"

namespace rewright::cuda {

absl::Status TrialMemory::AddressesOf(const std::vector<int>& buffers, std::vector<void*>* addresses) {
  for (int id : buffers) {
    size_t offset = 0;
    const auto at = [&](int i) -> const Buffer& { return schedule_.buffers[static_cast<size_t>(i)]; };
    for (; at(id).alias_of >= 0; id = at(id).alias_of) offset += at(id).offset;
    if (at(id).kind == Buffer::Kind::kConstant) {
      addresses->push_back(static_cast<char*>(at(id).data.get()) + offset);
      continue;
    }
    std::shared_ptr<void>& memory = owned_[id];
    if (memory == nullptr) {
      absl::StatusOr<std::shared_ptr<void>> allocated = Allocate(gpu_, at(id).bytes);
      if (!allocated.ok()) return allocated.status();
      memory = *std::move(allocated);
      const std::vector<char> zeros(at(id).bytes);
      if (absl::Status status = StatusOf(gpu_.CopyIn(memory.get(), zeros.data(), zeros.size())); !status.ok()) {
        return status;
      }
    }
    addresses->push_back(static_cast<char*>(memory.get()) + offset);
  }
  return absl::OkStatus();
}

}  // namespace rewright::cuda
