// The vectorized loops of each instruction set that the processor has, beside plain ones on f64.
#include "backends/cpu/simd/simd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace rewright::cpu {
namespace {

std::vector<const SimdTable*> Tables() {
  __builtin_cpu_init();
  std::vector<const SimdTable*> tables = {&simd_base::kTable};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&simd_avx2::kTable);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(&simd_avx512::kTable);
  }
  return tables;
}

std::vector<float> Random(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = number(random);
  return numbers;
}

// Relative errors over all magnitudes, both signs; ends and what is no number as the library has them.
TEST(Simd, OddFunctions) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f, 3.92f, 9.0f, NAN};
  for (float magnitude = 1e-30f; magnitude < 100; magnitude *= magnitude < 1e-3f ? 1.7f : 1.0007f) {
    x.push_back(magnitude);
    x.push_back(-magnitude);
  }
  const auto n = static_cast<long>(x.size());
  const std::vector<std::pair<TileOp, double (*)(double)>> functions = {{kTileTanh, std::tanh}, {kTileErf, std::erf}};
  for (const SimdTable* table : Tables()) {
    for (const auto& [op, exact] : functions) {
      std::vector<float> y(x.size());
      table->f32[op](y.data(), x.data(), nullptr, nullptr, n);
      for (size_t i = 0; i < x.size(); ++i) {
        SCOPED_TRACE(absl::StrCat(table->name, op == kTileErf ? " erf of " : " tanh of ", x[i]));
        const double want = exact(x[i]);
        ASSERT_EQ(std::isnan(y[i]), std::isnan(want));
        if (std::isnan(want)) continue;
        EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << y[i];
        EXPECT_LE(std::abs(y[i]), std::abs(x[i]) > 20 ? 1.0 : std::min(1.0, std::abs(want) * (1 + 4e-7) + 1e-43));
        EXPECT_GE(std::abs(y[i]), std::abs(x[i]) > 20 ? 1.0 : std::abs(want) * (1 - 4e-7) - 1e-43);
      }
    }
  }
}

// Windows that hang over either edge, and rows too short for a whole one.
TEST(Simd, PoolRows) {
  for (const SimdTable* table : Tables()) {
    for (const long kernel : {1L, 2L, 3L, 5L}) {
      for (const long width : {3L, 4L, 9L, 16L}) {
        for (int round = 0; round < 16; ++round) {
          const long stride = 1 + round % 2, before = round / 2 % 2 * (kernel - 1), dilation = 1 + round / 4 % 2;
          const long reach = (kernel - 1) * dilation + 1, after = round / 8 % 2 * (kernel - 1);
          if (width + before + after < reach || before + 1 > reach || after + 1 > reach) continue;
          SimdTable::PoolRow row{width, (width + before + after - reach) / stride + 1, 3, 0, kernel, stride, before,
                                 dilation, table->lanes, round % 3 == 0 ? 9.0f : 0.0f};
          row.row_step = width * row.block + 5;
          std::vector<float> x = Random(static_cast<size_t>(3 * row.row_step), static_cast<uint64_t>(round));
          if (round % 5 == 0) x[static_cast<size_t>(row.block)] = NAN;
          std::vector<float> max(static_cast<size_t>(row.out_width * row.block)), sum(max.size());
          table->pool_max_row(max.data(), x.data(), row);
          table->pool_sum_row(sum.data(), x.data(), row);
          for (long at = 0; at < row.out_width * row.block; ++at) {
            double most = -std::numeric_limits<double>::infinity(), total = 0, count = 0;
            for (long tap = 0; tap < 3 * kernel; ++tap) {
              const long column = at / row.block * stride - before + tap % kernel * dilation;
              if (column < 0 || column >= width) continue;
              const long point = tap / kernel * row.row_step + column * row.block;
              const double v = x[static_cast<size_t>(point + at % row.block)];
              most = v > most || std::isnan(v) ? v : most;
              total += v;
              ++count;
            }
            SCOPED_TRACE(absl::StrCat(table->name, " kernel ", kernel, " width ", width, " round ", round, " at ", at));
            const auto i = static_cast<size_t>(at);
            if (std::isnan(total)) {
              EXPECT_TRUE(std::isnan(max[i]) && std::isnan(sum[i]));
            } else if (count > 0) {
              EXPECT_EQ(max[i], static_cast<float>(most));
              EXPECT_NEAR(sum[i], total / (row.count_all > 0 ? row.count_all : count), 1e-6);
            }
          }
        }
      }
    }
  }
}

// Any number of lines that are brought ahead leaves the product as it is.
TEST(Simd, ProductsOfBlocks) {
  for (const SimdTable* table : Tables()) {
    const long width = table->gemm_columns;
    for (const long depth : {1L, 2L, 7L, 64L, 129L}) {
      const std::vector<float> a = Random(static_cast<size_t>(table->gemm_rows * depth), 1);
      const std::vector<float> b = Random(static_cast<size_t>(width * depth), 2);
      for (const long rows : {1L, 3L, static_cast<long>(table->gemm_rows)}) {
        for (const long columns : {1L, width - 1, width}) {
          for (const long lines : {0L, 1L, depth - 1, depth, depth + 1, 3 * depth}) {
            std::vector<float> c(static_cast<size_t>(rows * width), 0.5f);
            table->gemm_block(a.data(), depth, 1, b.data(), depth, c.data(), width, rows, columns, /*accumulate=*/true,
                              nullptr, b.data(), lines);
            for (long at = 0; at < rows * width; ++at) {
              double want = 0.5;
              for (long k = 0; k < depth && at % width < columns; ++k) {
                want += static_cast<double>(a[static_cast<size_t>(at / width * depth + k)]) *
                        b[static_cast<size_t>(k * width + at % width)];
              }
              EXPECT_NEAR(c[static_cast<size_t>(at)], want, 1e-5)
                  << table->name << " " << rows << " x " << columns << ", depth " << depth << ", lines " << lines;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright::cpu
