// The rule-based baseline on models of the zoo: it ends, and outputs stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/compare.h"
#include "core/ir/random_inputs.h"
#include "core/ir/text.h"
#include "search/optimize.h"
#include "search/replay.h"
#include "substitutions/baseline/baseline.h"
#include "tools/rules.h"

namespace rewright {
namespace {

struct Model {
  const char* name;
  ZooOptions options;
  std::vector<std::string> rules;  // that must have been used, among others
};

std::vector<Model> Models() {
  return {{"resnet50", {.image_size = 32}, {"conv-absorb-batch-norm", "max-pool-of-relu"}},
          {"squeezenet", {.image_size = 64}, {"concat-of-relus"}},
          {"inception_v3", {.image_size = 75}, {"conv-absorb-batch-norm", "conv-bias-merge-shared-input-three"}},
          {"mobilenet_v2", {.image_size = 32}, {"conv-absorb-batch-norm"}},
          {"bert_base",
           {.sequence_length = 8, .layers = 1},
           {"gelu-from-erf", "linear-merge-shared-input-three", "div-as-mul"}},
          {"gpt2_small", {.sequence_length = 8, .layers = 1}, {}},
          {"taso_nasrnn", {.layers = 2}, {"matmul-merge-shared-lhs-three"}}};
}

std::vector<Tensor> Values(const Graph& graph) {
  absl::flat_hash_map<std::string, Tensor> inputs;
  const std::vector<Tensor> tensors = *RandomInputs(graph, 1);
  for (size_t i = 0; i < tensors.size(); ++i) inputs[graph.node(graph.inputs()[i].node).name] = tensors[i];
  const auto values = InterpretGraph(graph, inputs);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<Tensor>();
}

TEST(BaselineZooTest, KeepsOutputs) {
  const absl::StatusOr<Baseline> baseline = Baseline::Load();
  ASSERT_TRUE(baseline.ok()) << baseline.status();
  for (const Model& model : Models()) {
    const absl::StatusOr<Graph> graph = BuildZooModel(model.name, model.options);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const absl::StatusOr<BaselineResult> result = baseline->Apply(*graph);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->fixed_point) << model.name;
    EXPECT_LE(result->graph.num_runtime_nodes(), graph->num_runtime_nodes());
    std::vector<std::string> used;
    for (const BaselineCount& count : result->rewrites) used.push_back(count.rule);
    for (const std::string& rule : model.rules) EXPECT_THAT(used, ::testing::Contains(rule)) << model.name;
    const std::vector<Tensor> before = Values(*graph), after = Values(result->graph);
    for (size_t i = 0; i < before.size(); ++i) {
      double largest = 0;
      for (int64_t k = 0; k < before[i].num_elements(); ++k) largest = std::max(largest, std::abs(before[i].At(k)));
      const Comparison difference = Compare(after[i], before[i], 1e-3, 1e-4 * largest);
      EXPECT_TRUE(difference.close) << model.name << ": " << difference.text;
    }
  }
}

TEST(BaselineZooTest, ASearchThatStartsFromItHasItsGraphAndItsSteps) {
  absl::StatusOr<OptimizerRules> rules = LoadOptimizerRules({});
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_TRUE(rules->baseline.has_value());
  const auto device = MakeDevice("analytic:v100");
  ASSERT_TRUE(device.ok()) << device.status();
  for (const Model& model : Models()) {
    const absl::StatusOr<Graph> graph = BuildZooModel(model.name, model.options);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const absl::StatusOr<BaselineResult> alone = rules->baseline->Apply(*graph);
    ASSERT_TRUE(alone.ok()) << alone.status();
    if (alone->steps == 0) continue;
    OptimizeOptions options;
    options.baseline = &*rules->baseline;
    options.search.time_limit_seconds = 0;
    options.measure = false;
    options.check = false;
    RuleRewriter rewriter(rules->rules);
    const absl::StatusOr<OptimizeReport> report = Optimize(*graph, rewriter, **device, nullptr, options);
    ASSERT_TRUE(report.ok()) << report.status();
    const std::vector<Candidate>& candidates = report->search.candidates;
    const auto second =
        std::find_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.second_start; });
    ASSERT_NE(second, candidates.end()) << model.name;
    EXPECT_EQ(second->graph.CanonicalHash(), alone->graph.CanonicalHash()) << model.name;
    const std::vector<int> path = PathTo(report->search.trace, second->step);
    EXPECT_EQ(static_cast<int64_t>(path.size()), alone->steps) << model.name;
    const auto steps = MakeReplay(*graph, report->search.trace, path, rules->all);
    ASSERT_TRUE(steps.ok()) << model.name << ": " << steps.status();
    const auto replay = Replay::Run(*graph, *steps, rules->all);
    ASSERT_TRUE(replay.ok()) << model.name << ": " << replay.status();
    EXPECT_EQ(replay->At(replay->num_steps()).CanonicalHash(), alone->graph.CanonicalHash());
  }
}

TEST(BaselineZooTest, FlagsSayWhetherThereIsOneAndOfWhichRules) {
  RuleFlags flags;
  flags.disabled = {"pow-one"};  // a rule that the baseline alone has
  absl::StatusOr<OptimizerRules> rules = LoadOptimizerRules(flags);
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto names = [](const OptimizerRules& of) {
    std::vector<std::string> all;
    for (const auto& matcher : of.all.matchers()) all.push_back(matcher->rule().name());
    return all;
  };
  EXPECT_THAT(names(*rules), ::testing::Not(::testing::Contains("pow-one")));
  EXPECT_THAT(names(*rules), ::testing::Contains("add-of-expand"));
  flags.disabled = {"no-such-rule"};
  EXPECT_FALSE(LoadOptimizerRules(flags).ok());
  flags.disabled.clear();
  flags.exact = true;
  rules = LoadOptimizerRules(flags);
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const auto& matcher : rules->all.matchers()) {
    EXPECT_EQ(matcher->rule().rule().proof->rule_class, RuleClass::kExact) << matcher->rule().name();
  }
  flags.baseline = false;
  EXPECT_FALSE(LoadOptimizerRules(flags)->baseline.has_value());
  flags.baseline.reset();
  flags.files = {*FindRuleFile("core.rules")};
  EXPECT_FALSE(LoadOptimizerRules(flags)->baseline.has_value());
  flags.baseline = true;
  EXPECT_TRUE(LoadOptimizerRules(flags)->baseline.has_value());
}

}  // namespace
}  // namespace rewright
