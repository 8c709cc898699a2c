// The CUDA runtime and NVRTC: memory, streams, events, recording, kernels.
#include <nvrtc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_prelude.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "core/base/check.h"
#include "tests/backends/host_kernels_util.h"
#include "tests/backends/standin/standin_util.h"

namespace rewright::standin {
namespace {

constexpr size_t kSpace = size_t{4} << 30, kZone = 256;
constexpr unsigned char kRed = 0xa5, kFresh = 0xff, kFreed = 0xfe;

struct Work {
  std::function<void()> run;
  double seconds = 0;
  std::vector<int> after;
  bool done = false;
};
// Numbered in the order in which it was queued.
struct WorkList {
  std::vector<Work> items;
  int first = 0;  // what was before is done and forgotten

  int Add(Work work) {
    items.push_back(std::move(work));
    return first + static_cast<int>(items.size()) - 1;
  }
  bool IsLeft(int i) const { return i >= first && !items[i - first].done; }
};
struct Capture {
  WorkList nodes;
  bool valid = true, ended = false;
};

}  // namespace
}  // namespace rewright::standin

// The runtime's opaque types.
struct CUstream_st {
  std::vector<int> tail;  // the work that the next one waits for
  std::shared_ptr<rewright::standin::Capture> capture;
  std::vector<int> captured_tail;
};
struct CUevent_st {
  std::vector<int> work;
  std::shared_ptr<rewright::standin::Capture> capture;
  std::vector<int> nodes;
  double time = -1;
  bool behind_work = false;
};
struct CUgraph_st {
  std::shared_ptr<rewright::standin::Capture> capture;
};
struct CUgraphExec_st {
  rewright::standin::WorkList nodes;
};
struct CUlib_st {
  std::string source, name;
};

namespace rewright::standin {
namespace {

struct Gpu {
  Settings settings;
  Observed observed;
  std::minstd_rand random;
  char* space = nullptr;
  size_t next = 0;
  std::map<char*, size_t> allocations;
  size_t allocated = 0;
  int access = 0;
  WorkList work;
  std::vector<CUstream_st*> streams;
  CUstream_st* origin = nullptr;  // of the recording that goes on
  double clock = 0;
  bool lost = false;
  cudaError_t last = cudaSuccess;
};
Gpu gpu;

HostKernels& Kernels() {
  static auto* kernels = new HostKernels;
  return *kernels;
}

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) gpu.last = error;
  return error;
}

// Runs work in a random order that keeps `after`, until nothing of `wanted` is left; null: all of it.
void RunWork(WorkList& work, const std::vector<int>* wanted) {
  const OpenMemory opened;
  const auto left = [&](int i) { return work.IsLeft(i); };
  for (;;) {
    if (wanted != nullptr && std::none_of(wanted->begin(), wanted->end(), left)) break;
    std::vector<Work*> ready;
    for (Work& item : work.items) {
      if (!item.done && std::none_of(item.after.begin(), item.after.end(), left)) ready.push_back(&item);
    }
    if (ready.empty()) break;
    Work& next = *ready[gpu.random() % ready.size()];
    gpu.clock += next.seconds;
    if (next.run != nullptr && !gpu.lost) next.run();
    next.done = true;
  }
  const auto open = std::find_if(work.items.begin(), work.items.end(), [](const Work& item) { return !item.done; });
  work.first += static_cast<int>(open - work.items.begin());
  work.items.erase(work.items.begin(), open);
}

void CheckZones(char* memory, size_t bytes) {
  const OpenMemory opened;
  const auto red = [](const char* zone) {
    return std::all_of(zone, zone + kZone, [](char c) { return static_cast<unsigned char>(c) == kRed; });
  };
  if (!red(memory - kZone)) Misuse(absl::StrCat("work wrote in front of an allocation of ", bytes, " bytes"));
  if (!red(memory + bytes)) Misuse(absl::StrCat("work wrote behind an allocation of ", bytes, " bytes"));
}

// Refuses calls that the runtime refuses while this thread records: the recording is invalid then.
bool RefusedInCapture() {
  if (gpu.origin == nullptr) return false;
  gpu.origin->capture->valid = false;
  return true;
}

cudaError_t Wait(const std::vector<int>& work, const char* function = __builtin_FUNCTION()) {
  if (RefusedInCapture()) return Note(cudaErrorStreamCaptureUnsupported);
  if (Fails(function)) return Note(cudaErrorUnknown);
  RunWork(gpu.work, &work);
  return gpu.lost ? cudaErrorIllegalAddress : cudaSuccess;
}

void Merge(std::vector<int>* into, const std::vector<int>& from) {
  for (int i : from) {
    if (std::find(into->begin(), into->end(), i) == into->end()) into->push_back(i);
  }
}

template <typename T>
T* Made(const char* kind, T* object) {
  ++gpu.observed.live[kind];
  return object;
}
template <typename T>
void Destroyed(const char* kind, T* object) {
  --gpu.observed.live[kind];
  delete object;
}

}  // namespace

void Reset(const Settings& settings) {
  if (gpu.space != nullptr) munmap(gpu.space, kSpace);
  gpu = Gpu();
  gpu.settings = settings;
  gpu.random.seed(static_cast<unsigned>(settings.seed * 7919 + 1));
  void* space = mmap(nullptr, kSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(space != MAP_FAILED);
  gpu.space = static_cast<char*>(space);
}
const Settings& settings() { return gpu.settings; }
Observed& observed() { return gpu.observed; }
int Live() {
  int count = 0;
  for (const auto& [kind, live] : gpu.observed.live) count += live;
  return count;
}
void Misuse(const std::string& what) { gpu.observed.misuse.push_back(what); }
bool Fails(const char* function) {
  static std::mutex mutex;  // kernels are compiled by several threads
  const std::lock_guard<std::mutex> lock(mutex);
  gpu.observed.calls_of[function].push_back(gpu.observed.calls);
  return gpu.observed.calls++ == gpu.settings.fail_at || gpu.lost;
}
void Lose() { gpu.lost = true; }

OpenMemory::OpenMemory() {
  if (gpu.access++ == 0) CHECK(mprotect(gpu.space, gpu.next + 4096, PROT_READ | PROT_WRITE) == 0);
}
OpenMemory::~OpenMemory() {
  if (--gpu.access == 0) CHECK(mprotect(gpu.space, gpu.next + 4096, PROT_NONE) == 0);
}

void CheckRange(const void* address, size_t bytes, size_t alignment, const std::string& what) {
  char* at = static_cast<char*>(const_cast<void*>(address));
  if (bytes == 0) return;
  auto found = gpu.allocations.upper_bound(at);
  const bool inside = found != gpu.allocations.begin() && (--found, at + bytes <= found->first + found->second);
  if (!inside) Misuse(absl::StrCat(what, ": ", bytes, " bytes that no allocation holds"));
  if (reinterpret_cast<uintptr_t>(at) % alignment != 0) Misuse(absl::StrCat(what, ": not aligned to ", alignment));
}

cudaError_t Queue(cudaStream_t stream, double seconds, std::function<void()> work) {
  if (stream == nullptr) Misuse("work on the default stream");
  auto& list = stream->capture != nullptr ? stream->capture->nodes : gpu.work;
  auto& tail = stream->capture != nullptr ? stream->captured_tail : stream->tail;
  tail = {list.Add({std::move(work), seconds, tail, false})};
  return cudaSuccess;
}

bool Propose(cudaStream_t stream, int proposal, cudaError_t* error) {
  const auto is_in = [&](const std::vector<int>& list) {
    return std::find(list.begin(), list.end(), proposal) != list.end();
  };
  *error = cudaSuccess;
  if (is_in(gpu.settings.refused)) return false;
  if (stream->capture != nullptr && is_in(gpu.settings.unrecorded)) {
    stream->capture->valid = false;
    return false;
  }
  gpu.observed.proposals.push_back(proposal);
  if (proposal == gpu.settings.lasting) *error = Queue(stream, 0, [] { Lose(); });
  return true;
}

}  // namespace rewright::standin

using namespace rewright;           // NOLINT
using namespace rewright::standin;  // NOLINT

extern "C" {

// ---------------------------------------------------------------- device and errors

cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, Fails() ? Note(cudaErrorUnknown) : cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp();
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = gpu.settings.memory;
  properties->l2CacheSize = 1 << 12;
  return Fails() ? Note(cudaErrorUnknown) : cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    default: return "unknown error";
  }
}
cudaError_t cudaGetLastError() {
  const cudaError_t last = gpu.last;
  gpu.last = cudaSuccess;
  return gpu.lost ? cudaErrorIllegalAddress : last;
}

// ---------------------------------------------------------------- memory

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (RefusedInCapture()) return Note(cudaErrorStreamCaptureUnsupported);
  if (Fails() || gpu.allocated + bytes > gpu.settings.memory) return Note(cudaErrorMemoryAllocation);
  const size_t rounded = (bytes + 255) / 256 * 256;
  CHECK(gpu.next + rounded + 2 * kZone + 4096 < kSpace) << "the stand-in's memory is never used again";
  char* start = gpu.space + gpu.next;
  gpu.next += rounded + 2 * kZone;
  const OpenMemory opened;
  std::memset(start, kRed, rounded + 2 * kZone);
  std::memset(start + kZone, kFresh, bytes);
  *memory = start + kZone;
  gpu.allocations[start + kZone] = bytes;
  gpu.allocated += bytes;
  ++gpu.observed.live["allocations"];
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (RefusedInCapture()) return Note(cudaErrorStreamCaptureUnsupported);
  RunWork(gpu.work, nullptr);  // it waits for the whole device
  const auto found = gpu.allocations.find(static_cast<char*>(memory));
  if (found == gpu.allocations.end()) {
    Misuse("memory is freed that is not allocated");
    return cudaErrorInvalidValue;
  }
  CheckZones(found->first, found->second);
  {
    const OpenMemory opened;
    std::memset(found->first, kFreed, found->second);
  }
  gpu.allocated -= found->second;
  gpu.allocations.erase(found);
  --gpu.observed.live["allocations"];
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *total = gpu.settings.memory;
  *available = gpu.settings.memory - gpu.allocated;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (stream->capture != nullptr && kind != cudaMemcpyDeviceToDevice && RefusedInCapture()) {
    return Note(cudaErrorStreamCaptureUnsupported);
  }
  if (Fails()) return Note(cudaErrorUnknown);
  if (kind != cudaMemcpyHostToDevice) CheckRange(from, bytes, 1, "source of a copy");
  if (kind != cudaMemcpyDeviceToHost) CheckRange(to, bytes, 1, "target of a copy");
  return Queue(stream, 1e-7, [=] { std::memmove(to, from, bytes); });
}

// ---------------------------------------------------------------- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) Misuse("a stream that waits for the default one");
  if (Fails()) return Note(cudaErrorUnknown);
  gpu.streams.push_back(*stream = Made("streams", new CUstream_st));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RunWork(gpu.work, &stream->tail);
  gpu.streams.erase(std::find(gpu.streams.begin(), gpu.streams.end(), stream));
  Destroyed("streams", stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return Wait(stream->tail); }
#undef cudaEventCreate
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (Fails()) return Note(cudaErrorUnknown);
  *event = Made("events", new CUevent_st);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  RunWork(gpu.work, &event->work);
  Destroyed("events", event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (Fails()) return Note(cudaErrorUnknown);
  event->capture = stream->capture;
  if (stream->capture != nullptr) {
    event->nodes = stream->captured_tail;
    return cudaSuccess;
  }
  event->behind_work = std::any_of(stream->tail.begin(), stream->tail.end(), [](int i) { return gpu.work.IsLeft(i); });
  Queue(stream, 0, [event] { event->time = gpu.clock; });
  event->work = stream->tail;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (Fails()) return Note(cudaErrorUnknown);
  if (event->capture != nullptr) {
    if (event->capture->ended) Misuse("an event of a recording that has ended");
    if (stream->capture == nullptr) {  // it joins the recording
      stream->capture = event->capture;
      stream->captured_tail.clear();
    }
    if (stream->capture != event->capture) Misuse("recordings that meet");
    Merge(&stream->captured_tail, event->nodes);
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return Note(cudaErrorStreamCaptureIsolation);
  }
  Merge(&stream->tail, event->work);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return Wait(event->work); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (Fails()) return Note(cudaErrorUnknown);
  if (start->time < 0 || end->time < 0) return Note(cudaErrorNotReady);
  if (!start->behind_work) ++gpu.observed.idle_starts;
  *milliseconds = static_cast<float>((end->time - start->time) * 1e3);
  return cudaSuccess;
}

// ---------------------------------------------------------------- recording

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (mode != cudaStreamCaptureModeThreadLocal) Misuse("a recording that concerns other threads");
  if (Fails()) return Note(cudaErrorUnknown);
  if (gpu.origin != nullptr) return Misuse("a recording within a recording"), cudaErrorIllegalState;
  gpu.origin = stream;
  stream->capture = std::make_shared<Capture>();
  stream->captured_tail.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (gpu.origin != stream) return Misuse("the end of a recording that did not begin"), cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream->capture;
  // All that the last work of the origin waits for.
  std::set<int> before;
  std::vector<int> open = stream->captured_tail;
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (before.insert(i).second)
      open.insert(open.end(), capture->nodes.items[i].after.begin(), capture->nodes.items[i].after.end());
  }
  bool joined = true;
  for (CUstream_st* other : gpu.streams) {
    if (other->capture != capture) continue;
    for (int i : other->captured_tail) joined = joined && before.count(i) > 0;
    other->capture = nullptr;
  }
  capture->ended = true;
  gpu.origin = nullptr;
  if (Fails() || !capture->valid) return Note(cudaErrorStreamCaptureInvalidated);
  if (!joined) return Note(cudaErrorStreamCaptureUnjoined);
  *graph = Made("graphs", new CUgraph_st{capture});
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {  // NOLINT
  if (Fails()) return Note(cudaErrorUnknown);
  *executable = Made("recordings", new CUgraphExec_st{graph->capture->nodes});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return Destroyed("graphs", graph), cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  RunWork(gpu.work, nullptr);
  return Destroyed("recordings", executable), cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (Fails()) return Note(cudaErrorUnknown);
  // It takes as long as its longest path.
  std::vector<double> ends;
  double end = 0;
  for (const Work& node : executable->nodes.items) {
    double begin = 0;
    for (int i : node.after) begin = std::max(begin, ends[i]);
    ends.push_back(begin + node.seconds);
    end = std::max(end, ends.back());
  }
  return Queue(stream, end, [executable] {
    WorkList nodes = executable->nodes;
    for (Work& node : nodes.items) node.seconds = 0;
    RunWork(nodes, nullptr);
  });
}

// ---------------------------------------------------------------- kernels

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  if (Fails()) return Note(cudaErrorUnknown);
  *library = Made("libraries", new CUlib_st{static_cast<const char*>(code), ""});
  return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  RunWork(gpu.work, nullptr);
  return Destroyed("libraries", library), cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (Fails()) return Note(cudaErrorUnknown);
  // Kernels of the plugin's own have no prelude.
  const size_t prelude = cuda::KernelPrelude().size();
  const bool has_prelude = library->source.compare(0, prelude, cuda::KernelPrelude()) == 0;
  library->name = name;
  Kernels().Add(cuda::KernelPrelude(), name, library->source.substr(has_prelude ? prelude : 0));
  *kernel = reinterpret_cast<cudaKernel_t>(library);
  return cudaSuccess;
}
#undef cudaLaunchKernel
cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** arguments, size_t,
                             cudaStream_t stream) {
  if (Fails()) return Note(cudaErrorUnknown);
  if (blocks.x == 0 || threads.x == 0 || threads.x > 1024) return Note(cudaErrorInvalidConfiguration);
  const std::string name = static_cast<const CUlib_st*>(function)->name;
  std::vector<void*> pointers;
  for (int i = 0; i < Kernels().Arguments(name); ++i) {
    pointers.push_back(*static_cast<void**>(arguments[i]));
    CheckRange(pointers.back(), 1, 1, absl::StrCat("argument ", i, " of ", name));
  }
  ++gpu.observed.launches;
  return Queue(stream, 1e-6, [=] { Kernels().Launch(name, blocks.x, static_cast<int>(threads.x), pointers.data()); });
}

// ---------------------------------------------------------------- NVRTC: the machine code is the source

struct _nvrtcProgram {
  std::string source;
};
nvrtcResult nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetNumSupportedArchs(int* count) { return *count = 1, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetSupportedArchs(int* archs) { return *archs = 90, NVRTC_SUCCESS; }
const char* nvrtcGetErrorString(nvrtcResult) { return "an error of NVRTC"; }
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  if (Fails()) return NVRTC_ERROR_OUT_OF_MEMORY;
  return *program = new _nvrtcProgram{source}, NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) {
  return Fails() ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* size) { return *size = 0, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  if (Fails()) return NVRTC_ERROR_INVALID_PROGRAM;
  return *size = program->source.size() + 1, NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
  if (Fails()) return NVRTC_ERROR_INVALID_PROGRAM;
  std::memcpy(code, program->source.c_str(), program->source.size() + 1);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) { return delete *program, NVRTC_SUCCESS; }

}  // extern "C"
