#include "backends/device_factory.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backends/analytic.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cuda/cuda_device.h"
#include "backends/runtimes/file_device.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

absl::StatusOr<std::unique_ptr<Device>> MakeCuda(const std::string& spec, const DeviceOptions& options) {
  int ordinal = 0;
  const std::string number = spec.size() > 5 ? spec.substr(5) : "0";
  if ((spec.size() > 4 && spec[4] != ':') || !absl::SimpleAtoi(number, &ordinal) || ordinal < 0) {
    return absl::InvalidArgumentError(absl::StrCat("device ", spec, ": expected cuda or cuda:N"));
  }
  cuda::CudaOptions cuda_options;
  const auto* const precision =
      std::find_if(std::begin(cuda::kPrecisions), std::end(cuda::kPrecisions),
                   [&](const auto& named) { return named.first == PrecisionNamed(options.precision); });
  if (precision == std::end(cuda::kPrecisions)) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision ", options.precision, ": expected f32, tf32, f16 or bf16"));
  }
  cuda_options.precision = precision->second;
  // The matrix units read images with channels innermost.
  cuda_options.channels_last = cuda_options.precision != cuda::Precision::kFp32;
  absl::StatusOr<std::unique_ptr<cuda::Gpu>> gpu = cuda::OpenGpu(ordinal);
  if (gpu.ok()) {
    RETURN_IF_ERROR(cuda::CheckPrecision((*gpu)->description(), cuda_options.precision));
    return cuda::MakeCudaDevice(*std::move(gpu), options.profile, cuda_options);
  }
  if (options.profile == nullptr) return gpu.status();
  absl::StatusOr<std::unique_ptr<Device>> known = cuda::MakeProfiledCudaDevice(options.profile, cuda_options);
  if (known.ok()) return known;
  return absl::NotFoundError(
      absl::StrCat(gpu.status().message(), "; profile ", options.profile->path(), ": ", known.status().message()));
}

}  // namespace

int DeviceOptions::NumThreads() const {
  if (threads > 0) return threads;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::string PrecisionNamed(std::string name) { return name == "fp32" ? "f32" : name == "fp16" ? "f16" : name; }

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.compare(0, 10, "model name") == 0 && line.find(':') != std::string::npos) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const std::string& spec, const DeviceOptions& options) {
  if (spec == "cpu") return cpu::MakeCpuDevice(options);
  if (spec.compare(0, 4, "cuda") == 0) return MakeCuda(spec, options);
  if (IsFileRuntime(spec)) return MakeFileDevice(spec, options);
  const std::string prefix = "analytic:";
  if (spec.compare(0, prefix.size(), prefix) == 0) return MakeAnalyticDevice(spec.substr(prefix.size()));
  return absl::InvalidArgumentError(
      absl::StrCat("device ", spec, ": expected cpu, cuda:N, onnxruntime, openvino, reference or analytic:NAME"));
}

}  // namespace rewright
