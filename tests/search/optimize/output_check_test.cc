#include "search/optimize/output_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/search/optimize/optimize_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace rewright
