#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "core/base/data_file.h"

namespace rewright::cuda {

absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(int ordinal) {
  const std::string name = "librewright_cuda.so";
  // Beside the program, where it is built and installed, as the library may be too; else wherever the loader looks.
  const std::string code = CodeFolder();
  const absl::StatusOr<std::string> found = FindInFolders(name, {code, absl::StrCat(code, "/../bin")});
  const bool there = found.ok();
  void* library = dlopen(there ? found->c_str() : name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    if (!there && reason.find(name) != std::string::npos) {
      return absl::NotFoundError(absl::StrCat("device cuda: there is no plugin: neither ", code, "/", name,
                                              " nor where the loader looks; it is built where CMake finds the CUDA "
                                              "toolkit and cuDNN 9"));
    }
    // It names the first library that is missing.
    return absl::NotFoundError(absl::StrCat("device cuda: the plugin cannot be opened: ", reason,
                                            " (cuDNN 9, cuBLASLt and NVRTC must be where the loader looks: "
                                            "LD_LIBRARY_PATH)"));
  }
  const auto open = reinterpret_cast<OpenGpuFunction>(dlsym(library, kOpenGpu));
  if (open == nullptr) {
    return absl::NotFoundError(absl::StrCat("device cuda: ", name, " has no function ", kOpenGpu));
  }
  Fault fault;
  std::unique_ptr<Gpu> gpu(open(ordinal, &fault));
  if (gpu == nullptr) return absl::NotFoundError(absl::StrCat("device cuda:", ordinal, ": ", fault));
  return gpu;
}

}  // namespace rewright::cuda
