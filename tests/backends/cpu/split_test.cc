// Products of f32 as products of bf16 (backends/cpu/simd/split.h), against sums in double precision.
#include "backends/cpu/simd/split.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"

namespace rewright::cpu {
namespace {

struct Sizes {
  int64_t rows, depth, columns;
};

// Numbers of whole lines.
struct Space {
  explicit Space(int64_t halves) : numbers(static_cast<size_t>(halves) + 64) {}
  uint16_t* at() { return reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(numbers.data()) + 63) / 64 * 64); }
  std::vector<uint16_t> numbers;
};

class SplitProductsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (split_ == nullptr) GTEST_SKIP() << "the machine has no tiles";
    split_->begin();
  }
  void TearDown() override {
    if (split_ != nullptr) split_->end();
  }

  // Squares of the errors of all elements of start + factor * a * b, summed: of the parts, and of fused multiply-adds.
  struct Errors {
    double parts = 0, adds = 0;
  };
  Errors ErrorsOf(const Sizes& sizes, bool turned, float factor, bool accumulate) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    const auto [rows, depth, columns] = sizes;
    const int64_t steps = (depth + SplitTable::kDepth - 1) / SplitTable::kDepth, row = depth + 3;
    const int64_t panels = (columns + SplitTable::kColumns - 1) / SplitTable::kColumns, line = panels * 32;
    std::vector<float> a(static_cast<size_t>(rows * row)), b(static_cast<size_t>(depth * columns));
    for (float& x : a) x = normal(random);
    for (float& x : b) x = normal(random);
    std::vector<float> start(static_cast<size_t>(32 * line)), c;
    for (float& x : start) x = normal(random);
    c = start;
    const int64_t step = turned ? 1 : columns, column = turned ? depth : 1;
    const int64_t unit = SplitTable::kParts * SplitTable::kRows * SplitTable::kDepth;
    Space left(steps * unit), right(panels * steps * unit), most(2 * 16 * 32);
    std::fill_n(left.at(), steps * unit, uint16_t{0x7fc0});  // rows behind the last are undefined
    std::memset(most.at(), 0, 4 * 16 * 32);
    split_->split_rows(a.data(), row, 1, factor, rows, depth, left.at(), reinterpret_cast<int*>(most.at()));
    split_->pack(b.data(), depth, columns, step, column, right.at());
    for (int64_t p = 0; p < panels; ++p) {
      split_->block(left.at(), rows, right.at() + p * steps * unit, steps, c.data() + p * 32, line,
                    std::min<int64_t>(32, columns - p * 32), accumulate, nullptr, 0);
    }
    Errors errors;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<size_t>(i * line + j);
        double exact = accumulate ? static_cast<double>(start[at]) : 0;
        float added = accumulate ? start[at] : 0;
        for (int64_t k = 0; k < depth; ++k) {
          const float x = factor * a[static_cast<size_t>(i * row + k)];
          const float y = b[static_cast<size_t>(k * step + j * column)];
          exact += static_cast<double>(x) * static_cast<double>(y);
          added = std::fma(x, y, added);
        }
        EXPECT_NEAR(c[at], exact, 1e-5 * std::sqrt(static_cast<double>(depth))) << i << " " << j;
        errors.parts += std::pow(static_cast<double>(c[at]) - exact, 2);
        errors.adds += std::pow(static_cast<double>(added) - exact, 2);
      }
    }
    return errors;
  }

  const SplitTable* const split_ = SplitProducts();
};

TEST_F(SplitProductsTest, AreAsExactAsThoseOfF32) {
  for (const Sizes& sizes : {Sizes{32, 64, 64},
                             {32, 128, 64},
                             {32, 31, 33},
                             {17, 33, 16},
                             {16, 64, 48},
                             {1, 5, 1},
                             {9, 100, 20},
                             {31, 1, 31},
                             {32, 400, 96}}) {
    for (const bool turned : {false, true}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(testing::Message() << sizes.rows << " " << sizes.depth << " " << sizes.columns << turned);
        const Errors errors = ErrorsOf(sizes, turned, 0.3f, accumulate);
        if (sizes.depth >= 32) {
          EXPECT_LE(errors.parts, errors.adds);
        }
      }
    }
  }
}

TEST_F(SplitProductsTest, TellMagnitudes) {
  Space parts(3 * 1024), most(2 * 16 * 32);
  std::memset(most.at(), 0, 4 * 16 * 32);
  std::vector<float> x(3 * 20, 0.0f);
  x[3] = -8;
  x[45] = 0x1p-70f;
  split_->split_rows(x.data(), 20, 1, 1.0f, 3, 20, parts.at(), reinterpret_cast<int*>(most.at()));
  const auto within = [&](float least, float largest) {
    return split_->are_within(reinterpret_cast<const int*>(most.at()), 3, least, largest);
  };
  EXPECT_TRUE(within(0x1p-70f, 8));
  EXPECT_FALSE(within(0x1p-69f, 8));
  EXPECT_FALSE(within(0x1p-70f, 7.9f));
  for (const float strange : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    x[19] = strange;
    split_->split_rows(x.data(), 20, 1, 1.0f, 3, 20, parts.at(), reinterpret_cast<int*>(most.at()));
    EXPECT_FALSE(within(0x1p-70f, std::numeric_limits<float>::max()));
    x[19] = 0;
  }
  x[59] = -1024;
  EXPECT_EQ(split_->pack(x.data(), 20, 3, 1, 20, parts.at()), 0x44800000);
}

}  // namespace
}  // namespace rewright::cpu
