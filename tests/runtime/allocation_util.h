// Counts what the test program allocates through operator new.
#pragma once

#include <cstdint>

namespace rewright {

int64_t NumAllocations();

}  // namespace rewright
