// Counts what the test program allocates through operator new.
#pragma once

#include <cstdint>

namespace rewright {

int64_t NumAllocations();
// One allocation throws, behind `count` others that do not; -1: none does.
void FailOnce(int64_t count);

}  // namespace rewright
