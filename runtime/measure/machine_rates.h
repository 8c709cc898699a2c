// The measured rates of a machine: the limits of a roofline (Williams, Waterman, Patterson, CACM 2009).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"

namespace rewright {

// The rate at which work moves its bytes, if it reads and writes `bytes` in all.
struct MemoryRate {
  double bytes = 0, bytes_per_second = 0;
};

struct Rates {
  double flops_per_second = 0;
  std::vector<MemoryRate> memory;  // with more bytes, fewer a second: from the caches to the memory behind them

  // The rate for the largest measured number of bytes that is not above `bytes`.
  double BytesPerSecond(double bytes) const;
  // The higher of each of two measurements.
  void RaiseTo(const Rates& other);
  // The rate of the memory behind all caches.
  double bytes_per_second() const { return memory.back().bytes_per_second; }
};

// Multiply-adds in registers, and loads of 16 kB to 256 MB (Device::PeakFlops and what follows it); where the device
// does not tell, by what a product of matrices of 1536 and a sum of two vectors of 64 MB cost. Errors: those of
// Device::Cost.
absl::StatusOr<Rates> MeasureRates(Device& device);

}  // namespace rewright
