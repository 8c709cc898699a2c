// The search over a whole step: states in joined forms, by laws that keep every bit, and cheaper where launches count.
#include "tools/verbs/train/joint_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backends/device_factory.h"
#include "core/base/stats.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "runtime/training/model.h"
#include "runtime/training/step.h"
#include "search/cost_model.h"
#include "search/optimize/output_check.h"
#include "substitutions/lowering.h"
#include "tools/library/optimizer_rules.h"

namespace rewright {
namespace {

StepGraphs GptStep(const std::vector<WeightGroup>& groups = {}) {
  StepOptions options;
  options.optimizer.weight_decay = 0.01;
  options.optimizer.groups = groups;
  const GptOptions gpt = {.vocabulary = 20, .length = 8, .width = 16, .heads = 2, .layers = 2, .dropout = 0};
  auto graphs = BuildStep(MakeModel(BuiltInModel(gpt), 2, 1), options);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  const auto lowered = LowerGradients(graphs->step);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  graphs->step = lowered->graph;
  return *std::move(graphs);
}

int Count(const Graph& graph, const OpDef* op) {
  int count = 0;
  for (NodeId id : graph.nodes()) count += static_cast<int>(graph.node(id).op == op);
  return count;
}

std::vector<StoredForm> VectorForms(const StepGraphs& graphs) {
  std::vector<StoredForm> forms;
  for (const std::vector<StoredForm>& family : FormFamilies(graphs.step, graphs.trained, graphs.step)) {
    forms.insert(forms.end(), family.begin(), family.end());
  }
  return forms;
}

TEST(JointSearch, VectorsOfOneSizeAndOneUpdateMayBeStoredTogether) {
  const StepGraphs alike = GptStep();
  size_t vectors = 0;
  for (const StoredForm& form : VectorForms(alike)) vectors += form.parts.size();
  const StepGraphs apart = GptStep({{"*.bias", 0.0, 1}});
  for (const StoredForm& form : VectorForms(apart)) {
    const bool bias = form.parts[0].ends_with(".bias");
    for (const std::string& part : form.parts) EXPECT_EQ(part.ends_with(".bias"), bias) << part;
  }
  EXPECT_GT(VectorForms(apart).size(), VectorForms(alike).size());
  EXPECT_GE(vectors, 12U);
}

TEST(JointSearch, AnUpdateOfJoinedWeightsIsOneAndKeepsEveryBit) {
  const StepGraphs graphs = GptStep();
  const std::vector<StoredForm> forms = VectorForms(graphs);
  const auto joined = InStoredForms(graphs.step, forms, graphs.trained);
  ASSERT_TRUE(joined.ok()) << joined.status();
  const auto lowered = LoweredInForms(graphs.step, forms, graphs.trained, *StoredFormRules());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  size_t parts = 0;
  for (const StoredForm& form : forms) parts += form.parts.size();
  const int merged = static_cast<int>(parts - forms.size());
  // One root, and three selections, for each state.
  EXPECT_EQ(Count(*lowered, ops::Sqrt()), Count(graphs.step, ops::Sqrt()) - merged);
  EXPECT_EQ(Count(*lowered, ops::Where()), Count(graphs.step, ops::Where()) - 3 * merged);
  const auto inputs = RandomInputs(*joined, 1);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  absl::flat_hash_map<std::string, Tensor> values;
  for (size_t i = 0; i < inputs->size(); ++i) values[joined->node(joined->inputs()[i].node).name] = (*inputs)[i];
  const auto expected = InterpretGraph(*joined, values), found = InterpretGraph(*lowered, values);
  ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor &a = (*expected)[i], &b = (*found)[i];
    ASSERT_EQ(a.type(), b.type());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.type().num_bytes())), 0)
        << joined->outputs()[i].name;
  }
}

TEST(JointSearch, FindsFormsThatPayWhereLaunchesCount) {
  const StepGraphs graphs = GptStep();
  const auto device = *MakeDevice("analytic:h100");
  RuleSettings settings;
  for (const char* name : {"core.rules", kTrainingRules}) settings.rules.push_back(*FindRuleFile(name));
  const auto rules = LoadOptimizerRules(settings);
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto search = [&](const Graph& graph) {
    RuleRewriter rewriter(rules->rules);
    OptimizeOptions options;
    options.measure = options.check = false;
    options.search.budget = 100;
    return Optimize(graph, rewriter, *device, nullptr, options);
  };
  const auto plain = search(graphs.step);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto joint = SearchStep({graphs.step, *plain}, graphs.trained, *device, search);
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_FALSE(joint->forms.empty());
  CostModel costs(*device);
  EXPECT_EQ(costs.Cost(joint->graph)->seconds, joint->seconds);
  EXPECT_LT(joint->seconds, 0.9 * costs.Cost(plain->graph)->seconds);
  // And computes the same as the step in these forms does by definition.
  const auto checked = AtSmoothStates(graphs.step);
  ASSERT_TRUE(checked.ok()) << checked.status();
  const auto expected = InStoredForms(*checked, joint->forms, graphs.trained);
  ASSERT_TRUE(expected.ok()) << expected.status();
  OutputChecker checker(*expected, nullptr, {.input_sets = 1});
  const auto again = SearchStep({*checked, *search(*checked)}, graphs.trained, *device, search);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->forms, joint->forms);
  const auto check = checker.Check(again->graph);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_TRUE(check->done && check->equal) << check->text;
}

TEST(JointSearch, OfTwoStepsTheFirstIsTakenUnlessTheOtherIsFaster) {
  const auto device = MakeDevice("analytic:h100", {});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto searched = [](const std::string& text) {
    SearchedStep step{*ParseGraph(text)};
    step.report.graph = step.step;
    return step;
  };
  const SearchedStep dear = searched("input x: f32[512,512]\n%0 = matmul(x, x)\noutput y = %0\n");
  const SearchedStep cheap = searched("input x: f32[512,512]\n%0 = relu(x)\noutput y = %0\n");
  int timed = 0;
  const auto pairs = [&](int wins) {
    return [&timed, wins](const Graph&, const Graph&) -> absl::StatusOr<Measurement> {
      ++timed;
      Measurement measured;
      measured.wins = wins, measured.losses = 30 - wins;
      measured.ratio = wins > 20 ? 1.5 : 1.0;
      measured.p_value = SignTest(wins, 30 - wins);
      return measured;
    };
  };
  const auto is_cheap = [&](const absl::StatusOr<SearchedStep>& step) {
    EXPECT_TRUE(step.ok()) << step.status();
    return step->step.arena() == cheap.step.arena();
  };
  EXPECT_TRUE(is_cheap(FasterStep(dear, cheap, **device, nullptr)));
  EXPECT_TRUE(is_cheap(FasterStep(dear, cheap, **device, pairs(30))));
  EXPECT_FALSE(is_cheap(FasterStep(dear, cheap, **device, pairs(16))));
  EXPECT_EQ(timed, 2);
  EXPECT_TRUE(is_cheap(FasterStep(cheap, dear, **device, pairs(30)))) << "costs speak first";
  EXPECT_EQ(timed, 2);
}

TEST(JointSearch, JoinedMatricesAreViewsWhereAProductReadsThem) {
  const auto graph = ParseGraph(R"(training
input x: f32[4,6]
state w: f32[9,6]
%1 = slice(w, starts=[0,0], stops=[2,6])
%2 = slice(w, starts=[2,0], stops=[5,6])
%3 = slice(w, starts=[5,0], stops=[9,6])
%4 = transpose(%1, perm=[1,0])
%5 = transpose(%2, perm=[1,0])
%6 = transpose(%3, perm=[1,0])
%7 = concat(%4, %5, %6, axis=1)
%8 = matmul(x, %7)
output y = %8
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto views = WithViewsOfStates(*graph, *StoredFormRules());
  ASSERT_TRUE(views.ok()) << views.status();
  EXPECT_EQ(views->num_applications(), 2) << PrintGraph(*views);
  EXPECT_EQ(Count(*views, ops::Concat()), 0);
}

}  // namespace
}  // namespace rewright
