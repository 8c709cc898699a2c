#include "backends/cuda/trial.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "runtime/memory_plan.h"

namespace rewright::cuda {
namespace {

constexpr int64_t kMaxBytes = int64_t{2} << 30;
constexpr size_t kAlignment = 256;
constexpr int64_t kMaxSets = 16;  // as often as a way is recorded (Gpu::Fastest)

// Whatever type its buffers have: two bytes that are a number between 1/4 and 2 in bfloat16 and in IEEE half precision,
// and so are, as its upper half, four in single precision. As indices they are taken mod n.
std::vector<char> OrdinaryNumbers(int64_t bytes) {
  std::vector<char> numbers(static_cast<size_t>(bytes));
  uint32_t state = 1;
  for (size_t i = 0; i + 2 <= numbers.size(); i += 2) {
    state = state * 1664525u + 1013904223u;
    const uint16_t bits = static_cast<uint16_t>((state >> 31) << 15 | (0x3e80 + (state >> 16) % 0x180));
    std::memcpy(&numbers[i], &bits, 2);
  }
  return numbers;
}

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

absl::StatusOr<int> FastestOnTrial(const Schedule& schedule, const std::vector<int>& buffers, GpuMemory& memory,
                                   const std::string& key, const std::function<absl::Status()>& prepare,
                                   const std::vector<TrialWay>& ways) {
  MemoryPlan plan;
  std::vector<std::unique_ptr<Instance>> sets;
  absl::Status made;
  const auto make = [&]() -> absl::Status {
    RETURN_IF_ERROR(prepare());
    ASSIGN_OR_RETURN(plan,
                     PlanMemory(schedule, {.separate = true, .externals = true, .constants = true, .only = &buffers}));
    const int64_t wanted = NumSets(memory.gpu(), plan.bytes, kMaxSets);
    auto several = MakeSets(schedule, plan, memory, wanted, OrdinaryNumbers(plan.bytes));
    if (absl::IsResourceExhausted(several.status()) && wanted > 1) {
      several = MakeSets(schedule, plan, memory, 1, OrdinaryNumbers(plan.bytes));
    }
    ASSIGN_OR_RETURN(sets, std::move(several));
    return absl::OkStatus();
  };
  std::vector<std::function<absl::Status()>> runs;
  for (const TrialWay& way : ways) {
    runs.push_back([&, turn = size_t{0}]() mutable -> absl::Status {
      if (sets.empty() && made.ok()) made = make();
      RETURN_IF_ERROR(made);
      return way(*sets[turn++ % sets.size()]);
    });
  }
  const absl::StatusOr<int> fastest = memory.Fastest(key, runs);
  if (absl::IsResourceExhausted(made)) return 0;
  RETURN_IF_ERROR(made);
  return fastest;
}

}  // namespace rewright::cuda
