// Winograd's convolutions: against the interpreter and double precision, on what is not finite, and only by allowed
// rewrites.
#include "backends/cpu/simd/winograd.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/winograd/meaning.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "substitutions/proved_kernel_rewrites.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright::cpu {
namespace {

// Every form that this machine has kernels for; none without AVX2.
std::vector<WinogradForm> Forms() {
  std::vector<WinogradForm> forms;
  const WinogradTable table = WinogradAlgorithms();
  for (int k = 0; k < table.count; ++k) {
    const WinogradTransforms& t = table.first[k];
    forms.push_back({t.rows, t.kernel_rows, t.columns, t.kernel_columns});
  }
  return forms;
}

std::shared_ptr<DnnlContext> Context(int threads) {
  auto context = std::make_shared<DnnlContext>();
  context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  context->threads = threads;
  context->block = Simd().lanes < 16 ? 8 : 16;
  return context;
}

// With every convolution by the law; "": directly.
Schedule Compiled(const Graph& graph, const std::string& law, int threads = 2) {
  LoweringOptions options;
  options.law_of = [&](const FusedGroup&) { return law; };
  absl::StatusOr<Schedule> schedule = Lowering(Context(threads), graph, options).Run();
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  const bool by_law = std::any_of(schedule->steps.begin(), schedule->steps.end(),
                                  [&](const Step& step) { return absl::StrContains(step.label, "winograd"); });
  EXPECT_EQ(by_law, !law.empty()) << law;
  return *std::move(schedule);
}

struct WinogradCase {
  Shape x;  // n, c, h, w
  int64_t outputs = 1;
  std::vector<int64_t> pads = {0, 0, 0, 0};
  std::string behind;  // lines of the graph's text after `%y = conv2d`, the last value of which is %z
};

// With weights in [-1, 1]: a state, known before the run, or an input, which changes from run to run.
Graph GraphOf(const WinogradCase& c, const WinogradForm& form, uint64_t seed, LeafKind weights_are = LeafKind::kState) {
  const Shape w = {c.outputs, c.x[1], form.kernel_rows, form.kernel_columns};
  auto arena = std::make_shared<Arena>();
  Rng rng(seed);
  const Value x = *arena->AddInput("x", {DType::kFloat32, c.x});
  const bool changing = weights_are == LeafKind::kInput;
  const Value weights = changing ? *arena->AddInput("w", {DType::kFloat32, w})
                                 : *arena->AddState("w", RandomTensor({DType::kFloat32, w}, -1, 1, rng));
  std::vector<int64_t> pads = c.pads;  // less than the kernel: oneDNN has no blocked form of others
  for (size_t k = 0; k < 4; ++k) pads[k] = std::min(pads[k], w[2 + k % 2] - 1);
  const Value y = *arena->Apply("conv2d", {x, weights}, {{"pads", pads}});
  const TensorType type = arena->type(y);
  std::vector<Value> inputs = {x};
  if (changing) inputs.push_back(weights);
  Value z = y;
  const auto per_channel = [&](const char* name) {
    return *arena->AddState(name, RandomTensor({DType::kFloat32, {c.outputs, 1, 1}}, -1, 1, rng));
  };
  if (absl::StrContains(c.behind, "bias")) z = *arena->Apply("add", {z, per_channel("b")});
  if (absl::StrContains(c.behind, "scale")) z = *arena->Apply("mul", {z, per_channel("s")});
  if (absl::StrContains(c.behind, "shift")) z = *arena->Apply("add", {z, per_channel("t")});
  if (absl::StrContains(c.behind, "residual")) {
    inputs.push_back(*arena->AddInput("r", type));
    z = *arena->Apply("add", {z, inputs.back()});
  }
  if (absl::StrContains(c.behind, "relu")) z = *arena->Apply("relu", {z});
  if (absl::StrContains(c.behind, "tanh")) z = *arena->Apply("tanh", {z});
  return Graph(arena, inputs, {{z, "z"}});
}

TEST(CpuWinograd, IsTheInterpreters) {
  const std::vector<WinogradCase> cases = {
      {{1, 16, 9, 11}, 16, {0, 0, 0, 0}, ""},
      {{2, 17, 13, 8}, 33, {1, 1, 1, 1}, "bias relu"},
      {{1, 48, 7, 7}, 32, {2, 1, 0, 3}, "bias residual relu"},
      {{3, 16, 8, 23}, 40, {1, 3, 3, 2}, "bias scale shift residual tanh"},
      {{1, 300, 10, 9}, 16, {3, 3, 3, 3}, "scale relu"},
  };
  for (const WinogradForm& form : Forms()) {
    for (size_t k = 0; k < cases.size(); ++k) {
      const std::string law = WinogradLaw(form);
      SCOPED_TRACE(absl::StrCat(law, " case ", k));
      for (const LeafKind weights : {LeafKind::kState, LeafKind::kInput}) {
        const Graph graph = GraphOf(cases[k], form, k, weights);
        ExpectAgrees(Compiled(graph, law, 1 + static_cast<int>(k % 2)), graph, -1, 1, k, 5e-5);
      }
    }
  }
}

// Widened before and rounded behind: by F(4, 3) in f32.
TEST(CpuWinograd, TakesHalves) {
  if (Forms().empty()) GTEST_SKIP() << "no kernels here";
  // (Where the processor multiplies tiles of bf16, no law is faster, and none is asked for.)
  const Graph graph = GraphWithWeights(R"(
input x: f16[2,17,13,8]
state w: f16[33,17,3,3]
state b: f16[1,33,1,1]
%0 = conv2d(x, w, strides=[1,1], pads=[1,1,1,1])
%1 = add(%0, b)
%2 = relu(%1)
output y = %2
)",
                                       -1, 1, 4);
  ExpectAgrees(Compiled(graph, "conv-winograd-4x4-3x3"), graph, -1, 1, 4, 2 * RoundingOf(DType::kFloat16));
}

// Blocks of tiles that do not hold the whole image, by one thread and by two.
TEST(CpuWinograd, GoesThroughInBlocks) {
  const WinogradCase wide = {{1, 64, 61, 83}, 64, {1, 1, 1, 1}, "bias relu"};
  for (const WinogradForm& form : Forms()) {
    if (form.kernel_rows != 3 || form.kernel_columns != 3) continue;
    for (const int threads : {1, 2}) {
      const Graph graph = GraphOf(wide, form, 3);
      ExpectAgrees(Compiled(graph, WinogradLaw(form), threads), graph, -1, 1, 3, 5e-5);
    }
  }
}

std::vector<Tensor> RunOnce(const Graph& graph, const std::string& law, const std::vector<Tensor>& inputs) {
  const auto executor = MakeHostile(graph, Compiled(graph, law, /*threads=*/1));
  EXPECT_TRUE(executor.ok()) << executor.status();
  absl::StatusOr<std::vector<Tensor>> outputs = RunTwice(**executor, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

TEST(CpuWinograd, IsAsExactAsItSays) {
  const WinogradCase c = {{1, 128, 14, 14}, 32, {1, 1, 1, 1}, ""};
  for (const WinogradForm& form : Forms()) {
    const Graph graph = GraphOf(c, form, 5);
    Rng rng(6);
    const Tensor x = RandomTensor(graph.type(graph.inputs()[0]), -1, 1, rng);
    const auto exact = InterpretGraph(graph, {{"x", x}}, {Precision::kFloat64, 2});
    ASSERT_TRUE(exact.ok()) << exact.status();
    const std::vector<Tensor> found = RunOnce(graph, WinogradLaw(form), {x});
    ASSERT_EQ(found.size(), 1u);
    double largest = 0, error = 0;
    for (int64_t i = 0; i < found[0].num_elements(); ++i) {
      largest = std::max(largest, std::abs((*exact)[0].At(i)));
      error = std::max(error, std::abs((*exact)[0].At(i) - found[0].At(i)));
    }
    const int m = std::max(form.rows, form.columns), r = std::max(form.kernel_rows, form.kernel_columns);
    const double allowed = m == 2 && r == 3 ? 1e-6 : 2e-5;  // of the largest element
    EXPECT_LE(error, allowed * largest) << WinogradLaw(form);
    RecordProperty(WinogradLaw(form), absl::StrCat(error / largest));
  }
}

// An element that is not finite, or too large, in one place: the results are those of the direct convolution.
TEST(CpuWinograd, ComputesAnewWhatIsNotFinite) {
  const WinogradCase c = {{1, 16, 12, 13}, 16, {1, 1, 1, 1}, "bias residual relu"};
  for (const WinogradForm& form : Forms()) {
    for (const auto& [weights, input] :
         {std::pair(LeafKind::kState, 0), std::pair(LeafKind::kInput, 0), std::pair(LeafKind::kInput, 1)})
      for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), 1e38f, -3e38f}) {
        SCOPED_TRACE(absl::StrCat(WinogradLaw(form), " with ", odd, " in input ", input));
        const Graph graph = GraphOf(c, form, 8, weights);
        Rng rng(9);
        std::vector<Tensor> inputs;
        for (Value value : graph.inputs()) inputs.push_back(RandomTensor(graph.type(value), -1, 1, rng));
        inputs[input].Set(static_cast<int64_t>(rng() % static_cast<uint64_t>(inputs[input].num_elements())), odd);
        const std::vector<Tensor> expected = RunOnce(graph, "", inputs);
        const std::vector<Tensor> found = RunOnce(graph, WinogradLaw(form), inputs);
        ASSERT_EQ(found.size(), 1u);
        EXPECT_TRUE(found[0].BitEqual(expected[0]));
      }
  }
}

TEST(CpuWinograd, RunsByAllowedRewritesAlone) {
  if (Forms().empty()) GTEST_SKIP() << "no kernels without AVX2";
  const absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> allowed_rewrites = LoadAllowedKernelRewrites();
  ASSERT_TRUE(allowed_rewrites.ok()) << allowed_rewrites.status();
  const WinogradForm three{2, 3, 2, 3};
  const Graph graph = GraphOf({{1, 64, 28, 28}, 64, {1, 1, 1, 1}, "relu"}, three, 1);
  const std::vector<FusedGroup> groups = FuseGraph(graph);
  ASSERT_EQ(groups.size(), 1u);
  const auto context = Context(1);
  EXPECT_THAT(AllowedLaws(*context, graph, groups[0]), testing::IsEmpty());
  context->allowed_rewrites = *LoadAllowedKernelRewrites();
  EXPECT_THAT(AllowedLaws(*context, graph, groups[0]),
              testing::ElementsAre("conv-winograd-2x2-3x3", "conv-winograd-4x4-3x3", "conv-winograd-6x6-3x3"));
  context->allowed_rewrites = *LoadAllowedKernelRewrites({"conv-winograd-4x4-3x3"});
  EXPECT_THAT(AllowedLaws(*context, graph, groups[0]),
              testing::ElementsAre("conv-winograd-2x2-3x3", "conv-winograd-6x6-3x3"));
}

// Weights that change: F(2, r) alone, where many tiles share what bringing them to the points takes.
TEST(CpuWinograd, WeightsThatChangeAreForSmallTiles) {
  if (Forms().empty()) GTEST_SKIP() << "no kernels without AVX2";
  const auto context = Context(1);
  context->allowed_rewrites = *LoadAllowedKernelRewrites();
  const auto laws = [&](Shape x, int64_t outputs) {
    const Graph graph = GraphOf({x, outputs, {1, 1, 1, 1}, "relu"}, {2, 3, 2, 3}, 1, LeafKind::kInput);
    return AllowedLaws(*context, graph, FuseGraph(graph)[0]);
  };
  EXPECT_THAT(laws({1, 64, 28, 28}, 64), testing::ElementsAre("conv-winograd-2x2-3x3"));
  EXPECT_THAT(laws({1, 64, 12, 12}, 64), testing::IsEmpty());
  EXPECT_THAT(laws({1, 512, 14, 14}, 512), testing::ElementsAre("conv-winograd-2x2-3x3"));
  EXPECT_THAT(laws({1, 1024, 14, 14}, 64), testing::IsEmpty());
  EXPECT_THAT(laws({4, 512, 7, 7}, 512), testing::IsEmpty()) << "a fifth of the tiles lies outside";
  EXPECT_THAT(laws({8, 512, 7, 7}, 512), testing::ElementsAre("conv-winograd-2x2-3x3"));
  EXPECT_THAT(laws({8, 16, 28, 28}, 64), testing::IsEmpty());
}

// A law allows what it says and nothing else.
TEST(CpuWinograd, AnAllowedRewriteIsForOneMeaning) {
  const absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> allowed_rewrites = LoadAllowedKernelRewrites();
  ASSERT_TRUE(allowed_rewrites.ok()) << allowed_rewrites.status();
  for (const WinogradForm& form : Forms()) {
    auto arena = std::make_shared<Arena>();
    const Value x = *arena->AddInput("x", {DType::kFloat32, {2, 3, 12, 17}});
    const Value w = *arena->AddInput("w", {DType::kFloat32, {4, 3, form.kernel_rows, form.kernel_columns}});
    const std::vector<int64_t> pads = {1, 0, 2, 3};
    const Value y = *arena->Apply("conv2d", {x, w}, {{"pads", pads}});
    const Graph graph(arena, {x, w}, {{y, "y"}});
    const std::string law = WinogradLaw(form);
    const absl::StatusOr<Value> meaning = WinogradMeaning(*arena, x, w, pads, form);
    ASSERT_TRUE(meaning.ok()) << meaning.status();
    EXPECT_TRUE((*allowed_rewrites)->Allow(law, graph, y.node, *meaning)) << law;
    const absl::StatusOr<Value> other = WinogradMeaning(*arena, x, w, {1, 0, 2, 2}, form);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE((*allowed_rewrites)->Allow(law, graph, y.node, *other)) << law;
    EXPECT_FALSE((*allowed_rewrites)->Allow("no-such-law", graph, y.node, *meaning));
    EXPECT_FALSE((*allowed_rewrites)->Allow(law, graph, y.node, y));
  }
}

// Runs that differ by noise choose the same kernel.
TEST(KernelToRunTest, WhatAFewRunsDoNotTellApartIsChosenByItsPlace) {
  for (const double noise : {0.95, 1.0, 1.05}) {
    EXPECT_EQ(KernelToRun({2, 1, noise}, /*exact=*/false), 1u) << noise;
    EXPECT_EQ(KernelToRun({1, noise, 1}, /*exact=*/false), 0u) << noise;
  }
  EXPECT_EQ(KernelToRun({2, 1, 0.8}, /*exact=*/false), 2u);
  EXPECT_EQ(KernelToRun({2, 1, 0.95}, /*exact=*/true), 2u);  // as a profile has it
  EXPECT_EQ(KernelToRun({1}, /*exact=*/false), 0u);
}

}  // namespace
}  // namespace rewright::cpu
