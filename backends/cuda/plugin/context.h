// State that the parts of the plugin share: one GPU, its stream and its libraries.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/gpu.h"

namespace rewright::cuda {

inline Fault FaultOf(cudaError_t error, const std::string& what) {
  return error == cudaSuccess ? Fault() : what + ": " + cudaGetErrorString(error);
}
inline Fault FaultOf(cublasStatus_t status, const std::string& what) {
  return status == CUBLAS_STATUS_SUCCESS ? Fault() : what + ": " + cublasLtGetStatusString(status);
}
inline Fault FaultOf(cudnnStatus_t status, const std::string& what) {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  char message[512] = "";
  cudnnGetLastErrorString(message, sizeof message);
  return what + ": " + cudnnGetErrorString(status) + " (" + message + ")";
}

// Returns the fault of an expression of type Fault, if there is one.
#define REWRIGHT_RETURN_FAULT(expression)                            \
  do {                                                               \
    if (Fault fault_ = (expression); !fault_.empty()) return fault_; \
  } while (false)

struct Context {
  int ordinal = 0;
  GpuDescription description;
  cudaStream_t stream = nullptr;
  cublasLtHandle_t cublas = nullptr;
  cudnnHandle_t cudnn = nullptr;
  // The properties of a GPU that is not there: cuDNN plans for it what is never run. Null: there is one.
  cudnnBackendDescriptor_t absent_gpu = nullptr;
  size_t max_plans = SIZE_MAX;  // of cuDNN for one problem; tests need few
  std::string cache_folder;     // of compiled kernels and choices of algorithms; empty: none is kept
  // Gpu::Compile of one kernel without the prelude.
  std::function<Fault(const Gpu::Source& source, std::shared_ptr<const Function>* function)> compile;

  // The calling thread's calls of the runtime mean this GPU.
  Fault Use() const { return FaultOf(cudaSetDevice(ordinal), "cudaSetDevice"); }
};

inline size_t ElementBytes(Precision precision) { return IsHalf(precision) ? 2 : 4; }

// Device memory that frees itself.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { cudaFree(data_); }
  Fault Allocate(size_t bytes) {
    cudaFree(data_);
    data_ = nullptr;
    const cudaError_t error = cudaMalloc(&data_, std::max<size_t>(bytes, 16));
    if (error != cudaSuccess) cudaGetLastError();
    return FaultOf(error, "trying algorithms: " + std::to_string(bytes) + " bytes");
  }
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Seconds between two events around the work.
Fault TimeWork(Context& context, const Enqueue& work, double* seconds);

// Work recorded once, to be launched as a whole.
struct DestroyRecorded {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using RecordedWork = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyRecorded>;
Fault RecordWork(Context& context, const Enqueue& work, RecordedWork* recorded);

// Queues beside the context's stream, and events between them. They are made at the first run that needs them, which
// must not be recorded.
class Queues {
 public:
  explicit Queues(Context& context) : context_(context) {}
  Queues(const Queues&) = delete;
  ~Queues();
  // Gpu::RunQueues. While a step is enqueued its queue is the context's stream, and cuDNN's.
  Fault Run(const std::vector<QueueStep>& steps, const std::function<Fault(int)>& enqueue);

 private:
  Fault Provide(size_t streams, size_t events);
  Fault Enter(const std::vector<QueueStep>& steps, const std::function<Fault(int)>& enqueue, cudaStream_t home);
  Fault Switch(cudaStream_t stream);

  Context& context_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

// Several ways to do the same.
struct Ways {
  int count = 0;
  std::function<Fault(int way, int run)> enqueue;  // successive runs are on successive sets of operands
  std::function<std::string(int way)> name;        // for messages: which way to do what
  int sets = 1;                                    // of operands
};

struct Choice {
  int best = -1;                // -1: all ways were left out
  std::vector<double> seconds;  // of each way; infinity where it was left out
};

// The fastest of them. Ways that fail, or cannot be recorded, are left out. A fault that names the way
// where one leaves the GPU with an error that stays, since nothing can run after that.
Fault FastestOf(Context& context, const Ways& ways, Choice* choice);

// Memory on which ways are timed: the sets of operands exceed the L2 cache twice, since in a model weights come from
// memory. They hold numbers of ordinary size: zeros are multiplied with less power, thus faster.
class TrialOperands {
 public:
  // An operand's elements are of 16 bits where the precision says so, unless it is `wide`.
  struct Operand {
    size_t bytes = 0;
    bool wide = false;
  };
  // With a workspace, which is one for all sets. Fewer sets where there is not enough memory for all.
  Fault Allocate(Context& context, Precision precision, const std::vector<Operand>& operands, size_t workspace);
  int sets() const { return static_cast<int>(sets_.size()); }
  // Operands in their order, then the workspace.
  void* const* set(int run) const { return sets_[static_cast<size_t>(run) % sets_.size()].data(); }

 private:
  Fault Fill(Context& context, Precision precision, const std::vector<Operand>& operands);

  Scratch memory_, workspace_;
  std::vector<std::vector<void*>> sets_;
};

// The text of numbers, for keys: " 3 4".
inline std::string KeyText(int64_t number) { return " " + std::to_string(number); }
template <size_t n>
std::string KeyText(const int64_t (&numbers)[n]) {
  std::string text;
  for (int64_t number : numbers) text += KeyText(number);
  return text;
}
// A key that tells one problem of a kind from all others: "pool 1 64 56 56 ...". The arguments are numbers, or arrays
// of a size that the compiler knows.
template <typename... Numbers>
std::string KeyOf(std::string kind, const Numbers&... numbers) {
  return (std::move(kind) + ... + KeyText(numbers));
}

// The number of the way that was fastest when it was last tried on this GPU with these libraries, kept on disk; `key`
// names the problem.
bool RecallChoice(const Context& context, const std::string& key, int* choice);
// The seconds of all ways are kept for people who read the file.
void KeepChoice(const Context& context, const std::string& key, int number, const std::vector<double>& seconds);

// A file of the cache that holds what belongs to `key`, compared in full. False where there is none.
bool ReadCached(const Context& context, const std::string& kind, const std::string& key, std::string* content);
// Written to a temporary file and renamed; a cache that cannot be written is no error.
void WriteCached(const Context& context, const std::string& kind, const std::string& key, const std::string& content);

// The parts of Gpu::Plan.
Fault PlanCall(Context& context, const MatmulProblem& problem, std::unique_ptr<LibraryCall>* call);
Fault PlanGraphMatmul(Context& context, const MatmulProblem& problem, std::unique_ptr<LibraryCall>* call);
Fault PlanCall(Context& context, const ConvProblem& problem, std::unique_ptr<LibraryCall>* call);
Fault PlanCall(Context& context, const AttentionProblem& problem, std::unique_ptr<LibraryCall>* call);
Fault PlanCall(Context& context, const PoolProblem& problem, std::unique_ptr<LibraryCall>* call);
Fault PlanCall(Context& context, const LayerNormProblem& problem, std::unique_ptr<LibraryCall>* call);

// A fault where this NVRTC makes no machine code for the architecture of the GPU `name`: it knows those that there were
// when it was built.
Fault CheckArchitecture(const std::string& name, int architecture);

// The machine code of CUDA C++ for an architecture (90: sm_90), by NVRTC; needs no GPU. `report`, where it is not null,
// is what the assembler says of each kernel: registers, spills.
Fault CompileSource(const std::string& source, int architecture, std::string* code, std::string* report = nullptr);

}  // namespace rewright::cuda
