// Picking slices by index, and filling with a value.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/kernels/kernels.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

template <typename Index>
class GatherKernel : public Kernel {
 public:
  GatherKernel(IndexRange range, int64_t outer, int64_t count, size_t slice_bytes, int threads)
      : range_(std::move(range)), outer_(outer), axis_(range_.size()), count_(count), slice_bytes_(slice_bytes) {
    threads_ = static_cast<size_t>(outer * count) * slice_bytes < 65536 ? 1 : threads;
  }
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const char* x = static_cast<const char*>(buffers[0]);
    const Index* indices = static_cast<const Index*>(buffers[1]);
    char* out = static_cast<char*>(buffers[2]);
    RETURN_IF_ERROR(Check(indices));
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < outer_ * count_; ++i) {
      int64_t index = static_cast<int64_t>(indices[i % count_]) % axis_;
      if (index < 0) index += axis_;
      std::memcpy(out + static_cast<size_t>(i) * slice_bytes_,
                  x + static_cast<size_t>(i / count_ * axis_ + index) * slice_bytes_, slice_bytes_);
    }
    return absl::OkStatus();
  }

 private:
  // The indices are looked at once, however often they are used.
  absl::Status Check(const Index* indices) const {
    const Index low = static_cast<Index>(std::max<int64_t>(-axis_, std::numeric_limits<Index>::min()));
    const Index high = static_cast<Index>(std::min<int64_t>(axis_ - 1, std::numeric_limits<Index>::max()));
    const auto outside = [=](Index index) { return index < low || index > high; };
    const Index* found = std::find_if(indices, indices + count_, outside);
    return found == indices + count_ ? absl::OkStatus() : range_.Error(found - indices, static_cast<int64_t>(*found));
  }

  const IndexRange range_;
  const int64_t outer_, axis_, count_;
  const size_t slice_bytes_;
  int threads_;
};

template <typename T>
class FillKernel : public Kernel {
 public:
  FillKernel(int64_t count, double value, int threads)
      : count_(count), value_(static_cast<T>(value)), threads_(count < 65536 ? 1 : threads) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    T* to = static_cast<T*>(buffers[0]);
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < count_; ++i) to[i] = value_;
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const T value_;
  const int threads_;
};

}  // namespace

KernelPtr MakeGatherKernel(IndexRange range, int64_t outer, int64_t inner, int64_t count, size_t element_bytes,
                           DType index_type, int threads) {
  const size_t slice_bytes = static_cast<size_t>(inner) * element_bytes;
  if (index_type == DType::kInt32) {
    return std::make_unique<GatherKernel<int32_t>>(std::move(range), outer, count, slice_bytes, threads);
  }
  return std::make_unique<GatherKernel<int64_t>>(std::move(range), outer, count, slice_bytes, threads);
}

KernelPtr MakeFillKernel(int64_t count, DType dtype, double value, int threads) {
  switch (dtype) {
    case DType::kFloat32: return std::make_unique<FillKernel<float>>(count, value, threads);
    case DType::kFloat64: return std::make_unique<FillKernel<double>>(count, value, threads);
    case DType::kInt64: return std::make_unique<FillKernel<int64_t>>(count, value, threads);
    case DType::kInt32: return std::make_unique<FillKernel<int32_t>>(count, value, threads);
    case DType::kBool: return std::make_unique<FillKernel<uint8_t>>(count, value, threads);
  }
  return nullptr;
}

}  // namespace rewright::cpu
