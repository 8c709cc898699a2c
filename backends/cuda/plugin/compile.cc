#include <nvrtc.h>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

Fault CompileSource(const std::string& source, int architecture, std::string* code, std::string* report) {
  nvrtcProgram program = nullptr;
  nvrtcResult result = nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) return std::string("NVRTC: ") + nvrtcGetErrorString(result);
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const char* options[] = {target.c_str(), "--std=c++17", "--restrict", "--extra-device-vectorization",
                           "--ptxas-options=-v"};
  result = nvrtcCompileProgram(program, report != nullptr ? 5 : 4, options);
  const auto log = [&] {
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string text(size, '\0');
    nvrtcGetProgramLog(program, text.data());
    return text;
  };
  if (report != nullptr) *report = log();
  Fault fault;
  if (result == NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtcGetCUBINSize(program, &size);
    code->resize(size);
    nvrtcGetCUBIN(program, code->data());
  } else {
    fault = std::string("NVRTC: ") + nvrtcGetErrorString(result) + "\n" + log();
  }
  nvrtcDestroyProgram(&program);
  return fault;
}

}  // namespace rewright::cuda
