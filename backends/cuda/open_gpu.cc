#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "core/data_file.h"

namespace rewright::cuda {

absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(int ordinal) {
  const std::string name = "librewright_cuda.so";
  // Beside the program, where it is built and installed; else wherever the loader looks.
  const std::string beside = absl::StrCat(ProgramFolder(), "/", name);
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string errors = library == nullptr ? dlerror() : "";
  if (library == nullptr) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) absl::StrAppend(&errors, "; ", dlerror());
  }
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat("device cuda: the plugin cannot be opened: ", errors));
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
