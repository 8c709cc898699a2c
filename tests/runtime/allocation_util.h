// Counts the test program's allocations by operator new.
#pragma once

#include <cstdint>

namespace rewright {

int64_t NumAllocations();
// Makes one allocation throw, after `count` others that do not; -1: none throws.
void FailOnce(int64_t count);

}  // namespace rewright
