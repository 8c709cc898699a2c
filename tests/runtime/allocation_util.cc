#include "tests/runtime/allocation_util.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> failing{-1};
}  // namespace

// Sanitizers have their own operators, which must not be mixed with these: nothing is counted then.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) {
  if (allocations++ == failing) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace rewright {

int64_t NumAllocations() { return allocations; }
void FailOnce(int64_t count) { failing = count < 0 ? -1 : allocations + count; }

}  // namespace rewright
