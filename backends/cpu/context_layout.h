// The layouts of values on the CPU device.
#pragma once

#include "backends/context_layout.h"

namespace rewright::cpu {

class CpuLayouts : public ContextLayouts {
 public:
  // `block`: channels per block in the convolutions of this machine.
  explicit CpuLayouts(int64_t block) : block_(block) {}

 private:
  Layout Compute(const Graph& graph, Value value) const override;

  const int64_t block_;
};

}  // namespace rewright::cpu
