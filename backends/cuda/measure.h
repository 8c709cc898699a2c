// The time of a group by itself on the GPU.
#pragma once

#include "absl/status/statusor.h"
#include "backends/cuda/context_layout.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/lowering.h"
#include "backends/profile_db.h"
#include "core/ir/device.h"

namespace rewright::cuda {

// Times the group on operands in the layouts that they have in the graph; conversions that it needs count. The group
// runs many times in one recording, as it will in the whole graph, on sets of operands, weights among them, that
// together exceed the cache twice.
absl::StatusOr<ProfileEntry> MeasureGroup(Gpu& gpu, const Graph& graph, const Group& group, CudaLayouts& layouts,
                                          LoweringOptions options);

}  // namespace rewright::cuda
