// Memory on which steps of a schedule are tried before the schedule has its own.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/gpu.h"
#include "core/ir/device.h"

namespace rewright::cuda {

// Every buffer that is asked for has its own memory, all zeros (numbers that are valid as anything, indices too), views
// lie within what they view, and constants are the schedule's. Gpu and schedule outlive it; buffers do not change.
class TrialMemory {
 public:
  TrialMemory(Gpu& gpu, const Schedule& schedule) : gpu_(gpu), schedule_(schedule) {}
  // Appends to `addresses`. Errors: ResourceExhausted.
  absl::Status AddressesOf(const std::vector<int>& buffers, std::vector<void*>* addresses);

 private:
  Gpu& gpu_;
  const Schedule& schedule_;
  std::map<int, std::shared_ptr<void>> owned_;
};

}  // namespace rewright::cuda
