// A GPU as the rest of the program sees it: its faults as errors, its memory and queues as the runtime's.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/gpu.h"
#include "core/device/device.h"

namespace rewright::cuda {

// A failure behind the GPU's border, as this program reports it. ResourceExhausted: something is too large for the GPU;
// it ends the program like other requests that cannot be met. Aborted: the failure leaves no GPU to go on with.
absl::Status StatusOf(const Fault& fault);
// The fault of a way to do something where no other way is to be tried.
absl::Status FinalStatusOf(const Fault& fault);

// The GPU outlives it, and the memory that it gives.
class GpuMemory : public DeviceMemory {
 public:
  explicit GpuMemory(Gpu& gpu) : gpu_(gpu) {}
  const GpuDescription& gpu() const { return gpu_.description(); }

  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override;
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override;
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize() override;
  absl::Status RunQueues(const std::vector<QueueStep>& steps, const std::function<absl::Status(int)>& enqueue) override;
  absl::StatusOr<std::function<absl::Status()>> Record(const std::function<absl::Status()>& work) override;
  std::mutex* turns() override { return &turns_; }

  // Seconds that the work takes on the GPU.
  absl::StatusOr<double> Time(const std::function<absl::Status()>& work);
  // The number of the fastest way, as Gpu::Fastest.
  absl::StatusOr<int> Fastest(const std::string& key, const std::vector<std::function<absl::Status()>>& ways);

 private:
  Gpu& gpu_;
  std::mutex turns_;
};

}  // namespace rewright::cuda
