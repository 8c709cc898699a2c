// A device on this machine's memory, with a second tier beside it: a store that only copies reach, and a thread that
// copies there and back while kernels run. It stands for the memory of a host beside that of a GPU, and is what
// offloading is tested on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/worker_thread.h"
#include "runtime/host_memory.h"

namespace rewright {

// Thread-safe.
class TwoTierMemory : public HostDeviceMemory {
 public:
  // A second tier of `stored_bytes` bytes.
  explicit TwoTierMemory(int64_t stored_bytes);

  // Error: ResourceExhausted where what is taken already leaves less than that.
  absl::StatusOr<std::shared_ptr<void>> AllocateStored(size_t bytes) override;
  // Waits for all copies.
  absl::Status Synchronize() override;

  int64_t stored_bytes() const { return room_->bytes; }

  // Copies bytes when all copies that were begun before are done. `stored`, the address in the second tier, names the
  // copy for WaitFor until the next one that has this address begins.
  void Start(const void* stored, void* to, const void* from, size_t bytes);
  // Returns when that copy is done.
  absl::Status WaitFor(const void* stored);

 private:
  // State that all allocations share; it may outlive the memory.
  struct Room {
    std::mutex mutex;
    int64_t bytes = 0, taken = 0;
  };
  const std::shared_ptr<Room> room_;
  std::mutex mutex_;
  absl::flat_hash_map<const void*, int64_t> copies_;  // numbers of the last ones, by address
  int64_t last_ = 0;
  WorkerThread queue_{/*at_once=*/false};
};

struct TwoTierOptions {
  // Bytes that a run may take in the first tier, states included: copies overlap as far as that permits; 0: not stated.
  int64_t first_bytes = 0;
  int64_t second_bytes = 0;  // that the second tier has
  int threads = 0;           // that compute while copies are measured; 0: one per processor
};

// Compiles as `device` does; fetch(x, t) of what waits becomes copies to the second tier and back (offload.h). Its
// groups cost nothing by themselves: what copies take is known where a schedule is. Error: a device with memory of its
// own, or that does not run.
absl::StatusOr<std::unique_ptr<Device>> MakeTwoTierDevice(std::unique_ptr<Device> device,
                                                          const TwoTierOptions& options);

}  // namespace rewright
