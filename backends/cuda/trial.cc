#include "backends/cuda/trial.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "backends/cuda/operand_sets.h"
#include "core/base/status_macros.h"
#include "runtime/memory_plan.h"

namespace rewright::cuda {
namespace {

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
