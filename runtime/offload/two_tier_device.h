// A device on this machine's memory, with a second tier beside it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/ir/device.h"

namespace rewright {

struct TwoTierOptions {
  int64_t first_bytes =
      0;  // that a run may take, states included: copies overlap as far as that permits; 0: not stated
  int64_t second_bytes = 0;  // that the second tier has
  int threads = 0;           // that compute while copies are measured; 0: one per processor
};

// Compiles as `device` does; fetch(x, t) of what waits becomes copies to the second tier and back (offload.h). Its
// groups cost nothing by themselves: what copies take is known where a schedule is. Error: a device with memory of its
// own, or that does not run.
absl::StatusOr<std::unique_ptr<Device>> MakeTwoTierDevice(std::unique_ptr<Device> device,
                                                          const TwoTierOptions& options);

}  // namespace rewright
