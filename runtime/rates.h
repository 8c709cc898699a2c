// What a machine reaches: the two limits of a roofline, measured by the kernels that run models.
#pragma once

#include "absl/status/statusor.h"
#include "core/ir/device.h"

namespace rewright {

struct MeasuredRates {
  double flops_per_second = 0;  // of a product of matrices of 1536
  double bytes_per_second = 0;  // of a sum of vectors of 64 MB: two are read and one is written
};

// Of the fastest of some runs. Errors: those of the runner.
absl::StatusOr<MeasuredRates> MeasureRates(GraphRunner& runner);

}  // namespace rewright
