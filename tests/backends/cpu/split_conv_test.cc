// Convolutions of f32 on tiles of bf16, where the processor has them, against the interpreter.
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/products/split_conv_shape.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/split.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "substitutions/proved_kernel_rewrites.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright::cpu {
namespace {

constexpr double kTolerance = 4e-6;

struct Case {
  Shape x;  // n, c, h, w
  int64_t outputs = 1, rows = 1, columns = 1;
  std::vector<int64_t> strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  std::string behind;  // names of steps

  std::string Text() const {
    const auto list = [](const std::vector<int64_t>& numbers) {
      return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
    };
    const auto out = [&](size_t axis) {
      const int64_t kernel = axis == 0 ? rows : columns;
      return (x[2 + axis] + pads[axis] + pads[2 + axis] - (kernel - 1) * dilations[axis] - 1) / strides[axis] + 1;
    };
    std::string text = absl::StrCat("input x: f32", list(x), "\n");
    if (Has("residual")) absl::StrAppend(&text, "input r: f32", list({x[0], outputs, out(0), out(1)}), "\n");
    absl::StrAppend(&text, "state w: f32", list({outputs, x[1], rows, columns}), "\n");
    for (const char* name : {"bias", "scale", "shift"}) {
      if (Has(name)) absl::StrAppend(&text, "state ", name, ": f32", list({outputs, 1, 1}), "\n");
    }
    absl::StrAppend(&text, "%0 = conv2d(x, w, strides=", list(strides), ", pads=", list(pads),
                    ", dilations=", list(dilations), ")\n");
    int last = 0;
    const auto step = [&](const char* name, const char* op, const char* rest) {
      if (!Has(name)) return;
      absl::StrAppend(&text, "%", last + 1, " = ", op, "(%", last, rest, ")\n");
      ++last;
    };
    step("bias", "add", ", bias");
    step("scale", "mul", ", scale");
    step("shift", "add", ", shift");
    step("residual", "add", ", r");
    step("relu", "relu", "");
    step("clip", "clip", ", min=-0.25, max=0.5");
    step("tanh", "tanh", "");
    return absl::StrCat(text, "output y = %", last, "\n");
  }
  // With weights of such a size that results are about 1, whatever the depth.
  Graph WithWeights(uint64_t seed) const {
    const double most = 3 / std::sqrt(static_cast<double>(x[1] * rows * columns));
    return GraphWithWeights(Text(), -most, most, seed);
  }
  bool Has(const char* step) const { return absl::StrContains(behind, step); }
};

// With every convolution on tiles, or by oneDNN.
Schedule Compiled(const Graph& graph, int threads, bool on_tiles = true) {
  auto context = std::make_shared<DnnlContext>();
  context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  context->threads = threads;
  context->block = Simd().lanes < 16 ? 8 : 16;
  LoweringOptions options;
  options.law_of = [&](const FusedGroup&) { return on_tiles ? kTilesWay : std::string(); };
  absl::StatusOr<Schedule> schedule = Lowering(context, graph, options).Run();
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? *std::move(schedule) : Schedule();
}

bool RunsOnTiles(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return absl::StrContains(step.label, "tiles"); });
}

void ExpectIsTheInterpreters(const Case& c, int threads, uint64_t seed) {
  const Graph graph = c.WithWeights(seed);
  Schedule schedule = Compiled(graph, threads);
  EXPECT_EQ(RunsOnTiles(schedule), SplitConvs() != nullptr);
  ExpectAgrees(std::move(schedule), graph, -1, 1, seed, kTolerance);
}

TEST(SplitConv, IsTheInterpreters) {
  const std::vector<Case> cases = {
      {{1, 64, 7, 9}, 32, 1, 1},
      {{1, 3, 23, 19}, 17, 7, 7, {2, 2}, {3, 3, 3, 3}, {1, 1}, "bias relu"},
      {{2, 5, 9, 11}, 33, 3, 3, {1, 1}, {1, 0, 2, 1}, {1, 1}, "bias residual relu"},
      {{1, 17, 13, 8}, 48, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, "bias scale shift residual tanh"},
      {{3, 33, 6, 10}, 64, 2, 3, {1, 2}, {0, 1, 1, 1}, {1, 1}, "clip"},
      {{1, 40, 15, 12}, 5, 3, 3, {2, 2}, {1, 1, 1, 1}, {2, 2}, "scale relu"},
      {{2, 48, 14, 14}, 40, 1, 1, {2, 2}, {0, 0, 0, 0}, {1, 1}, "bias residual clip"},
      {{1, 32, 11, 17}, 96, 1, 7, {1, 1}, {0, 3, 0, 3}, {1, 1}, "bias relu"},
      {{1, 32, 17, 11}, 96, 7, 1, {1, 1}, {3, 0, 3, 0}, {1, 1}, "bias relu"},
      {{1, 16, 12, 12}, 64, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, "bias relu tanh"},
      {{1, 24, 10, 10}, 32, 3, 3, {3, 3}, {1, 1, 1, 1}, {1, 1}, ""},
      {{1, 8, 5, 5}, 16, 5, 5, {1, 1}, {4, 4, 4, 4}, {1, 1}, "relu"},
      {{1, 256, 3, 3}, 512, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, "bias relu"},
      {{2, 512, 2, 3}, 600, 1, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}, "bias clip tanh"},
      {{1, 512, 4, 4}, 512, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, "bias clip tanh"},
      {{1, 64, 56, 60}, 64, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, "bias residual relu"},
      {{1, 128, 28, 28}, 64, 3, 3, {2, 2}, {1, 1, 1, 1}, {1, 1}, "bias"},
  };
  for (size_t k = 0; k < cases.size(); ++k) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat("case ", k, ", threads ", threads));
      ExpectIsTheInterpreters(cases[k], threads, k);
    }
  }
}

// Others with --gtest_random_seed.
TEST(SplitConv, IsTheInterpretersForRandomShapes) {
  const int seed = GTEST_FLAG_GET(random_seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto any = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  constexpr int kCases = 60;
  int on_tiles = 0;
  for (int k = 0; k < kCases; ++k) {
    Case c;
    c.rows = any(1, 7);
    c.columns = any(1, 7);
    c.strides = {any(1, 3), any(1, 3)};
    c.dilations = {any(1, 3) / 2 + 1, any(1, 3) / 2 + 1};
    const std::vector<int64_t> reach = {(c.rows - 1) * c.dilations[0], (c.columns - 1) * c.dilations[1]};
    for (size_t side = 0; side < 4; ++side) c.pads[side] = any(0, reach[side % 2]);
    c.x = {any(1, 3), std::vector<int64_t>{1, 3, 5, 16, 17, 24, 32, 33, 64, 96}[random() % 10], reach[0] + any(1, 20),
           reach[1] + any(1, 40)};
    c.outputs = std::vector<int64_t>{1, 3, 16, 17, 32, 33, 48, 80}[random() % 8];
    for (const char* step : {"bias", "scale", "shift", "residual", "relu", "clip", "tanh"}) {
      if (random() % 3 == 0) absl::StrAppend(&c.behind, step, " ");
    }
    const int threads = static_cast<int>(any(1, 3));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", threads ", threads, "\n", c.Text()));
    const Graph graph = c.WithWeights(static_cast<uint64_t>(k));
    Schedule schedule = Compiled(graph, threads);
    on_tiles += RunsOnTiles(schedule) ? 1 : 0;
    ExpectAgrees(std::move(schedule), graph, -1, 1, static_cast<uint64_t>(k), kTolerance);
    if (HasFailure()) return;
  }
  EXPECT_GE(on_tiles, SplitConvs() == nullptr ? 0 : kCases / 2);
}

// Sums are nearer to those of f64 than oneDNN's of f32.
TEST(SplitConv, IsAsExactAsF32) {
  if (SplitConvs() == nullptr) GTEST_SKIP() << "the machine has no tiles";
  const Case c = {{1, 64, 14, 14}, 64, 3, 3, {1, 1}, {1, 1, 1, 1}};
  const Graph graph = GraphWithWeights(c.Text(), -1, 1, 3);
  Rng rng(4);
  const Tensor x = RandomTensor(graph.type(graph.inputs()[0]), -1, 1, rng);
  const auto exact = InterpretGraph(graph, {{"x", x}}, {Precision::kFloat64, 2});
  ASSERT_TRUE(exact.ok());
  const auto error = [&](bool on_tiles) {
    const auto executor = MakeHostile(graph, Compiled(graph, 2, on_tiles));
    const std::vector<Tensor> found = *RunTwice(**executor, {x});
    double sum = 0;
    for (int64_t i = 0; i < found[0].num_elements(); ++i) sum += std::pow(found[0].At(i) - (*exact)[0].At(i), 2);
    return sum;
  };
  EXPECT_LT(error(true), error(false));
}

// Numbers that parts cannot hold, in one place: the results are oneDNN's.
TEST(SplitConv, TakesAnyMagnitude) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t channels : {3, 64}) {
    const Case c = {{1, channels, 9, 10}, 32, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, "bias residual relu"};
    const Graph graph = GraphWithWeights(c.Text(), -1, 1, 5);
    for (const float odd : {kInf, -kInf, kNaN, 1e38f, -3e38f, 0x1p31f, 1e-20f, -1e-42f}) {
      SCOPED_TRACE(absl::StrCat(channels, " channels with ", odd));
      Rng rng(9);
      std::vector<Tensor> inputs;
      for (Value value : graph.inputs()) inputs.push_back(RandomTensor(graph.type(value), -1, 1, rng));
      const bool small = std::abs(odd) < 1;  // all channels of a point
      for (int64_t k = 0; k < (small ? channels : 1); ++k) inputs[0].Set(34 + k * 90, odd);
      std::vector<std::vector<Tensor>> outputs;
      for (const bool on_tiles : {true, false}) {
        const auto executor = MakeHostile(graph, Compiled(graph, 2, on_tiles));
        ASSERT_TRUE(executor.ok()) << executor.status();
        outputs.push_back(*RunTwice(**executor, inputs));
      }
      EXPECT_TRUE(outputs[0][0].BitEqual(outputs[1][0]));
    }
  }
}

// Near the bounds of what parts hold results are as exact as elsewhere.
TEST(SplitConv, IsExactUpToItsBounds) {
  const Case c = {{1, 40, 9, 10}, 32, 3, 3, {1, 1}, {1, 1, 1, 1}};
  for (const double image : {0x1p-47, 0x1p29}) {
    for (const double weight : {0x1p-39, 0x1p29}) {
      SCOPED_TRACE(absl::StrCat(image, " times ", weight));
      const Graph graph = GraphWithWeights(c.Text(), -weight, weight, 5);
      Schedule schedule = Compiled(graph, 2);
      EXPECT_EQ(RunsOnTiles(schedule), SplitConvs() != nullptr);
      ExpectAgrees(std::move(schedule), graph, -image, image, 5, kTolerance);
    }
  }
}

// Zeros are no small numbers: images of zeros, and of few numbers that are none, run on tiles and are exact.
TEST(SplitConv, TakesZeros) {
  const Case c = {{1, 32, 9, 10}, 32, 3, 3, {1, 1}, {1, 1, 1, 1}};
  const Graph graph = GraphWithWeights(c.Text(), -1, 1, 5);
  Tensor x = Tensor::FromVector<double>(DType::kFloat32, c.x, std::vector<double>(32 * 90, 0.0));
  x.Set(34, 1.0);
  const auto executor = MakeHostile(graph, Compiled(graph, 2));
  ASSERT_TRUE(executor.ok()) << executor.status();
  const std::vector<Tensor> found = *RunTwice(**executor, {x});
  EXPECT_TRUE(found[0].BitEqual((*InterpretGraph(graph, {{"x", x}}))[0]));
}

// Weights beyond what parts hold go to oneDNN.
TEST(SplitConv, LeavesStrangeWeights) {
  const Case c = {{1, 32, 9, 10}, 32, 3, 3, {1, 1}, {1, 1, 1, 1}};
  EXPECT_FALSE(RunsOnTiles(Compiled(GraphWithWeights(c.Text(), 1e-20, 2e-20, 5), 2)));
  EXPECT_FALSE(RunsOnTiles(Compiled(GraphWithWeights(c.Text(), 1e20, 2e20, 5), 2)));
}

// Without a choice, large convolutions run on tiles and small ones do not.
TEST(SplitConv, RunsWhereItPays) {
  const auto runs = [](const Case& c) {
    const auto schedule = (*MakeDevice("cpu", {2}))->Compile(GraphWithWeights(c.Text(), -1, 1, 5));
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return schedule.ok() && RunsOnTiles(*schedule);
  };
  EXPECT_EQ(runs({{1, 64, 28, 28}, 64, 3, 3, {1, 1}, {1, 1, 1, 1}}), SplitConvs() != nullptr);
  EXPECT_FALSE(runs({{1, 3, 28, 28}, 8, 1, 1}));
}

// A device without the way runs neither convolutions nor products on tiles, and has costs of its own.
TEST(SplitConv, IsSwitchedOff) {
  const auto with = MakeDevice("cpu", {.threads = 1}), without = MakeDevice("cpu", {.threads = 1, .tiles = false});
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ((*with)->name() != (*without)->name(), SplitProducts() != nullptr);
  const Case c = {{1, 64, 28, 28}, 64, 3, 3, {1, 1}, {1, 1, 1, 1}};
  const auto schedule = (*without)->Compile(GraphWithWeights(c.Text(), -1, 1, 5));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_FALSE(RunsOnTiles(*schedule));
}

// A way that needs no law is chosen by measurements like laws, and is told to nobody as one.
TEST(SplitConv, IsChosenWithoutALaw) {
  absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> allowed = LoadAllowedKernelRewrites();
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  const Case c = {{1, 64, 28, 28}, 64, 1, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}, "bias relu"};
  const Graph graph = c.WithWeights(1);
  const auto device = MakeDevice("cpu", {.threads = 2, .allowed_rewrites = *std::move(allowed)});
  ASSERT_TRUE(device.ok()) << device.status();
  const Group group = (*device)->Partition(graph)[0];
  EXPECT_EQ(*(*device)->LawOf(graph, group), "");
  EXPECT_GT(*(*device)->Cost(graph, group), 0);
  ExpectAgrees(**device, graph, -1, 1, 1);
  auto context = std::make_shared<DnnlContext>();
  context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  context->block = Simd().lanes < 16 ? 8 : 16;
  const std::vector<std::string> ways = OtherWays(*context, graph, FuseGraph(graph)[0]);
  EXPECT_EQ(ways.size(), SplitConvs() == nullptr ? 0u : 1u);
}

}  // namespace
}  // namespace rewright::cpu
