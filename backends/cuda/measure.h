// Times work on the GPU: a group by itself, or several ways to do the same, of which the fastest is to be taken. All
// run on memory of their own, on sets of operands that take turns and exceed the cache together, since within a model
// operands come from memory, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/lower/context_layout.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/memory/gpu_memory.h"
#include "core/device/device.h"
#include "runtime/instance.h"
#include "runtime/measure/profile_db.h"

namespace rewright::cuda {

// Times the group on operands in the layouts that they have in the graph; conversions that it needs count. The group
// runs many times in one recording, as it will in the whole graph, on sets of operands, weights among them, that
// together exceed the cache twice.
absl::StatusOr<ProfileEntry> MeasureGroup(Gpu& gpu, const Graph& graph, const Group& group, CudaLayouts& layouts,
                                          LoweringOptions options);

using TrialWay = std::function<absl::Status(Instance& trial)>;

// The number of the fastest way. Each runs on memory for these buffers of the schedule, inputs, outputs and constants
// included, no two of which share any; up to 16 sets of it take turns. Buffers that hold no values yet are filled with
// numbers of ordinary size. `key` tells the ways apart from all others (Gpu::Fastest). Where the choice is remembered,
// `prepare` (which compiles the ways) is not called and no memory is taken. The first way is chosen where there is too
// little memory for a trial.
absl::StatusOr<int> FastestOnTrial(const Schedule& schedule, const std::vector<int>& buffers, GpuMemory& memory,
                                   const std::string& key, const std::function<absl::Status()>& prepare,
                                   const std::vector<TrialWay>& ways);

}  // namespace rewright::cuda
