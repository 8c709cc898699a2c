// The memory and the queues of a GPU, as the runtime sees them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/gpu.h"
#include "core/ir/device.h"

namespace rewright::cuda {

// The GPU outlives it.
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
