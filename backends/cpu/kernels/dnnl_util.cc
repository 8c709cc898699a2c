#include "backends/cpu/kernels/dnnl_util.h"

#include <omp.h>

namespace rewright::cpu {

ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}

ThreadScope::~ThreadScope() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

std::optional<dnnl::memory::desc> DescOf(const Layout& layout) {
  const int rank = layout.rank();
  if (rank == 0 || rank > DNNL_MAX_NDIMS) return std::nullopt;
  for (int k = 0; k < rank; ++k) {
    const size_t axis = k;
    if (layout.dims[axis] <= 0 || (layout.dims[axis] > 1 && layout.strides[axis] <= 0)) return std::nullopt;
  }
  dnnl_memory_desc_t desc = {};
  desc.ndims = rank;
  desc.data_type = dnnl_f32;
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
  if (data.format_kind != dnnl_blocked || data.offset0 != 0 || data.data_type != dnnl_f32) return std::nullopt;
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

DnnlKernel::DnnlKernel(std::shared_ptr<const DnnlContext> context, const dnnl::primitive& primitive,
                       std::vector<DnnlArg> args)
    : context_(std::move(context)), primitive_(primitive) {
  for (const DnnlArg& arg : args) {
    memories_.emplace_back(arg.desc, context_->engine, nullptr);
    args_.push_back({arg.arg, memories_.back().get()});
  }
  handles_.assign(args.size(), nullptr);
}

void DnnlKernel::Run(void* const* buffers) const {
  const ThreadScope scope(context_->threads);
  for (size_t i = 0; i < args_.size(); ++i) {
    if (handles_[i] == buffers[i]) continue;
    const dnnl_status_t status = dnnl_memory_set_data_handle(args_[i].memory, buffers[i]);
    CHECK(status == dnnl_success) << status;
    handles_[i] = buffers[i];
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), context_->stream.get(), static_cast<int>(args_.size()), args_.data());
  CHECK(status == dnnl_success) << status;
}

}  // namespace rewright::cpu
