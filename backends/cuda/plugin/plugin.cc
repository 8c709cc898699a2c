// The plugin librewright_cuda.so: a Gpu by the CUDA runtime, NVRTC, cuBLASLt and cuDNN.
#include <nvrtc.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <thread>
#include <utility>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

namespace {

class KernelFunction : public Function {
 public:
  KernelFunction(Context& context, std::string name, cudaLibrary_t library, cudaKernel_t kernel)
      : context_(context), name_(std::move(name)), library_(library), kernel_(kernel) {}
  ~KernelFunction() override { cudaLibraryUnload(library_); }

  Fault Launch(int64_t blocks, int threads, void* const* pointers, int count) const override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    std::vector<void*> arguments;
    for (int i = 0; i < count; ++i) arguments.push_back(const_cast<void**>(&pointers[i]));
    const cudaError_t error =
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(static_cast<unsigned>(blocks)),
                         dim3(static_cast<unsigned>(threads)), arguments.data(), 0, context_.stream);
    return FaultOf(error, name_);
  }

 private:
  Context& context_;
  const std::string name_;
  const cudaLibrary_t library_;
  const cudaKernel_t kernel_;
};

class GraphRecording : public Recording {
 public:
  GraphRecording(Context& context, RecordedWork graph) : context_(context), graph_(std::move(graph)) {}
  Fault Run() const override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    return FaultOf(cudaGraphLaunch(graph_.get(), context_.stream), "cudaGraphLaunch");
  }

 private:
  Context& context_;
  const RecordedWork graph_;
};

std::string CacheFolder() {
  if (const char* own = std::getenv("REWRIGHT_CACHE"); own != nullptr) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr) return std::string(cache) + "/rewright";
  if (const char* home = std::getenv("HOME"); home != nullptr) return std::string(home) + "/.cache/rewright";
  return {};
}

class CudaGpu : public Gpu {
 public:
  ~CudaGpu() override {
    functions_.clear();
    if (context_.cudnn != nullptr) cudnnDestroy(context_.cudnn);
    if (context_.cublas != nullptr) cublasLtDestroy(context_.cublas);
    if (context_.stream != nullptr) cudaStreamDestroy(context_.stream);
  }

  Fault Init(int ordinal) {
    int count = 0, installed = 0;
    cudaDriverGetVersion(&installed);
    if (installed == 0) return "no NVIDIA driver is installed (libcuda.so.1 is not found)";
    REWRIGHT_RETURN_FAULT(FaultOf(cudaGetDeviceCount(&count), "no GPU can be used"));
    if (count == 0) return "there is no CUDA GPU";
    if (ordinal >= count) return "there are " + std::to_string(count) + " GPUs, counted from 0";
    context_.ordinal = ordinal;
    REWRIGHT_RETURN_FAULT(context_.Use());
    cudaDeviceProp properties;
    REWRIGHT_RETURN_FAULT(FaultOf(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties"));
    int driver = 0, runtime = 0, major = 0, minor = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    nvrtcVersion(&major, &minor);
    auto version = [](int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); };
    GpuDescription& description = context_.description;
    description.name = properties.name;
    description.versions = "driver " + version(driver) + ", CUDA " + version(runtime) + ", NVRTC " +
                           std::to_string(major) + "." + std::to_string(minor) + ", cuDNN " +
                           std::to_string(cudnnGetVersion()) + ", cuBLASLt " + std::to_string(cublasLtGetVersion());
    description.architecture = properties.major * 10 + properties.minor;
    REWRIGHT_RETURN_FAULT(CheckArchitecture(description.name, description.architecture));
    description.l2_bytes = properties.l2CacheSize;
    context_.cache_folder = CacheFolder();
    context_.compile = [this](const Source& source, std::shared_ptr<const Function>* function) -> Fault {
      std::vector<std::shared_ptr<const Function>> functions;
      REWRIGHT_RETURN_FAULT(Compile("", {source}, &functions));
      *function = functions[0];
      return {};
    };
    REWRIGHT_RETURN_FAULT(
        FaultOf(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking), "cudaStreamCreate"));
    REWRIGHT_RETURN_FAULT(FaultOf(cublasLtCreate(&context_.cublas), "cublasLtCreate"));
    REWRIGHT_RETURN_FAULT(FaultOf(cudnnCreate(&context_.cudnn), "cudnnCreate"));
    return FaultOf(cudnnSetStream(context_.cudnn, context_.stream), "cudnnSetStream");
  }

  const GpuDescription& description() const override { return context_.description; }

  Fault Allocate(size_t bytes, void** memory) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    const cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaSuccess) return {};
    cudaGetLastError();
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    return FaultOf(error, std::to_string(bytes) + " bytes asked for, " + std::to_string(available) + " of " +
                              std::to_string(total) + " free");
  }
  void Free(void* memory) override { cudaFree(memory); }  // knows its GPU
  Fault CopyIn(void* to, const void* from, size_t bytes) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    if (bytes == 0) return {};
    REWRIGHT_RETURN_FAULT(
        FaultOf(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, context_.stream), "copy to the GPU"));
    return FaultOf(cudaStreamSynchronize(context_.stream), "copy to the GPU");
  }
  Fault CopyOut(void* to, const void* from, size_t bytes) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    if (bytes == 0) return Synchronize();
    REWRIGHT_RETURN_FAULT(
        FaultOf(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, context_.stream), "copy from the GPU"));
    return Synchronize();
  }

  Fault Compile(const std::string& prelude, const std::vector<Source>& sources,
                std::vector<std::shared_ptr<const Function>>* functions) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    std::vector<const Source*> missing;
    for (const Source& source : sources) {
      if (functions_.emplace(source.text, nullptr).second) missing.push_back(&source);
    }
    std::vector<std::string> codes(missing.size()), faults(missing.size());
    CompileMissing(prelude, missing, &codes, &faults);
    for (size_t i = 0; i < missing.size(); ++i) {
      Fault fault = faults[i];
      if (fault.empty()) fault = Load(*missing[i], codes[i]);
      if (!fault.empty()) {
        for (const Source* source : missing) {
          if (functions_[source->text] == nullptr) functions_.erase(source->text);
        }
        return missing[i]->name + ": " + fault;
      }
    }
    for (const Source& source : sources) functions->push_back(functions_.at(source.text));
    return {};
  }

  Fault Plan(const Problem& problem, std::unique_ptr<LibraryCall>* call) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    return std::visit([&](const auto& p) { return PlanCall(context_, p, call); }, problem);
  }

  Fault RunQueues(const std::vector<QueueStep>& steps, const std::function<Fault(int)>& enqueue) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    return queues_.Run(steps, enqueue);
  }

  Fault Synchronize() override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    return FaultOf(cudaStreamSynchronize(context_.stream), "work on the GPU");
  }
  Fault Time(const Enqueue& work, double* seconds) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    return TimeWork(context_, work, seconds);
  }
  Fault Fastest(const std::string& key, const std::vector<Enqueue>& ways, int* best) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    const int count = static_cast<int>(ways.size());
    if (RecallChoice(context_, key, best) && *best >= 0 && *best < count) return {};
    const auto name = [&](int i) { return "way " + std::to_string(i) + " to do \"" + key.substr(0, 200) + "\""; };
    Choice choice;
    REWRIGHT_RETURN_FAULT(FastestOf(context_, {count, [&](int i, int) { return ways[i](); }, name}, &choice));
    *best = choice.best;
    if (*best < 0) return "none of the ways to do the same runs";
    KeepChoice(context_, key, *best, choice.seconds);
    return {};
  }
  Fault Record(const Enqueue& work, std::unique_ptr<Recording>* recording) override {
    REWRIGHT_RETURN_FAULT(context_.Use());
    RecordedWork graph;
    REWRIGHT_RETURN_FAULT(RecordWork(context_, work, &graph));
    *recording = std::make_unique<GraphRecording>(context_, std::move(graph));
    return {};
  }

 private:
  // Takes the kernels from the cache, or compiles them by NVRTC on all processors.
  void CompileMissing(const std::string& prelude, const std::vector<const Source*>& missing,
                      std::vector<std::string>* codes, std::vector<std::string>* faults) {
    int major = 0, minor = 0;
    nvrtcVersion(&major, &minor);
    const std::string target = "sm_" + std::to_string(context_.description.architecture) + " NVRTC " +
                               std::to_string(major) + "." + std::to_string(minor) + "\n";
    std::atomic<size_t> next{0};
    auto work = [&] {
      for (size_t i = next++; i < missing.size(); i = next++) {
        try {
          const std::string source = prelude + missing[i]->text;
          if (ReadCached(context_, "kernel", target + source, &(*codes)[i])) continue;
          (*faults)[i] = CompileSource(source, context_.description.architecture, &(*codes)[i]);
          if ((*faults)[i].empty()) WriteCached(context_, "kernel", target + source, (*codes)[i]);
        } catch (const std::bad_alloc&) {
          (*faults)[i] = kOutOfMemory;  // short enough to need no memory
        }
      }
    };
    std::vector<std::thread> threads;
    const size_t count = std::min<size_t>(missing.size(), std::max(1u, std::thread::hardware_concurrency()));
    try {
      for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
    } catch (const std::exception&) {  // as many as there are, and memory for them
    }
    work();
    for (std::thread& thread : threads) thread.join();
  }

  Fault Load(const Source& source, const std::string& code) {
    cudaLibrary_t library = nullptr;
    REWRIGHT_RETURN_FAULT(FaultOf(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                                  "cudaLibraryLoadData"));
    cudaKernel_t kernel = nullptr;
    const Fault fault = FaultOf(cudaLibraryGetKernel(&kernel, library, source.name.c_str()), "cudaLibraryGetKernel");
    if (!fault.empty()) {
      cudaLibraryUnload(library);
      return fault;
    }
    functions_[source.text] = std::make_shared<KernelFunction>(context_, source.name, library, kernel);
    return {};
  }

  Context context_;
  Queues queues_{context_};
  std::map<std::string, std::shared_ptr<const Function>> functions_;  // by the source, since names are only hashes
};

}  // namespace
}  // namespace rewright::cuda

extern "C" __attribute__((visibility("default"))) const int rewright_gpu_border = rewright::cuda::kGpuBorder;

extern "C" __attribute__((visibility("default"))) rewright::cuda::Gpu* rewright_open_gpu(int ordinal,
                                                                                         rewright::cuda::Fault* fault) {
  auto gpu = std::make_unique<rewright::cuda::CudaGpu>();
  *fault = gpu->Init(ordinal);
  return fault->empty() ? gpu.release() : nullptr;
}
