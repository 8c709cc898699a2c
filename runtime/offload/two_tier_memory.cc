#include "runtime/offload/two_tier_memory.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"

namespace rewright {

TwoTierMemory::TwoTierMemory(int64_t stored_bytes) : room_(std::make_shared<Room>()) { room_->bytes = stored_bytes; }

absl::StatusOr<std::shared_ptr<void>> TwoTierMemory::AllocateStored(size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  const std::shared_ptr<Room> room = room_;
  {
    const std::lock_guard<std::mutex> lock(room->mutex);
    if (count > room->bytes - room->taken) {
      return absl::ResourceExhaustedError(absl::StrCat("second tier: found ", count,
                                                       " bytes to store, expected at most ", room->bytes - room->taken,
                                                       ", which are free of ", room->bytes));
    }
    room->taken += count;
  }
  const auto give_back = [room, count] {
    const std::lock_guard<std::mutex> lock(room->mutex);
    room->taken -= count;
  };
  auto memory = AllocateBytes(bytes, kAlignment);
  if (!memory.ok()) {
    give_back();
    return memory.status();
  }
  void* const address = memory->get();
  return std::shared_ptr<void>(address, [memory = *std::move(memory), give_back](void*) { give_back(); });
}

absl::Status TwoTierMemory::Synchronize() {
  int64_t last = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last = last_;
  }
  return queue_.Wait(last);
}

void TwoTierMemory::Start(const void* stored, void* to, const void* from, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = queue_.Start([to, from, bytes] {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  });
  copies_[stored] = last_;
}

absl::Status TwoTierMemory::WaitFor(const void* stored) {
  int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = copies_.find(stored);
    if (found != copies_.end()) number = found->second;
  }
  return queue_.Wait(number);
}

}  // namespace rewright
