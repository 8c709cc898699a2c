#include "backends/cpu/onednn/dnnl_util.h"

#include <omp.h>

#include "absl/strings/str_cat.h"
#include "oneapi/dnnl/dnnl_debug.h"

namespace rewright::cpu {

ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}

ThreadScope::~ThreadScope() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

std::optional<dnnl::memory::desc> DescOf(const Layout& layout, dnnl_data_type_t dtype) {
  const int rank = layout.rank();
  if (rank == 0 || rank > DNNL_MAX_NDIMS) return std::nullopt;
  for (int k = 0; k < rank; ++k) {
    const size_t axis = k;
    if (layout.dims[axis] <= 0 || (layout.dims[axis] > 1 && layout.strides[axis] <= 0)) return std::nullopt;
  }
  dnnl_memory_desc_t desc = {};
  desc.ndims = rank;
  desc.data_type = dtype;
  desc.format_kind = dnnl_blocked;
  for (int k = 0; k < rank; ++k) {
    const size_t axis = k;
    desc.dims[k] = desc.padded_dims[k] = layout.dims[axis];
    desc.format_desc.blocking.strides[k] = layout.strides[axis];
  }
  if (layout.block != 0) {
    desc.padded_dims[1] = (layout.dims[1] + layout.block - 1) / layout.block * layout.block;
    desc.format_desc.blocking.inner_nblks = 1;
    desc.format_desc.blocking.inner_blks[0] = layout.block;
    desc.format_desc.blocking.inner_idxs[0] = 1;
  }
  return dnnl::memory::desc(desc);
}

std::optional<Layout> LayoutOf(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& data = desc.data;
  if (data.format_kind != dnnl_blocked || data.offset0 != 0) return std::nullopt;
  if (data.data_type != dnnl_f32 && data.data_type != dnnl_bf16) return std::nullopt;
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  Layout layout;
  if (blocking.inner_nblks > 1 || (blocking.inner_nblks == 1 && blocking.inner_idxs[0] != 1)) return std::nullopt;
  if (blocking.inner_nblks == 1) layout.block = blocking.inner_blks[0];
  for (int k = 0; k < data.ndims; ++k) {
    if (layout.block == 0 || k != 1) {
      if (data.padded_dims[k] != data.dims[k]) return std::nullopt;
    }
    layout.dims.push_back(data.dims[k]);
    layout.strides.push_back(blocking.strides[k]);
  }
  return layout;
}

int Slowness(const std::string& implementation) {
  if (implementation.find("ref") != std::string::npos) return 2;
  return implementation.find("gemm") != std::string::npos ? 1 : 0;
}

namespace {

// The function as the next thing that is done to a result.
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

}  // namespace

dnnl::primitive_attr AttrOf(const PostOps& post_ops, const dnnl::memory::desc& per_channel,
                            const dnnl::memory::desc& dst, bool sums) {
  dnnl::post_ops steps;
  if (post_ops.scale) steps.append_binary(dnnl::algorithm::binary_mul, per_channel);
  if (post_ops.shift) steps.append_binary(dnnl::algorithm::binary_add, per_channel);
  if (post_ops.residual) steps.append_binary(dnnl::algorithm::binary_add, dst);
  if (sums) steps.append_sum();
  for (const ActivationFunction& f : post_ops.activations) AppendActivation(f, &steps);
  dnnl::primitive_attr attr;
  attr.set_post_ops(steps);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::vector<int> ProductArgs(const PostOps& post_ops) {
  std::vector<int> numbers = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (post_ops.bias) numbers.push_back(DNNL_ARG_BIAS);
  int place = 0;
  for (const bool there : {post_ops.scale, post_ops.shift, post_ops.residual}) {
    if (there) numbers.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(place++) | DNNL_ARG_SRC_1);
  }
  numbers.push_back(DNNL_ARG_DST);
  return numbers;
}

std::vector<DnnlArg> ArgsOf(const dnnl::primitive_desc_base& desc, const std::vector<int>& numbers) {
  std::vector<DnnlArg> args;
  for (int number : numbers) args.push_back({number, desc.query_md(dnnl::query::exec_arg_md, number)});
  if (desc.scratchpad_desc().get_size() > 0) args.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
  return args;
}

class DnnlKernel::Handles : public KernelHandles {
 public:
  Handles(const dnnl::engine& engine, const std::vector<DnnlArg>& args) : stream(engine), addresses(args.size()) {
    for (const DnnlArg& arg : args) {
      memories_.emplace_back(arg.desc, engine, nullptr);
      arguments.push_back({arg.arg, memories_.back().get()});
    }
  }

  dnnl::stream stream;
  std::vector<dnnl_exec_arg_t> arguments;
  std::vector<void*> addresses;  // as the memory objects have them

 private:
  std::vector<dnnl::memory> memories_;
};

DnnlKernel::DnnlKernel(std::shared_ptr<const DnnlContext> context, const dnnl::primitive& primitive,
                       std::vector<DnnlArg> args)
    : context_(std::move(context)), primitive_(primitive), args_(std::move(args)) {}

absl::StatusOr<std::unique_ptr<KernelHandles>> DnnlKernel::MakeHandles() const {
  return CatchDnnl("memory objects", [&]() -> std::unique_ptr<KernelHandles> {
    return std::make_unique<Handles>(context_->engine, args_);
  });
}

absl::Status DnnlKernel::Run(void* const* buffers, RunContext& context) const {
  Handles& handles = static_cast<Handles&>(*context.handles);
  const ThreadScope scope(context_->threads);
  dnnl_status_t status = dnnl_success;
  for (size_t i = 0; i < args_.size() && status == dnnl_success; ++i) {
    if (handles.addresses[i] == buffers[i]) continue;
    status = dnnl_memory_set_data_handle(handles.arguments[i].memory, buffers[i]);
    handles.addresses[i] = status == dnnl_success ? buffers[i] : nullptr;
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive_.get(), handles.stream.get(), static_cast<int>(args_.size()),
                                    handles.arguments.data());
  }
  if (status == dnnl_success) return absl::OkStatus();
  const std::string message = absl::StrCat("oneDNN: ", dnnl_status2str(status));
  return status == dnnl_out_of_memory ? absl::ResourceExhaustedError(message + ": out of memory")
                                      : absl::InternalError(message);
}

}  // namespace rewright::cpu
