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

// Blocks of memory that are used again. Thread-safe. Blocks that it gave may outlive it.
class MemoryPool {
 public:
  // Returns at least `bytes` bytes, aligned to 64 and not initialized. When the last pointer to a block goes, the block
  // is free for the next request of its size, or of up to an eighth less. Small requests go to the system's allocator,
  // which keeps blocks itself. Throws std::bad_alloc, as `new` does.
  std::shared_ptr<void> Take(size_t bytes);
  Tensor Take(TensorType type);

  // Bytes of the blocks that are given out, and of those that are free.
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
