// The time of a group by itself, of arithmetic alone, and of loads alone.
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/common/noise_probe.h"
#include "backends/cpu/lower/context_layout.h"
#include "backends/cpu/onednn/dnnl_util.h"
#include "core/device/device.h"
#include "runtime/measure/profile_db.h"

namespace rewright::cpu {

// The way in which a group is timed.
struct MeasureOptions {
  std::string law;    // or way by which it is computed (kernel_list.h); empty: as its operators say
  bool cold = false;  // weights are in no cache, as in a model that has many
  double enough = std::numeric_limits<double>::infinity();  // as SampleLimits has it
  bool brief = false;  // a few runs whatever else goes on: to choose between kernels where no costs are asked for
};

// Times the group alone on operands in the layouts that they have in the graph; conversions that it needs count.
absl::StatusOr<ProfileEntry> MeasureGroup(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                          const Group& group, CpuLayouts& layouts, NoiseProbe& probe,
                                          const MeasureOptions& options);

// Operations a second of multiply-adds on vectors in registers, by all of the threads at once.
double MeasureMultiplyAdds(int threads);

// Bytes a second that the threads together load from `bytes` bytes, each its own part over and over; 0 where there is
// too little memory.
double MeasureLoads(int64_t bytes, int threads);

}  // namespace rewright::cpu
