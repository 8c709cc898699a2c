// Products of few rows with weights that no cache holds, as language models decode with, beside loads alone of as many
// bytes in the same rounds: decoding_bench [THREADS [ROUNDS]]. Weights are f32, or of 8 or 4 bits in groups of 32.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/measure.h"
#include "backends/cpu/products/narrow_product.h"
#include "core/base/check.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kDepth = 4096, kBytes = int64_t{192} << 20;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::shared_ptr<void> Filled(int64_t bytes) {
  absl::StatusOr<std::shared_ptr<void>> memory = AllocateBytes(static_cast<size_t>(bytes));
  CHECK(memory.ok()) << memory.status();
  std::memset(memory->get(), 0x3c, static_cast<size_t>(bytes));  // 0.0115 as f32
  return *std::move(memory);
}

void Measure(int bits, int64_t rows, int threads, int rounds) {
  const int64_t columns = kBytes * 8 / (bits * kDepth);
  MatmulProblem problem;
  problem.a = Layout::RowMajor({rows, kDepth});
  problem.b = Layout::RowMajor({kDepth, columns});
  problem.c = Layout::RowMajor({rows, columns});
  auto bytes = static_cast<int64_t>(PackedMatmulBytes(kDepth, columns));
  if (bits < 32) {
    const NarrowForm form{.depth = kDepth, .columns = columns, .bits = bits, .group_shift = 1, .zero = 8};
    problem.narrow = std::make_shared<const NarrowForm>(form);
    bytes = form.bytes();
  }
  problem.packed = bits == 32;
  const KernelPtr kernel = MakeMatmulKernel(problem, threads);
  const std::shared_ptr<void> a = Filled(rows * kDepth * 4), b = Filled(bytes), c = Filled(rows * columns * 4),
                              scratch = Filled(static_cast<int64_t>(MatmulScratchBytes(problem, threads)) + 1);
  std::vector<void*> buffers = {a.get(), b.get()};
  if (MatmulScratchBytes(problem, threads) > 0) buffers.push_back(scratch.get());
  buffers.push_back(c.get());
  double best = 1e9, loads = 0;
  RunContext context;
  for (int round = 0; round < rounds; ++round) {
    for (int run = 0; run < 8; ++run) {
      const double start = Now();
      CHECK(kernel->Run(buffers.data(), context).ok());
      best = std::min(best, Now() - start);
    }
    loads = std::max(loads, MeasureLoads(kBytes, threads));
  }
  const double rate = static_cast<double>(bytes) / best;
  std::printf("%d,%ld,%d,%.3f,%.2f,%.2f,%.3f\n", bits, static_cast<long>(rows), threads, best * 1e3, rate * 1e-9,
              loads * 1e-9, rate / loads);
  std::fflush(stdout);
}

}  // namespace
}  // namespace rewright::cpu

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  std::printf("bits,rows,threads,ms,gb_per_s,gb_per_s_of_loads,part\n");
  for (const int bits : {32, 8, 4}) {
    for (const int64_t rows : {1, 2, 4, 8, 16, 64}) rewright::cpu::Measure(bits, rows, threads, rounds);
  }
}
