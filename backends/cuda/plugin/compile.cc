#include <nvrtc.h>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

Fault CompileSource(const std::string& source, int architecture, std::string* code) {
  nvrtcProgram program = nullptr;
  nvrtcResult result = nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) return std::string("NVRTC: ") + nvrtcGetErrorString(result);
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const char* options[] = {target.c_str(), "--std=c++17", "--restrict", "--extra-device-vectorization"};
  result = nvrtcCompileProgram(program, 4, options);
  Fault fault;
  if (result == NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtcGetCUBINSize(program, &size);
    code->resize(size);
    nvrtcGetCUBIN(program, code->data());
  } else {
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    nvrtcGetProgramLog(program, log.data());
    fault = std::string("NVRTC: ") + nvrtcGetErrorString(result) + "\n" + log;
  }
  nvrtcDestroyProgram(&program);
  return fault;
}

}  // namespace rewright::cuda
