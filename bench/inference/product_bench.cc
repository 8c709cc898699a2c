// Products of matrices as a layer of BERT trains with, on one thread, beside what multiply-adds in registers alone make
// in the same moment: product_bench [ROUNDS]. Operands are taken in turn from more memory than the caches hold.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/check.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

struct Product {
  const char* what;
  int64_t rows, columns, depth;
  bool left_turned, right_turned;  // columns lie side by side
};

constexpr int64_t kTokens = 512, kModel = 768, kInner = 3072;
constexpr Product kProducts[] = {
    {"forward", kTokens, kModel, kModel, false, false},       {"forward, wide", kTokens, kInner, kModel, false, false},
    {"forward, deep", kTokens, kModel, kInner, false, false}, {"of x", kTokens, kModel, kModel, false, true},
    {"of x, wide", kTokens, kInner, kModel, false, true},     {"of x, deep", kTokens, kModel, kInner, false, true},
    {"of w", kModel, kModel, kTokens, true, false},           {"of w, wide", kModel, kInner, kTokens, true, false},
    {"of w, tall", kInner, kModel, kTokens, true, false},
};
constexpr size_t kSets = 6;
constexpr long kMultiplyAdds = 60000;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Operations a second of multiply-adds that lie in registers.
double RegistersRate() {
  const double start = Now();
  volatile float sum = Simd().multiply_adds(0.5f, kMultiplyAdds);
  (void)sum;
  return 2.0 * kMultiplyAdds * Simd().multiply_add_vectors * Simd().lanes / (Now() - start);
}

Layout Plain(int64_t rows, int64_t columns, bool turned) {
  return turned ? Layout{{rows, columns}, {1, rows}} : Layout::RowMajor({rows, columns});
}

Tensor Vector(int64_t elements) {
  absl::StatusOr<Tensor> vector = AllocateTensor({DType::kFloat32, {elements}}, "an operand");
  CHECK(vector.ok()) << vector.status();
  float* const values = vector->as<float>();
  for (int64_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i % 1000) * 0.001f - 0.5f;
  return *std::move(vector);
}

std::vector<Tensor> Vectors(int64_t elements) {
  std::vector<Tensor> all;
  for (size_t set = 0; set < kSets; ++set) all.push_back(Vector(elements));
  return all;
}

void Measure(const Product& product, int rounds) {
  MatmulProblem problem;
  problem.a = Plain(product.rows, product.depth, product.left_turned);
  problem.b = Plain(product.depth, product.columns, product.right_turned);
  problem.c = Layout::RowMajor({product.rows, product.columns});
  const KernelPtr kernel = MakeMatmulKernel(problem, 1);
  Tensor scratch = Vector(static_cast<int64_t>(MatmulScratchBytes(problem, 1) / sizeof(float)));
  std::vector<Tensor> a = Vectors(product.rows * product.depth), b = Vectors(product.depth * product.columns),
                      c = Vectors(product.rows * product.columns);
  const double work = 2.0 * static_cast<double>(product.rows * product.columns * product.depth);
  std::vector<double> rates, shares;
  for (size_t run = 0; run < static_cast<size_t>(rounds) * kSets; ++run) {
    const size_t set = run % kSets;
    void* const buffers[] = {a[set].as<float>(), b[set].as<float>(), scratch.as<float>(), c[set].as<float>()};
    RunContext context;
    const double before = RegistersRate(), start = Now();
    CHECK(kernel->Run(buffers, context).ok());
    const double rate = work / (Now() - start);
    rates.push_back(rate * 1e-9);
    shares.push_back(2 * rate / (before + RegistersRate()));
  }
  std::sort(rates.begin(), rates.end());
  std::sort(shares.begin(), shares.end());
  std::printf("%-14s %4ld x %4ld, depth %4ld: %6.1f GFLOP/s, %.3f of multiply-adds alone\n", product.what,
              static_cast<long>(product.rows), static_cast<long>(product.columns), static_cast<long>(product.depth),
              rates[rates.size() / 2], shares[shares.size() / 2]);
}

}  // namespace
}  // namespace rewright::cpu

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 4;
  for (const auto& product : rewright::cpu::kProducts) rewright::cpu::Measure(product, std::max(1, rounds));
}
