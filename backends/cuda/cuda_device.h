// The CUDA device: groups as library calls and generated kernels, costs measured on the GPU.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "backends/cuda/gpu.h"
#include "core/device/device.h"
#include "runtime/measure/profile_db.h"

namespace rewright::cuda {

// By the names that users know them by.
inline constexpr std::pair<const char*, Precision> kPrecisions[] = {
    {"f32", Precision::kFp32}, {"tf32", Precision::kTf32}, {"f16", Precision::kFp16}, {"bf16", Precision::kBf16}};

struct CudaOptions {
  Precision precision = Precision::kFp32;
  bool channels_last = false;  // convolutions on images with channels innermost
  // Smallest number of elements for which a thread of a generated kernel takes several; tests lower it.
  int64_t min_vectorized = 1 << 17;
};

// A device on a GPU that is there. Schedules must not outlive it.
std::unique_ptr<Device> MakeCudaDevice(std::unique_ptr<Gpu> gpu, std::shared_ptr<ProfileDb> profile,
                                       const CudaOptions& options);

// A GPU that is not there but whose groups were measured before: partitions and costs alone; Compile gives an
// Unimplemented error, and a group that was never measured a NotFound error. Errors: the database knows no such GPU, or
// several.
absl::StatusOr<std::unique_ptr<Device>> MakeProfiledCudaDevice(std::shared_ptr<ProfileDb> profile,
                                                               const CudaOptions& options);

// Checks that the GPU multiplies at this precision: tf32 and bf16 need compute capability 8.0. Error: InvalidArgument.
// InvalidArgument.
absl::Status CheckPrecision(const GpuDescription& gpu, Precision precision);

// Opens the plugin librewright_cuda.so beside the program (or where the loader finds it) and GPU number `ordinal`.
// Errors: no plugin, no driver, no such GPU; each says what was looked for.
absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(int ordinal);

}  // namespace rewright::cuda
