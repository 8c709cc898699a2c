// Devices by name, and what their names say of this machine.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/measure/profile_db.h"

namespace rewright {

namespace ort {
class OpaqueNodes;  // onnxruntime/opaque_nodes.h
}

// The way of products, convolutions and folds of f32 on tiles of bf16, which needs no law: its name for switches and
// profiles.
inline constexpr char kTilesWay[] = "tiles";

struct DeviceOptions {
  int threads = 0;                               // 0: one per processor that this process may use
  std::shared_ptr<ProfileDb> profile = nullptr;  // of measured costs; null: they are kept in memory only
  std::string precision = "f32";                 // on a GPU: f32, tf32, f16, bf16
  std::shared_ptr<const AllowedKernelRewrites> allowed_rewrites =
      nullptr;  // of kernels that compute by other operators; null: none may
  std::shared_ptr<const ort::OpaqueNodes> opaque = nullptr;  // of nodes that are not known here; null: none may run
  bool tiles = true;  // products and convolutions of f32 may run on tiles of bf16 (docs/decisions/133)

  int NumThreads() const;  // `threads`, or what 0 stands for
};

// The name of a precision: f32 for "fp32", f16 for "fp16", others as they are.
std::string PrecisionNamed(std::string name);

// The processor that this process runs on, as the system calls it; "unknown" where it does not tell.
std::string ProcessorName();

// "cpu"; "cuda" or "cuda:N" for GPU number N, or, where there is none, the GPU whose times the profile database holds
// (costs alone, see cuda/cuda_device.h); "onnxruntime", "openvino", or either with ":cpu" (runtimes/file_device.h);
// "analytic:v100", "analytic:v100-strict", "analytic:NAME" for a description that comes with the program,
// "analytic:FILE.json" for any other (analytic.h). Errors: an unknown name, a damaged description.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const std::string& spec, const DeviceOptions& options = {});

}  // namespace rewright
