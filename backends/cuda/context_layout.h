// The layouts of values on the CUDA device.
#pragma once

#include <functional>

#include "backends/context_layout.h"

namespace rewright::cuda {

// The layout of a result of an application whose operands lie as `of` says: what costs are looked up by, and what
// lowering obeys. `channels_last`: of convolutions.
Layout ResultLayout(const Graph& graph, Value value, bool channels_last, const std::function<Layout(Value)>& of);

class CudaLayouts : public ContextLayouts {
 public:
  explicit CudaLayouts(bool channels_last) : channels_last_(channels_last) {}

 private:
  Layout Compute(const Graph& graph, Value value) const override {
    return ResultLayout(graph, value, channels_last_, [&](Value operand) { return Known(graph, operand); });
  }

  const bool channels_last_;
};

}  // namespace rewright::cuda
