// The rule-based baseline on models of the zoo: it ends, and outputs stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "search/optimize/optimize.h"
#include "search/replay/replay.h"
#include "substitutions/baseline/baseline.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

struct Model {
  const char* name;
  ZooOptions options;
  std::vector<std::string> rules;  // that must have been used, among others
};

std::vector<Model> Models() {
  return {{"resnet50", {.image_size = 32}, {"conv-absorb-batch-norm", "max-pool-of-increasing"}},
          {"squeezenet", {.image_size = 64}, {"concat-of-elementwise"}},
          {"inception_v3", {.image_size = 75}, {"conv-absorb-batch-norm", "conv-bias-merge-shared-input-three"}},
          {"mobilenet_v2", {.image_size = 32}, {"conv-absorb-batch-norm"}},
          {"bert_base",
           {.sequence_length = 8, .layers = 1},
           {"gelu-from-erf", "linear-merge-shared-input-three", "div-as-mul"}},
          {"gpt2_small", {.sequence_length = 8, .layers = 1}, {"gelu-tanh-from-power-half-first"}},
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

// A device knows an activation by its operator alone; rules make it of what exporters write.
TEST(BaselineZooTest, ActivationsAsExportersWriteThemEndInTheEpilogue) {
  const absl::StatusOr<Baseline> baseline = Baseline::Load();
  ASSERT_TRUE(baseline.ok()) << baseline.status();
  const auto device = MakeDevice("cpu");
  ASSERT_TRUE(device.ok()) << device.status();
  const std::string numbers =
      "const %80: f32[] = [0.5]\nconst %81: f32[] = [1]\nconst %82: f32[] = [3]\nconst %83: f32[] = [6]\n"
      "const %84: f32[] = [0.044715]\nconst %85: f32[] = [0.7978845608028654]\nconst %86: f32[] = [2]\n"
      "const %87: f32[] = [1.4142135623730951]\n";
  const std::pair<const char*, const char*> chains[] = {
      {"gelu", "%2 = div(%1, %87)\n%3 = erf(%2)\n%4 = add(%3, %81)\n%5 = mul(%1, %4)\n%9 = mul(%5, %80)\n"},
      {"gelu", "%2 = div(%1, %87)\n%3 = erf(%2)\n%4 = add(%3, %81)\n%5 = mul(%1, %4)\n%9 = div(%5, %86)\n"},
      {"gelu_tanh",
       "%2 = pow(%1, %82)\n%3 = mul(%84, %2)\n%4 = add(%1, %3)\n%5 = mul(%4, %85)\n%6 = tanh(%5)\n"
       "%7 = add(%81, %6)\n%8 = mul(%80, %1)\n%9 = mul(%8, %7)\n"},
      {"gelu_tanh",
       "%10 = mul(%1, %1)\n%2 = mul(%1, %10)\n%3 = mul(%84, %2)\n%4 = add(%1, %3)\n%5 = mul(%85, %4)\n"
       "%6 = tanh(%5)\n%7 = add(%81, %6)\n%8 = mul(%1, %7)\n%9 = mul(%80, %8)\n"},
      {"swish", "%2 = sigmoid(%1)\n%9 = mul(%1, %2)\n"},
      {"hard_swish", "%2 = add(%1, %82)\n%3 = clip(%2, min=0.0, max=6.0)\n%4 = div(%3, %83)\n%9 = mul(%1, %4)\n"},
      {"hard_swish", "%2 = add(%1, %82)\n%3 = relu(%2)\n%4 = min(%3, %83)\n%5 = mul(%1, %4)\n%9 = div(%5, %83)\n"},
      {"hard_swish", "%2 = div(%1, %83)\n%3 = add(%2, %80)\n%4 = clip(%3, min=0.0, max=1.0)\n%9 = mul(%4, %1)\n"},
  };
  for (const auto& [activation, chain] : chains) {
    const auto graph = ParseGraph("input x: f32[1,8,5,5]\ninput w: f32[8,8,1,1]\n" + numbers + "%1 = conv2d(x, w)\n" +
                                  chain + "output y = %9\n");
    ASSERT_TRUE(graph.ok()) << graph.status();
    const absl::StatusOr<BaselineResult> result = baseline->Apply(*graph);
    ASSERT_TRUE(result.ok()) << result.status();
    const std::vector<Group> groups = (*device)->Partition(result->graph);
    ASSERT_EQ(groups.size(), 1u) << PrintGraph(result->graph);
    ASSERT_EQ(groups[0].nodes.size(), 2u) << PrintGraph(result->graph);
    EXPECT_EQ(result->graph.node(groups[0].nodes[1]).op->name, activation);
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
  RuleSettings settings;
  settings.disabled_rules = {"clip-of-relu"};  // a rule that the baseline alone has
  absl::StatusOr<OptimizerRules> rules = LoadOptimizerRules(settings);
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto names = [](const OptimizerRules& of) {
    std::vector<std::string> all;
    for (const auto& matcher : of.all.matchers()) all.push_back(matcher->rule().name());
    return all;
  };
  EXPECT_THAT(names(*rules), ::testing::Not(::testing::Contains("clip-of-relu")));
  EXPECT_THAT(names(*rules), ::testing::Contains("add-of-expand"));
  settings.disabled_rules = {"no-such-rule"};
  EXPECT_FALSE(LoadOptimizerRules(settings).ok());
  settings.disabled_rules.clear();
  settings.exact = true;
  rules = LoadOptimizerRules(settings);
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const auto& matcher : rules->all.matchers()) {
    EXPECT_EQ(matcher->rule().rule().proof->rule_class, RuleClass::kExact) << matcher->rule().name();
  }
  settings.baseline = false;
  EXPECT_FALSE(LoadOptimizerRules(settings)->baseline.has_value());
  settings.baseline.reset();
  settings.rules = {*FindRuleFile("core.rules")};
  EXPECT_FALSE(LoadOptimizerRules(settings)->baseline.has_value());
  settings.baseline = true;
  EXPECT_TRUE(LoadOptimizerRules(settings)->baseline.has_value());
}

}  // namespace
}  // namespace rewright
