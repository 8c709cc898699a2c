#include <nvrtc.h>

#include <algorithm>
#include <vector>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

Fault CheckArchitecture(const std::string& name, int architecture) {
  int count = 0;
  if (nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count == 0) return "NVRTC names no architecture";
  std::vector<int> known(static_cast<size_t>(count));
  if (nvrtcGetSupportedArchs(known.data()) != NVRTC_SUCCESS) return "NVRTC names no architecture";
  if (std::find(known.begin(), known.end(), architecture) != known.end()) return {};
  return name + " has compute capability " + std::to_string(architecture / 10) + "." +
         std::to_string(architecture % 10) + "; this NVRTC compiles for " + std::to_string(known.front() / 10) + "." +
         std::to_string(known.front() % 10) + " to " + std::to_string(known.back() / 10) + "." +
         std::to_string(known.back() % 10);
}

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
  if (result != NVRTC_SUCCESS) fault = std::string("NVRTC: ") + nvrtcGetErrorString(result) + "\n" + log();
  if (fault.empty()) {
    size_t size = 0;
    result = nvrtcGetCUBINSize(program, &size);
    code->resize(size);
    if (result == NVRTC_SUCCESS) result = nvrtcGetCUBIN(program, code->data());
    if (result != NVRTC_SUCCESS) fault = std::string("NVRTC's machine code: ") + nvrtcGetErrorString(result);
  }
  nvrtcDestroyProgram(&program);
  return fault;
}

}  // namespace rewright::cuda
