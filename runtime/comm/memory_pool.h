// Memory that is given out again and again. The system's allocator gives large blocks back to the system when they are
// freed, and every page of a new one costs a fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/tensor/tensor.h"

namespace rewright {

// Thread-safe. What it gave may outlive it.
class MemoryPool {
 public:
  // At least so many bytes, aligned to 64 and not initialized. With the last pointer to them they are free for the next
  // one who asks for as many, or for up to an eighth less. What is small comes from the system's allocator, which
  // keeps it itself. Throws std::bad_alloc, as `new` does.
  std::shared_ptr<void> Take(size_t bytes);
  Tensor Take(TensorType type);

  // In blocks that are given out, and in those that are free.
  int64_t bytes() const;

 private:
  struct Blocks {
    std::mutex mutex;
    std::multimap<size_t, std::shared_ptr<void>> free;  // by size
    int64_t bytes = 0;
  };
  const std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();
};

}  // namespace rewright
