#include "search/optimize/optimize.h"

#include <atomic>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/search/optimize/optimize_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

bool Has(const Graph& graph, const std::string& op, int count) {
  for (NodeId id : graph.nodes()) count -= graph.node(id).op != nullptr && graph.node(id).op->name == op;
  return count == 0;
}

TEST_F(OptimizeTest, ReportsWhatItDid) {
  FakeRunner runner(ByNodes);
  std::vector<std::string> phases;
  options_.phase = [&](const std::string& phase) { phases.push_back(phase); };
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_EQ(report.nodes_before, 4);
  EXPECT_EQ(report.nodes_after, 3);
  EXPECT_NEAR(report.cost_before, 4e-3, 1e-9);
  EXPECT_NEAR(report.cost_after, 3e-3, 1e-9);
  EXPECT_TRUE(report.check.done);
  EXPECT_EQ(report.check.max_abs_diff, 0);
  EXPECT_NEAR(*report.latency_before, 80e-6, 1e-9);
  EXPECT_LT(*report.latency_after, *report.latency_before);
  EXPECT_GE(report.measured->wins + report.measured->losses, 20);
  EXPECT_LE(report.measured->p_value, 0.05);
  ASSERT_THAT(report.rewrites, SizeIs(1));
  EXPECT_EQ(report.rewrites[0].rule, "relu-twice");
  EXPECT_EQ(report.rewrites[0].count, 1);
  EXPECT_THAT(report.path, SizeIs(1));
  EXPECT_THAT(report.dropped, SizeIs(0));
  EXPECT_GT(report.peak_rss_bytes, 1 << 20);
  EXPECT_GT(report.graphs_explored, 0);
  EXPECT_THAT(report.verdict, HasSubstr("times faster"));
  EXPECT_EQ(phases.front(), "searching");
  EXPECT_EQ(phases.back(), "comparing outputs");
}

TEST_F(OptimizeTest, GivesTheOriginalBackWhenTheCostsWereWrong) {
  // The device says that fewer nodes are faster; whole graphs say otherwise.
  FakeRunner runner([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_EQ(PrintGraph(report.graph), PrintGraph(graph_));
  EXPECT_EQ(report.nodes_after, report.nodes_before);
  EXPECT_EQ(report.cost_after, report.cost_before);
  EXPECT_EQ(*report.latency_after, *report.latency_before);
  EXPECT_THAT(report.rewrites, SizeIs(0));
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kNotFaster);
  EXPECT_THAT(report.verdict, HasSubstr("no candidate is measurably faster"));
}

TEST_F(OptimizeTest, GivesTheOriginalBackWhenNothingApplies) {
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized("rule r tanh(tanh(x)) => tanh(x)\n", &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_THAT(report.verdict, HasSubstr("no rewrite makes it cheaper"));
  EXPECT_FALSE(report.latency_before.has_value());
}

TEST_F(OptimizeTest, AWrongRuleIsCaughtByItsOutputs) {
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kWrong, &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_TRUE(Has(report.graph, "exp", 1));
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kOutputsDiffer);
  EXPECT_EQ(report.dropped[0].rewrites[0].rule, "no-exp");
  EXPECT_THAT(report.dropped[0].text, HasSubstr("output y: worst at ["));
  EXPECT_THAT(report.verdict, HasSubstr("outputs differ because of rule no-exp"));
  EXPECT_THAT(report.blamed, ElementsAre("no-exp"));
}

TEST_F(OptimizeTest, TheRuleAtFaultIsFoundAndDoneWithout) {
  FakeRunner runner(ByNodes);
  const OptimizeReport report =
      Optimized(std::string(kWrong) + "rule no-matmul\n matmul(x, w) => x\n" + kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_THAT(report.blamed, UnorderedElementsAre("no-exp", "no-matmul"));
  EXPECT_EQ(report.graph.num_runtime_nodes(), 3);
  EXPECT_TRUE(Has(report.graph, "relu", 1));
  EXPECT_THAT(report.dropped, SizeIs(2));
  EXPECT_THAT(report.rewrites, SizeIs(1));
}

TEST_F(OptimizeTest, AnAnalyticDeviceNeedsNoRunner) {
  options_.measure = false;
  const OptimizeReport report = Optimized(kRight, nullptr);
  EXPECT_TRUE(report.rewritten);
  EXPECT_FALSE(report.latency_before.has_value());
  EXPECT_TRUE(report.check.done);
  EXPECT_THAT(report.verdict, HasSubstr("cost lower by 1.333 times"));
  EXPECT_FALSE(Optimized(kWrong, nullptr).rewritten);
  // Too large for the interpreter: taken unchecked, and said so.
  options_.checking.interpreter_only_flops = 1;
  const OptimizeReport unchecked = Optimized(kRight, nullptr);
  EXPECT_TRUE(unchecked.rewritten);
  EXPECT_FALSE(unchecked.check.done);
  EXPECT_THAT(unchecked.check.text, HasSubstr("not checked"));

  const RuleIndex index = RulesFrom(kRight);
  RuleRewriter rewriter(index);
  options_.measure = true;
  EXPECT_THAT(std::string(Optimize(graph_, rewriter, device_, nullptr, options_).status().message()),
              HasSubstr("cannot be timed without a runner"));
}

// ---------------------------------------------------------------- the baseline as a second start

constexpr char kNothing[] = "rule r tanh(tanh(x)) => tanh(x)\n";

TEST_F(OptimizeTest, TheBaselineCountsWhereTheSearchHasNoTime) {
  const Baseline baseline = BaselineFrom(kRight);
  options_.baseline = &baseline;
  options_.search.time_limit_seconds = 0;
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_TRUE(report.baseline);
  EXPECT_EQ(report.graph.num_runtime_nodes(), 3);
  ASSERT_THAT(report.path, SizeIs(1));
  const TraceStep& step = report.search.trace[report.path[0]];
  EXPECT_EQ(step.rule, "relu-twice");
  EXPECT_NEAR(step.cost_before, 4e-3, 1e-9);
  EXPECT_NEAR(step.cost_after, 3e-3, 1e-9);
  EXPECT_EQ(PrintGraph(GraphAt(report.search, graph_, report.path[0])), PrintGraph(report.graph));
}

TEST_F(OptimizeTest, TheSearchGoesOnFromTheBaseline) {
  // The search gains only from exp of a tanh, and only the baseline makes a tanh.
  const Baseline baseline = BaselineFrom("rule to-tanh\n relu(relu(x)) => tanh(x)\n");
  options_.baseline = &baseline;
  options_.check = false;
  options_.measure = false;
  const OptimizeReport report = Optimized("rule exp-of-tanh\n exp(tanh(x)) => exp(x)\n", nullptr);
  EXPECT_FALSE(report.baseline);
  EXPECT_EQ(report.graph.num_runtime_nodes(), 2);
  EXPECT_THAT(report.rewrites, SizeIs(2));
}

TEST_F(OptimizeTest, ABaselineThatTheDeviceCallsDearerIsTimedAllTheSame) {
  const Baseline baseline = BaselineFrom("rule relu-as-abs\n relu(relu(x)) => abs(relu(x))\n");
  options_.baseline = &baseline;
  device_ = FakeDevice({{"abs", 9}});
  FakeRunner runner([](const Graph& graph) { return Has(graph, "abs", 1) ? 50e-6 : 100e-6; });
  const OptimizeReport report = Optimized(kNothing, &runner);
  EXPECT_TRUE(report.baseline);
  EXPECT_NEAR(report.cost_after, 12e-3, 1e-9);
  EXPECT_LT(*report.latency_after, *report.latency_before);
  // If nothing is timed the device's costs decide.
  options_.measure = false;
  EXPECT_FALSE(Optimized(kNothing, nullptr).rewritten);
}

TEST_F(OptimizeTest, ASlowerBaselineIsDropped) {
  const Baseline baseline = BaselineFrom(kRight);
  options_.baseline = &baseline;
  FakeRunner runner([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  const OptimizeReport report = Optimized(kNothing, &runner);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_TRUE(report.dropped[0].baseline);
}

TEST_F(OptimizeTest, AWrongRuleOfTheBaselineIsDoneWithout) {
  const Baseline baseline = BaselineFrom(std::string(kWrong) + kRight);
  options_.baseline = &baseline;
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kNothing, &runner);
  EXPECT_THAT(report.blamed, ElementsAre("no-exp"));
  EXPECT_TRUE(report.baseline);
  EXPECT_EQ(report.graph.num_runtime_nodes(), 3);
  EXPECT_TRUE(Has(report.graph, "exp", 1));
}

TEST_F(OptimizeTest, ABaselineThatTheDeviceCannotRunIsLeftOut) {
  const Baseline baseline = BaselineFrom("rule to-tanh\n relu(relu(x)) => tanh(x)\n");
  options_.baseline = &baseline;
  device_.unsupported = {"tanh"};
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_FALSE(report.baseline);
  EXPECT_THAT(report.search.candidates, SizeIs(1));
}

TEST_F(OptimizeTest, AStoppedSearchStillComparesAndMeasures) {
  std::atomic<bool> stop = false;
  options_.search.stop = &stop;
  options_.search.progress = [&](const SearchProgress&) { stop = true; };
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_EQ(report.search.end, SearchEnd::kStopped);
  EXPECT_TRUE(report.rewritten);
  EXPECT_TRUE(report.check.equal);
}

// ---- bytes of weights

// A weight that the product of its transpose reads too: with the scale in it, it is written twice.
constexpr char kTied[] = R"(
  input x: f32[4,32]
  state w: f32[64,32]
  const %9: f32[] = [2]
  %0 = transpose(w, perm=[1, 0])
  %1 = matmul(x, %0)
  %2 = mul(%1, %9)
  %3 = matmul(%2, w)
  output y = %3
)";
constexpr char kAbsorb[] = R"(
rule absorb-scale
  mul(matmul(x[m, k], y[k, n]), 2) => matmul(x, mul(y, 2))
  when weight(y)
)";

TEST_F(OptimizeTest, AWeightThatIsWrittenTwiceHasToGainAsMuch) {
  const RuleIndex index = RulesFrom(kAbsorb), others = RulesFrom(kRight);
  const Graph tied = GraphFrom(kTied);
  options_.measure = false;
  const auto rewritten = [&](double growth, FakeDevice device, bool as_baseline) {
    options_.search.growth = growth;
    RuleRewriter rewriter(as_baseline ? others : index);
    const Baseline baseline = BaselineFrom(kAbsorb);
    options_.baseline = as_baseline ? &baseline : nullptr;
    const absl::StatusOr<OptimizeReport> report = Optimize(tied, rewriter, device, nullptr, options_);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() && report->rewritten;
  };
  options_.check = false;
  const double unlimited = std::numeric_limits<double>::infinity();
  const FakeDevice third, most({{"mul", 100}});  // of the time goes into the multiplication
  for (const bool as_baseline : {false, true}) {
    EXPECT_FALSE(rewritten(kDefaultGrowth, third, as_baseline));
    EXPECT_FALSE(rewritten(kDefaultGrowth, most, as_baseline));
    EXPECT_TRUE(rewritten(unlimited, third, as_baseline));
    EXPECT_TRUE(rewritten(2, most, as_baseline));
  }
  EXPECT_FALSE(rewritten(2, third, false));  // twice the bytes for two thirds of the time
}

// ---- rewrites for nothing

constexpr char kSquare[] = R"(
  input x: f32[4,8]
  const %9: f32[] = [2]
  %0 = pow(x, %9)
  %1 = relu(%0)
  %2 = relu(%1)
  output y = %2
)";
constexpr char kSquareRule[] = "rule square\n pow(x[b..], 2) => mul(x, x)\n";

TEST_F(OptimizeTest, RewritesThatGainNothingAreLeftOut) {
  const std::string rules = absl::StrCat(kSquareRule, kRight);
  const Baseline baseline = BaselineFrom(rules);
  const RuleIndex index(baseline.matchers());
  RuleRewriter rewriter(index);
  options_.baseline = &baseline;
  options_.rules = &index;
  FakeRunner runner(ByNodes);
  const Graph graph = GraphFrom(kSquare);
  absl::StatusOr<OptimizeReport> report = Optimize(graph, rewriter, device_, &runner, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->rewritten);
  ASSERT_THAT(report->rewrites, SizeIs(1));
  EXPECT_EQ(report->rewrites[0].rule, "relu-twice");
  EXPECT_TRUE(Has(report->graph, "pow", 1));
  // A rewrite that gains stays.
  FakeDevice dear({{"pow", 2}});
  report = Optimize(graph, rewriter, dear, &runner, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(Has(report->graph, "pow", 0));
}

// A scale of more than a kilobyte, and two products behind it; each is written anew with the scale in its weight, which
// saves the bytes of the scale.
constexpr char kScaled[] = R"(
  input x: f32[4,320]
  state c: f32[320]
  state v: f32[320,64]
  state w: f32[320,64]
  %0 = mul(x, c)
  %1 = matmul(%0, v)
  %2 = matmul(%0, w)
  %3 = add(%1, %2)
  %4 = relu(%3)
  %5 = relu(%4)
  output y = %5
)";
constexpr char kAbsorbScale[] = R"(
rule absorb-input-scale
  matmul(mul(x[m, k], c[k]), w[k, n]) => matmul(x, mul(w, reshape(c, shape=[k, 1])))
  when weight(w) and weight(c)
)";

TEST_F(OptimizeTest, NewWeightsGainMoreThanCostsErrBy) {
  const Baseline baseline = BaselineFrom(absl::StrCat(kAbsorbScale, kRight));
  const RuleIndex index(baseline.matchers());
  options_.baseline = &baseline;
  options_.rules = &index;
  FakeRunner runner(ByNodes);
  const Graph graph = GraphFrom(kScaled);
  const auto scales = [&](double milliseconds) {
    FakeDevice device({{"mul", milliseconds}});
    RuleRewriter rewriter(index);
    const absl::StatusOr<OptimizeReport> report = Optimize(graph, rewriter, device, &runner, options_);
    EXPECT_TRUE(report.ok() && report->rewritten) << report.status();
    return report.ok() ? report->rewrites.size() - 1 : 0;
  };
  EXPECT_EQ(scales(0.03), 0u) << "0.7 % of the time";
  EXPECT_EQ(scales(0.06), 1u) << "1.5 %";
}

TEST_F(OptimizeTest, StepsThatAreNotWantedAreLeftOut) {
  const Baseline baseline = BaselineFrom(kRight);
  const RuleIndex index(baseline.matchers());
  options_.rules = &index;
  options_.unwanted = [](const Replay&, const std::vector<ReplayStep>& steps) {
    std::vector<int> unwanted;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].rule == "relu-twice") unwanted.push_back(static_cast<int>(i));
    }
    return unwanted;
  };
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_THAT(report.unwanted, ElementsAre("relu-twice"));
  EXPECT_EQ(PrintGraph(report.graph), PrintGraph(graph_));
}

}  // namespace
}  // namespace rewright
