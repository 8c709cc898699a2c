// The plugin's own sources on a GPU and libraries that are played (standin_util.h).
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ops/common.h"
#include "tests/backends/random_graph_util.h"
#include "tests/backends/standin/numbers_util.h"
#include "tests/backends/standin/plugin_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr cuda::Precision kPrecisions[] = {cuda::Precision::kFp32, cuda::Precision::kTf32, cuda::Precision::kFp16,
                                           cuda::Precision::kBf16};

TEST_F(Plugin, RunsImages) {
  const Graph graph = GraphWithWeights(kImages, -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  uint64_t seed = 0;
  for (cuda::Precision precision : kPrecisions) ExpectRuns(graph, precision, ++seed);
}

TEST_F(Plugin, RunsRows) {
  const Graph graph = GraphWithWeights(kRows, -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  uint64_t seed = 0;
  for (cuda::Precision precision : kPrecisions) ExpectRuns(graph, precision, ++seed);
}

TEST_F(Plugin, RunsRandomGraphs) {
  for (int seed = 0; seed < Cases(60); ++seed) {
    const uint64_t number = static_cast<uint64_t>(seed);
    const cuda::Precision precision = kPrecisions[seed % 4];
    SCOPED_TRACE(seed);
    ExpectRuns(seed % 2 == 0 ? RandomImageGraph(number, 4 + seed % 9) : RandomMatrixGraph(number, 4 + seed % 9),
               precision, number);
  }
}

TEST_F(Plugin, MeasuresCosts) {
  const Graph graph = GraphWithWeights(
      "input x: f32[2,8]\nstate w: f32[8,8]\n%1 = matmul(x, w)\n%2 = relu(%1)\n%3 = softmax(%2, axis=1)\noutput y = "
      "%3\n",
      -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  Begin();
  {
    auto device = Open(cuda::Precision::kBf16);
    ASSERT_TRUE(device.ok()) << device.status();
    for (const Group& group : (*device)->Partition(graph)) {
      const auto cost = (*device)->Cost(graph, group);
      ASSERT_TRUE(cost.ok()) << cost.status();
      // The clock of the stand-in tells the cost: a proposal's time, or a kernel's.
      EXPECT_LE(*cost, 1e-4);
    }
  }
  ExpectClean();
}

// A product straight through the border, on memory of 256 elements each or more, aligned as it says and no better.
void ExpectProductIsRight(const cuda::MatmulProblem& p, Rng& rng) {
  const standin::Type type = p.precision == cuda::Precision::kFp16   ? standin::Type::kFp16
                             : p.precision == cuda::Precision::kBf16 ? standin::Type::kBf16
                                                                     : standin::Type::kFp32;
  const standin::Type result = p.wide ? standin::Type::kFp32 : type;
  const auto type_of = [&](int i) { return i == 2 || (i == 3 && p.bias) ? result : type; };
  {
    cuda::Fault fault;
    std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
    ASSERT_EQ(fault, "");
    std::unique_ptr<cuda::LibraryCall> call;
    ASSERT_EQ(gpu->Plan(p, &call), "");
    const int64_t elements = std::max<int64_t>(256, 2 * p.k * std::max(p.m, p.n));
    std::vector<std::vector<char>> contents;
    std::vector<void*> memories, buffers;
    const int count = 3 + (p.bias ? 1 : 0) + (p.residual ? 1 : 0);
    for (int i = 0; i < count; ++i) {
      contents.emplace_back(elements * 4);
      for (int64_t e = 0; e < elements; ++e) {
        standin::Store(contents.back().data(), e, type_of(i), static_cast<double>(RandomInt(rng, -8, 8)) / 4);
      }
      void* memory = nullptr;
      const size_t offset = i < 2 ? static_cast<size_t>(p.alignment) : 16;
      ASSERT_EQ(gpu->Allocate(offset + contents.back().size(), &memory), "");
      memories.push_back(memory);
      buffers.push_back(static_cast<char*>(memory) + offset);
      ASSERT_EQ(gpu->CopyIn(buffers.back(), contents.back().data(), contents.back().size()), "");
    }
    void* workspace = nullptr;
    ASSERT_EQ(gpu->Allocate(std::max<size_t>(call->workspace_bytes(), 1), &workspace), "");
    memories.push_back(workspace);
    buffers.push_back(workspace);
    ASSERT_EQ(call->Run(buffers.data()), "");
    std::vector<char> out(elements * 4);
    ASSERT_EQ(gpu->CopyOut(out.data(), buffers[2], out.size()), "");
    const auto load = [&](int i, int64_t at) { return standin::Load(contents[i].data(), at, type_of(i)); };
    const auto start = [&](const cuda::MatrixLayout& layout, int64_t b) {
      return b / p.batch * layout.outer + b % p.batch * layout.batch;
    };
    for (int64_t b = 0; b < p.outer * p.batch; ++b) {
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < p.k; ++k) {
            sum += load(0, start(p.left, b) + i * p.left.row + k * p.left.column) *
                   load(1, start(p.right, b) + k * p.right.row + j * p.right.column);
          }
          const int64_t at = start(p.out, b) + i * p.out.row + j;
          if (p.bias) sum += load(3, j);
          if (p.residual) sum += load(p.bias ? 4 : 3, at);
          if (p.activation == cuda::Activation::kRelu) sum = std::max(sum, 0.0);
          if (p.activation == cuda::Activation::kGeluErf) sum = standin::GeluErf(sum);
          if (p.activation == cuda::Activation::kGeluTanh) sum = standin::GeluTanh(sum);
          ASSERT_EQ(standin::Load(out.data(), at, result), standin::Rounded(result, sum));
        }
      }
    }
    for (void* memory : memories) gpu->Free(memory);
  }
}

// Products of all layouts that the border allows, straight through it.
TEST_F(Plugin, ProductsAreRight) {
  Rng rng(3);
  const auto pick = [&](int64_t low, int64_t high) { return RandomInt(rng, low, high); };
  for (int round = 0; round < Cases(2000); ++round) {
    Begin({.seed = static_cast<uint64_t>(round), .plans = static_cast<int>(pick(1, 4))});
    cuda::MatmulProblem p;
    p.precision = kPrecisions[round % 4];
    p.batch = pick(1, 3), p.m = pick(1, 6), p.n = pick(1, 6), p.k = pick(1, 6);
    const auto layout = [&](int64_t rows, int64_t columns) {
      const int64_t gap = pick(0, 2);
      cuda::MatrixLayout l;
      if (pick(0, 1) == 1) {
        l = {columns + gap, 1, pick(0, 2) == 0 ? 0 : rows * (columns + gap) + pick(0, 3)};
      } else {
        l = {1, rows + gap, pick(0, 2) == 0 ? 0 : columns * (rows + gap) + pick(0, 3)};
      }
      if (p.batch == 1) l.batch = 0;
      return l;
    };
    p.left = layout(p.m, p.k), p.right = layout(p.k, p.n);
    p.out = {p.n + pick(0, 3), 1, 0};
    p.out.batch = p.m * p.out.row;
    p.bias = pick(0, 1) == 1, p.residual = pick(0, 1) == 1;
    p.activation = static_cast<cuda::Activation>(pick(0, 3));
    p.wide = cuda::IsHalf(p.precision) && !p.residual && p.activation == cuda::Activation::kNone && pick(0, 1) == 1;
    p.alignment = pick(0, 1) == 1 || p.activation == cuda::Activation::kGeluErf ? 16 : 4;
    {
      SCOPED_TRACE(round);
      ExpectProductIsRight(p, rng);
    }
    ExpectClean();
    if (HasFailure()) return;
  }
}

// Batches of batches, between heads that lie side by side: by arrays of addresses.
TEST_F(Plugin, ProductsOfBatchesOfBatchesAreRight) {
  Rng rng(5);
  for (cuda::Precision precision : kPrecisions) {
    // [2 sequences, 3 heads]: queries of 4 x 8 by keys of 5 x 8 into scores, and these by values of 5 x 8 into heads
    // that lie side by side; the same with keys and values that all heads share.
    for (const int64_t head : {8, 0}) {
      const cuda::MatrixLayout queries{24, 1, 8, 96}, keys{1, 24, head, 120}, values{24, 1, head, 120},
          scores{5, 1, 20, 60}, out{24, 1, 8, 96};
      const cuda::MatmulProblem problems[] = {
          {.outer = 2, .batch = 3, .m = 4, .n = 5, .k = 8, .left = queries, .right = keys, .out = scores},
          {.outer = 2, .batch = 3, .m = 4, .n = 8, .k = 5, .left = scores, .right = values, .out = out}};
      for (cuda::MatmulProblem problem : problems) {
        problem.precision = precision;
        Begin({.plans = 3});
        ExpectProductIsRight(problem, rng);
        ExpectClean();
        if (HasFailure()) return;
      }
    }
  }
}

// Sums of many terms in products of few tiles are split, where the algorithm can, and stay right.
TEST_F(Plugin, LongSumsAreSplit) {
  Rng rng(6);
  for (cuda::Precision precision : kPrecisions) {
    cuda::MatmulProblem problem{.m = 2, .n = 3, .k = 1100, .left = {1100, 1}, .right = {3, 1}, .out = {8, 1}};
    problem.precision = precision;
    problem.bias = true;
    Begin({.plans = 2});
    ExpectProductIsRight(problem, rng);
    // In 2, 3 and 4 parts by the one algorithm of the two that takes that.
    EXPECT_EQ(standin::observed().split_parts, (std::set<int>{2, 3, 4}));
    EXPECT_EQ(standin::observed().last_parts, 4);
    ExpectClean();
  }
}

// A result whose rows begin at no multiples of 16 bytes is computed with wider ones, and copied, where that is faster.
TEST_F(Plugin, RowsThatBeginAnywhereArePadded) {
  Rng rng(7);
  for (const bool wide : {false, true}) {
    cuda::MatmulProblem problem{.m = 5, .n = 13, .k = 8, .left = {8, 1}, .right = {1, 8}, .out = {13, 1}};
    problem.precision = cuda::Precision::kBf16;
    problem.wide = wide;
    Begin({.plans = 1});
    ExpectProductIsRight(problem, rng);
    EXPECT_EQ(standin::observed().last_row, 16) << "of 13 elements";
    ExpectClean();
  }
}

// ---------------------------------------------------------------- choices

constexpr char kProduct[] = "input x: f32[3,8]\nstate w: f32[8,8]\n%1 = matmul(x, w)\noutput y = %1\n";
constexpr char kConvolution[] = "input x: f32[1,8,5,5]\nstate w: f32[8,8,3,3]\n%1 = conv2d(x, w)\noutput y = %1\n";

std::string LabelOf(const char* text, const standin::Settings& settings) {
  standin::Reset(settings);
  const Graph graph = GraphWithWeights(text, -1, 1, 1);
  cuda::Fault fault;
  std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
  auto device = cuda::MakeCudaDevice(std::move(gpu), *ProfileDb::Open(""), {});
  auto executable = MakeGraphRunner(*device)->Prepare(graph);
  if (!executable.ok()) return std::string(executable.status().message());
  const std::string label = dynamic_cast<Executor&>(**executable).schedule().steps.at(0).label;
  standin::observed().proposals.clear();
  ExpectAgrees(**executable, graph, -1, 1, 1);
  return label;
}

TEST_F(Plugin, TakesTheFastest) {
  for (const char* text : {kProduct, kConvolution}) {
    for (int fastest : {0, 2, 3}) {
      EXPECT_THAT(LabelOf(text, {.fastest = fastest}), Not(HasSubstr("generated")));
      EXPECT_THAT(standin::observed().proposals, testing::Each(fastest));
      ExpectClean();
    }
  }
}

// Many proposals, each on operands that are in no cache and hold numbers, timed behind work that hides the launch.
TEST_F(Plugin, TriesManyOnColdOperands) {
  const auto tried = [](const char* text) {
    Begin({.plans = 50});
    auto device = Open();
    EXPECT_TRUE(device.ok() && (*device)->Compile(GraphWithWeights(text, 1, 2, 1)).ok());
    const standin::Observed& observed = standin::observed();
    EXPECT_EQ(observed.idle_starts, 0);
    EXPECT_EQ(observed.empty_factors, 0);
    return std::set<int>(observed.proposals.begin(), observed.proposals.end()).size();
  };
  EXPECT_EQ(tried(kProduct), 23u) << "of 24 one says that it is none";
  // The cache has 4 KB: sets of 3 x 8, 8 x 8 and 3 x 8 elements, in units of 256 bytes.
  EXPECT_EQ(standin::observed().factors.size(), 2 * 4096 / 768 + 1u);
  ExpectClean();
  EXPECT_EQ(tried(kConvolution), 32u);
  ExpectClean();
}

// So are ways of several steps: three products of one value, in order and side by side.
TEST_F(Plugin, TriesWaysOnColdOperands) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[3,8]
state u: f32[8,8]
state v: f32[8,8]
state w: f32[8,8]
%1 = matmul(x, u)
%2 = matmul(x, v)
%3 = matmul(x, w)
output y = %1
output z = %2
output t = %3
)",
                                       1, 2, 1);
  ASSERT_FALSE(graph.outputs().empty());
  Begin({.plans = 1});
  {
    auto device = Open();
    ASSERT_TRUE(device.ok() && (*device)->Compile(graph).ok());
    EXPECT_EQ(standin::observed().empty_factors, 0);
    // Weights of a product on 11 sets of operands, each of three times; then those of all on at least 4 sets.
    EXPECT_GE(standin::observed().factors.size(), 3 * 11u + 3 * 4u);
  }
  ExpectClean();
}

// One that fails, or cannot be recorded, is not taken, though it were the fastest.
TEST_F(Plugin, LeavesOutWhatFails) {
  for (const char* text : {kProduct, kConvolution}) {
    for (const standin::Settings& settings :
         {standin::Settings{.refused = {2}}, standin::Settings{.unrecorded = {2, 0}}}) {
      EXPECT_THAT(LabelOf(text, settings), Not(HasSubstr("generated")));
      EXPECT_THAT(standin::observed().proposals, Not(testing::Contains(2)));
      ExpectClean();
    }
  }
}

// A single proposal is tried, too: another way is taken while there is one.
TEST_F(Plugin, TriesASingleProposal) {
  for (const standin::Settings& settings :
       {standin::Settings{.plans = 1, .refused = {0}}, standin::Settings{.plans = 1, .unrecorded = {0}}}) {
    EXPECT_EQ(LabelOf(kProduct, settings), "matmul (generated)");
    ExpectClean();
    // The library's second mode.
    EXPECT_EQ(LabelOf(kConvolution, settings), "conv2d");
    EXPECT_THAT(standin::observed().proposals, testing::Each(100));
    ExpectClean();
  }
  EXPECT_EQ(LabelOf(kConvolution, {.plans = 2, .fallback_plans = 0, .refused = {0, 1}}), "conv2d (generated)");
  ExpectClean();
  EXPECT_EQ(LabelOf(kConvolution, {.plans = 0}), "conv2d");
  ExpectClean();
}

TEST_F(Plugin, NamesWhatLeavesTheGpuUnusable) {
  EXPECT_THAT(LabelOf(kProduct, {.lasting = 1}), HasSubstr("algorithm 1 of cuBLASLt for product 1 3 8 8"));
  EXPECT_THAT(LabelOf(kConvolution, {.lasting = 3}), HasSubstr("engine 43 of cuDNN (proposal 3) for conv 1 8 5 5"));
}

}  // namespace
}  // namespace rewright
