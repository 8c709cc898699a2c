// The layouts of values on the CUDA device.
#pragma once

#include "backends/context_layout.h"

namespace rewright::cuda {

class CudaLayouts : public ContextLayouts {
 public:
  // `channels_last`: of convolutions.
  explicit CudaLayouts(bool channels_last) : channels_last_(channels_last) {}

 private:
  Layout Compute(const Graph& graph, Value value) const override;

  const bool channels_last_;
};

}  // namespace rewright::cuda
