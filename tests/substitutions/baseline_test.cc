// Tests the rule-based baseline: its effect on small graphs, termination, and unchanged values.
#include "substitutions/baseline/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "substitutions/instance/random_application.h"
#include "tests/counts.h"
#include "tests/support/parsed_graph.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kBaselineSeed = 20261121;

const Baseline& Shipped() {
  static const Baseline* baseline = [] {
    absl::StatusOr<Baseline> loaded = Baseline::Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return new Baseline(loaded.ok() ? *std::move(loaded) : Baseline());
  }();
  return *baseline;
}

BaselineResult Applied(const Graph& graph) {
  absl::StatusOr<BaselineResult> result = Shipped().Apply(graph);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(!result.ok() || result->fixed_point) << PrintGraph(graph);
  return result.ok() ? *std::move(result) : BaselineResult{graph, {}, {}, 0, false};
}

std::map<std::string, int> CountOps(const Graph& graph) {
  std::map<std::string, int> counts;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (graph.IsRun(node)) ++counts[node.op->name];
  }
  return counts;
}

std::vector<std::string> Rules(const BaselineResult& result) {
  std::vector<std::string> names;
  for (const BaselineCount& count : result.rewrites) names.push_back(count.rule);
  return names;
}

void ExpectSameValues(const Graph& before, const Graph& after, const absl::flat_hash_map<std::string, Tensor>& inputs) {
  const auto expected = InterpretGraph(before, inputs);
  const auto actual = InterpretGraph(after, inputs);
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  for (size_t i = 0; i < expected->size(); ++i) {
    bool finite = true;  // overflow and division by zero are outside of the classes of rules
    for (int64_t k = 0; k < (*expected)[i].num_elements(); ++k) finite &= std::isfinite((*expected)[i].At(k));
    if (!finite) continue;
    const Comparison difference = Compare((*actual)[i], (*expected)[i], 2e-3, 1e-3);
    EXPECT_TRUE(difference.close) << difference.text << "\n" << PrintGraph(before) << "became\n" << PrintGraph(after);
  }
}

TEST(BaselineTest, EveryRuleHasASourceAndEveryOwnRuleIsUsed) {
  std::set<std::string> named;
  for (const BaselinePass& pass : Shipped().passes()) {
    for (const BaselinePass::Entry& entry : pass.entries) {
      named.insert(entry.rule);
      EXPECT_GT(entry.source.size(), 6u) << entry.rule;
    }
  }
  const auto own = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/baseline/baseline.rules");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_GT(own->size(), 30u);
  for (const Rule& rule : *own) EXPECT_EQ(named.count(rule.name), 1u) << rule.name;
}

TEST(BaselineTest, PassesAreRefusedWhereTheyAreWrong) {
  const auto error = [](const std::string& text) {
    return std::string(ParseBaselinePasses(text, "p.txt").status().message());
  };
  EXPECT_EQ(error("# a comment\nidentity xla\n"), "p.txt:2: found `identity`, expected `pass NAME` first");
  EXPECT_EQ(error("pass\n"), "p.txt:1: found `pass`, expected `pass NAME`");
  EXPECT_EQ(error("pass a\nidentity\n"), "p.txt:2: rule identity has no source: expected compiler and pass");
  EXPECT_EQ(error("pass a\nx tvm\npass b\nx xla\n"), "p.txt:4: rule x stands in two places");
  const std::string path = TemporaryFile("unknown_passes.txt");
  FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("pass a\nno-such-rule tvm\n", file);
  std::fclose(file);
  EXPECT_THAT(std::string(Baseline::Load(path, {}).status().message()),
              HasSubstr("no rule file has a rule no-such-rule"));
}

constexpr char kConvBatchNorm[] = R"(
  input x: f32[1,3,8,8]
  state k: f32[4,3,3,3]
  state g: f32[4]
  state b: f32[4]
  state m: f32[4]
  state v: f32[4]
  %0 = conv2d(x, k, pads=[1,1,1,1])
  %1 = batch_norm(%0, g, b, m, v)
  %2 = identity(%1)
  %3 = relu(%2)
  output y = %3
)";

TEST(BaselineTest, FoldsBatchNorms) {
  const BaselineResult result = Applied(GraphOf(kConvBatchNorm));
  EXPECT_THAT(Rules(result), ElementsAre("identity", "conv-absorb-batch-norm"));
  EXPECT_EQ(CountOps(result.graph), (std::map<std::string, int>{{"conv2d", 1}, {"add", 1}, {"relu", 1}}));
}

TEST(BaselineTest, FoldsNothingThatIsReadElsewhere) {
  const BaselineResult result = Applied(GraphOf(std::string(kConvBatchNorm) + "  output z = %0\n"));
  EXPECT_THAT(Rules(result), ElementsAre("identity"));
  EXPECT_EQ(CountOps(result.graph)["batch_norm"], 1);
}

TEST(BaselineTest, MergesThreeConvolutionsOfOneInputButNotTwo) {
  const std::string two = R"(
    input x: f32[1,3,8,8]
    state a: f32[4,3,1,1]
    state b: f32[5,3,1,1]
    state c: f32[6,3,1,1]
    %0 = conv2d(x, a)
    %1 = conv2d(x, b)
    %2 = relu(%0)
    %3 = relu(%1)
    output y = %2
    output z = %3
)";
  EXPECT_THAT(Rules(Applied(GraphOf(two))), ElementsAre());
  const BaselineResult result = Applied(GraphOf(two + "    %4 = conv2d(x, c)\n    %5 = relu(%4)\n    output w = %5\n"));
  EXPECT_THAT(Rules(result), ElementsAre("conv-merge-shared-input-three", "relus-of-split-three"));
  EXPECT_EQ(CountOps(result.graph), (std::map<std::string, int>{{"conv2d", 1}, {"relu", 1}, {"split", 1}}));
}

TEST(BaselineTest, TransposesThatCancelAreGone) {
  const BaselineResult result = Applied(GraphOf(R"(
    input x: f32[2,3,4]
    %0 = transpose(x, perm=[0,2,1])
    %1 = relu(%0)
    %2 = mul(%1, %1)
    %3 = gelu(%2)
    %4 = transpose(%3, perm=[0,2,1])
    output y = %4
)"));
  EXPECT_EQ(CountOps(result.graph), (std::map<std::string, int>{{"relu", 1}, {"mul", 1}, {"gelu", 1}}));
}

TEST(BaselineTest, EndsAtTheBoundOnSteps) {
  absl::StatusOr<BaselineResult> result = Shipped().Apply(GraphOf(kConvBatchNorm), 1);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 1);
  EXPECT_FALSE(result->fixed_point);
}

// Applies every rule at random structures and sizes of its left side.
TEST(BaselineTest, KeepsTheValuesOfItsOwnLeftSides) {
  std::mt19937_64 rng(kBaselineSeed);
  const auto own = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/baseline/baseline.rules");
  ASSERT_TRUE(own.ok()) << own.status();
  for (const Rule& rule : *own) {
    const auto compiled = CompileRule(rule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    int drawn = 0;
    const absl::Status status = ForEachStructuralAssignment(
        **compiled, SmallLimits(**compiled), [&](const StructuralAssignment& structure, const RuleInstance& instance) {
          if (drawn >= Cases(60)) return absl::OkStatus();
          const auto application = DrawApplication(**compiled, structure, instance, {.tries = 400}, rng);
          if (!application) return absl::OkStatus();
          ++drawn;
          const BaselineResult result = Applied(application->graph);
          ExpectSameValues(application->graph, result.graph, application->inputs);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_GT(drawn, 0) << rule.name;
  }
}

// A random graph of operators that the rules know, in an order unlike that of real models.
Graph RandomGraph(int nodes, std::mt19937_64& rng) {
  auto arena = std::make_shared<Arena>();
  const TensorType type{DType::kFloat32, {2, 3, 4}};
  std::vector<Value> inputs, values;  // of `type`, all of them
  for (const char* name : {"x", "y"}) inputs.push_back(*arena->AddInput(name, type));
  values = inputs;
  Tensor weight(type);
  for (int64_t i = 0; i < weight.num_elements(); ++i) weight.Set(i, 0.25 * static_cast<double>(1 + (i * 7) % 5));
  values.push_back(*arena->AddState("w", weight));
  Tensor two(TensorType{DType::kFloat32, {}});
  two.Set(0, 2);
  const Value scalar = arena->AddConstant(two);
  const auto pick = [&] { return values[rng() % values.size()]; };
  const auto apply = [&](const std::string& op, std::vector<Value> operands, Attrs attrs = {}) {
    absl::StatusOr<Value> value = arena->Apply(op, std::move(operands), std::move(attrs));
    EXPECT_TRUE(value.ok()) << value.status();
    return *value;
  };
  using Ints = std::vector<int64_t>;
  for (int i = 0; i < nodes; ++i) {
    static const char* const kUnary[] = {"relu", "neg", "abs", "identity", "sigmoid", "tanh"};
    static const char* const kBinary[] = {"add", "mul", "sub", "max", "min"};
    const Value a = pick(), b = pick();
    switch (rng() % 9) {
      case 0: values.push_back(apply(kUnary[rng() % 6], {a})); break;
      case 1: values.push_back(apply(kBinary[rng() % 5], {a, b})); break;
      case 2: values.push_back(apply("mul", {a, scalar})); break;
      case 3: values.push_back(apply("div", {a, scalar})); break;
      case 4: {
        const Value moved = apply("transpose", {a}, {{"perm", Ints{0, 2, 1}}});
        values.push_back(apply("transpose", {apply("relu", {moved})}, {{"perm", Ints{0, 2, 1}}}));
        break;
      }
      case 5: {
        const Value flat = apply("reshape", {a}, {{"shape", Ints{6, 4}}});
        values.push_back(apply("reshape", {apply("mul", {flat, scalar})}, {{"shape", Ints{2, 3, 4}}}));
        break;
      }
      case 6: {
        const Value both = apply("concat", {apply("relu", {a}), apply("relu", {b})}, {{"axis", int64_t{1}}});
        const auto cut = arena->Add("split", {both}, {{"axis", int64_t{1}}, {"sizes", Ints{3, 3}}});
        EXPECT_TRUE(cut.ok()) << cut.status();
        values.push_back(Value{*cut, 0});
        values.push_back(Value{*cut, 1});
        break;
      }
      case 7: {
        const Value both = apply("concat", {a, b}, {{"axis", int64_t{2}}});
        values.push_back(apply("slice", {both}, {{"starts", Ints{0, 0, 4}}, {"stops", Ints{2, 3, 8}}}));
        break;
      }
      case 8: {
        const Value wide = apply("cast", {a}, {{"to", DType::kFloat64}});
        values.push_back(apply("cast", {wide}, {{"to", DType::kFloat32}}));
        break;
      }
    }
  }
  return Graph(arena, inputs, {{values.back(), "last"}, {values[values.size() / 2], "middle"}});
}

TEST(BaselineTest, EndsOnRandomGraphsAndKeepsTheirValues) {
  std::mt19937_64 rng(kBaselineSeed);
  int64_t steps = 0;
  for (int i = 0; i < Cases(400); ++i) {
    const Graph graph = RandomGraph(5 + static_cast<int>(rng() % 60), rng);
    const BaselineResult result = Applied(graph);
    steps += result.steps;
    EXPECT_LE(result.graph.num_runtime_nodes(), graph.num_runtime_nodes());
    absl::flat_hash_map<std::string, Tensor> inputs;
    const std::vector<Tensor> tensors = *RandomInputs(graph, kBaselineSeed + static_cast<uint64_t>(i));
    for (size_t k = 0; k < tensors.size(); ++k) inputs[graph.node(graph.inputs()[k].node).name] = tensors[k];
    ExpectSameValues(graph, result.graph, inputs);
    EXPECT_EQ(Applied(result.graph).steps, 0) << "a fixed point is not one";
  }
  EXPECT_GT(steps, 0);
}

}  // namespace
}  // namespace rewright
