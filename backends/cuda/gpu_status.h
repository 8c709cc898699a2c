// What goes wrong behind the GPU's border, as this program reports it.
#pragma once

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/gpu.h"

namespace rewright::cuda {

// What is too large for the GPU is ResourceExhausted, which ends the program like other requests that cannot be met;
// Aborted is what leaves no GPU to go on with.
inline absl::Status StatusOf(const Fault& fault) {
  if (fault.empty()) return absl::OkStatus();
  const auto has = [&](const char* words) { return fault.find(words) != Fault::npos; };
  const absl::StatusCode code = has(kUnusable)      ? absl::StatusCode::kAborted
                                : has(kOutOfMemory) ? absl::StatusCode::kResourceExhausted
                                                    : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat("cuda: ", fault));
}
// The fault of a way to do something where no other way is to be tried.
inline absl::Status FinalStatusOf(const Fault& fault) {
  absl::Status status = StatusOf(fault);
  return absl::IsResourceExhausted(status) || absl::IsAborted(status) ? status : absl::OkStatus();
}

// Memory of the GPU that frees itself; the GPU outlives it. Errors: ResourceExhausted.
inline absl::StatusOr<std::shared_ptr<void>> Allocate(Gpu& gpu, size_t bytes) {
  void* memory = nullptr;
  if (Fault fault = gpu.Allocate(std::max<size_t>(bytes, 1), &memory); !fault.empty()) return StatusOf(fault);
  return std::shared_ptr<void>(memory, [&gpu](void* p) { gpu.Free(p); });
}

}  // namespace rewright::cuda
