#include "backends/cuda/operand_sets.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"

namespace rewright::cuda {
namespace {

constexpr int64_t kMaxBytes = int64_t{2} << 30;
constexpr size_t kAlignment = 256;

}  // namespace

int64_t NumSets(const GpuDescription& gpu, int64_t bytes, int64_t most) {
  bytes = std::max<int64_t>(bytes, 1);
  const int64_t wanted = std::clamp<int64_t>(2 * gpu.l2_bytes / bytes + 1, 1, most);
  return std::clamp<int64_t>(kMaxBytes / bytes, 1, wanted);
}

absl::StatusOr<std::vector<std::unique_ptr<Instance>>> MakeSets(const Schedule& schedule, const MemoryPlan& plan,
                                                                GpuMemory& memory, int64_t sets,
                                                                std::vector<char> contents) {
  const size_t stride = static_cast<size_t>(plan.bytes) / kAlignment * kAlignment + kAlignment;
  ASSIGN_OR_RETURN(const std::shared_ptr<void> all, memory.Allocate(static_cast<size_t>(sets) * stride));
  for (size_t id = 0; id < schedule.buffers.size(); ++id) {
    const Buffer& buffer = schedule.buffers[id];
    if (buffer.kind != Buffer::Kind::kConstant || buffer.data == nullptr || plan.offsets[id] < 0) continue;
    RETURN_IF_ERROR(memory.CopyOut(contents.data() + plan.offsets[id], buffer.data.get(), buffer.bytes));
  }
  std::vector<std::unique_ptr<Instance>> instances;
  for (int64_t i = 0; i < sets; ++i) {
    std::shared_ptr<void> block(all, static_cast<char*>(all.get()) + static_cast<size_t>(i) * stride);
    RETURN_IF_ERROR(memory.CopyIn(block.get(), contents.data(), contents.size()));
    ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance,
                     Instance::Create(schedule, plan, memory, std::move(block), /*reset=*/false));
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace rewright::cuda
