#include "search/search.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/resources.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFoldBatchNorm[] = R"(
rule relu-twice
  relu(relu(x)) => relu(x)
rule mul-one
  mul(x, 1) => x
)";

// relu(a) + relu(b) of parts of one tensor can become relu before the split, but only when split and relu change
// places: one way costs more for a while.
constexpr char kLongWay[] = R"(
rule exchange-transpose-relu
  relu(transpose(x, perm=?p)) => transpose(relu(x), perm=?p)
rule exchange-relu-transpose
  transpose(relu(x), perm=?p) => relu(transpose(x, perm=?p))
rule transpose-twice
  transpose(transpose(x, perm=?p), perm=?q) => transpose(x, perm=compose(?p, ?q))
rule transpose-nothing
  transpose(x[a, b], perm=[0, 1]) => x
rule split-exp
  exp(x) => mul(exp(mul(x, 0.5)), exp(mul(x, 0.5)))
rule merge-exp
  mul(mul(exp(mul(x, 0.5)), exp(mul(x, 0.5))), y) => tanh(x)
)";

std::vector<std::string> NamesOfRulesUsed(const SearchResult& result) {
  std::vector<std::string> names;
  for (int step : PathTo(result.trace, result.candidates[0].step)) {
    names.push_back(result.trace[step].rule);
  }
  return names;
}

// x -> relu -> relu -> exp, `blocks` times.
std::string Chain(int blocks) {
  std::string text = "input x: f32[2,3]\n";
  std::string last = "x";
  for (int i = 0; i < blocks; ++i) {
    absl::StrAppend(&text, "%", 3 * i, " = relu(", last, ")\n%", 3 * i + 1, " = relu(%", 3 * i, ")\n%", 3 * i + 2,
                    " = exp(%", 3 * i + 1, ")\n");
    last = absl::StrCat("%", 3 * i + 2);
  }
  return absl::StrCat(text, "output y = ", last, "\n");
}

TEST(SearchTest, DescentTakesAllIndependentRewrites) {
  const RuleIndex rules = RulesFrom(kFoldBatchNorm);
  FakeDevice device;
  SearchOptions options;
  options.strategy = SearchStrategy::kGreedy;
  const Graph graph = GraphFrom(Chain(50));
  const SearchResult result = RunSearch(graph, rules, device, options);
  EXPECT_NEAR(result.original_cost.seconds, 0.150, 1e-9);
  EXPECT_NEAR(result.candidates[0].cost.seconds, 0.100, 1e-9);
  EXPECT_EQ(result.candidates[0].graph.num_runtime_nodes(), 100);
  EXPECT_EQ(result.steps, 1);  // all at once
  // The trace has them one after the other, and each gives a graph.
  ASSERT_EQ(result.trace.size(), 50u);
  for (int step : {0, 24, 48}) {
    EXPECT_EQ(GraphAt(result, graph, step).num_runtime_nodes(), 150 - step - 1);
    EXPECT_NEAR(result.trace[step].cost_after, 0.149 - 0.001 * step, 1e-6);
  }
  EXPECT_EQ(GraphAt(result, graph, 49).outputs()[0].value, result.candidates[0].graph.outputs()[0].value);
  EXPECT_EQ(result.end, SearchEnd::kExhausted);
  // A relu costs the same wherever it stands.
  EXPECT_EQ(device.cost_calls, 2);
}

TEST(SearchTest, MergesSiblingsPairByPair) {
  const RuleIndex rules = RulesFrom(kMergeSiblings);
  FakeDevice device({{"split", 0}, {"concat", 0}});
  const Graph graph = GraphFrom(Siblings(3));
  const SearchResult result = RunSearch(graph, rules, device);
  EXPECT_NEAR(result.candidates[0].cost.seconds, 0.001, 1e-9);
  EXPECT_THAT(NamesOfRulesUsed(result), ElementsAre("matmul-shared-lhs", "matmul-shared-lhs"));
}

TEST(SearchTest, PassesThroughAGraphThatCostsMore) {
  const RuleIndex rules = RulesFrom(kLongWay);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}, {"relu", 5}});
  const Graph graph = GraphFrom(R"(
    input x: f32[2,3]
    state w: f32[2,3]
    %0 = exp(x)
    %1 = mul(%0, w)
    %2 = relu(%1)
    output y = %2
  )");
  SearchOptions options;
  options.strategy = SearchStrategy::kGreedy;
  EXPECT_EQ(RunSearch(graph, rules, device, options).candidates[0].step, -1);
  options.strategy = SearchStrategy::kBacktrack;
  const SearchResult result = RunSearch(graph, rules, device, options);
  EXPECT_THAT(NamesOfRulesUsed(result), ElementsAre("split-exp", "merge-exp"));
  EXPECT_NEAR(result.candidates[0].cost.seconds, 5.005e-3, 1e-9);
  const std::vector<int> path = PathTo(result.trace, result.candidates[0].step);
  EXPECT_GT(result.trace[path[0]].cost_after, result.original_cost.seconds);
  // Below alpha there is no way there.
  options.alpha = 1.0;
  EXPECT_EQ(RunSearch(graph, rules, device, options).candidates[0].step, -1);
}

TEST(SearchTest, WhatPaidOnceIsReplayedAtLikePlaces) {
  const RuleIndex rules = RulesFrom(kLongWay);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  SearchOptions options;
  options.alpha = 1.1;
  options.budget = 100;
  const SearchResult result = RunSearch(GraphFrom(Detours(20)), rules, device, options);
  EXPECT_NEAR(result.candidates[0].cost.seconds, 20 * 0.005e-3, 1e-9);
  EXPECT_LT(result.steps, 10) << "all places at once";
}

TEST(SearchTest, DetoursInDifferentPlacesAreNotCombined) {
  // Sixteen relus of different sizes can each become abs for nothing, and nothing is gained by it: 2^16 subsets.
  const RuleIndex rules = RulesFrom("rule neutral\n relu(x) => abs(x)\n");
  FakeDevice device;
  std::string text = "input x: f32[2]\n";
  for (int i = 0; i < 16; ++i) {
    absl::StrAppend(&text, "input x", i, ": f32[", i + 3, "]\n%", i, " = relu(x", i, ")\noutput y", i, " = %", i, "\n");
  }
  const SearchResult result = RunSearch(GraphFrom(text), rules, device);
  EXPECT_EQ(result.end, SearchEnd::kExhausted);
  EXPECT_EQ(result.steps, 16);
}

TEST(SearchTest, KeepsToItsBudget) {
  const RuleIndex rules = RulesFrom(kLongWay);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  SearchOptions options;
  options.alpha = 1.1;
  options.budget = 3;
  const SearchResult result = RunSearch(GraphFrom(Detours(20)), rules, device, options);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.end, SearchEnd::kBudget);
  // One detour of two steps, and one step of the rest.
  EXPECT_NEAR(result.candidates[0].cost.seconds, (19 * 0.03 + 0.005) * 1e-3, 1e-9);
  options.budget = 0;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(20)), rules, device, options).candidates[0].step, -1);
}

TEST(SearchTest, TwoRunsGiveTheSameTraceAndGraph) {
  const RuleIndex rules = RulesFrom(std::string(kLongWay) + kMergeSiblings + kFoldBatchNorm);
  FakeDevice device({{"exp", 0.5}, {"mul", 0.02}, {"split", 0.03}, {"tanh", 0.2}});
  SearchOptions options;
  options.budget = 60;
  options.alpha = 1.1;
  const SearchResult first = RunSearch(GraphFrom(Detours(5)), rules, device, options);
  const SearchResult second = RunSearch(GraphFrom(Detours(5)), rules, device, options);
  EXPECT_GT(first.trace.size(), 5u);
  ASSERT_EQ(first.trace.size(), second.trace.size());
  for (size_t i = 0; i < first.trace.size(); ++i) {
    EXPECT_EQ(first.trace[i].rule, second.trace[i].rule);
    EXPECT_EQ(first.trace[i].place, second.trace[i].place);
    EXPECT_EQ(first.trace[i].parent, second.trace[i].parent);
    EXPECT_EQ(first.trace[i].cost_after, second.trace[i].cost_after);
  }
  EXPECT_EQ(PrintGraph(first.candidates[0].graph), PrintGraph(second.candidates[0].graph));
  EXPECT_EQ(first.explored, second.explored);
}

TEST(SearchTest, StoppingLeavesTheBestSoFar) {
  const RuleIndex rules = RulesFrom(kLongWay);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  std::atomic<bool> stop = false;
  SearchOptions options;
  options.alpha = 1.1;
  options.stop = &stop;
  options.progress = [&](const SearchProgress& progress) {
    EXPECT_EQ(progress.budget, 1000);
    EXPECT_LE(progress.best_cost, progress.first_cost);
    if (progress.steps == 3) stop = true;
  };
  SearchResult result = RunSearch(GraphFrom(Detours(20)), rules, device, options);
  EXPECT_EQ(result.end, SearchEnd::kStopped);
  EXPECT_EQ(result.steps, 3);
  EXPECT_NEAR(result.candidates[0].cost.seconds, (19 * 0.03 + 0.005) * 1e-3, 1e-9);
  // Stopped before it began.
  options.progress = nullptr;
  result = RunSearch(GraphFrom(Detours(20)), rules, device, options);
  EXPECT_EQ(result.candidates[0].step, -1);
}

TEST(SearchTest, LimitsOfTimeAndMemory) {
  const RuleIndex rules = RulesFrom(kFoldBatchNorm);
  FakeDevice device;
  SearchOptions options;
  options.time_limit_seconds = 0;
  EXPECT_EQ(RunSearch(GraphFrom(Chain(5)), rules, device, options).end, SearchEnd::kTimeLimit);
  options = {};
  options.memory_limit_bytes = 1;
  EXPECT_EQ(RunSearch(GraphFrom(Chain(5)), rules, device, options).end, SearchEnd::kMemoryLimit);
  EXPECT_GE(PeakResidentBytes(), ResidentBytes() / 2);
}

TEST(SearchTest, WhatTheDeviceCannotRunIsLeftOut) {
  const RuleIndex rules = RulesFrom("rule r exp(x) => tanh(x)\nrule s exp(x) => sigmoid(x)\n");
  FakeDevice device({{"exp", 5}, {"tanh", 1}, {"sigmoid", 2}});
  device.unsupported = {"tanh"};
  const Graph graph = GraphFrom("input x: f32[2]\n%0 = exp(x)\noutput y = %0\n");
  EXPECT_THAT(NamesOfRulesUsed(RunSearch(graph, rules, device)), ElementsAre("s"));
  device.unsupported = {"exp"};
  RuleRewriter rewriter(rules);
  CostModel costs(device);
  EXPECT_THAT(std::string(Search(graph, rewriter, costs, {}).status().message()),
              HasSubstr("cost of exp on fake: exp"));
}

TEST(SearchTest, EqualCostsPreferFewerNodesAndLessWorkAtLoad) {
  const RuleIndex rules = RulesFrom(kLongWay);
  FakeDevice device({{"transpose", 0}});
  const Graph graph = GraphFrom(R"(
    input x: f32[2,3]
    %0 = transpose(x, perm=[1,0])
    %1 = relu(%0)
    %2 = transpose(%1, perm=[1,0])
    output y = %2
  )");
  const SearchResult result = RunSearch(graph, rules, device);
  EXPECT_EQ(result.candidates[0].graph.num_runtime_nodes(), 1);
}

TEST(SearchTest, CandidatesAreTheCheapestAndClearlyDifferent) {
  const RuleIndex rules = RulesFrom(kFoldBatchNorm);
  FakeDevice device;
  SearchOptions options;
  options.candidates = 3;
  // Each round takes half of those that are left: 16, 8, 4, 2, 1.
  std::string text = "input x: f32[2]\n%0 = relu(x)\n";
  for (int i = 1; i < 16; ++i) absl::StrAppend(&text, "%", i, " = relu(%", i - 1, ")\n");
  const SearchResult result = RunSearch(GraphFrom(text + "output y = %15\n"), rules, device, options);
  ASSERT_EQ(result.candidates.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(result.candidates[i].cost.seconds, 0.001 * (1 << i), 1e-9);
}

TEST(SearchTest, OptionsAreChecked) {
  const RuleIndex rules = RulesFrom(kFoldBatchNorm);
  FakeDevice device;
  RuleRewriter rewriter(rules);
  CostModel costs(device);
  SearchOptions options;
  options.alpha = 0.9;
  EXPECT_THAT(std::string(Search(GraphFrom(Chain(1)), rewriter, costs, options).status().message()),
              HasSubstr("alpha is 0.9; expected at least 1"));
  SearchStrategy strategy;
  EXPECT_TRUE(ParseSearchStrategy("greedy", &strategy));
  EXPECT_FALSE(ParseSearchStrategy("magic", &strategy));
}

}  // namespace
}  // namespace rewright
