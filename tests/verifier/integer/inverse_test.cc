#include "verifier/integer/inverse.h"

#include <gtest/gtest.h>

#include <random>

#include "verifier/integer/context.h"
#include "verifier/prove/elements.h"

namespace rewright::verifier {
namespace {

class InverseTest : public ::testing::Test {
 protected:
  InverseTest() : ctx_(&record_, Strategy(), 1) {
    size_ = ctx_.NewParam("n", 1);
    for (int i = 0; i < 3; ++i) {
      from_.push_back(ctx_.NewLocal("v"));
      to_.push_back(ctx_.NewLocal("u"));
    }
  }

  Poly Row(const std::vector<int64_t>& row) const {
    Poly sum;
    for (size_t j = 0; j < row.size(); ++j) sum = sum + Poly::Of(to_[j]) * Poly(row[j]);
    return sum;
  }

  ProofSession record_;
  Context ctx_;
  Var size_ = 0;
  std::vector<Var> from_, to_;
};

// The name lies in a list that grows with every digit.
TEST_F(InverseTest, DigitsHaveTheNameOfWhatTheyAreDigitsOf) {
  const std::string name = "a name that is longer than what a string holds by itself";
  const Var first = ctx_.NewLocal(name);
  for (int k = 0; k < 200; ++k) {
    std::vector<Var> digits;
    Poly value;
    ASSERT_TRUE(
        SplitProduct(ctx_, ctx_.Info(first).name, Poly::Of(size_) * Poly::Of(size_) * Poly(12), &digits, &value));
    EXPECT_EQ(digits.size(), 5u);
    for (Var digit : digits) EXPECT_EQ(ctx_.Info(digit).name, name);
  }
}

TEST_F(InverseTest, OfRandomUnimodularChanges) {
  std::mt19937_64 rng(7);
  for (int k = 0; k < 200; ++k) {
    // A product of elementary matrices, and shifts by polynomials of the symbols.
    std::vector<std::vector<int64_t>> m = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int step = 0; step < 6; ++step) {
      const size_t i = rng() % 3, j = (i + 1 + rng() % 2) % 3;
      if (rng() % 3 == 0) std::swap(m[i], m[j]);
      const int64_t times = static_cast<int64_t>(rng() % 5) - 2;
      for (size_t c = 0; c < 3; ++c) m[i][c] += times * m[j][c];
    }
    Substitution change;
    for (size_t i = 0; i < 3; ++i) {
      change.Set(from_[i], Row(m[i]) + Poly::Of(size_) * Poly(static_cast<int64_t>(rng() % 3)) + Poly(2));
    }
    const auto inverse = Inverse(ctx_, change, from_, to_);
    ASSERT_TRUE(inverse.has_value());
    for (Var v : from_) EXPECT_EQ(ctx_.Subst(*change.Find(v), *inverse), Poly::Of(v));
  }
}

TEST_F(InverseTest, ThereIsNoneOfOtherChanges) {
  const auto inverse = [&](const std::vector<std::vector<int64_t>>& m) {
    Substitution change;
    for (size_t i = 0; i < 3; ++i) change.Set(from_[i], Row(m[i]));
    return Inverse(ctx_, change, from_, to_).has_value();
  };
  EXPECT_TRUE(inverse({{0, 1, 0}, {0, 0, -1}, {1, 0, 0}}));
  EXPECT_FALSE(inverse({{2, 0, 0}, {0, 1, 0}, {0, 0, 1}}));   // only the even integers
  EXPECT_FALSE(inverse({{1, 1, 0}, {1, 1, 0}, {0, 0, 1}}));   // singular
  EXPECT_FALSE(inverse({{1, 1, 0}, {1, -1, 0}, {0, 0, 1}}));  // determinant -2
}

TEST_F(InverseTest, AProductOfVariablesIsNoChange) {
  Substitution change;
  for (size_t i = 0; i < 3; ++i) change.Set(from_[i], Poly::Of(to_[i]));
  change.Set(from_[0], Poly::Of(to_[0]) + Poly::Of(to_[1]) * Poly::Of(to_[2]));
  const auto inverse = Inverse(ctx_, change, from_, to_);
  if (inverse) {  // a bijection all the same
    for (Var v : from_) EXPECT_EQ(ctx_.Subst(*change.Find(v), *inverse), Poly::Of(v));
  }
  change.Set(from_[0], Poly::Of(to_[0]) * Poly::Of(to_[0]));
  EXPECT_FALSE(Inverse(ctx_, change, from_, to_).has_value());
}

}  // namespace
}  // namespace rewright::verifier
