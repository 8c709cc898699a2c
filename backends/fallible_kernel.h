// Kernels that can meet operands for which their operator is not meant: an index outside its axis.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "core/ir/device.h"

namespace rewright {

// Run reads and writes nothing outside its buffers whatever it meets, and remembers the first thing that is wrong.
// Not to be run by two threads at once, as no schedule is.
class FallibleKernel : public Kernel {
 public:
  // What was wrong since the last call.
  virtual absl::Status TakeFault() const = 0;
};

inline std::vector<const FallibleKernel*> FallibleKernels(const Schedule& schedule) {
  std::vector<const FallibleKernel*> kernels;
  for (const Step& step : schedule.steps) {
    if (const auto* kernel = dynamic_cast<const FallibleKernel*>(step.kernel.get())) kernels.push_back(kernel);
  }
  return kernels;
}

// The fault of the first one that has any; takes those of all.
inline absl::Status TakeFaults(const std::vector<const FallibleKernel*>& kernels) {
  absl::Status first;
  for (const FallibleKernel* kernel : kernels) first.Update(kernel->TakeFault());
  return first;
}

}  // namespace rewright
