// Groups by themselves: their signature, and the graph and schedule that they are measured by.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "backends/cpu/context_layout.h"
#include "backends/cpu/disturbance.h"
#include "backends/cpu/kernels/dnnl_util.h"
#include "backends/profile_db.h"
#include "core/device.h"

namespace rewright::cpu {

// Everything that the time of a group depends on: operators, attributes, types, wiring, kinds and layouts of the
// inputs, and the values of single-element constants.
std::string GroupSignature(const Graph& graph, const Group& group, ContextLayouts& layouts);

// Times the group alone on operands in the layouts that they have in the graph; conversions that it needs count.
absl::StatusOr<ProfileEntry> MeasureGroup(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                          const Group& group, ContextLayouts& layouts, DisturbanceProbe& probe);

}  // namespace rewright::cpu
