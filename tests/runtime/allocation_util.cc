#include "tests/runtime/allocation_util.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
}

// The address sanitizer brings its own operators, which must not be mixed with these: nothing is counted there.
#ifndef __SANITIZE_ADDRESS__
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace rewright {

int64_t NumAllocations() { return allocations; }

}  // namespace rewright
