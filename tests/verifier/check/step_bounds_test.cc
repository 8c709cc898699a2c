// Conditions that follow by bounds, products and equations hold wherever the facts do.
#include "verifier/check/questions/step_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace rewright::verifier {
namespace {

IndexSum Unknown(int x) { return {{{x}, 1}}; }
IndexSum Integer(int64_t n) { return PlusTimes({}, {{{}, 1}}, n); }
IndexSum Minus(const IndexSum& a, const IndexSum& b) { return PlusTimes(a, b, -1); }
IndexRelation AtLeastZero(IndexSum p) { return {std::move(p), false}; }

// Adds 0 <= x < size, and size >= 1.
void AddPosition(int x, int size, StepBounds* bounds) {
  bounds->Add(AtLeastZero(Minus(Unknown(size), Integer(1))));
  bounds->Add(AtLeastZero(Unknown(x)));
  bounds->Add(AtLeastZero(Minus(Minus(Unknown(size), Unknown(x)), Integer(1))));
}

TEST(StepBounds, PositionsOfMergedAxes) {
  // 0 <= i < n and 0 <= j < m give 0 <= i m + j < k, where n m = k.
  const int n = 0, m = 1, k = 2, i = 3, j = 4;
  StepBounds bounds;
  AddPosition(i, n, &bounds);
  AddPosition(j, m, &bounds);
  const IndexSum merged = PlusTimes(Times(Unknown(i), Unknown(m)), Unknown(j), 1);
  const IndexRelation below = AtLeastZero(Minus(Minus(Unknown(k), merged), Integer(1)));
  EXPECT_TRUE(bounds.Imply(AtLeastZero(merged)));
  EXPECT_FALSE(bounds.Imply(below));
  bounds.Add({Minus(Unknown(k), Times(Unknown(n), Unknown(m))), true});
  EXPECT_TRUE(bounds.Imply(below));
  EXPECT_FALSE(bounds.Imply(AtLeastZero(Minus(below.p, Integer(1)))));
}

TEST(StepBounds, Quotients) {
  const int x = 0, d = 1, q = 2;
  StepBounds bounds;
  bounds.Add(AtLeastZero(Unknown(x)));
  bounds.AddQuotient(q, Unknown(x), Unknown(d));
  EXPECT_FALSE(bounds.Imply(AtLeastZero(Unknown(q))));  // d may be negative
  bounds.Add(AtLeastZero(Minus(Unknown(d), Integer(1))));
  bounds.AddQuotient(q, Unknown(x), Unknown(d));
  EXPECT_TRUE(bounds.Imply(AtLeastZero(Unknown(q))));
  EXPECT_TRUE(bounds.Imply(AtLeastZero(Minus(Unknown(x), Times(Unknown(d), Unknown(q))))));
  EXPECT_FALSE(bounds.Imply(AtLeastZero(Minus(Unknown(x), Unknown(q)))));  // holds, but is not looked for
}

TEST(StepBounds, QuotientsOfMergedAxes) {
  // 0 <= x < n m d and d >= 1, m >= 1 give x div (m d) < n.
  const int x = 0, n = 1, m = 2, d = 3, q = 4;
  const IndexSum den = Times(Unknown(m), Unknown(d));
  StepBounds bounds;
  for (int size : {n, m, d}) bounds.Add(AtLeastZero(Minus(Unknown(size), Integer(1))));
  bounds.Add(AtLeastZero(Unknown(x)));
  bounds.Add(AtLeastZero(Minus(Minus(Times(Unknown(n), den), Unknown(x)), Integer(1))));
  bounds.AddQuotient(q, Unknown(x), den);
  const IndexSum below = Minus(Minus(Unknown(n), Unknown(q)), Integer(1));
  EXPECT_TRUE(bounds.Imply(AtLeastZero(below)));
  EXPECT_FALSE(bounds.Imply(AtLeastZero(Minus(below, Integer(1)))));
}

int64_t ValueOf(const IndexSum& p, const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (const auto& [product, coef] : p) {
    int64_t term = coef;
    for (const int x : product) term *= values[static_cast<size_t>(x)];
    sum += term;
  }
  return sum;
}

bool Holds(const IndexRelation& relation, const std::vector<int64_t>& values) {
  const int64_t value = ValueOf(relation.p, values);
  return relation.equation ? value == 0 : value >= 0;
}

constexpr int kConstants = 3;

IndexRelation Drawn(std::mt19937& rng) {
  const auto below = [&](uint32_t n) { return static_cast<int>(rng() % n); };
  IndexRelation relation{Integer(below(4) - 2), below(5) == 0};
  for (int terms = 1 + below(3); terms > 0; --terms) {
    IndexSum product = Integer(1);
    for (int factors = 1 + below(2); factors > 0; --factors) product = Times(product, Unknown(below(kConstants)));
    relation.p = PlusTimes(relation.p, product, below(2) == 0 ? 1 : -1);
  }
  return relation;
}

TEST(StepBounds, WhatFollowsHoldsWhereverTheFactsDo) {
  constexpr int64_t kEnd = 4;
  std::mt19937 rng(1);
  int implied = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<IndexRelation> facts;
    for (int x = 0; x < kConstants; ++x) {
      if (rng() % 2 == 0) facts.push_back(AtLeastZero(Minus(Unknown(x), Integer(static_cast<int64_t>(rng() % 2)))));
    }
    for (uint32_t more = rng() % 4; more > 0; --more) facts.push_back(Drawn(rng));
    const IndexRelation goal = Drawn(rng);
    StepBounds bounds;
    for (const IndexRelation& fact : facts) bounds.Add(fact);
    if (!bounds.Imply(goal)) continue;
    ++implied;
    std::vector<int64_t> values(kConstants);
    for (values[0] = -kEnd; values[0] <= kEnd; ++values[0]) {
      for (values[1] = -kEnd; values[1] <= kEnd; ++values[1]) {
        for (values[2] = -kEnd; values[2] <= kEnd; ++values[2]) {
          const auto holds = [&](const IndexRelation& fact) { return Holds(fact, values); };
          if (!std::all_of(facts.begin(), facts.end(), holds)) continue;
          ASSERT_TRUE(holds(goal)) << "round " << round << " at " << values[0] << ' ' << values[1] << ' ' << values[2];
        }
      }
    }
  }
  EXPECT_GT(implied, 1000);
}

}  // namespace
}  // namespace rewright::verifier
