// Groups that one pass computes: which there are, and what they give, against the interpreter.
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright::cpu {
namespace {

class FoldsAreAllowed : public AllowedKernelRewrites {
 public:
  explicit FoldsAreAllowed(bool folds) : folds_(folds) {}
  bool Allow(const std::string&, const Graph&, NodeId, Value) const override { return false; }
  bool AllowFold(const Fold&) const override { return folds_; }

 private:
  const bool folds_;
};

std::shared_ptr<DnnlContext> Context(int threads, bool allowed = true, double least_operations = 0) {
  auto context = std::make_shared<DnnlContext>();
  context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  context->threads = threads;
  context->block = Simd().lanes < 16 ? 8 : 16;
  context->allowed_rewrites = std::make_shared<FoldsAreAllowed>(allowed);
  context->folds = std::make_shared<const GroupFolds>(context->allowed_rewrites, least_operations);
  return context;
}

bool RunsByFold(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return absl::StrContains(step.label, "(by fold)"); });
}

Schedule Compiled(const Graph& graph, const std::string& law, int threads) {
  LoweringOptions options;
  options.law_of = [&](const FusedGroup&) { return law; };
  absl::StatusOr<Schedule> schedule = Lowering(Context(threads), graph, options).Run();
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  EXPECT_EQ(RunsByFold(*schedule), !law.empty());
  return *std::move(schedule);
}

// M queries and T keys of D numbers, E numbers in a value.
struct Case {
  const char* name;
  const char* text;
};

constexpr Case kCases[] = {
    {"plain", R"(input q: f32[2,3,M,D]
input k: f32[2,3,D,T]
input v: f32[2,3,T,E]
%0 = matmul(q, k)
%1 = softmax(%0, axis=3)
%2 = matmul(%1, v)
output o = %2
)"},
    {"keys_are_turned", R"(input q: f32[2,M,D]
input k: f32[2,T,D]
input v: f32[2,T,E]
%0 = transpose(k, perm=[0,2,1])
%1 = matmul(q, %0)
%2 = softmax(%1, axis=2)
%3 = matmul(%2, v)
output o = %3
)"},
    {"scale_and_mask", R"(input q: f32[2,3,M,D]
input k: f32[2,3,T,D]
input v: f32[2,3,T,E]
input m: f32[2,1,1,T]
const %9: f32[] = [2.5]
%0 = transpose(k, perm=[0,1,3,2])
%1 = matmul(q, %0)
%2 = div(%1, %9)
%3 = add(%2, m)
%4 = softmax(%3, axis=3)
%5 = matmul(%4, v)
output o = %5
)"},
    {"mask_by_query", R"(input q: f32[2,3,M,D]
input k: f32[2,3,D,T]
input v: f32[2,3,T,E]
input m: f32[M,T]
const %9: f32[] = [0.125]
%1 = matmul(q, k)
%2 = mul(%1, %9)
%3 = add(%2, m)
%4 = softmax(%3, axis=3)
%5 = matmul(%4, v)
output o = %5
)"},
    {"selected", R"(input q: f32[2,3,M,D]
input k: f32[2,3,D,T]
input v: f32[2,3,T,E]
input m: bool[M,T]
const %9: f32[] = [-3.4e38]
%1 = matmul(q, k)
%2 = where(m, %1, %9)
%4 = softmax(%2, axis=3)
%5 = matmul(%4, v)
output o = %5
)"},
    {"heads_of_a_group", R"(input q: f32[2,2,3,M,D]
input k: f32[2,2,1,D,T]
input v: f32[2,2,1,T,E]
%1 = matmul(q, k)
%4 = softmax(%1, axis=4)
%5 = matmul(%4, v)
output o = %5
)"},
    {"heads_behind_one_another", R"(input x: f32[2,M,3,D]
input y: f32[2,T,3,D]
input z: f32[2,T,3,E]
%0 = transpose(x, perm=[0,2,1,3])
%1 = transpose(y, perm=[0,2,3,1])
%2 = transpose(z, perm=[0,2,1,3])
%3 = matmul(%0, %1)
%4 = softmax(%3, axis=3)
%5 = matmul(%4, %2)
%6 = transpose(%5, perm=[0,2,1,3])
output o = %6
)"},
    {"softmax_in_parts", R"(input q: f32[2,3,M,D]
input k: f32[2,3,D,T]
input v: f32[2,3,T,E]
%1 = matmul(q, k)
%2 = reduce_max(%1, axes=[3], keepdims=1)
%3 = sub(%1, %2)
%4 = exp(%3)
%5 = reduce_sum(%4, axes=[3], keepdims=1)
%6 = div(%4, %5)
%7 = matmul(%6, v)
output o = %7
)"},
    {"no_softmax", R"(input q: f32[2,3,M,D]
input k: f32[2,3,D,T]
input v: f32[2,3,T,E]
%1 = matmul(q, k)
%2 = relu(%1)
%3 = mul(%2, %2)
%7 = matmul(%3, v)
output o = %7
)"},
    {"shares_of_a_sum", R"(input q: f32[2,3,M,D]
input k: f32[2,3,D,T]
input v: f32[2,3,T,E]
const %9: f32[] = [3]
%1 = matmul(q, k)
%2 = sigmoid(%1)
%3 = reduce_sum(%2, axes=[3], keepdims=1)
%4 = add(%3, %9)
%5 = div(%2, %4)
%7 = matmul(%5, v)
output o = %7
)"},
};

Graph GraphOf(const Case& one, int64_t m, int64_t t, int64_t d, int64_t e) {
  const auto graph = ParseGraph(absl::StrReplaceAll(
      one.text,
      {{"M", std::to_string(m)}, {"T", std::to_string(t)}, {"D", std::to_string(d)}, {"E", std::to_string(e)}}));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

class CpuFolds : public ::testing::TestWithParam<Case> {};

TEST_P(CpuFolds, AgreeWithTheInterpreter) {
  // The last ones fill tiles (simd/split.h), with rests of all axes.
  const int64_t sizes[][4] = {{1, 9, 3, 5},       {5, 7, 4, 6},      {17, 67, 8, 33},   {33, 1100, 5, 16},
                              {130, 65, 16, 9},   {16, 32, 16, 8},   {40, 300, 24, 20}, {70, 257, 33, 40},
                              {545, 128, 64, 64}, {49, 141, 64, 17}, {31, 16, 40, 100}};
  for (const auto& [m, t, d, e] : sizes) {
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE(absl::StrCat(m, " ", t, " ", d, " ", e, " by ", threads));
      const Graph graph = GraphOf(GetParam(), m, t, d, e);
      ExpectAgrees(Compiled(graph, kFoldLaw, threads), graph, -2, 2, 7, 2e-5);
    }
  }
}

// As exponentials they would overflow, and the largest changes from block to block.
TEST_P(CpuFolds, AgreeOnLargeScores) {
  const Graph graph = GraphOf(GetParam(), 19, 1500, 4, 8);
  ExpectAgrees(Compiled(graph, kFoldLaw, 2), graph, -40, 40, 3, 2e-4);
}

TEST_P(CpuFolds, RunAsTheirPartsWithoutTheLaw) {
  const Graph graph = GraphOf(GetParam(), 9, 40, 4, 8);
  ExpectAgrees(Compiled(graph, "", 2), graph, -2, 2, 5, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Groups, CpuFolds, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

const Case& CaseOf(const std::string& name) {
  return *std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& one) { return name == one.name; });
}

struct Compared {
  int64_t finite = 0, others = 0;
};

// Expects the fold to give what the interpreter gives, element by element; what is finite within `tolerance` of the
// largest element.
Compared ExpectSame(const Graph& graph, const std::vector<Tensor>& inputs, double tolerance, int threads = 2) {
  const auto executor = MakeHostile(graph, Compiled(graph, kFoldLaw, threads));
  EXPECT_TRUE(executor.ok()) << executor.status();
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t i = 0; i < inputs.size(); ++i) by_name[graph.node(graph.inputs()[i].node).name] = inputs[i];
  const auto expected = InterpretGraph(graph, by_name);
  EXPECT_TRUE(expected.ok()) << expected.status();
  const std::vector<Tensor> found = *RunTwice(**executor, inputs);
  double largest = 0;
  for (int64_t i = 0; i < found[0].num_elements(); ++i) {
    const double a = std::abs((*expected)[0].At(i));
    if (std::isfinite(a)) largest = std::max(largest, a);
  }
  Compared compared;
  for (int64_t i = 0; i < found[0].num_elements(); ++i) {
    const double a = (*expected)[0].At(i), b = found[0].At(i);
    if (std::isfinite(a)) {
      ++compared.finite;
      EXPECT_NEAR(a, b, tolerance * largest) << "element " << i;
    } else {
      ++compared.others;
      EXPECT_TRUE(std::isnan(a) ? std::isnan(b) : a == b) << i << ": " << b << ", expected " << a;
    }
  }
  return compared;
}

std::vector<Tensor> DrawnInputs(const Graph& graph, uint64_t seed) {
  Rng rng(seed);
  std::vector<Tensor> inputs;
  for (Value input : graph.inputs()) inputs.push_back(RandomTensor(graph.type(input), -1, 1, rng));
  return inputs;
}

// Rows that are masked in a whole block, in all blocks, in parts; infinite and undefined elements of all operands: what
// is not finite is what the operators give.
TEST(CpuFoldsOfValues, ThatAreNotFiniteAgree) {
  constexpr int64_t kQueries = 21, kKeys = 1300;
  const Graph graph = GraphOf(CaseOf("mask_by_query"), kQueries, kKeys, 4, 6);
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    std::vector<Tensor> inputs = DrawnInputs(graph, static_cast<uint64_t>(round));
    float* const mask = inputs[3].as<float>();
    for (int64_t row = 0; row < kQueries; ++row) {
      // The first blocks, all but the last key, all keys, the later blocks.
      const int64_t begin = row % 5 == 3 ? 900 : 0;
      const int64_t end = row % 5 == 0   ? 1000
                          : row % 5 == 1 ? kKeys - 1
                          : row % 5 == 2 ? kKeys
                          : row % 5 == 3 ? kKeys
                                         : 0;
      std::fill(mask + row * kKeys + begin, mask + row * kKeys + end, -kInfinity);
    }
    if (round == 1) mask[4 * kKeys + 700] = kInfinity;
    if (round == 2) mask[4 * kKeys + 3] = kNan;
    if (round == 3) inputs[0].as<float>()[5] = kInfinity;
    if (round == 4) inputs[2].as<float>()[77] = -kInfinity;
    if (round == 5) inputs[1].as<float>()[1200] = kNan;
    const Compared compared = ExpectSame(graph, inputs, 2e-4);
    EXPECT_GT(compared.finite, 0);
    EXPECT_GT(compared.others, 0);
  }
}

// Blocks that a mask excludes are left out, where elements of all others are what they are with them.
TEST(CpuFoldsOfValues, ThatAreMaskedByIndicesAgree) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Sizes {
    int64_t queries, keys, first;  // the number of keys that the first query attends to
    int64_t depth = 16;
  };
  for (const Sizes& sizes : {Sizes{300, 300, 1}, Sizes{70, 333, 264}, Sizes{9, 700, 650}, Sizes{161, 160, 1, 5}}) {
    for (const float masked : {-1e4f, -3e38f, -kInfinity, -1.0f}) {
      SCOPED_TRACE(absl::StrCat(sizes.queries, " ", sizes.keys, " ", masked));
      const Graph graph = GraphOf(CaseOf("mask_by_query"), sizes.queries, sizes.keys, sizes.depth, 24);
      std::vector<Tensor> inputs = DrawnInputs(graph, 5);
      for (int64_t i = 0; i < sizes.queries; ++i) {
        for (int64_t t = 0; t < sizes.keys; ++t) {
          inputs[3].as<float>()[i * sizes.keys + t] = t < i + sizes.first ? 0 : masked;
        }
      }
      ExpectSame(graph, inputs, 1e-5, 1);
      ExpectSame(graph, inputs, 1e-5, 2);
      // An excluded key that is not a number, and an excluded value that is none: nothing is left out.
      const int64_t last = sizes.keys - 1;
      std::vector<Tensor> others = inputs;
      others[1].as<float>()[last] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_GT(ExpectSame(graph, others, 1e-5).others, 0);
      others = inputs;
      others[2].as<float>()[last * 24 + 7] = kInfinity;
      ExpectSame(graph, others, 1e-5);
    }
    const Graph graph = GraphOf(CaseOf("selected"), sizes.queries, sizes.keys, sizes.depth, 24);
    std::vector<Tensor> inputs = DrawnInputs(graph, 6);
    for (int64_t i = 0; i < sizes.queries * sizes.keys; ++i) {
      inputs[3].as<uint8_t>()[i] = i % sizes.keys < i / sizes.keys + sizes.first;
    }
    ExpectSame(graph, inputs, 1e-5);
  }
}

// Numbers that are too small or too large for parts of bf16, in each operand.
TEST(CpuFoldsOfValues, ThatAreVerySmallOrLargeAgree) {
  const Graph softmax = GraphOf(CaseOf("plain"), 40, 300, 24, 20),
              squares = GraphOf(CaseOf("no_softmax"), 40, 300, 24, 20);
  const auto scaled = [&](std::vector<float> factors) {
    std::vector<Tensor> inputs = DrawnInputs(softmax, 9);
    for (size_t k = 0; k < 3; ++k) {
      for (int64_t i = 0; i < inputs[k].num_elements(); ++i) inputs[k].as<float>()[i] *= factors[k];
    }
    return inputs;
  };
  for (const std::vector<float>& factors : std::vector<std::vector<float>>{{1e-25f, 1e25f, 1},
                                                                           {1e25f, 1e-25f, 1},
                                                                           {1, 1, 1e36f},
                                                                           {1, 1, 1e-36f},
                                                                           {1e-14f, 1e14f, 1e-9f},
                                                                           {1e-30f, 1, 1},
                                                                           {0, 1, 1},
                                                                           {1, 1, 0}}) {
    SCOPED_TRACE(absl::StrCat(factors[0], " ", factors[1], " ", factors[2]));
    ExpectSame(softmax, scaled(factors), 1e-5);
  }
  // Scores of which squares are far below or above.
  for (const std::vector<float>& factors : std::vector<std::vector<float>>{
           {1e-9f, 1e-2f, 1}, {1e-5f, 1e-5f, 1e-9f}, {1e7f, 1, 1e9f}, {1e5f, 1e5f, 1e-9f}}) {
    SCOPED_TRACE(absl::StrCat(factors[0], " ", factors[1], " ", factors[2]));
    ExpectSame(squares, scaled(factors), 1e-5);
  }
}

TEST(CpuFoldGroups, AreThoseThatAreLicensed) {
  const Graph graph = GraphOf(CaseOf("scale_and_mask"), 9, 40, 4, 8);
  const auto groups_of = [&](const DnnlContext& context) {
    std::vector<FusedGroup> groups =
        context.folds->Join(graph, FuseGraph(graph), [](const FusedGroup&) { return true; });
    std::erase_if(groups, [](const FusedGroup& group) { return group.kind != FusedGroup::Kind::kFold; });
    return groups;
  };
  const auto context = Context(1);
  const std::vector<FusedGroup> folds = groups_of(*context);
  ASSERT_EQ(folds.size(), 1u);
  EXPECT_EQ(folds[0].group.nodes.size(), 5u);
  EXPECT_EQ(folds[0].parts.size(), 4u);
  EXPECT_THAT(AllowedLaws(*context, graph, folds[0]), testing::ElementsAre(kFoldLaw));
  EXPECT_THAT(groups_of(*Context(1, /*allowed=*/false)), testing::IsEmpty());
  EXPECT_THAT(groups_of(*Context(1, true, /*least_operations=*/1e9)), testing::IsEmpty());
}

// The device chooses between the fold and its parts; its cost is that of what it runs.
TEST(CpuFoldGroups, AreMeasuredBesideTheirParts) {
  DeviceOptions options;
  options.threads = 2;
  options.allowed_rewrites = std::make_shared<FoldsAreAllowed>(true);
  const absl::StatusOr<std::unique_ptr<Device>> device = MakeDevice("cpu", options);
  ASSERT_TRUE(device.ok()) << device.status();
  const Graph graph = GraphOf(CaseOf("plain"), 96, 640, 16, 16);
  const std::vector<Group> groups = (*device)->Partition(graph);
  ASSERT_EQ(groups.size(), 1u);
  const absl::StatusOr<double> cost = (*device)->Cost(graph, groups[0]);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(*cost, 0);
  const absl::StatusOr<std::string> law = (*device)->LawOf(graph, groups[0]);
  ASSERT_TRUE(law.ok()) << law.status();
  const absl::StatusOr<Schedule> schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(RunsByFold(*schedule), *law == kFoldLaw);
  ExpectAgrees(**device, graph, -2, 2, 5);
}

// Scores that someone else reads are computed anyway.
TEST(CpuFoldGroups, AreNoneWhereScoresAreRead) {
  const auto graph = ParseGraph(
      "input q: f32[5,4]\ninput k: f32[4,7]\ninput v: f32[7,6]\n%0 = matmul(q, k)\n%1 = softmax(%0, axis=1)\n"
      "%2 = matmul(%1, v)\noutput o = %2\noutput s = %1\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<FusedGroup> groups =
      Context(1)->folds->Join(*graph, FuseGraph(*graph), [](const FusedGroup&) { return true; });
  EXPECT_TRUE(std::none_of(groups.begin(), groups.end(),
                           [](const FusedGroup& group) { return group.kind == FusedGroup::Kind::kFold; }));
}

// Scratch space grows with the number of keys, and not with that of scores.
TEST(CpuFoldGroups, TakeMemoryThatIsLinear) {
  const auto bytes_of = [](int64_t length) {
    const Graph graph = GraphOf(CaseOf("plain"), length, length, 16, 16);
    const Schedule schedule = Compiled(graph, kFoldLaw, 2);
    size_t bytes = 0;
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.kind == Buffer::Kind::kActivation) bytes += buffer.bytes;
    }
    return bytes;
  };
  EXPECT_LT(bytes_of(4096), 9 * bytes_of(512));
  EXPECT_LT(bytes_of(4096), size_t{6} * 4096 * 4096 * 4 / 10);
}

}  // namespace
}  // namespace rewright::cpu
