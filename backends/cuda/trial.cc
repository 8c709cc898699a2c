#include "backends/cuda/trial.h"

#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "runtime/memory_plan.h"

namespace rewright::cuda {

absl::StatusOr<int> FastestOnTrial(const Schedule& schedule, const std::vector<int>& buffers, GpuMemory& memory,
                                   const std::string& key, const std::function<absl::Status()>& prepare,
                                   const std::vector<TrialWay>& ways) {
  MemoryPlan plan;
  std::unique_ptr<Instance> trial;
  absl::Status made;
  const auto make = [&]() -> absl::Status {
    RETURN_IF_ERROR(prepare());
    ASSIGN_OR_RETURN(plan, PlanMemory(schedule, {.separate = true, .externals = true, .only = &buffers}));
    ASSIGN_OR_RETURN(trial, Instance::Create(schedule, plan, memory));
    return absl::OkStatus();
  };
  std::vector<std::function<absl::Status()>> runs;
  for (const TrialWay& way : ways) {
    runs.push_back([&]() -> absl::Status {
      if (trial == nullptr && made.ok()) made = make();
      RETURN_IF_ERROR(made);
      return way(*trial);
    });
  }
  const absl::StatusOr<int> fastest = memory.Fastest(key, runs);
  if (absl::IsResourceExhausted(made)) return 0;
  RETURN_IF_ERROR(made);
  return fastest;
}

}  // namespace rewright::cuda
