// Local response normalization by oneDNN, in the layout of its operand.
#include "backends/cpu/kernels/dnnl_util.h"

namespace rewright::cpu {

absl::StatusOr<LrnPlan> MakeLrn(const std::shared_ptr<const DnnlContext>& context, const Layout& src, int64_t size,
                                double alpha, double beta, double bias) {
  const std::optional<dnnl::memory::desc> from = DescOf(src);
  if (!from) return absl::UnimplementedError("lrn: no oneDNN layout");
  return CatchDnnl("lrn", [&] {
    const dnnl::lrn_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, *from,
                                       size, static_cast<float>(alpha), static_cast<float>(beta),
                                       static_cast<float>(bias));
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::lrn_forward::primitive_desc primitive(desc, attr, context->engine);
    const std::optional<Layout> dst = LayoutOf(primitive.dst_desc());
    if (!dst) throw dnnl::error(dnnl_unimplemented, "no layout for the result");
    LrnPlan plan;
    plan.dst = *dst;
    plan.scratch_bytes = primitive.scratchpad_desc().get_size();
    std::vector<DnnlArg> args = {{DNNL_ARG_SRC, primitive.src_desc()}, {DNNL_ARG_DST, primitive.dst_desc()}};
    if (plan.scratch_bytes > 0) args.push_back({DNNL_ARG_SCRATCHPAD, primitive.scratchpad_desc()});
    plan.kernel = std::make_unique<DnnlKernel>(context, dnnl::lrn_forward(primitive), std::move(args));
    return plan;
  });
}

}  // namespace rewright::cpu
