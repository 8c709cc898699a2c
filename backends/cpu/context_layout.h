// The layouts of values on the CPU device.
#pragma once

#include <memory>
#include <utility>

#include "backends/context_layout.h"
#include "backends/cpu/kernels/dnnl_util.h"

namespace rewright::cpu {

class CpuLayouts : public ContextLayouts {
 public:
  explicit CpuLayouts(std::shared_ptr<const DnnlContext> context) : context_(std::move(context)) {}

 private:
  Layout Compute(const Graph& graph, Value value) const override;

  const std::shared_ptr<const DnnlContext> context_;
};

}  // namespace rewright::cpu
