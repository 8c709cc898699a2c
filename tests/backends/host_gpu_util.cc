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
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/layout.h"
#include "core/base/check.h"
#include "tests/backends/host_calls_util.h"

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
    fibers.fibers_.resize(threads);
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
  cuda::Fault Launch(int64_t blocks, int threads, void* const* pointers, int count) const override;

 private:
  HostGpu& gpu_;
  const std::string name_;
  const bool waits_;  // threads wait for one another
};

class HostRecording : public cuda::Recording {
 public:
  explicit HostRecording(cuda::Enqueue work) : work_(std::move(work)) {}
  cuda::Fault Run() const override { return work_(); }

 private:
  const cuda::Enqueue work_;
};

class HostGpu : public cuda::Gpu {
 public:
  HostGpu(HostGpuCounts* counts, const HostGpuOptions& options)
      : counts_(counts != nullptr ? *counts : own_counts_), options_(options) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rewright_host_gpu_XXXXXX").string();
    CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
    folder_ = pattern;
    description_ = {"processor", "host", 0, 4, int64_t{1} << 30, 1 << 14};
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
    CHECK(*memory != nullptr) << rounded;
    used_ += static_cast<int64_t>(sizes_[*memory] = rounded);
    counts_.peak_bytes = std::max(counts_.peak_bytes, used_);
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
  cuda::Fault Plan(const cuda::Problem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    const bool attention = std::holds_alternative<cuda::AttentionProblem>(problem);
    if (attention ? options_.no_attention : options_.no_products) return "there is no such library here";
    if (const auto* conv = std::get_if<cuda::ConvProblem>(&problem); conv != nullptr) {
      const Layout out{Shape(conv->out, conv->out + 4), std::vector<int64_t>(conv->out_strides, conv->out_strides + 4),
                       0};
      if (options_.no_epilogues && (conv->residual || (conv->relu && !conv->bias))) return "no such engine";
      if (options_.no_gaps && !out.IsDense()) return "no engine leaves gaps between rows";
    }
    *call = MakeHostCall(problem, counts_);
    return {};
  }
  // In any order that the queues allow.
  cuda::Fault RunQueues(const std::vector<QueueStep>& steps, const std::function<cuda::Fault(int)>& enqueue) override {
    ++counts_.sections;
    std::vector<bool> done(steps.size(), false);
    for (size_t left = steps.size(); left > 0; --left) {
      std::vector<int> ready;
      std::set<int> begun;  // queues on which something is left
      for (size_t i = 0; i < steps.size(); ++i) {
        if (done[i] || !begun.insert(steps[i].queue).second) continue;
        const bool waits =
            std::any_of(steps[i].after.begin(), steps[i].after.end(), [&](int before) { return !done[before]; });
        if (!waits) ready.push_back(static_cast<int>(i));
      }
      CHECK(!ready.empty()) << "steps wait for one another";
      const int next = ready[random_() % ready.size()];
      if (cuda::Fault fault = enqueue(next); !fault.empty()) return fault;
      done[next] = true;
    }
    return {};
  }
  cuda::Fault Synchronize() override { return {}; }
  cuda::Fault Time(const cuda::Enqueue& work, double* seconds) override {
    const auto start = std::chrono::steady_clock::now();
    cuda::Fault fault = work();
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return fault;
  }
  // A generated kernel stands first, the call of a library last; in order, then side by side. The first is compiled and
  // run only where it is to be tried.
  cuda::Fault Fastest(const std::string&, const std::vector<cuda::Enqueue>& ways, int* best) override {
    if (options_.first_ways) {
      for (const cuda::Enqueue& way : ways) {
        if (cuda::Fault fault = way(); !fault.empty()) return fault;
      }
      *best = 0;
    } else {
      *best = static_cast<int>(ways.size()) - 1;
    }
    return {};
  }
  cuda::Fault Record(const cuda::Enqueue& work, std::unique_ptr<cuda::Recording>* recording) override {
    *recording = std::make_unique<HostRecording>(work);
    return {};
  }

  cuda::Fault Launch(const std::string& name, bool waits, int64_t blocks, int threads, void* const* pointers) {
    Build();
    if (counts_.launches++ == options_.fault_at) return "a launch was refused";
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
    return {};
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
  std::minstd_rand random_;
  std::map<std::string, std::string> known_;  // sources by name
  std::vector<Source> pending_;
  std::map<std::string, Entry> entries_;
  std::vector<void*> libraries_;
};

cuda::Fault HostFunction::Launch(int64_t blocks, int threads, void* const* pointers, int) const {
  return gpu_.Launch(name_, waits_, blocks, threads, pointers);
}

}  // namespace

std::unique_ptr<cuda::Gpu> MakeHostGpu(HostGpuCounts* counts, const HostGpuOptions& options) {
  return std::make_unique<HostGpu>(counts, options);
}

}  // namespace rewright
