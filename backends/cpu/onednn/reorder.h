// Changes of layout: weights of 1x1 kernels from oneDNN's blocks to rows here, all others by oneDNN.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/cpu/onednn/dnnl_util.h"

namespace rewright::cpu {

// Buffers: from, to. An error where oneDNN has no fast way.
absl::StatusOr<KernelPtr> MakeReorder(const std::shared_ptr<const DnnlContext>& context, const dnnl::memory::desc& from,
                                      const dnnl::memory::desc& to);

}  // namespace rewright::cpu
