#include "runtime/comm/memory_pool.h"

#include <new>
#include <utility>

#include "core/tensor/memory.h"

namespace rewright {
namespace {

constexpr size_t kSmallBytes = size_t{1} << 20;
// At most an eighth of a block lies idle: blocks of gradients on two ranks are half as large as whole ones.
constexpr size_t kIdleShare = 8;

std::shared_ptr<void> Allocate(size_t bytes) {
  auto block = AllocateBytes(bytes);
  if (!block.ok()) throw std::bad_alloc();
  return *std::move(block);
}

}  // namespace

std::shared_ptr<void> MemoryPool::Take(size_t bytes) {
  if (bytes < kSmallBytes) return Allocate(bytes);
  std::shared_ptr<void> block;
  {
    const std::lock_guard<std::mutex> lock(blocks_->mutex);
    const auto found = blocks_->free.lower_bound(bytes);
    if (found != blocks_->free.end() && found->first - found->first / kIdleShare <= bytes) {
      bytes = found->first;
      block = std::move(found->second);
      blocks_->free.erase(found);
    }
  }
  if (block == nullptr) {
    block = Allocate(bytes);
    const std::lock_guard<std::mutex> lock(blocks_->mutex);
    blocks_->bytes += static_cast<int64_t>(bytes);
  }
  void* const memory = block.get();
  return {memory, [blocks = blocks_, block = std::move(block), bytes](void*) mutable {
            const std::lock_guard<std::mutex> lock(blocks->mutex);
            blocks->free.emplace(bytes, std::move(block));
          }};
}

Tensor MemoryPool::Take(TensorType type) {
  std::shared_ptr<void> memory = Take(static_cast<size_t>(type.num_bytes()));
  void* const data = memory.get();
  return Tensor(std::move(type), std::move(memory), data);
}

int64_t MemoryPool::bytes() const {
  const std::lock_guard<std::mutex> lock(blocks_->mutex);
  return blocks_->bytes;
}

}  // namespace rewright
