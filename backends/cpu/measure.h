// The time of a group by itself.
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cpu/context_layout.h"
#include "backends/cpu/disturbance.h"
#include "backends/cpu/kernels/dnnl_util.h"
#include "backends/profile_db.h"
#include "core/ir/device.h"

namespace rewright::cpu {

// The way in which a group is timed.
struct MeasureOptions {
  std::string law;    // by which it is computed (LicensedLaws); empty: as its operators say
  bool cold = false;  // weights are in no cache, as in a model that has many
  double enough = std::numeric_limits<double>::infinity();  // as SampleLimits has it
  bool brief = false;  // a few runs whatever else goes on: to choose between kernels where nobody asks for costs
};

// Times the group alone on operands in the layouts that they have in the graph; conversions that it needs count.
absl::StatusOr<ProfileEntry> MeasureGroup(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                          const Group& group, CpuLayouts& layouts, DisturbanceProbe& probe,
                                          const MeasureOptions& options);

}  // namespace rewright::cpu
