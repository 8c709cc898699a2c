// Changes of layout by oneDNN.
#include <cstring>

#include "backends/cpu/kernels/dnnl_util.h"

namespace rewright::cpu {

absl::StatusOr<KernelPtr> MakeReorder(const std::shared_ptr<const DnnlContext>& context, const dnnl::memory::desc& from,
                                      const dnnl::memory::desc& to) {
  return CatchDnnl("reorder", [&]() -> KernelPtr {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc desc(context->engine, from, context->engine, to, attr);
    if (desc.scratchpad_desc().get_size() > 0) throw dnnl::error(dnnl_unimplemented, "reorder needs scratch space");
    return std::make_unique<DnnlKernel>(context, dnnl::reorder(desc),
                                        std::vector<DnnlArg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  });
}

}  // namespace rewright::cpu
