#include "search/saturation/extraction.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Nodes as {cost, needs, makes}.
ExtractionProblem ProblemOf(int classes, std::vector<ExtractionProblem::Node> nodes, std::vector<int> roots) {
  ExtractionProblem problem;
  problem.makers.resize(classes);
  problem.nodes = std::move(nodes);
  problem.roots = std::move(roots);
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    for (int made : problem.nodes[n].makes) problem.makers[made].push_back(static_cast<int>(n));
  }
  return problem;
}

// All choices, one after the other.
double CheapestByHand(const ExtractionProblem& problem) {
  double best = kInfinity;
  std::vector<int> choice(problem.makers.size(), -1);
  const std::function<void(size_t)> choose = [&](size_t c) {
    if (c == choice.size()) {
      best = std::min(best, Needed(problem, choice).cost);
      return;
    }
    if (problem.makers[c].empty()) choose(c + 1);
    for (int n : problem.makers[c]) {
      choice[c] = n;
      choose(c + 1);
      choice[c] = -1;
    }
  };
  choose(0);
  return best;
}

TEST(ExtractionTest, SharedNodesCountOnce) {
  // Class 0 from two users (1, 2) of a dear class 3, or from two (4, 5) of classes 6 and 7 that are cheaper one by one.
  const ExtractionProblem problem = ProblemOf(6,
                                              {{1, {1, 2}, {0}},
                                               {0, {3}, {1}},
                                               {0, {3}, {2}},
                                               {10, {}, {3}},
                                               {0, {4}, {1}},
                                               {0, {5}, {2}},
                                               {7, {}, {4}},
                                               {7, {}, {5}}},
                                              {0});
  EXPECT_EQ(Needed(problem, CheapestTrees(problem)).cost, 15);
  const BranchAndBound found = ExtractCheapest(problem, {}, 100);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(found.best.cost, 11);
  EXPECT_THAT(found.best.choice, ElementsAre(0, 1, 2, 3, -1, -1));
}

TEST(ExtractionTest, ANodeWithSeveralOutputsIsPaidOnce) {
  // Two classes, computed apart for 6 each or by one node for 8.
  const ExtractionProblem problem = ProblemOf(3, {{0, {1, 2}, {0}}, {6, {}, {1}}, {6, {}, {2}}, {8, {}, {1, 2}}}, {0});
  EXPECT_EQ(Needed(problem, CheapestTrees(problem)).cost, 12);
  EXPECT_EQ(ExtractCheapest(problem, {}, 100).best.cost, 8);
}

TEST(ExtractionTest, CyclesAreNoGraphs) {
  // Classes 0 and 1 compute each other for nothing.
  const ExtractionProblem problem = ProblemOf(2, {{0, {1}, {0}}, {0, {0}, {1}}, {5, {}, {0}}, {7, {}, {1}}}, {0, 1});
  EXPECT_EQ(Needed(problem, {0, 1}).cost, kInfinity);
  const BranchAndBound found = ExtractCheapest(problem, {}, 100);
  EXPECT_EQ(found.best.cost, 5);
  EXPECT_THAT(found.best.choice, ElementsAre(2, 1));
  EXPECT_EQ(ExtractCheapest(ProblemOf(2, {{0, {1}, {0}}, {0, {0}, {1}}}, {0}), {}, 100).best.cost, kInfinity);
}

TEST(ExtractionTest, WhatCostsInfinitelyMuchIsNotChosen) {
  const ExtractionProblem problem = ProblemOf(1, {{kInfinity, {}, {0}}, {3, {}, {0}}}, {0});
  EXPECT_EQ(ExtractCheapest(problem, {{0}}, 100).best.cost, 3);
  EXPECT_EQ(ExtractCheapest(ProblemOf(1, {{kInfinity, {}, {0}}}, {0}), {{0}}, 100).best.cost, kInfinity);
}

TEST(ExtractionTest, AStartThatIsCheapIsKeptWithoutSteps) {
  const ExtractionProblem problem = ProblemOf(3, {{0, {1, 2}, {0}}, {6, {}, {1}}, {6, {}, {2}}, {8, {}, {1, 2}}}, {0});
  std::vector<double> costs;
  const BranchAndBound found =
      ExtractCheapest(problem, {{0, 3, 3}}, 0, [&](const Extraction& better) { costs.push_back(better.cost); });
  EXPECT_EQ(found.best.cost, 8);
  EXPECT_FALSE(found.exact);
  EXPECT_THAT(costs, ElementsAre(8));
}

TEST(ExtractionTest, ExactOnRandomProblems) {
  constexpr uint64_t kSeed = 20250801;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 rng(kSeed);
  const auto draw = [&](int n) { return static_cast<int>(rng() % static_cast<uint64_t>(n)); };
  int possible = 0, beaten = 0;
  for (int i = 0; i < Cases(20000); ++i) {
    const int classes = 3 + draw(5);
    std::vector<ExtractionProblem::Node> nodes;
    for (int n = classes + draw(2 * classes); n > 0; --n) {
      ExtractionProblem::Node node;
      node.cost = draw(4) == 0 ? 0 : 1 + draw(20);
      for (int k = draw(3); k > 0; --k) node.needs.push_back(draw(classes));
      for (int k = draw(4) == 0 ? 2 : 1; k > 0; --k) node.makes.push_back(draw(classes));
      nodes.push_back(node);
    }
    const ExtractionProblem problem = ProblemOf(classes, nodes, {draw(classes), draw(classes)});
    const double best = CheapestByHand(problem);
    const BranchAndBound found = ExtractCheapest(problem, {}, 100000);
    ASSERT_TRUE(found.exact);
    ASSERT_EQ(found.best.cost, best) << "case " << i;
    if (best == kInfinity) continue;
    ++possible;
    ASSERT_EQ(Needed(problem, found.best.choice).cost, best);
    beaten += best < Needed(problem, CheapestTrees(problem)).cost;
    // Few steps give a graph as well.
    ASSERT_LT(ExtractCheapest(problem, {}, 1).best.cost, kInfinity);
  }
  EXPECT_GT(possible, Cases(20000) / 4);
  EXPECT_GT(beaten, Cases(20000) / 200);
}

}  // namespace
}  // namespace rewright
