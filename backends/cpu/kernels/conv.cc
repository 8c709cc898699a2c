// Convolutions by oneDNN, in the layouts that it prefers.
#include "backends/cpu/kernels/dnnl_util.h"

namespace rewright::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32;

void AppendActivation(const ActivationFunction& f, dnnl::post_ops* post_ops) {
  const float alpha = static_cast<float>(f.alpha), beta = static_cast<float>(f.beta);
  switch (f.activation) {
    case Activation::kRelu: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_relu, alpha, 0); break;
    case Activation::kClip: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_clip, alpha, beta); break;
    case Activation::kSigmoid: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0); break;
    case Activation::kTanh: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_tanh, 0, 0); break;
    case Activation::kGelu: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0); break;
    case Activation::kGeluTanh: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0); break;
    case Activation::kSwish: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0); break;
    case Activation::kHardSwish: post_ops->append_eltwise(1, dnnl::algorithm::eltwise_hardswish, 0, 0); break;
  }
}

memory::dims WeightDims(const ConvProblem& problem) {
  const Shape& w = problem.weights;
  if (problem.groups == 1) return w;
  return {problem.groups, w[0] / problem.groups, w[1], w[2], w[3]};
}

memory::desc PerChannelDesc(const ConvProblem& problem) {
  return memory::desc({1, problem.dst[1], 1, 1}, kF32, Tag::nchw);
}

using Primitive = dnnl::convolution_forward::primitive_desc;

Primitive MakeDesc(const DnnlContext& context, const ConvProblem& problem, Tag tag,
                   const memory::desc* residual) {
  const memory::desc src(problem.src, kF32, tag), dst(problem.dst, kF32, tag);
  const memory::desc weights(WeightDims(problem), kF32, Tag::any);
  const memory::desc bias = problem.bias ? memory::desc({problem.dst[1]}, kF32, Tag::a) : memory::desc();
  const memory::dims strides = problem.strides;
  const memory::dims dilations = {problem.dilations[0] - 1, problem.dilations[1] - 1};
  const memory::dims before = {problem.pads[0], problem.pads[1]};
  // The windows may end before the padding does.
  memory::dims after(2);
  for (size_t k = 0; k < 2; ++k) {
    const int64_t extent = (problem.weights[2 + k] - 1) * problem.dilations[k] + 1;
    after[k] = (problem.dst[2 + k] - 1) * strides[k] + extent - problem.src[2 + k] - before[k];
  }
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                             src, weights, bias, dst, strides, dilations, before, after);
  dnnl::post_ops post_ops;
  const memory::desc per_channel = PerChannelDesc(problem);
  if (problem.post_ops.scale) post_ops.append_binary(dnnl::algorithm::binary_mul, per_channel);
  if (problem.post_ops.shift) post_ops.append_binary(dnnl::algorithm::binary_add, per_channel);
  if (problem.post_ops.residual) {
    if (problem.residual_in_place) {
      post_ops.append_sum();
    } else if (residual != nullptr) {
      post_ops.append_binary(dnnl::algorithm::binary_add, *residual);
    }
  }
  for (const ActivationFunction& f : problem.post_ops.activations) AppendActivation(f, &post_ops);
  dnnl::primitive_attr attr;
  attr.set_post_ops(post_ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return Primitive(desc, attr, context.engine);
}

ConvPlan Build(const std::shared_ptr<const DnnlContext>& context, const ConvProblem& problem) {
  const bool binary = problem.post_ops.residual && !problem.residual_in_place;
  Primitive desc = MakeDesc(*context, problem, Tag::any, nullptr);
  auto usable = [](const Primitive& p) { return LayoutOf(p.src_desc()) && LayoutOf(p.dst_desc()); };
  const Tag tag = usable(desc) ? Tag::any : Tag::nchw;
  if (tag != Tag::any) desc = MakeDesc(*context, problem, tag, nullptr);
  if (binary) {
    const memory::desc residual = desc.dst_desc();
    desc = MakeDesc(*context, problem, tag, &residual);
    if (desc.dst_desc() != residual || !usable(desc)) {
      const memory::desc plain(problem.dst, kF32, Tag::nchw);
      desc = MakeDesc(*context, problem, Tag::nchw, &plain);
    }
  }
  ConvPlan plan;
  plan.src = *LayoutOf(desc.src_desc());
  plan.dst = *LayoutOf(desc.dst_desc());
  plan.weights = desc.weights_desc();
  plan.scratch_bytes = desc.scratchpad_desc().get_size();
  plan.implementation = desc.impl_info_str();
  std::vector<DnnlArg> args = {{DNNL_ARG_SRC, desc.src_desc()}, {DNNL_ARG_WEIGHTS, desc.weights_desc()}};
  if (problem.bias) args.push_back({DNNL_ARG_BIAS, desc.bias_desc()});
  int post_op = 0;
  const auto add_operand = [&](const memory::desc& operand) {
    args.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_op++) | DNNL_ARG_SRC_1, operand});
  };
  if (problem.post_ops.scale) add_operand(PerChannelDesc(problem));
  if (problem.post_ops.shift) add_operand(PerChannelDesc(problem));
  if (binary) add_operand(desc.dst_desc());
  args.push_back({DNNL_ARG_DST, desc.dst_desc()});
  if (plan.scratch_bytes > 0) args.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
  plan.kernel = std::make_unique<DnnlKernel>(context, dnnl::convolution_forward(desc), std::move(args));
  return plan;
}

}  // namespace

absl::StatusOr<ConvPlan> MakeConv(const std::shared_ptr<const DnnlContext>& context, const ConvProblem& problem) {
  return CatchDnnl("conv2d", [&] { return Build(context, problem); });
}

dnnl::memory::desc PlainConvWeights(const ConvProblem& problem) {
  return memory::desc(WeightDims(problem), kF32, problem.groups == 1 ? Tag::abcd : Tag::abcde);
}

}  // namespace rewright::cpu
