#include "core/tensor/memory.h"

#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using Blocks = std::vector<std::unique_ptr<char[]>>;

// Runs in its own process with little memory, where small blocks use up all but the reserve.
void TakeAllButTheReserve(Blocks* blocks) {
  const rlimit limit{size_t{256} << 20, size_t{256} << 20};
  blocks->reserve(1 << 20);
  ReserveMemory(size_t{16} << 20, {"last words\n", 7});
  if (setrlimit(RLIMIT_AS, &limit) != 0 || !CheckMemory(1, "x").ok()) std::exit(1);
  while (CheckMemory(1, "x").ok()) blocks->push_back(std::make_unique<char[]>(4096));
}

[[noreturn]] void FillATable() {
  Blocks blocks;
  TakeAllButTheReserve(&blocks);
  absl::flat_hash_map<int, int> table;
  for (int i = 0; i < 10000; ++i) table[i] = i;
  const bool is_error = CheckMemory(1, "x").message() == "x: memory has run out" && !AllocateBytes(1).ok();
  blocks.clear();
  std::exit(is_error && table.size() == 10000 && CheckMemory(1, "x").ok() ? 0 : 2);
}

[[noreturn]] void TakeTheReserveToo() {
  Blocks blocks;
  TakeAllButTheReserve(&blocks);
  absl::flat_hash_map<int, int> table;
  for (int i = 0;; ++i) table[i] = i;
}

// An allocation that is too large for any machine does not end the program.
[[noreturn]] void TakeTooMuch() {
  Blocks blocks;
  TakeAllButTheReserve(&blocks);
  blocks.clear();
  try {
    blocks.push_back(std::make_unique<char[]>(size_t{1} << 40));
  } catch (const std::bad_alloc&) {
    std::exit(0);
  }
  std::exit(2);
}

TEST(Memory, AReserveLetsAProgramEndInOrder) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more address space than any limit";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a new process, without what other tests have taken
  EXPECT_EXIT(FillATable(), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(TakeTheReserveToo(), testing::ExitedWithCode(7), "last words");
  EXPECT_EXIT(TakeTooMuch(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rewright
