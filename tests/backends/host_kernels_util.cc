#include "tests/backends/host_kernels_util.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

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
template <class... A> static int count_arguments(void (*)(A...)) { return sizeof...(A); }
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
using HostCall = void (*)(void* const*);

// Runs one block's threads in turns. Contexts begin a thread; from then on jumps switch, which need no system call.
class Fibers {
 public:
  static void Run(HostCall call, void* const* arguments, Block* block, int threads) {
    Fibers fibers(call, arguments);
    current_ = &fibers;
    fibers.fibers_.resize(static_cast<size_t>(threads));
    block->wait = Wait;
    for (bool live = true; live;) {
      live = false;
      for (size_t i = 0; i < fibers.fibers_.size(); ++i) {
        if (fibers.fibers_[i].done) continue;
        live = true;
        fibers.running_ = i;
        block->thread.x = static_cast<unsigned>(i);
        fibers.Resume(i);
      }
    }
    current_ = nullptr;
  }

 private:
  static constexpr size_t kStack = 32 << 10;
  struct Fiber {
    jmp_buf at;
    bool begun = false, done = false;
  };
  Fibers(HostCall call, void* const* arguments) : call_(call), arguments_(arguments) {}

  __attribute__((noinline)) void Resume(size_t i) {
    if (_setjmp(scheduler_) != 0) return;
    if (fibers_[i].begun) _longjmp(fibers_[i].at, 1);
    fibers_[i].begun = true;
    static auto* const stacks = new std::vector<std::unique_ptr<char[]>>;  // used again, not cleared
    while (stacks->size() <= i) stacks->emplace_back(new char[kStack]);
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = (*stacks)[i].get();
    context.uc_stack.ss_size = kStack;
    context.uc_link = nullptr;
    makecontext(&context, Enter, 0);
    setcontext(&context);
  }
  static void Enter() {
    current_->call_(current_->arguments_);
    current_->fibers_[current_->running_].done = true;
    _longjmp(current_->scheduler_, 1);
  }
  static void Wait() {
    if (_setjmp(current_->fibers_[current_->running_].at) == 0) _longjmp(current_->scheduler_, 1);
  }

  static Fibers* current_;
  const HostCall call_;
  void* const* const arguments_;
  std::vector<Fiber> fibers_;
  size_t running_ = 0;
  jmp_buf scheduler_;
};
Fibers* Fibers::current_ = nullptr;

}  // namespace

struct HostKernels::Entry {
  HostCall call = nullptr;
  void (*bind)(Block*) = nullptr;
  int arguments = 0;
  bool waits = false;  // threads wait for one another
};

HostKernels::HostKernels() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rewright_host_gpu_XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  folder_ = pattern;
}
HostKernels::~HostKernels() {
  for (void* library : libraries_) dlclose(library);
  std::filesystem::remove_all(folder_);
}

void HostKernels::Add(const std::string& prelude, const std::string& name, const std::string& text) {
  prelude_ = prelude;
  const auto [known, added] = known_.emplace(name, text);
  CHECK(known->second == text) << "two kernels are called " << name;
  if (added) pending_.push_back(name);
}

int HostKernels::Arguments(const std::string& name) {
  Build();
  return entries_.at(name).arguments;
}

void HostKernels::Launch(const std::string& name, int64_t blocks, int threads, void* const* pointers) {
  Build();
  const Entry& entry = entries_.at(name);
  Block block;
  entry.bind(&block);
  for (int64_t b = 0; b < blocks; ++b) {
    block.block.x = static_cast<unsigned>(b);
    if (entry.waits) {
      Fibers::Run(entry.call, pointers, &block, threads);
      continue;
    }
    for (int t = 0; t < threads; ++t) {
      block.thread.x = static_cast<unsigned>(t);
      entry.call(pointers);
    }
  }
}

void HostKernels::Build() {
  if (pending_.empty()) return;
  const std::string base = absl::StrCat(folder_, "/", libraries_.size());
  {
    std::ofstream file(base + ".cc");
    file << kShim << prelude_;
    for (const std::string& name : pending_) {
      file << known_.at(name) << "extern \"C\" void call_" << name << "(void* const* a) { call_kernel(" << name
           << ", a); }\nextern \"C\" int count_" << name << "() { return count_arguments(" << name << "); }\n";
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
  for (const std::string& name : pending_) {
    const auto call = reinterpret_cast<HostCall>(dlsym(library, ("call_" + name).c_str()));
    const auto count = reinterpret_cast<int (*)()>(dlsym(library, ("count_" + name).c_str()));
    CHECK(call != nullptr && bind != nullptr && count != nullptr) << name;
    const std::string& text = known_.at(name);
    const bool waits = text.find("_reduce<") != std::string::npos || text.find("__syncthreads") != std::string::npos;
    entries_[name] = {call, bind, count(), waits};
  }
  pending_.clear();
}

}  // namespace rewright
