// Pooling and local response normalization by oneDNN, in the layout of their operand.
#include "backends/cpu/kernels/dnnl_util.h"

namespace rewright::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32;

template <typename Desc, typename Primitive>
PoolPlan Plan(const std::shared_ptr<const DnnlContext>& context, const Desc& desc, const Primitive& primitive) {
  PoolPlan plan;
  const std::optional<Layout> dst = LayoutOf(desc.dst_desc());
  if (!dst) throw dnnl::error(dnnl_unimplemented, "no layout for the result");
  plan.dst = *dst;
  plan.scratch_bytes = desc.scratchpad_desc().get_size();
  std::vector<DnnlArg> args = {{DNNL_ARG_SRC, desc.src_desc()}, {DNNL_ARG_DST, desc.dst_desc()}};
  if (plan.scratch_bytes > 0) args.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
  plan.kernel = std::make_unique<DnnlKernel>(context, primitive, std::move(args));
  return plan;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace

absl::StatusOr<PoolPlan> MakePool(const std::shared_ptr<const DnnlContext>& context, const PoolProblem& problem,
                                  const Layout& src) {
  const std::optional<memory::desc> from = DescOf(src);
  if (!from) return absl::UnimplementedError("pool: no oneDNN layout");
  return CatchDnnl("pool", [&] {
    memory::dims after(2);
    for (size_t k = 0; k < 2; ++k) {
      const int64_t extent = (problem.kernel[k] - 1) * problem.dilations[k] + 1;
      after[k] = (problem.dst[2 + k] - 1) * problem.strides[k] + extent - src.dims[2 + k] - problem.pads[k];
    }
    const dnnl::algorithm algorithm = problem.max             ? dnnl::algorithm::pooling_max
                                      : problem.count_padding ? dnnl::algorithm::pooling_avg_include_padding
                                                              : dnnl::algorithm::pooling_avg_exclude_padding;
    const memory::desc dst(problem.dst, kF32, Tag::any);
    const dnnl::pooling_v2_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm, *from, dst,
                                              problem.strides, problem.kernel,
                                              {problem.dilations[0] - 1, problem.dilations[1] - 1},
                                              {problem.pads[0], problem.pads[1]}, after);
    const dnnl::pooling_v2_forward::primitive_desc primitive(desc, UserScratchpad(), context->engine);
    return Plan(context, primitive, dnnl::pooling_v2_forward(primitive));
  });
}

absl::StatusOr<PoolPlan> MakeLrn(const std::shared_ptr<const DnnlContext>& context, const Layout& src, int64_t size,
                                 double alpha, double beta, double bias) {
  const std::optional<memory::desc> from = DescOf(src);
  if (!from) return absl::UnimplementedError("lrn: no oneDNN layout");
  return CatchDnnl("lrn", [&] {
    const dnnl::lrn_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, *from,
                                       size, static_cast<float>(alpha), static_cast<float>(beta),
                                       static_cast<float>(bias));
    const dnnl::lrn_forward::primitive_desc primitive(desc, UserScratchpad(), context->engine);
    return Plan(context, primitive, dnnl::lrn_forward(primitive));
  });
}

}  // namespace rewright::cpu
