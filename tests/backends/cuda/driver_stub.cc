// A driver with no GPU behind it, built as libcuda.so.1: it takes kernels and runs none. cuDNN compiles the engines
// that it makes at run time only where it finds a driver, and asks it to load what it compiled; nothing else is asked
// of it.
#include <cstddef>

namespace {
constexpr int kSuccess = 0, kNoGpu = 100;
}  // namespace

extern "C" {

#define GIVES_HANDLE(name)  \
  int name(void** handle) { \
    static char some;       \
    *handle = &some;        \
    return kSuccess;        \
  }
GIVES_HANDLE(cuLibraryLoadData)
GIVES_HANDLE(cuLibraryGetKernel)
GIVES_HANDLE(cuLibraryGetModule)
GIVES_HANDLE(cuKernelGetFunction)
GIVES_HANDLE(cuModuleLoadData)
GIVES_HANDLE(cuModuleLoadDataEx)
GIVES_HANDLE(cuModuleGetFunction)

#define SUCCEEDS(name) \
  int name() { return kSuccess; }
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuFuncSetAttribute)

#define FAILS(name) \
  int name() { return kNoGpu; }
FAILS(cuInit)
FAILS(cuDriverGetVersion)
FAILS(cuDeviceGet)
FAILS(cuDeviceGetCount)
FAILS(cuDeviceGetAttribute)
FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuDevicePrimaryCtxRelease)
FAILS(cuDevicePrimaryCtxReset)
FAILS(cuCtxPushCurrent)
FAILS(cuCtxPopCurrent)
FAILS(cuCtxGetCurrent)
FAILS(cuCtxGetDevice)
FAILS(cuCtxGetLimit)
FAILS(cuStreamGetCtx)
FAILS(cuStreamSynchronize)
FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx)
FAILS(cuLaunchCooperativeKernel)
FAILS(cuLibraryLoadFromFile)
FAILS(cuKernelGetAttribute)
FAILS(cuFuncGetAttribute)
FAILS(cuModuleLoadFatBinary)
FAILS(cuModuleGetGlobal_v2)
FAILS(cuMemcpyDtoH_v2)
FAILS(cuTensorMapEncodeTiled)
FAILS(cuLinkCreate)
FAILS(cuLinkCreate_v2)
FAILS(cuLinkAddData)
FAILS(cuLinkAddData_v2)
FAILS(cuLinkAddFile_v2)
FAILS(cuLinkComplete)
FAILS(cuLinkDestroy)
FAILS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessor)

int cuOccupancyMaxActiveClusters(int* clusters) {
  *clusters = 16;
  return kSuccess;
}
int cuGetErrorName(int, const char** text) {
  *text = "there is no GPU";
  return kSuccess;
}
int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }

}  // extern "C"
