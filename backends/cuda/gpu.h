// A GPU as the CUDA device sees it: memory, generated kernels, the calls of its libraries.
//
// The interface is the border between the program, which needs no CUDA to be built or run, and the plugin
// librewright_cuda.so, which implements it with the CUDA runtime, NVRTC, cuBLASLt and cuDNN (plugin/). Everything that
// decides anything (fusion, lowering, code generation) lies on this side and is tested without a GPU, by an
// implementation on the processor's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/base/queue_step.h"

namespace rewright::cuda {

// The reason of a failure; empty: none. (Apart from the types of this file only types of the standard library cross the
// border: the plugin and the program are built by compilers that agree on these, and from the same text of this file,
// see kGpuBorder.)
using Fault = std::string;
// In every fault for want of memory; CUDA's own words.
inline constexpr char kOutOfMemory[] = "out of memory";
// In every fault after which this process can use the GPU no more, with what led to it.
inline constexpr char kUnusable[] = "leaves the GPU unusable";

// The precision in which f32 tensors are stored between kernels and multiplied. Sums, and everything within a kernel,
// are f32.
enum class Precision : uint8_t {
  kFp32,
  kTf32,  // factors of products are rounded to 10 bits of mantissa
  kFp16,  // stored as IEEE half precision
  kBf16,  // stored as bfloat16
};
inline bool IsHalf(Precision precision) { return precision == Precision::kFp16 || precision == Precision::kBf16; }

struct GpuDescription {
  std::string name;      // "NVIDIA H200"
  std::string versions;  // of driver and libraries, for the key of the profile database
  int architecture = 0;  // 90: compute capability 9.0
  int64_t l2_bytes = 0;
};

// A matrix in memory: element (i, j) of batch (a, b) lies at a * outer + b * batch + i * row + j * column, counted in
// elements; row or column is 1.
struct MatrixLayout {
  int64_t row = 0, column = 1, batch = 0, outer = 0;
};

// The function of a sum behind a product; the two forms of GELU are by the error function and by tanh.
enum class Activation : uint8_t { kNone, kRelu, kGeluErf, kGeluTanh };

// out[a, b, m, n] = activation(sum k: left[a, b, m, k] * right[a, b, k, n] + bias[n] + residual[a, b, m, n]), all
// stored as the precision says, but for `out` and the bias where the result is wide: these are f32, and there is no
// residual. With several outer batches the product is all there is: no bias, residual, activation, wide result.
// Buffers: left, right, out, then bias and residual where there are any, then the workspace.
struct MatmulProblem {
  int64_t outer = 1, batch = 1, m = 1, n = 1, k = 1;
  MatrixLayout left, right, out;  // the residual lies like `out`
  bool bias = false, residual = false, wide = false;
  Activation activation = Activation::kNone;
  int alignment = 16;  // of the factors' addresses, in bytes; that of the others is 16
  Precision precision = Precision::kFp32;
};

// out = conv2d(x, w) + bias[o] + residual, or relu of that, at most `most`, all stored as the precision says. Buffers:
// x, w, out, then bias and residual where there are any, then the workspace; all aligned to 16 bytes.
struct ConvProblem {
  int64_t x[4] = {}, w[4] = {}, out[4] = {};                          // sizes: n c h w, o c/g r s, n o y z
  int64_t x_strides[4] = {}, w_strides[4] = {}, out_strides[4] = {};  // in elements; the residual lies like `out`
  int64_t strides[2] = {1, 1}, pads[4] = {}, dilations[2] = {1, 1};   // pads: top, left, bottom, right
  int64_t groups = 1;
  bool bias = false, residual = false, relu = false;
  double most = std::numeric_limits<double>::infinity();
  Precision precision = Precision::kFp32;
};

// out[b, h, q, e] = sum k: p[b, h, q, k] * value[b, h, k, e], where p is the softmax over k of
// scale * (sum d: query[b, h, q, d] * key[b, h, d, k]) + mask[b, h, q, k], all stored as the precision says, which is
// one of 16 bits. Along d and e the elements are neighbours. Buffers: query, key, value, out, then the mask where there
// is one, then the workspace.
struct AttentionProblem {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, depth = 1, value_depth = 1;
  int64_t query_strides[4] = {}, key_strides[4] = {}, value_strides[4] = {}, out_strides[4] = {};  // in elements
  double scale = 1;
  bool mask = false;
  int64_t mask_sizes[4] = {}, mask_strides[4] = {};  // each size is that of the scores or 1
  Precision precision = Precision::kFp16;
};

// out[n, c, y, z] = the largest of, or the mean over, x[n, c, y * sh - top + r, z * sw - left + s] for all r and s of
// the window; what lies beyond x takes no part, or counts in the mean as zeros. All stored as the precision says.
// Buffers: x, out, then the workspace; all aligned to 16 bytes.
enum class PoolMode : uint8_t { kMax, kMean, kMeanWithPadding };
struct PoolProblem {
  PoolMode mode = PoolMode::kMax;
  int64_t x[4] = {}, out[4] = {};                  // sizes: n c h w, n c y z
  int64_t x_strides[4] = {}, out_strides[4] = {};  // in elements
  // Pads: top, left, bottom, right, so that windows end within the last two.
  int64_t kernel[2] = {1, 1}, strides[2] = {1, 1}, pads[4] = {};
  Precision precision = Precision::kFp32;
};

// out[i, j] = (x[i, j] - mean of row i) / sqrt(variance of row i + epsilon) * scale[j] + bias[j], rows and columns
// without gaps; scale and bias are stored as f32, the others as the precision says. Buffers: x, scale, bias, out, then
// the workspace; all aligned to 16 bytes.
struct LayerNormProblem {
  int64_t rows = 1, columns = 1;
  double epsilon = 0;
  Precision precision = Precision::kFp32;
};

// A problem that a library computes.
using Problem = std::variant<MatmulProblem, ConvProblem, AttentionProblem, PoolProblem, LayerNormProblem>;

// One call of a library, its algorithm chosen by timing. Run only enqueues; it allocates nothing. (Work is enqueued by
// functions that give a Fault where it is refused; what goes wrong later shows at Synchronize.)
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual size_t workspace_bytes() const = 0;  // aligned to 256 bytes
  virtual Fault Run(void* const* buffers) const = 0;
};

// A compiled kernel; valid as long as its Gpu.
class Function {
 public:
  virtual ~Function() = default;
  // Enqueues it. `pointers` are its arguments.
  virtual Fault Launch(int64_t blocks, int threads, void* const* pointers, int count) const = 0;
};

// Work recorded once and enqueued as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual Fault Run() const = 0;
};

// Enqueues work and does nothing else.
using Enqueue = std::function<Fault()>;

// One GPU with one queue, on which everything but RunQueues is enqueued in order. An error of enqueued work shows at
// the next Synchronize. Not thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual const GpuDescription& description() const = 0;

  // Memory aligned to 256 bytes. Out of memory is a Fault that names the bytes asked for and those free.
  virtual Fault Allocate(size_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;
  virtual Fault CopyIn(void* to, const void* from, size_t bytes) = 0;   // returns when `from` may be changed
  virtual Fault CopyOut(void* to, const void* from, size_t bytes) = 0;  // after everything enqueued before

  // Compiles kernels, each a function of its own, behind the prelude. Kernels compiled before, in this process or in
  // another one, are found again.
  struct Source {
    std::string name, text;
  };
  virtual Fault Compile(const std::string& prelude, const std::vector<Source>& sources,
                        std::vector<std::shared_ptr<const Function>>* functions) = 0;

  // A fault also where the library has no way to do it: attention is then computed in parts, the others by generated
  // kernels.
  virtual Fault Plan(const Problem& problem, std::unique_ptr<LibraryCall>* call) = 0;

  // Enqueues work by `enqueue(i)`, in the order of `steps`, so that queues may overlap. All of it is behind what was
  // enqueued before, and what is enqueued later is behind all of it. Ends at the first fault.
  virtual Fault RunQueues(const std::vector<QueueStep>& steps, const std::function<Fault(int)>& enqueue) = 0;

  // Waits for all work; the first error of any.
  virtual Fault Synchronize() = 0;
  // Seconds that the work takes on the GPU, between two events.
  virtual Fault Time(const Enqueue& work, double* seconds) = 0;
  // The number of the fastest of several ways to do the same, each of which enqueues it. It is kept on disk; `key`
  // tells the ways apart from all others.
  virtual Fault Fastest(const std::string& key, const std::vector<Enqueue>& ways, int* best) = 0;
  virtual Fault Record(const Enqueue& work, std::unique_ptr<Recording>* recording) = 0;
};

// Raised with every change of what crosses the border, the declarations of this file (a test compares their hash). The
// plugin has the number in a constant of this name; one of another build is not called.
inline constexpr int kGpuBorder = 1;
inline constexpr char kGpuBorderName[] = "rewright_gpu_border";
// Empty where the number that a plugin has, null for none, is that of this program.
inline Fault CheckBorder(const int* found) {
  const std::string expected = ", expected " + std::to_string(kGpuBorder) + ": it is of another build of the program";
  if (found == nullptr) return "found a plugin without a number of its border" + expected;
  return *found == kGpuBorder ? "" : "found a plugin with border " + std::to_string(*found) + expected;
}

// The name and type of the plugin's one function. `ordinal` counts GPUs from 0; null with a fault in `*fault`.
inline constexpr char kOpenGpu[] = "rewright_open_gpu";
using OpenGpuFunction = Gpu* (*)(int ordinal, Fault* fault);

}  // namespace rewright::cuda
