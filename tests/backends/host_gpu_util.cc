#include "tests/backends/host_gpu_util.h"

#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/half.h"
#include "backends/layout.h"
#include "core/check.h"

namespace rewright {
namespace {

// CUDA C++ for the C++ compiler. Threads of a block take turns: each runs until it ends or waits for the others.
constexpr char kShim[] = R"(
#include <math.h>
#include <string.h>
#include <utility>
#define __device__
#define __global__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __restrict__
struct Coordinates { unsigned x; };
struct Block { Coordinates block, thread; void (*wait)(); unsigned long long lanes[1024]; };
static Block* block_state;
extern "C" void bind_block(Block* block) { block_state = block; }
#define blockIdx (block_state->block)
#define threadIdx (block_state->thread)
static inline void __syncthreads() { block_state->wait(); }
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int lane) {
  const unsigned me = threadIdx.x;
  memcpy(&block_state->lanes[me], &value, sizeof value);
  __syncthreads();
  memcpy(&value, &block_state->lanes[me ^ (unsigned)lane], sizeof value);
  __syncthreads();
  return value;
}
static inline double __longlong_as_double(long long a) { double b; memcpy(&b, &a, sizeof b); return b; }
template <class... A, size_t... I>
static void call_kernel(void (*kernel)(A...), void* const* a, std::index_sequence<I...>) { kernel((A)a[I]...); }
template <class... A>
static void call_kernel(void (*kernel)(A...), void* const* a) {
  call_kernel(kernel, a, std::index_sequence_for<A...>());
}
)";

struct Coordinates {
  unsigned x;
};
struct Block {
  Coordinates block, thread;
  void (*wait)();
  unsigned long long lanes[1024];
};
using Call = void (*)(void* const*);

// Runs one block's threads in turns.
class Fibers {
 public:
  static void Run(Call call, void* const* arguments, Block* block, int threads) {
    Fibers fibers(call, arguments);
    current_ = &fibers;
    fibers.fibers_.resize(static_cast<size_t>(threads));
    for (Fiber& fiber : fibers.fibers_) {
      fiber.stack.resize(32 << 10);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = &fibers.scheduler_;
      makecontext(&fiber.context, Enter, 0);
    }
    block->wait = Wait;
    for (bool live = true; live;) {
      live = false;
      for (size_t i = 0; i < fibers.fibers_.size(); ++i) {
        if (fibers.fibers_[i].done) continue;
        live = true;
        fibers.running_ = i;
        block->thread.x = static_cast<unsigned>(i);
        swapcontext(&fibers.scheduler_, &fibers.fibers_[i].context);
      }
    }
    current_ = nullptr;
  }

 private:
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
  };
  Fibers(Call call, void* const* arguments) : call_(call), arguments_(arguments) {}
  static void Enter() {
    current_->call_(current_->arguments_);
    current_->fibers_[current_->running_].done = true;
  }
  static void Wait() { swapcontext(&current_->fibers_[current_->running_].context, &current_->scheduler_); }

  static Fibers* current_;
  const Call call_;
  void* const* const arguments_;
  std::vector<Fiber> fibers_;
  size_t running_ = 0;
  ucontext_t scheduler_;
};
Fibers* Fibers::current_ = nullptr;

class HostGpu;

class HostFunction : public cuda::Function {
 public:
  HostFunction(HostGpu& gpu, std::string name, bool waits) : gpu_(gpu), name_(std::move(name)), waits_(waits) {}
  void Launch(int64_t blocks, int threads, void* const* pointers, int count) const override;

 private:
  HostGpu& gpu_;
  const std::string name_;
  const bool waits_;  // threads wait for one another
};

// Elements as a precision stores them.
class Elements {
 public:
  Elements(void* data, cuda::Precision precision) : data_(data), precision_(precision) {}
  double operator[](int64_t i) const {
    if (!cuda::IsHalf(precision_)) return static_cast<const float*>(data_)[i];
    const uint16_t bits = static_cast<const uint16_t*>(data_)[i];
    return precision_ == cuda::Precision::kFp16 ? cuda::FromFp16Bits(bits) : cuda::FromBf16Bits(bits);
  }
  void Set(int64_t i, double value) {
    const float real = static_cast<float>(value);
    if (!cuda::IsHalf(precision_)) {
      static_cast<float*>(data_)[i] = real;
    } else {
      static_cast<uint16_t*>(data_)[i] =
          precision_ == cuda::Precision::kFp16 ? cuda::Fp16Bits(real) : cuda::Bf16Bits(real);
    }
  }

 private:
  void* data_;
  cuda::Precision precision_;
};

// What follows a product: bias and residual are added, relu is taken. Buffers: see gpu.h.
class Epilogue {
 public:
  template <typename Problem>
  Epilogue(const Problem& problem, void* const* buffers)
      : out_(buffers[2], problem.precision),
        bias_(problem.bias ? buffers[3] : nullptr, problem.precision),
        residual_(problem.residual ? buffers[problem.bias ? 4 : 3] : nullptr, problem.precision),
        has_bias_(problem.bias),
        has_residual_(problem.residual),
        relu_(problem.relu) {}
  void Finish(double sum, int64_t channel, int64_t at) {
    if (has_bias_) sum += bias_[channel];
    if (has_residual_) sum += residual_[at];
    out_.Set(at, relu_ && sum < 0 ? 0 : sum);
  }

 private:
  Elements out_, bias_, residual_;
  const bool has_bias_, has_residual_, relu_;
};

void ExpectAligned(void* const* buffers, int first, int count, uintptr_t alignment) {
  for (int i = first; i < first + count; ++i) {
    CHECK(reinterpret_cast<uintptr_t>(buffers[i]) % alignment == 0) << "buffer " << i << " of a call";
  }
}

class HostMatmul : public cuda::LibraryCall {
 public:
  HostMatmul(const cuda::MatmulProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 24; }  // so that scratch memory is exercised
  void Run(void* const* buffers) const override {
    ++counts_.calls;
    const int extra = (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0);
    ExpectAligned(buffers, 0, 2, static_cast<uintptr_t>(p_.alignment));
    ExpectAligned(buffers, 2, 1 + extra, 16);
    ExpectAligned(buffers, 3 + extra, 1, 256);
    const Elements left(buffers[0], p_.precision);
    const Elements right(buffers[1], p_.precision);
    Epilogue epilogue(p_, buffers);
    std::memset(buffers[3 + extra], 0xff, workspace_bytes());
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t m = 0; m < p_.m; ++m) {
        for (int64_t n = 0; n < p_.n; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < p_.k; ++k) {
            sum += left[b * p_.left.batch + m * p_.left.row + k * p_.left.column] *
                   right[b * p_.right.batch + k * p_.right.row + n * p_.right.column];
          }
          epilogue.Finish(sum, n, b * p_.out.batch + m * p_.out.row + n * p_.out.column);
        }
      }
    }
  }

 private:
  const cuda::MatmulProblem p_;
  HostGpuCounts& counts_;
};

class HostConv : public cuda::LibraryCall {
 public:
  HostConv(const cuda::ConvProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 0; }
  void Run(void* const* buffers) const override {
    ++counts_.calls;
    ExpectAligned(buffers, 0, 3 + (p_.bias ? 1 : 0) + (p_.residual ? 1 : 0), 16);
    const Elements x(buffers[0], p_.precision), w(buffers[1], p_.precision);
    Epilogue epilogue(p_, buffers);
    auto at = [](const int64_t* strides, int64_t a, int64_t b, int64_t c, int64_t d) {
      return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
    };
    const int64_t group_out = p_.w[0] / p_.groups;
    for (int64_t n = 0; n < p_.out[0]; ++n) {
      for (int64_t o = 0; o < p_.out[1]; ++o) {
        for (int64_t y = 0; y < p_.out[2]; ++y) {
          for (int64_t z = 0; z < p_.out[3]; ++z) {
            double sum = 0;
            for (int64_t c = 0; c < p_.w[1]; ++c) {
              for (int64_t r = 0; r < p_.w[2]; ++r) {
                for (int64_t s = 0; s < p_.w[3]; ++s) {
                  const int64_t h = y * p_.strides[0] - p_.pads[0] + r * p_.dilations[0];
                  const int64_t v = z * p_.strides[1] - p_.pads[1] + s * p_.dilations[1];
                  if (h < 0 || h >= p_.x[2] || v < 0 || v >= p_.x[3]) continue;
                  sum += x[at(p_.x_strides, n, o / group_out * p_.w[1] + c, h, v)] *
                         w[at(p_.w_strides, o, c, r, s)];
                }
              }
            }
            epilogue.Finish(sum, o, at(p_.out_strides, n, o, y, z));
          }
        }
      }
    }
  }

 private:
  const cuda::ConvProblem p_;
  HostGpuCounts& counts_;
};

class HostAttention : public cuda::LibraryCall {
 public:
  HostAttention(const cuda::AttentionProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 0; }
  void Run(void* const* buffers) const override {
    ++counts_.attentions;
    ExpectAligned(buffers, 0, p_.mask ? 5 : 4, 16);
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.heads; ++h) {
        for (int64_t q = 0; q < p_.queries; ++q) Row(buffers, b, h, q);
      }
    }
  }

 private:
  static int64_t At(const int64_t* strides, int64_t a, int64_t b, int64_t c, int64_t d) {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  void Row(void* const* buffers, int64_t b, int64_t h, int64_t q) const {
    const Elements query(buffers[0], p_.precision), key(buffers[1], p_.precision), value(buffers[2], p_.precision);
    Elements out(buffers[3], p_.precision);
    const Elements mask(p_.mask ? buffers[4] : nullptr, p_.precision);
    std::vector<double> scores(static_cast<size_t>(p_.keys), 0);
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < p_.keys; ++k) {
      double& score = scores[static_cast<size_t>(k)];
      for (int64_t d = 0; d < p_.depth; ++d) {
        score += query[At(p_.query_strides, b, h, q, d)] * key[At(p_.key_strides, b, h, d, k)];
      }
      score *= p_.scale;
      const auto at = [&](int axis, int64_t i) { return p_.mask_sizes[axis] == 1 ? 0 : i; };
      if (p_.mask) score += mask[At(p_.mask_strides, at(0, b), at(1, h), at(2, q), at(3, k))];
      largest = std::max(largest, score);
    }
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (int64_t e = 0; e < p_.value_depth; ++e) {
      double total = 0;
      for (int64_t k = 0; k < p_.keys; ++k) {
        total += scores[static_cast<size_t>(k)] / sum * value[At(p_.value_strides, b, h, k, e)];
      }
      out.Set(At(p_.out_strides, b, h, q, e), total);
    }
  }

  const cuda::AttentionProblem p_;
  HostGpuCounts& counts_;
};

class HostPool : public cuda::LibraryCall {
 public:
  HostPool(const cuda::PoolProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {
    // The library's own condition on sizes.
    for (int k = 0; k < 2; ++k) {
      const int64_t whole = p_.x[k + 2] + p_.pads[k] + p_.pads[k + 2];
      CHECK(p_.out[k + 2] == (whole - p_.kernel[k]) / p_.strides[k] + 1) << p_.out[k + 2];
      CHECK(p_.pads[k] < p_.kernel[k] && p_.pads[k + 2] < p_.kernel[k]);
    }
  }
  size_t workspace_bytes() const override { return 24; }
  void Run(void* const* buffers) const override {
    ++counts_.pools;
    ExpectAligned(buffers, 0, 2, 16);
    ExpectAligned(buffers, 2, 1, 256);
    std::memset(buffers[2], 0xff, workspace_bytes());
    const Elements x(buffers[0], p_.precision);
    Elements out(buffers[1], p_.precision);
    for (int64_t n = 0; n < p_.out[0]; ++n) {
      for (int64_t c = 0; c < p_.out[1]; ++c) {
        for (int64_t y = 0; y < p_.out[2]; ++y) {
          for (int64_t z = 0; z < p_.out[3]; ++z) out.Set(At(p_.out_strides, n, c, y, z), Window(x, n, c, y, z));
        }
      }
    }
  }

 private:
  static int64_t At(const int64_t* strides, int64_t a, int64_t b, int64_t c, int64_t d) {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  double Window(const Elements& x, int64_t n, int64_t c, int64_t y, int64_t z) const {
    double largest = -INFINITY, sum = 0;
    int64_t inside = 0;
    for (int64_t r = 0; r < p_.kernel[0]; ++r) {
      for (int64_t s = 0; s < p_.kernel[1]; ++s) {
        const int64_t h = y * p_.strides[0] - p_.pads[0] + r, w = z * p_.strides[1] - p_.pads[1] + s;
        if (h < 0 || h >= p_.x[2] || w < 0 || w >= p_.x[3]) continue;
        const double element = x[At(p_.x_strides, n, c, h, w)];
        largest = std::max(largest, element);
        sum += element;
        ++inside;
      }
    }
    if (p_.mode == cuda::PoolMode::kMax) return largest;
    return sum / static_cast<double>(p_.mode == cuda::PoolMode::kMean ? inside : p_.kernel[0] * p_.kernel[1]);
  }

  const cuda::PoolProblem p_;
  HostGpuCounts& counts_;
};

class HostLayerNorm : public cuda::LibraryCall {
 public:
  HostLayerNorm(const cuda::LayerNormProblem& problem, HostGpuCounts& counts) : p_(problem), counts_(counts) {}
  size_t workspace_bytes() const override { return 0; }
  void Run(void* const* buffers) const override {
    ++counts_.norms;
    ExpectAligned(buffers, 0, 4, 16);
    const Elements x(buffers[0], p_.precision), scale(buffers[1], cuda::Precision::kFp32),
        bias(buffers[2], cuda::Precision::kFp32);
    Elements out(buffers[3], p_.precision);
    const double count = static_cast<double>(p_.columns);
    for (int64_t i = 0; i < p_.rows; ++i) {
      const int64_t row = i * p_.columns;
      double mean = 0, variance = 0;
      for (int64_t j = 0; j < p_.columns; ++j) mean += x[row + j] / count;
      for (int64_t j = 0; j < p_.columns; ++j) variance += (x[row + j] - mean) * (x[row + j] - mean) / count;
      for (int64_t j = 0; j < p_.columns; ++j) {
        out.Set(row + j, (x[row + j] - mean) / std::sqrt(variance + p_.epsilon) * scale[j] + bias[j]);
      }
    }
  }

 private:
  const cuda::LayerNormProblem p_;
  HostGpuCounts& counts_;
};

class HostRecording : public cuda::Recording {
 public:
  explicit HostRecording(std::function<void()> work) : work_(std::move(work)) {}
  void Run() const override { work_(); }

 private:
  const std::function<void()> work_;
};

class HostGpu : public cuda::Gpu {
 public:
  HostGpu(HostGpuCounts* counts, const HostGpuOptions& options)
      : counts_(counts != nullptr ? *counts : own_counts_), options_(options) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rewright_host_gpu_XXXXXX").string();
    CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
    folder_ = pattern;
    description_ = {"processor", "host", 0, 4, int64_t{1} << 30, 1 << 16};
  }
  ~HostGpu() override {
    for (void* library : libraries_) dlclose(library);
    std::filesystem::remove_all(folder_);
  }

  const cuda::GpuDescription& description() const override { return description_; }
  cuda::Fault Allocate(size_t bytes, void** memory) override {
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (static_cast<int64_t>(rounded) > options_.memory - used_) {
      return absl::StrCat(bytes, " bytes asked for, ", options_.memory - used_, " of ", options_.memory,
                          " free: out of memory");
    }
    *memory = std::aligned_alloc(256, rounded);
    used_ += static_cast<int64_t>(sizes_[*memory] = rounded);
    return {};
  }
  void Free(void* memory) override {
    used_ -= static_cast<int64_t>(sizes_[memory]);
    sizes_.erase(memory);
    std::free(memory);
  }
  cuda::Fault CopyIn(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  cuda::Fault CopyOut(void* to, const void* from, size_t bytes) override { return CopyIn(to, from, bytes); }

  cuda::Fault Compile(const std::string& prelude, const std::vector<Source>& sources,
                      std::vector<std::shared_ptr<const cuda::Function>>* functions) override {
    prelude_ = prelude;
    for (const Source& source : sources) {
      const auto [known, added] = known_.emplace(source.name, source.text);
      CHECK(known->second == source.text) << "two kernels are called " << source.name;
      if (added) pending_.push_back(source);
      const bool waits = source.text.find("block_reduce") != std::string::npos ||
                         source.text.find("__syncthreads") != std::string::npos;
      functions->push_back(std::make_shared<HostFunction>(*this, source.name, waits));
    }
    return {};
  }
  cuda::Fault Plan(const cuda::MatmulProblem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    if (options_.no_products) return "nothing is multiplied here";
    *call = std::make_unique<HostMatmul>(problem, counts_);
    return {};
  }
  cuda::Fault Plan(const cuda::ConvProblem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    if (options_.no_products) return "nothing is multiplied here";
    const Layout out{Shape(problem.out, problem.out + 4),
                     std::vector<int64_t>(problem.out_strides, problem.out_strides + 4), 0};
    if (options_.no_epilogues && (problem.residual || (problem.relu && !problem.bias))) return "no such engine";
    if (options_.no_gaps && !out.IsDense()) return "no engine leaves gaps between rows";
    *call = std::make_unique<HostConv>(problem, counts_);
    return {};
  }
  cuda::Fault Plan(const cuda::AttentionProblem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    if (options_.no_attention) return "no attention here";
    *call = std::make_unique<HostAttention>(problem, counts_);
    return {};
  }
  cuda::Fault Plan(const cuda::PoolProblem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    if (options_.no_products) return "nothing is pooled here";
    *call = std::make_unique<HostPool>(problem, counts_);
    return {};
  }
  cuda::Fault Plan(const cuda::LayerNormProblem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    if (options_.no_products) return "nothing is normalized here";
    *call = std::make_unique<HostLayerNorm>(problem, counts_);
    return {};
  }
  cuda::Fault Synchronize() override { return {}; }
  cuda::Fault Time(const std::function<void()>& work, double* seconds) override {
    const auto start = std::chrono::steady_clock::now();
    work();
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {};
  }
  // A generated kernel stands first, the call of a library last. The kernel is compiled only where it is to be tried.
  cuda::Fault Fastest(const std::string&, const std::vector<std::function<void()>>& ways, int* best) override {
    if (options_.slow_pools_and_norms) {
      for (const std::function<void()>& way : ways) way();
      *best = 0;
    } else {
      *best = static_cast<int>(ways.size()) - 1;
    }
    return {};
  }
  cuda::Fault Record(const std::function<void()>& work, std::unique_ptr<cuda::Recording>* recording) override {
    *recording = std::make_unique<HostRecording>(work);
    return {};
  }

  void Launch(const std::string& name, bool waits, int64_t blocks, int threads, void* const* pointers) {
    Build();
    ++counts_.launches;
    const Entry& entry = entries_.at(name);
    Block block;
    entry.bind(&block);
    for (int64_t b = 0; b < blocks; ++b) {
      block.block.x = static_cast<unsigned>(b);
      if (waits) {
        Fibers::Run(entry.call, pointers, &block, threads);
        continue;
      }
      for (int t = 0; t < threads; ++t) {
        block.thread.x = static_cast<unsigned>(t);
        entry.call(pointers);
      }
    }
  }

 private:
  struct Entry {
    Call call;
    void (*bind)(Block*);
  };

  // Compiles all kernels that have not been compiled.
  void Build() {
    if (pending_.empty()) return;
    const std::string base = absl::StrCat(folder_, "/", libraries_.size());
    {
      std::ofstream file(base + ".cc");
      file << kShim << prelude_;
      for (const Source& source : pending_) {
        file << source.text << "extern \"C\" void call_" << source.name << "(void* const* a) { call_kernel("
             << source.name << ", a); }\n";
      }
    }
    const std::string command =
        absl::StrCat("c++ -std=c++17 -O1 -w -shared -fPIC -o ", base, ".so ", base, ".cc 2> ", base, ".log");
    const int result = std::system(command.c_str());
    std::ifstream log(base + ".log");
    CHECK(result == 0) << std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 4000);
    void* library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr) << dlerror();
    libraries_.push_back(library);
    const auto bind = reinterpret_cast<void (*)(Block*)>(dlsym(library, "bind_block"));
    for (const Source& source : pending_) {
      const auto call = reinterpret_cast<Call>(dlsym(library, ("call_" + source.name).c_str()));
      CHECK(call != nullptr && bind != nullptr) << source.name;
      entries_[source.name] = {call, bind};
      ++counts_.kernels;
    }
    pending_.clear();
  }

  HostGpuCounts own_counts_;
  HostGpuCounts& counts_;
  const HostGpuOptions options_;
  int64_t used_ = 0;
  std::map<void*, size_t> sizes_;  // of live allocations
  cuda::GpuDescription description_;
  std::string folder_;
  std::string prelude_;
  std::map<std::string, std::string> known_;  // sources by name
  std::vector<Source> pending_;
  std::map<std::string, Entry> entries_;
  std::vector<void*> libraries_;
};

void HostFunction::Launch(int64_t blocks, int threads, void* const* pointers, int) const {
  gpu_.Launch(name_, waits_, blocks, threads, pointers);
}

}  // namespace

std::unique_ptr<cuda::Gpu> MakeHostGpu(HostGpuCounts* counts, const HostGpuOptions& options) {
  return std::make_unique<HostGpu>(counts, options);
}

}  // namespace rewright
