#include "search/optimize/optimize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/optimize/output_check.h"
#include "tests/search/fake_device_util.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kGraph[] = R"(
  input x: f32[4,8]
  state w: f32[8,8]
  %0 = matmul(x, w)
  %1 = relu(%0)
  %2 = relu(%1)
  %3 = exp(%2)
  output y = %3
)";

constexpr char kRight[] = "rule relu-twice\n relu(relu(x)) => relu(x)\n";
constexpr char kWrong[] = "rule no-exp\n exp(x) => x\n";

bool Has(const Graph& graph, const std::string& op, int count) {
  for (NodeId id : graph.nodes()) count -= graph.node(id).op != nullptr && graph.node(id).op->name == op;
  return count == 0;
}

class OptimizeTest : public ::testing::Test {
 protected:
  OptimizeTest() { options_.measuring.clock = FakeSeconds; }

  OptimizeReport Optimized(const std::string& rules, GraphRunner* runner) {
    const RuleIndex index = RulesFrom(rules);
    RuleRewriter rewriter(index);
    absl::StatusOr<OptimizeReport> report = Optimize(graph_, rewriter, device_, runner, options_);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : OptimizeReport();
  }

  const Graph graph_ = GraphFrom(kGraph);
  FakeDevice device_;
  OptimizeOptions options_;
};

// A run of n nodes takes n times 20 microseconds.
double ByNodes(const Graph& graph) { return 20e-6 * graph.num_runtime_nodes(); }

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

TEST_F(OptimizeTest, TakesBackWhatAnotherMeasurementDoesNotConfirm) {
  FakeRunner runner(ByNodes);
  OptimizeReport report = Optimized(kRight, &runner);
  ASSERT_TRUE(report.rewritten);
  report.measured = Measurement{.original_seconds = 3, .candidate_seconds = 4};
  report.moved_comparisons = 1;
  RevertToOriginal(graph_, "its file is not measurably faster", &report);
  EXPECT_EQ(report.moved_comparisons, 0);
  EXPECT_FALSE(report.rewritten);
  EXPECT_EQ(PrintGraph(report.graph), PrintGraph(graph_));
  EXPECT_EQ(report.nodes_after, 4);
  EXPECT_EQ(report.cost_after, report.cost_before);
  EXPECT_EQ(*report.latency_before, 3);
  EXPECT_EQ(*report.latency_after, 3);
  EXPECT_THAT(report.rewrites, SizeIs(0));
  EXPECT_THAT(report.path, SizeIs(0));
  EXPECT_FALSE(report.check.done);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kNotFaster);
  ASSERT_THAT(report.dropped[0].rewrites, SizeIs(1));
  EXPECT_EQ(report.verdict, "the original: its file is not measurably faster");
}

class MeasurementsInMemory : public MeasurementCache {
 public:
  absl::StatusOr<std::optional<Measurement>> Find(const Graph&, const Graph& candidate) override {
    const auto found = kept.find(candidate.CanonicalHash());
    return found == kept.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(const Graph&, const Graph& candidate, const Measurement& measured) override {
    kept[candidate.CanonicalHash()] = measured;
  }
  absl::StatusOr<double> LimitThatEnded(const Graph&, const std::string& setting) override { return limits[setting]; }
  void KeepLimit(const Graph&, const std::string& setting, double seconds) override {
    limits[setting] = std::max(limits[setting], seconds);
  }
  void MeasureNew(bool measure) override { measures.push_back(measure); }

  std::map<uint64_t, Measurement> kept;
  std::map<std::string, double> limits;
  std::vector<bool> measures;  // the arguments of MeasureNew
};

TEST_F(OptimizeTest, SaysThatTheMachineIsTooBusyToTell) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  int calls = 0;
  double clock = 0;
  options_.measuring.clock = [&] { return clock += ++calls / 2 % 2 == 0 ? 9 : 3; };  // every second run is slow
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kInconclusive);
  EXPECT_THAT(report.verdict, HasSubstr("too busy to tell"));
  // It is measured again, since there is time for it.
  options_.measuring.clock = FakeSeconds;
  EXPECT_TRUE(Optimized(kRight, &runner).rewritten);
}

TEST_F(OptimizeTest, WhatWasNotFasterIsNotTimedAgain) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  FakeRunner slower([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  EXPECT_FALSE(Optimized(kRight, &slower).rewritten);
  ASSERT_THAT(kept.kept, SizeIs(1));
  // A runner for which it would be faster is not asked.
  FakeRunner faster(ByNodes);
  const OptimizeReport report = Optimized(kRight, &faster);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_THAT(report.dropped[0].text, HasSubstr("in an earlier run"));
}

TEST_F(OptimizeTest, ARunThatItsLimitEndedIsRepeatedUnlessThereIsMoreTime) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  options_.setting = "rules";
  options_.time_limit = 10;
  options_.measuring.least_seconds = 0;
  double left = 1;
  options_.seconds_left = [&] { return left -= 0.1; };
  FakeRunner runner(ByNodes);
  const OptimizeReport ended = Optimized(kRight, &runner);
  EXPECT_FALSE(ended.rewritten);
  EXPECT_THAT(ended.verdict, HasSubstr("there was no time to tell"));
  EXPECT_EQ(kept.limits["rules"], 10);
  options_.seconds_left = [] { return 1000.0; };
  const OptimizeReport repeated = Optimized(kRight, &runner);
  EXPECT_TRUE(repeated.repeated);
  EXPECT_FALSE(repeated.rewritten);
  EXPECT_THAT(repeated.verdict, HasSubstr("in an earlier run"));
  EXPECT_THAT(kept.measures, ElementsAre(true, true, false, true));
  // Other rules, more time.
  options_.setting = "others";
  EXPECT_TRUE(Optimized(kRight, &runner).rewritten);
  options_.setting = "rules";
  options_.time_limit = 20;
  const OptimizeReport longer = Optimized(kRight, &runner);
  EXPECT_FALSE(longer.repeated);
  EXPECT_TRUE(longer.rewritten);
}

TEST_F(OptimizeTest, WhatWasFasterIsTimedAgain) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  FakeRunner faster(ByNodes);
  EXPECT_TRUE(Optimized(kRight, &faster).rewritten);
  EXPECT_TRUE(Optimized(kRight, &faster).rewritten);
  FakeRunner slower([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  const OptimizeReport report = Optimized(kRight, &slower);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].text.find("earlier"), std::string::npos);
  EXPECT_LT(kept.kept.begin()->second.ratio, 1);
}

// A caller may ask for fewer pairs than a confirmation takes at least.
TEST_F(OptimizeTest, WhatWasFasterIsConfirmedInAFewPairsHoweverFewAreAskedFor) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  FakeRunner runner(ByNodes);
  EXPECT_TRUE(Optimized(kRight, &runner).rewritten);
  options_.measuring.pairs = 1;
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  ASSERT_TRUE(report.measured.has_value());
  EXPECT_EQ(report.measured->wins, 2) << "the majority of three";
}

TEST_F(OptimizeTest, WhatWasFasterIsRunAsItsFileGivesIt) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  std::string text = kGraph;
  Graph file;
  int files = 0;
  options_.as_file = [&](const Graph& rewritten, const std::vector<TraceStep>& trace, const std::vector<int>& path) {
    EXPECT_TRUE(Has(rewritten, "relu", 1));
    EXPECT_THAT(path, SizeIs(1));
    EXPECT_EQ(trace[path[0]].rule, "relu-twice");
    ++files;
    file = GraphFrom(text);
    return std::optional(GraphInFile{file, {}});
  };
  std::set<const Arena*> compiled;
  FakeRunner runner([&](const Graph& graph) {
    compiled.insert(graph.arena().get());
    return file.arena() != nullptr && graph.arena() == file.arena() ? 1e-6 : ByNodes(graph);
  });
  EXPECT_FALSE(Optimized(kRight, &runner).as_file);
  EXPECT_EQ(files, 0);  // in a first run the graph itself is compared
  const OptimizeReport again = Optimized(kRight, &runner);
  EXPECT_TRUE(again.rewritten && again.as_file && again.check.done);
  EXPECT_EQ(files, 1);
  EXPECT_TRUE(compiled.contains(file.arena().get()));
  EXPECT_NEAR(*again.latency_after, 1e-6, 1e-9);  // the file's time
  // A file that is something else is a candidate dropped, with these words.
  text.replace(text.find("exp"), 3, "sin");
  const RuleIndex index = RulesFrom(kRight);
  RuleRewriter rewriter(index);
  const absl::StatusOr<OptimizeReport> other = Optimize(graph_, rewriter, device_, &runner, options_);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->rewritten);
  ASSERT_THAT(other->dropped, SizeIs(1));
  EXPECT_THAT(other->dropped[0].text, HasSubstr("the outputs of the model to be written differ: output y"));
}

// The check reads the weights as they were computed for the file.
TEST(OutputChecker, LooksAtWeightsAsTheyWereComputed) {
  const Graph original = *ParseGraph("input x: f32[2]\n%0 = relu(x)\noutput y = %0\n");
  Tensor large(TensorType{DType::kFloat32, {2}}), one(large.type());
  for (int i = 0; i < 2; ++i) {
    large.Set(i, 1e30);
    one.Set(i, 1);
  }
  const Graph written =
      *ParseGraph("input x: f32[2]\nstate w: f32[2]\n%0 = mul(w, w)\n%1 = add(x, %0)\noutput y = %1\n", {{"w", large}});
  OutputChecker checker(original, nullptr, {});
  const auto fault = checker.Check(original, {.written = &written});
  ASSERT_TRUE(fault.ok()) << fault.status();
  EXPECT_EQ(fault->text, "weights of type f32[2] computed beforehand overflow");
  const ComputedWeights computed = {{FoldedValues(written)[0], one}};
  EXPECT_TRUE(checker.Check(original, {.written = &written, .computed = &computed})->equal);
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

TEST_F(OptimizeTest, LargeGraphsAreComparedWithTheOriginalOnTheDevice) {
  options_.checking.interpreter_flops = 0;
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kWrong, &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kOutputsDiffer);
}

// A runner that loses NaN, as fused activations of libraries do.
class ForgetfulRunner : public GraphRunner {
 public:
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override {
    absl::StatusOr<std::unique_ptr<Executable>> inner = runner_.Prepare(graph);
    if (!inner.ok()) return inner.status();
    return std::unique_ptr<Executable>(std::make_unique<Forgetful>(*std::move(inner)));
  }

 private:
  struct Forgetful : Executable {
    explicit Forgetful(std::unique_ptr<Executable> executable) : inner(std::move(executable)) {}
    absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
      absl::Status status = inner->Run(inputs, outputs);
      for (Tensor& output : *outputs) {
        for (int64_t i = 0; i < output.num_elements(); ++i) {
          if (std::isnan(output.At(i))) output.Set(i, 0);
        }
      }
      return status;
    }
    int64_t arena_bytes() const override { return 0; }
    int64_t peak_live_bytes() const override { return 0; }
    std::unique_ptr<Executable> inner;
  };
  FakeRunner runner_{ByNodes};
};

// Counts how graphs are compiled.
class CountingRunner : public GraphRunner {
 public:
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override {
    ++plain;
    return runner_.Prepare(graph);
  }
  absl::StatusOr<std::unique_ptr<Executable>> PrepareSparing(const Graph& graph) override {
    ++sparing;
    return runner_.Prepare(graph);
  }
  int plain = 0, sparing = 0;

 private:
  FakeRunner runner_{ByNodes};
};

TEST_F(OptimizeTest, ACheckCompilesEachGraphOnceForAFewRuns) {
  const Graph graph = GraphFrom("input x: f32[4]\nstate w: f32[4]\n%0 = mul(x, w)\noutput y = %0\n");
  CountingRunner runner;
  OutputCheckOptions options;
  options.interpreter_flops = 0;
  OutputChecker checker(graph, &runner, options);
  for (const int compiled : {2, 3}) {  // the original, and each candidate
    const absl::StatusOr<OutputCheck> check = checker.Check(graph);
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_TRUE(check->equal);
    EXPECT_EQ(runner.sparing, compiled);
  }
  EXPECT_EQ(runner.plain, 0);
}

// Counts executables that are alive together.
class LiveRunner : public GraphRunner {
 public:
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override {
    absl::StatusOr<std::unique_ptr<Executable>> inner = runner_.Prepare(graph);
    if (!inner.ok()) return inner.status();
    return std::unique_ptr<Executable>(std::make_unique<Live>(*std::move(inner), this));
  }
  int alive = 0, most = 0, made = 0;

 private:
  struct Live : Executable {
    Live(std::unique_ptr<Executable> executable, LiveRunner* counts) : inner(std::move(executable)), runner(counts) {
      ++runner->made;
      runner->most = std::max(runner->most, ++runner->alive);
    }
    ~Live() override { --runner->alive; }
    absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
      return inner->Run(inputs, outputs);
    }
    int64_t arena_bytes() const override { return 0; }
    int64_t peak_live_bytes() const override { return 0; }
    std::unique_ptr<Executable> inner;
    LiveRunner* runner;
  };
  FakeRunner runner_{ByNodes};
};

// The candidate that was timed last is not alive beside the best one, whose outputs are compared: each may have folded
// weights of its own.
TEST_F(OptimizeTest, OneCandidateAtATimeIsCompiled) {
  const Graph graph = GraphFrom("input x: f32[4]\n%0 = relu(x)\n%1 = relu(%0)\n%2 = relu(%1)\noutput y = %2\n");
  const RuleIndex rules = RulesFrom(kRight);
  RuleRewriter rewriter(rules);
  LiveRunner runner;
  options_.checking.interpreter_flops = 0;  // outputs are compared on the device
  const absl::StatusOr<OptimizeReport> report = Optimize(graph, rewriter, device_, &runner, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes_after, 1);
  EXPECT_GE(runner.made, 4);  // the original, two candidates, the best one again
  EXPECT_EQ(runner.most, 2);
}

TEST_F(OptimizeTest, ADeviceThatLeavesTheInterpreterOnTheOriginalIsComparedWithItself) {
  const Graph graph = GraphFrom("input x: f32[4]\n%0 = log(x)\n%1 = relu(%0)\n%2 = relu(%1)\noutput y = %2\n");
  ForgetfulRunner runner;
  OutputChecker checker(graph, &runner, {});
  const absl::StatusOr<OutputCheck> same = checker.Check(graph);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->equal);
  EXPECT_THAT(same->device_fault, HasSubstr("nan"));
  const Graph other = GraphFrom("input x: f32[4]\n%0 = exp(x)\noutput y = %0\n");
  EXPECT_FALSE(checker.Check(other)->equal);
}

TEST_F(OptimizeTest, NumbersThatOverflowOrVanishAreNotComputed) {
  const RuleIndex rules = RulesFrom("rule fold\n mul(mul(x[a..], ?a), ?b) => mul(x, scalar(?a * ?b))\n");
  const auto text = [](const std::string& number) {
    return absl::StrCat("input x: f32[4]\nconst %0: f32[] = [", number, "]\n%1 = mul(x, %0)\n%2 = mul(%1, %0)\n",
                        "output y = %2\n");
  };
  for (const auto& [number, folds] : {std::pair("1e10", true), {"1e30", false}, {"1e-30", false}}) {
    const Graph graph = GraphFrom(text(number));
    RuleRewriter rewriter(rules);
    const absl::StatusOr<OptimizeReport> report = Optimize(graph, rewriter, device_, nullptr, {.measure = false});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->rewritten, folds) << number;
    EXPECT_EQ(rewriter.failures(), 0);
  }
}

TEST_F(OptimizeTest, WeightsThatOverflowOrVanishAreDropped) {
  const RuleIndex rules =
      RulesFrom("rule fold\n mul(mul(x[a..], y[a..]), z[a..]) => mul(x, mul(y, z))\n when weight(y) and weight(z)\n");
  for (const auto& [number, folds] : {std::pair(1e10, true), {1e30, false}, {1e-30, false}}) {
    auto arena = std::make_shared<Arena>();
    Tensor weight(TensorType{DType::kFloat32, {4}});
    for (int64_t i = 0; i < 4; ++i) weight.Set(i, number);
    const Value x = *arena->AddInput("x", weight.type());
    const Value w = *arena->AddState("w", weight);
    const Value product = *arena->Apply("mul", {*arena->Apply("mul", {x, w}, {}), w}, {});
    const Graph graph(arena, {x}, {{product, "y"}});
    RuleRewriter rewriter(rules);
    FakeRunner runner(ByNodes);
    const absl::StatusOr<OptimizeReport> report = Optimize(graph, rewriter, device_, &runner, {.measure = false});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->rewritten, folds) << number;
  }
}

TEST_F(OptimizeTest, WeightsThatAreZeroByRightAreTaken) {
  const RuleIndex rules = RulesFrom(
      "rule fold\n mul(mul(x[a..], y[a..]), relu(z[a..])) => mul(x, mul(y, relu(z)))\n when weight(y) and weight(z)\n");
  auto arena = std::make_shared<Arena>();
  Tensor weight(TensorType{DType::kFloat32, {4}});
  for (int64_t i = 0; i < 4; ++i) weight.Set(i, -1);
  const Value x = *arena->AddInput("x", weight.type());
  const Value w = *arena->AddState("w", weight);
  const Value product = *arena->Apply("mul", {*arena->Apply("mul", {x, w}, {}), *arena->Apply("relu", {w}, {})}, {});
  const Graph graph(arena, {x}, {{product, "y"}});
  RuleRewriter rewriter(rules);
  FakeRunner runner(ByNodes);
  const absl::StatusOr<OptimizeReport> report = Optimize(graph, rewriter, device_, &runner, {.measure = false});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->rewritten);
}

TEST_F(OptimizeTest, RoundingErrorsOfTheOriginalAreAllowedFor) {
  const auto sum = [&](const std::string& constant) {
    return GraphFrom(absl::StrCat("input x: f32[64]\nconst %0: f32[] = [", constant,
                                  "]\n%1 = add(x, %0)\n%2 = sub(%1, %0)\noutput y = %2\n"));
  };
  const Graph exact = GraphFrom("input x: f32[64]\n%0 = neg(x)\n%1 = neg(%0)\noutput y = %1\n");
  // (x + 2e4) - 2e4 has errors of 0.001, x has none; 2 x is wrong all the same.
  OutputChecker checker(sum("2e4"), nullptr, {});
  const absl::StatusOr<OutputCheck> check = checker.Check(exact);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_GT(check->max_abs_diff, 5e-4);
  EXPECT_TRUE(check->equal) << check->text;
  EXPECT_FALSE(checker.Check(GraphFrom("input x: f32[64]\n%0 = add(x, x)\noutput y = %0\n"))->equal);
  // Rounding as large as the result is intended, as in fake quantization: a candidate without it is wrong.
  for (const char* constant : {"1e6", "12582912"}) {
    EXPECT_FALSE(OutputChecker(sum(constant), nullptr, {}).Check(exact)->equal) << constant;
  }
}

// In 16 bits a finite element becomes infinite if a factor is moved behind a sum of products.
TEST_F(OptimizeTest, InputsOfOtherMagnitudesTell) {
  const Graph scaled = GraphFrom(
      "input x: f16[4,128]\ninput z: f16[128,8]\nconst %0: f16[] = [0.0884]\n%1 = mul(x, %0)\n%2 = matmul(%1, z)\n"
      "output y = %2\n");
  const Graph behind = GraphFrom(
      "input x: f16[4,128]\ninput z: f16[128,8]\nconst %0: f16[] = [0.0884]\n%1 = matmul(x, z)\n%2 = mul(%1, %0)\n"
      "output y = %2\n");
  const Graph apart = GraphFrom(
      "input x: f16[64]\ninput z: f16[64]\ninput w: f16[64]\n%0 = mul(x, w)\n%1 = mul(z, w)\n%2 = add(%0, %1)\n"
      "output y = %2\n");
  const Graph factored = GraphFrom(
      "input x: f16[64]\ninput z: f16[64]\ninput w: f16[64]\n%0 = add(x, z)\n%1 = mul(%0, w)\noutput y = %1\n");
  for (const auto& [original, candidate] : {std::pair(&scaled, &behind), std::pair(&apart, &factored)}) {
    const absl::StatusOr<OutputCheck> check = OutputChecker(*original, nullptr, {}).Check(*candidate);
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_FALSE(check->equal);
    EXPECT_THAT(check->text, HasSubstr("no numbers where the original's are"));
  }
  // The other way nothing is lost.
  EXPECT_TRUE(OutputChecker(behind, nullptr, {}).Check(scaled)->equal);
  // Squares of 0 and 1 are these numbers themselves.
  const absl::StatusOr<OutputCheck> square =
      OutputChecker(GraphFrom("input x: i32[8]\n%0 = mul(x, x)\noutput y = %0\n"), nullptr, {})
          .Check(GraphFrom("input x: i32[8]\n%0 = reshape(x, shape=[8])\noutput y = %0\n"));
  ASSERT_TRUE(square.ok()) << square.status();
  EXPECT_FALSE(square->equal);
}

// A bound that one of the graphs has, and that no ordinary number reaches.
TEST_F(OptimizeTest, InputsAroundTheNumbersOfGraphsTell) {
  const Graph bounded = GraphFrom("input x: f32[32]\n%0 = clip(x, min=-30000, max=1e9)\noutput y = %0\n");
  const Graph unbounded = GraphFrom("input x: f32[32]\n%0 = reshape(x, shape=[32])\noutput y = %0\n");
  for (const auto& [original, candidate] : {std::pair(&bounded, &unbounded), std::pair(&unbounded, &bounded)}) {
    const absl::StatusOr<OutputCheck> check = OutputChecker(*original, nullptr, {}).Check(*candidate);
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_FALSE(check->equal);
    EXPECT_THAT(check->text, HasSubstr("around the graph's own numbers"));
  }
  // Another order of a sum is apart by its rounding alone, which f64 tells.
  const std::string sum = "input x: f32[32]\nconst %0: f32[] = [1e8]\nconst %1: f32[] = [-1e8]\n";
  const Graph left = GraphFrom((sum + "%2 = add(x, %0)\n%3 = add(%2, %1)\noutput y = %3\n").c_str());
  const Graph right = GraphFrom((sum + "%2 = add(%0, %1)\n%3 = add(x, %2)\noutput y = %3\n").c_str());
  EXPECT_TRUE(OutputChecker(left, nullptr, {.atol = 100}).Check(right)->equal);
}

TEST_F(OptimizeTest, IntegersThatAreDividedByAreNotZero) {
  const Graph graph = GraphFrom("input x: i64[9]\ninput y: i64[9]\n%0 = div(x, y)\noutput z = %0\n");
  OutputChecker checker(graph, nullptr, {});
  const absl::StatusOr<OutputCheck> check = checker.Check(graph);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_TRUE(check->equal);
}

TEST_F(OptimizeTest, NextValuesOfStatesAreCompared) {
  const auto step = [](const std::string& next) {
    const std::string text = absl::StrCat("training\ninput x: f32[4]\nstate w: f32[4]\n%0 = mul(x, w)\n%1 = neg(x)\n",
                                          "%2 = ", next, "\noutput y = %0\nupdate w = %2\n");
    const auto graph =
        ParseGraph(text, {{"w", Tensor::FromVector(DType::kFloat32, {4}, std::vector<double>{1, 2, 3, 4})}});
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *graph;
  };
  FakeRunner runner(ByNodes);
  for (GraphRunner* engine : {static_cast<GraphRunner*>(&runner), static_cast<GraphRunner*>(nullptr)}) {
    OutputChecker checker(step("sub(w, x)"), engine, {});
    const auto same = checker.Check(step("add(w, %1)"));
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_TRUE(same->equal) << same->text;
    const auto other = checker.Check(step("add(w, x)"));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(other->equal);
    EXPECT_THAT(other->text, HasSubstr("output the next w"));
  }
}

TEST_F(OptimizeTest, TolerancesDecide) {
  options_.checking.atol = 1e30;
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kWrong, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_GT(report.check.max_abs_diff, 0);
  EXPECT_GT(report.check.max_rel_diff, 0);
}

// ---------------------------------------------------------------- the baseline as a second start

// A baseline of one pass with the given rules.
Baseline BaselineFrom(const std::string& rules) {
  const TemporaryFolder folder;
  std::string passes = "pass all\n";
  for (absl::string_view line : absl::StrSplit(rules, '\n')) {
    if (absl::ConsumePrefix(&line, "rule ")) absl::StrAppend(&passes, line, " a compiler\n");
  }
  WriteContents(folder / "passes.txt", passes);
  WriteContents(folder / "own.rules", rules);
  absl::StatusOr<Baseline> baseline =
      Baseline::Load(folder / "passes.txt", {folder / "own.rules"}, {.trust_unverified = true});
  EXPECT_TRUE(baseline.ok()) << baseline.status();
  return baseline.ok() ? *std::move(baseline) : Baseline();
}

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

// ---- limited time: the clock advances by runs and by the test

// Each cost takes a second, and there are three.
TEST_F(OptimizeTest, WithoutTimeForCostsTheOriginalComesBack) {
  FakeRunner runner([](const Graph&) -> double {
    ADD_FAILURE() << "nothing is run";
    return 1;
  });
  options_.seconds_left = [&] { return 1.5 - device_.cost_calls; };
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_EQ(report.verdict, "the original: the time limit came before the costs of its parts were known");
  EXPECT_EQ(device_.cost_calls, 1);  // the search may take 0.9 seconds
}

// Each cost takes a third of the time: only the baseline's graph can be timed, which needs none.
TEST_F(OptimizeTest, WithoutTimeForCostsTheBaselineIsTimedFirst) {
  const Baseline baseline = BaselineFrom(kRight);
  const RuleIndex rules(baseline.matchers());
  options_.baseline = &baseline;
  options_.rules = &rules;
  FakeRunner runner(ByNodes);
  options_.seconds_left = [&] { return 60.0 - 20 * device_.cost_calls; };
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten) << report.verdict;
  EXPECT_TRUE(report.baseline);
  EXPECT_EQ(report.nodes_after, 3);
  EXPECT_THAT(report.path, SizeIs(1));
  EXPECT_THAT(report.verdict, HasSubstr("times faster"));
  EXPECT_TRUE(report.check.done);
  // One that is not faster is not taken.
  device_.cost_calls = 0;
  FakeRunner slower([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  const OptimizeReport original = Optimized(kRight, &slower);
  EXPECT_FALSE(original.rewritten);
  EXPECT_GE(original.dropped.size(), 1);
}

// With time for all of it the search has the last word.
TEST_F(OptimizeTest, WhatIsTimedFirstIsNotTimedTwice) {
  const Baseline baseline = BaselineFrom(kRight);
  const RuleIndex rules(baseline.matchers());
  options_.baseline = &baseline;
  options_.rules = &rules;
  options_.seconds_left = [] { return 60.0; };
  std::vector<std::string> phases;
  options_.phase = [&](const std::string& phase) { phases.push_back(phase); };
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_THAT(phases, ElementsAre("searching", "timing the baseline's graph", "comparing outputs"));
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

TEST_F(OptimizeTest, TimingTakesAPartOfWhatIsLeft) {
  FakeRunner runner([](const Graph& graph) { return 0.5 * graph.num_runtime_nodes(); });
  const double start = FakeSeconds();
  options_.measuring.warmup = 0;
  options_.seconds_left = [&] { return 60 - (FakeSeconds() - start); };
  const OptimizeReport report = Optimized(kRight, &runner);
  ASSERT_TRUE(report.measured.has_value());
  // Pairs of 3.5 seconds, in half of a minute: too few would be no test, and 30 were too many.
  EXPECT_GE(report.measured->wins, 5);
  EXPECT_LE(report.measured->wins, 9);
  EXPECT_TRUE(report.rewritten) << report.verdict;
  EXPECT_LE(FakeSeconds() - start, 60);
}

// A candidate that was not checked is not returned.
TEST_F(OptimizeTest, WithoutTimeForTimingOrTheCheckTheOriginalComesBack) {
  FakeRunner runner(ByNodes);
  // The time is over as soon as the costs are known; the rewritten graph needs no others.
  options_.seconds_left = [&] { return device_.cost_calls < 3 ? 60.0 : -1.0; };
  for (const bool measure : {true, false}) {
    device_.cost_calls = 0;
    options_.measure = measure;
    const OptimizeReport report = Optimized(kRight, &runner);
    EXPECT_FALSE(report.rewritten);
    ASSERT_THAT(report.dropped, SizeIs(1));
    EXPECT_EQ(report.dropped[0].text,
              measure ? "no time was left to measure it" : "no time was left to compare its outputs");
  }
}

}  // namespace
}  // namespace rewright
