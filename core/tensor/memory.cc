#include "core/tensor/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

constexpr size_t kCachedBytes = 800;  // with the added bytes, malloc's limit

// Blocks of such a page or more use huge pages if the system has them. Weights of a hundred megabytes, which are
// read once per run, then need few entries of the translation buffer, and newly allocated memory causes 512 times fewer
// page faults.
constexpr size_t kHugePage = size_t{2} << 20;

// The size up to which the machine's free memory is not checked.
constexpr int64_t kSmallBytes = int64_t{64} << 20;
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

struct {
  std::atomic<void*> memory = nullptr;
  size_t bytes = 0;  // 0: no reserve is kept
  LastWords words;
} reserve;

// Called by operator new before it tries again.
void WhenMemoryIsOut() {
  if (void* const memory = reserve.memory.exchange(nullptr)) return std::free(memory);
  void* const memory = std::malloc(reserve.bytes);
  std::free(memory);
  if (memory != nullptr) throw std::bad_alloc();  // one tensor or list was too large
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, reserve.words.text, std::strlen(reserve.words.text));
  _exit(reserve.words.status);
}

// Touches 1 MiB of the first thread's stack. The stack grows as it is used, and a program whose stack cannot grow is
// ended by a signal, so the stack for kernels and parsers is reserved at the start; untouched pages take no memory.
[[gnu::noinline]] void GrowStack() {
  [[maybe_unused]] volatile char pages[size_t{1} << 20];
  pages[0] = 0;
}

// True if memory ran out and the reserve cannot be set aside again.
bool HasRunOut() {
  if (reserve.bytes == 0 || reserve.memory != nullptr) return false;
  void* memory = std::malloc(reserve.bytes);
  if (memory == nullptr) return true;
  std::free(reserve.memory.exchange(memory));
  return false;
}

// Returns the number behind a word in a file of lines "word number ..."; -1: there is none.
int64_t NumberAfter(const std::string& file, const std::string& word) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, word)) return std::strtoll(rest.data(), nullptr, 10);
  }
  return -1;
}

// Returns the only number in a file; -1: there is none ("max").
int64_t NumberIn(const std::string& file) {
  std::ifstream in(file);
  int64_t number = -1;
  return in >> number ? number : -1;
}

int64_t OfMachine() {
  const int64_t available = NumberAfter("/proc/meminfo", "MemAvailable:");
  if (available < 0) return kUnlimited;
  return (available + std::max<int64_t>(NumberAfter("/proc/meminfo", "SwapFree:"), 0)) * 1024;
}

// Cached files count as available, since they can be dropped.
int64_t OfControlGroup(const std::string& limit, const std::string& used, const std::string& statistics,
                       const std::string& cached) {
  const int64_t limit_bytes = NumberIn(limit), used_bytes = NumberIn(used);
  if (limit_bytes < 0 || used_bytes < 0) return kUnlimited;
  return limit_bytes - used_bytes + std::max<int64_t>(NumberAfter(statistics, cached), 0);
}

int64_t OfAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const int64_t pages = NumberIn("/proc/self/statm");
  return static_cast<int64_t>(limit.rlim_cur) - std::max<int64_t>(pages, 0) * sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t AvailableBytes() {
  const std::string two = "/sys/fs/cgroup/", one = "/sys/fs/cgroup/memory/";
  return std::max<int64_t>(
      0, std::min({OfMachine(), OfAddressSpace(),
                   OfControlGroup(two + "memory.max", two + "memory.current", two + "memory.stat", "inactive_file "),
                   OfControlGroup(one + "memory.limit_in_bytes", one + "memory.usage_in_bytes", one + "memory.stat",
                                  "total_inactive_file ")}));
}

void ReserveMemory(size_t bytes, LastWords words) {
  GrowStack();
  reserve.memory = std::malloc(bytes);
  reserve.bytes = bytes;
  reserve.words = words;
  std::set_new_handler(WhenMemoryIsOut);
}

absl::Status CheckMemory(int64_t bytes, absl::string_view what) {
  if (HasRunOut()) return absl::ResourceExhaustedError(absl::StrCat(what, ": memory has run out"));
  if (bytes <= kSmallBytes) return absl::OkStatus();
  const int64_t available = AvailableBytes();
  if (bytes <= available) return absl::OkStatus();
  const auto gib = [](int64_t count) { return static_cast<double>(count) / (1 << 30); };
  return absl::ResourceExhaustedError(absl::StrFormat("%s needs %d bytes (%.1f GiB); %.1f GiB of memory are available",
                                                      what, bytes, gib(bytes), gib(available)));
}

absl::StatusOr<std::shared_ptr<void>> AllocateBytes(size_t bytes, size_t alignment) {
  const auto none = [&] { return absl::ResourceExhaustedError(absl::StrCat("out of memory: ", bytes, " bytes")); };
  if (HasRunOut()) return none();
  // Small blocks come from malloc, whose caches of freed blocks aligned_alloc bypasses: the interpreter takes a block
  // for every value.
  if (bytes <= kCachedBytes && alignment <= 64) {
    void* const block = std::malloc(bytes + 64 + alignment);
    if (block == nullptr) return none();
    const uintptr_t place = (reinterpret_cast<uintptr_t>(block) + alignment - 1) / alignment * alignment;
    return std::shared_ptr<void>(reinterpret_cast<void*>(place), [block](void*) { std::free(block); });
  }
  const bool huge = bytes >= kHugePage;
  if (huge) alignment = std::max(alignment, kHugePage);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes + 64) != 0) return none();
  // Asks for huge pages for the whole huge pages of the block alone, so that the block takes no more memory than asked
  // for; without huge pages the call changes nothing.
  if (huge) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return std::shared_ptr<void>(memory, std::free);
}

namespace {

// Gets the pages of a block that will be written, all at once: page by page, as they are first written, takes longer
// than to compute a simple element. Changes nothing where the system has no such call.
void Populate(void* block, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr size_t kLeastBytes = size_t{1} << 14;
  constexpr uintptr_t kPage = 4096;
  if (bytes < kLeastBytes) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#endif
}

}  // namespace

absl::StatusOr<Tensor> AllocateUninitialized(TensorType type, absl::string_view what) {
  const auto text = [&] { return absl::StrCat(what, " ", type.ToString()); };  // for errors alone: a run has many
  const size_t bytes = static_cast<size_t>(type.num_bytes());
  if (!CheckMemory(type.num_bytes(), what).ok()) RETURN_IF_ERROR(CheckMemory(type.num_bytes(), text()));
  absl::StatusOr<std::shared_ptr<void>> memory = AllocateBytes(bytes);
  if (!memory.ok()) return ErrorAt(text(), memory.status());
  void* const data = memory->get();
  Populate(data, bytes);
  return Tensor(std::move(type), *std::move(memory), data);
}

absl::StatusOr<Tensor> AllocateTensor(TensorType type, absl::string_view what) {
  ASSIGN_OR_RETURN(Tensor tensor, AllocateUninitialized(std::move(type), what));
  std::memset(tensor.data(), 0, static_cast<size_t>(tensor.num_bytes()) + 64);
  return tensor;
}

}  // namespace rewright
