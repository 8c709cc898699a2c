// Resources that this process has used.
#pragma once

#include <cstdint>

namespace rewright {

// CPU seconds of the calling thread and all others, user and system.
double ProcessCpuSeconds();
// Resident now, and the most there ever was.
int64_t ResidentBytes();
int64_t PeakResidentBytes();

}  // namespace rewright
