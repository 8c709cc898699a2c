#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/rewriter.h"
#include "search/saturation/tiles.h"
#include "search/search.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kDetour[] = R"(
rule split-exp
  exp(x) => mul(exp(mul(x, 0.5)), exp(mul(x, 0.5)))
rule merge-exp
  mul(mul(exp(mul(x, 0.5)), exp(mul(x, 0.5))), y) => tanh(x)
)";

SearchOptions Eqsat() {
  SearchOptions options;
  options.strategy = SearchStrategy::kEqsat;
  return options;
}

std::set<std::string> RulesUsed(const SearchResult& result) {
  std::set<std::string> names;
  for (int step : PathTo(result.trace, result.candidates[0].step)) {
    for (absl::string_view name : absl::StrSplit(result.trace[step].rule, kRuleSeparator)) {
      names.emplace(name);
    }
  }
  return names;
}

// A device that fuses a relu with its producer if the relu is the only reader.
class FusingDevice : public FakeDevice {
 public:
  using FakeDevice::FakeDevice;
  std::vector<Group> Partition(const Graph& graph) const override {
    std::vector<Group> groups;
    for (Group& group : FakeDevice::Partition(graph)) {
      const Node& node = graph.node(group.nodes[0]);
      const bool relu = node.op->name == "relu" && graph.node(node.operands[0].node).op != nullptr;
      if (relu && graph.users(graph.index(node.operands[0].node)).size() == 1 && !graph.is_output(node.operands[0])) {
        for (Group& other : groups) {
          if (other.nodes.back() != node.operands[0].node) continue;
          other.nodes.push_back(group.nodes[0]);
          other.outputs = group.outputs;
          group.nodes.clear();
          break;
        }
      }
      if (!group.nodes.empty()) groups.push_back(std::move(group));
    }
    return groups;
  }
};

TEST(EqsatTest, PassesThroughAGraphThatCostsMoreWhateverAlpha) {
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}, {"relu", 5}});
  const Graph graph = GraphFrom(R"(
    input x: f32[2,3]
    state w: f32[2,3]
    %0 = exp(x)
    %1 = mul(%0, w)
    %2 = relu(%1)
    output y = %2
  )");
  SearchOptions options = Eqsat();
  options.alpha = 1.0;
  const SearchResult result = RunSearch(graph, RulesFrom(kDetour), device, options);
  EXPECT_NEAR(result.candidates[0].cost.seconds, 5.005e-3, 1e-9);
  EXPECT_THAT(RulesUsed(result), UnorderedElementsAre("merge-exp"));
  EXPECT_EQ(result.end, SearchEnd::kExhausted);
}

TEST(EqsatTest, SiblingsAreMergedAgainAndAgain) {
  // A merge pays only together with the next one: two of three products would cost as much as before.
  FakeDevice device({{"concat", 0}});
  device.cost_of = [](const Graph&, const Node& node) {
    if (node.op->name == "split") return 0.9;
    return node.op->name == "matmul" ? 1.0 : 0.0;
  };
  const Graph graph = GraphFrom(Siblings(4));
  const SearchResult result = RunSearch(graph, RulesFrom(kMergeSiblings), device, Eqsat());
  EXPECT_NEAR(result.candidates[0].cost.seconds, (1 + 3 * 0.9) * 1e-3, 1e-9);
}

TEST(EqsatTest, StepsReplayToTheGraph) {
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  const Graph graph = GraphFrom(Detours(6));
  const SearchResult result = RunSearch(graph, RulesFrom(kDetour), device, Eqsat());
  EXPECT_NEAR(result.candidates[0].cost.seconds, 6 * 0.005e-3, 1e-9);
  const Graph replayed = GraphAt(result, graph, result.candidates[0].step);
  EXPECT_EQ(PrintGraph(replayed), PrintGraph(result.candidates[0].graph));
}

TEST(EqsatTest, WindowsOfALargeGraph) {
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  SearchOptions options = Eqsat();
  options.whole_nodes = 20;
  options.window_nodes = 12;
  options.alpha = 1.0;
  const SearchResult result = RunSearch(GraphFrom(Detours(60)), RulesFrom(kDetour), device, options);
  EXPECT_NEAR(result.candidates[0].cost.seconds, 60 * 0.005e-3, 1e-9);
}

TEST(EqsatTest, WhereNothingIsCheaperTheOriginalStays) {
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 5}});
  const Graph graph = GraphFrom(Detours(3));
  const SearchResult result = RunSearch(graph, RulesFrom(kDetour), device, Eqsat());
  EXPECT_EQ(result.candidates[0].step, -1);
  EXPECT_EQ(PrintGraph(result.candidates[0].graph), PrintGraph(graph));
}

TEST(EqsatTest, TheDeviceHasTheLastWord) {
  // Tiles look cheaper with tanh, the graph as a whole is dearer: its outputs take more room.
  FakeDevice device;
  device.cost_of = [](const Graph& graph, const Node& node) {
    if (node.op->name == "tanh") return graph.num_runtime_nodes() > 2 ? 9.0 : 0.1;
    return 1.0;
  };
  const SearchResult result =
      RunSearch(GraphFrom("input x: f32[2]\n%0 = exp(x)\n%1 = neg(%0)\n%2 = abs(%1)\noutput y = %2\n"),
                RulesFrom("rule r exp(x) => tanh(x)\n"), device, Eqsat());
  EXPECT_EQ(result.candidates[0].step, -1);
}

TEST(EqsatTest, WhatTheDeviceCannotRunIsLeftOut) {
  FakeDevice device({{"exp", 5}, {"tanh", 1}, {"sigmoid", 2}});
  device.unsupported = {"tanh"};
  const SearchResult result = RunSearch(
      GraphFrom("input x: f32[2]\n%0 = exp(x)\n%1 = neg(%0)\noutput y = %1\n"),
      RulesFrom("rule r neg(exp(x)) => neg(tanh(x))\nrule s neg(exp(x)) => neg(sigmoid(x))\n"), device, Eqsat());
  EXPECT_NEAR(result.candidates[0].cost.seconds, 3e-3, 1e-9);
}

TEST(EqsatTest, LimitsLeaveTheBestSoFar) {
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  const RuleIndex rules = RulesFrom(kDetour);
  SearchOptions options = Eqsat();
  options.budget = 0;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(6)), rules, device, options).candidates[0].step, -1);
  options = Eqsat();
  options.time_limit_seconds = 0;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(6)), rules, device, options).end, SearchEnd::kTimeLimit);
  options = Eqsat();
  std::atomic<bool> stop = true;
  options.stop = &stop;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(6)), rules, device, options).end, SearchEnd::kStopped);
  options = Eqsat();
  options.memory_limit_bytes = 1;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(6)), rules, device, options).end, SearchEnd::kMemoryLimit);
  // An e-graph that may not grow and an extraction that may not branch find no more than descent.
  options = Eqsat();
  options.egraph_nodes = 0;
  EXPECT_EQ(RunSearch(GraphFrom(Detours(6)), rules, device, options).candidates[0].step, -1);
  options.egraph_nodes = -1;
  RuleRewriter rewriter(rules);
  CostModel costs(device);
  EXPECT_EQ(Search(GraphFrom(Detours(1)), rewriter, costs, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EqsatTest, TwoRunsGiveTheSameTraceAndGraph) {
  FakeDevice device({{"exp", 0.5}, {"mul", 0.02}, {"split", 0.03}, {"tanh", 0.2}});
  const RuleIndex rules =
      RulesFrom(std::string(kDetour) + kMergeSiblings + "rule e exp(mul(x, 0.5)) => sqrt(exp(x))\n");
  const SearchResult first = RunSearch(GraphFrom(Detours(5)), rules, device, Eqsat());
  const SearchResult second = RunSearch(GraphFrom(Detours(5)), rules, device, Eqsat());
  ASSERT_THAT(first.trace, SizeIs(second.trace.size()));
  EXPECT_FALSE(first.trace.empty());
  for (size_t i = 0; i < first.trace.size(); ++i) {
    EXPECT_EQ(first.trace[i].rule, second.trace[i].rule);
    EXPECT_EQ(first.trace[i].cost_after, second.trace[i].cost_after);
  }
  EXPECT_EQ(PrintGraph(first.candidates[0].graph), PrintGraph(second.candidates[0].graph));
}

TEST(EqsatTest, AllRulesOfAStepAreDisabledAtOnce) {
  const RuleIndex rules = RulesFrom(kDetour);
  RuleRewriter rewriter(rules);
  FilteredRewriter filtered(rewriter);
  EXPECT_NE(filtered.matcher(0), nullptr);
  filtered.Disable(absl::StrCat("split-exp", kRuleSeparator, "merge-exp"));
  EXPECT_EQ(filtered.matcher(0), nullptr);
  EXPECT_EQ(filtered.matcher(1), nullptr);
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  CostModel costs(device);
  const auto result = Search(GraphFrom(Detours(6)), filtered, costs, Eqsat());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->trace, IsEmpty());
}

// ---------------------------------------------------------------- tiles

TEST(TileTest, ATileIsWhatTheDeviceRunsAsOne) {
  FusingDevice device({{"exp", 3}, {"relu", 2}, {"neg", 1}});
  CostModel costs(device);
  const Graph graph = GraphFrom("input x: f32[2]\n%0 = exp(x)\n%1 = relu(%0)\n%2 = neg(%1)\noutput y = %2\n");
  EGraph egraph(graph.arena());
  const Value root = egraph.Add(graph.outputs()[0].value);
  egraph.Rebuild();
  const TileProblem tiles(egraph, {root}, costs);
  std::multiset<std::string> found;
  for (size_t n = 0; n < tiles.problem().nodes.size(); ++n) {
    std::string text;
    for (const auto& [c, id] : tiles.tile(static_cast<int>(n))) {
      const Node& node = graph.node(id);
      absl::StrAppend(&text, node.op == nullptr ? "leaf" : node.op->name, " ");
    }
    found.insert(absl::StrCat(text, static_cast<int>(tiles.problem().nodes[n].cost * 1e3 + 0.5)));
  }
  EXPECT_THAT(found, UnorderedElementsAre("leaf 0", "exp 3", "relu 2", "neg 1", "relu exp 3"));
  EXPECT_EQ(tiles.ClassOf(root), 0);
  EXPECT_NEAR(ExtractCheapest(tiles.problem(), {}, 100).best.cost, 4e-3, 1e-9);
}

TEST(TileTest, FusionDecidesWhichGraphIsCheapest) {
  // neg after relu is as good as relu after neg, but a relu behind exp is free.
  FusingDevice device({{"exp", 3}, {"relu", 2}, {"neg", 1}, {"abs", 1}});
  const SearchResult result =
      RunSearch(GraphFrom("input x: f32[2]\n%0 = exp(x)\n%1 = abs(%0)\n%2 = relu(%1)\n%3 = neg(%2)\noutput y = %3\n"),
                RulesFrom("rule r abs(exp(x)) => exp(x)\n"), device, Eqsat());
  EXPECT_NEAR(result.candidates[0].cost.seconds, 4e-3, 1e-9);
}

}  // namespace
}  // namespace rewright
