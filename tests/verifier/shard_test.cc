// Graphs cut over devices: the interpreter gives the original's outputs, bit for bit if the laws promise it.
#include "substitutions/sharding/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/parsed_graph.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_placements.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

using sharding::Exchange;
using sharding::ExchangesOf;
using sharding::Placement;
using sharding::Shard;
using sharding::Sharded;
using testing::HasSubstr;

// The interpreter runs both graphs, and the outputs have to be the same.
void ExpectSame(const Graph& original, const Sharded& sharded, const absl::flat_hash_map<std::string, Tensor>& inputs) {
  SCOPED_TRACE(PrintGraph(sharded.graph));
  const InterpretOptions options{.precision = sharded.exact ? Precision::kNative : Precision::kFloat64};
  const auto expected = InterpretGraph(original, inputs, options);
  if (!expected.ok()) return;  // a quotient of integers by zero
  const auto found = InterpretGraph(sharded.graph, inputs, options);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), expected->size());
  for (size_t k = 0; k < expected->size(); ++k) {
    if (sharded.exact) {
      EXPECT_TRUE((*found)[k].BitEqual((*expected)[k])) << "output " << k;
    } else {
      EXPECT_TRUE(Compare((*found)[k], (*expected)[k], 1e-9, 1e-9).close) << Compare((*found)[k], (*expected)[k]).text;
    }
  }
}

absl::flat_hash_map<std::string, Tensor> Drawn(const Graph& graph, uint64_t seed) {
  const auto tensors = RandomInputs(graph, seed);
  EXPECT_TRUE(tensors.ok());
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (size_t k = 0; k < tensors->size(); ++k) {
    const Tensor& drawn = (*tensors)[k];
    inputs[graph.node(graph.inputs()[k].node).name] = drawn;
  }
  return inputs;
}

constexpr char kBlock[] = R"(
  input x: f32[4,6,8]
  input wq: f32[8,12]
  input wk: f32[8,12]
  input wv: f32[8,12]
  input wo: f32[12,8]
  input w1: f32[8,24]
  input w2: f32[24,8]
  input s: f32[8]
  input b: f32[8]
  %1 = matmul(x, wq)
  %2 = reshape(%1, shape=[4,6,6,2])
  %3 = transpose(%2, perm=[0,2,1,3])
  %4 = matmul(x, wk)
  %5 = reshape(%4, shape=[4,6,6,2])
  %6 = transpose(%5, perm=[0,2,3,1])
  %7 = matmul(%3, %6)
  %8 = softmax(%7, axis=3)
  %9 = matmul(x, wv)
  %10 = reshape(%9, shape=[4,6,6,2])
  %11 = transpose(%10, perm=[0,2,1,3])
  %12 = matmul(%8, %11)
  %13 = transpose(%12, perm=[0,2,1,3])
  %14 = reshape(%13, shape=[4,6,12])
  %15 = matmul(%14, wo)
  %16 = add(%15, x)
  %17 = layer_norm(%16, s, b, axis=2)
  %18 = matmul(%17, w1)
  %19 = gelu(%18)
  %20 = matmul(%19, w2)
  %21 = add(%20, %17)
  output y = %21
)";

TEST(Shard, TheBatchOfATransformerIsExact) {
  const Graph graph = GraphOf(kBlock);
  for (int64_t degree : {1, 2, 4}) {
    const Sharded sharded = Cut(graph, {{"x", 0}}, degree);
    EXPECT_TRUE(sharded.exact);
    EXPECT_EQ(sharded.cut, 21);
    EXPECT_THAT(sharded.whole, testing::IsEmpty());
    const std::vector<Exchange> exchanges = ExchangesOf(sharded.graph);
    ASSERT_EQ(exchanges.size(), 1u);
    EXPECT_EQ(exchanges[0].collective, "all-gather");
    ExpectSame(graph, sharded, Drawn(graph, 1));
  }
}

// Columns, then rows, of the attention and of the MLP: two all-reduces, as Megatron-LM does by hand.
TEST(Shard, ColumnsOfATransformerGiveTwoSums) {
  const Graph graph = GraphOf(kBlock);
  for (int64_t degree : {2, 3, 6}) {
    const Sharded sharded = Cut(graph, {{"wq", 1}, {"wk", 1}, {"wv", 1}, {"w1", 1}}, degree);
    EXPECT_FALSE(sharded.exact);
    EXPECT_THAT(sharded.whole, testing::IsEmpty());
    const std::vector<Exchange> exchanges = ExchangesOf(sharded.graph);
    ASSERT_EQ(exchanges.size(), 1u);
    EXPECT_EQ(exchanges[0].collective, "all-reduce");
    EXPECT_EQ(exchanges[0].count, 2);
    // Twice (degree-1)/degree of the added bytes, twice.
    EXPECT_NEAR(exchanges[0].bytes, 2 * 2 * (degree - 1.0) / static_cast<double>(degree) * 4 * 6 * 8 * 4, 1e-6);
    ExpectSame(graph, sharded, Drawn(graph, 4));
  }
}

TEST(Shard, RowsOfAnImageHaveEdges) {
  const Graph graph = GraphOf(R"(
    input x: f32[2,3,12,5]
    input w: f32[4,3,3,3]
    input v: f32[4,4,1,1]
    %1 = conv2d(x, w, pads=[1,1,1,1])
    %2 = relu(%1)
    %3 = conv2d(%2, v, strides=[2,1])
    output y = %3
  )");
  ProvedLaws laws(20);  // its law takes a second on a busy machine
  for (int64_t degree : {2, 3, 6}) {
    const auto made = Shard(graph, {{"x", 2}}, degree, std::ref(laws));
    ASSERT_TRUE(made.ok()) << made.status();
    const Sharded& sharded = *made;
    EXPECT_EQ(sharded.cut, 3) << degree;
    EXPECT_THAT(PrintGraph(sharded.graph), HasSubstr("halo("));
    ExpectSame(graph, sharded, Drawn(graph, 2));
  }
}

// A file may have as many operators in a row as it likes: on what is cut, on a weight, and on what is made on devices.
TEST(Shard, LongChains) {
  const TensorType type{DType::kFloat32, {4, 4}};
  for (int first : {0, 1, 2}) {
    SCOPED_TRACE(first);
    auto arena = std::make_shared<Arena>();
    const Value x = *arena->AddInput("x", type), weight = *arena->AddState("w", Tensor(type));
    const Value number = *arena->AddInput("number", {DType::kFloat32, {1, 1}});
    const Value made = *arena->Apply("expand", {number}, {{"shape", std::vector<int64_t>{4, 4}}});
    Value last = std::vector<Value>{x, weight, made}[static_cast<size_t>(first)];
    for (int i = 0; i < 100'000; ++i) last = *arena->Apply("neg", {last});
    const Graph graph(arena, {x, number}, {{*arena->Apply("mul", {x, last}), "y"}});
    const Sharded sharded = Cut(graph, {{"x", 0}}, 2);
    EXPECT_EQ(sharded.cut, first == 0 ? 100'001 : 1);
    EXPECT_TRUE(sharded.whole.empty());
  }
}

// Values that are read twice are made once, though each reads the one before twice.
TEST(Shard, SharedValuesAreMadeOnce) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {4, 4}});
  const Value number = *arena->AddInput("number", {DType::kFloat32, {1, 1}});
  Value last = *arena->Apply("expand", {number}, {{"shape", std::vector<int64_t>{4, 4}}});
  for (int i = 0; i < 60; ++i) last = *arena->Apply("add", {last, last});
  const Graph graph(arena, {x, number}, {{*arena->Apply("mul", {x, last}), "y"}});
  const Sharded sharded = Cut(graph, {{"x", 0}}, 2);
  EXPECT_EQ(sharded.cut, 62);
  ExpectSame(graph, sharded, Drawn(graph, 5));
}

// Windows over rows that overlap, with padding that takes no part in a maximum and does not count in a mean.
TEST(Shard, RowsOfPooledImagesKnowTheirBorders) {
  const Graph graph = GraphOf(R"(
    input x: f32[2,3,24,5]
    %1 = max_pool2d(x, kernel=[3,3], strides=[2,1], pads=[1,1,1,1])
    %2 = avg_pool2d(%1, kernel=[3,1], strides=[1,1], pads=[1,0,1,0])
    output y = %2
  )");
  for (int64_t degree : {2, 3, 4}) {
    const Sharded sharded = Cut(graph, {{"x", 2}}, degree);
    EXPECT_EQ(sharded.cut, 2) << degree;
    EXPECT_TRUE(sharded.exact);
    EXPECT_THAT(PrintGraph(sharded.graph),
                testing::AllOf(HasSubstr("block_max_pool2d"), HasSubstr("block_avg_pool2d")));
    ExpectSame(graph, sharded, Drawn(graph, 5));
  }
}

TEST(Shard, TheRowsOfATableAreLookedUpWhereTheyAre) {
  const Graph graph = GraphOf(R"(
    input t: f32[48,4]
    input i: i64[3,5]
    %1 = gather(t, i, axis=0)
    output y = %1
  )");
  absl::flat_hash_map<std::string, Tensor> inputs = Drawn(graph, 6);
  Tensor indices(graph.type(graph.inputs()[1]));
  for (int64_t k = 0; k < 15; ++k) indices.Set(k, static_cast<double>((k * 19) % 96 - 48));  // from the end, too
  inputs["i"] = indices;
  for (int64_t degree : {2, 3}) {
    const Sharded sharded = Cut(graph, {{"t", 0}}, degree);
    EXPECT_EQ(sharded.cut, 1);
    EXPECT_THAT(PrintGraph(sharded.graph), HasSubstr("block_gather("));
    ExpectSame(graph, sharded, inputs);
  }
}

// Dropout: every device makes its block of the mask of the whole.
constexpr char kDropout[] = R"(
  input x: f32[4,6,8]
  input seed: i64[]
  %1 = random_uniform(seed, shape=[4,6,8], stream=3)
  const %2: f32[] = [0.25]
  %3 = less(%1, %2)
  const %4: f32[] = [0]
  %5 = where(%3, %4, x)
  output y = %5
)";

TEST(Shard, TheMaskOfDropoutIsThatOfTheWhole) {
  const Graph graph = GraphOf(kDropout);
  for (const int axis : {0, 1, 2}) {
    const Sharded sharded = Cut(graph, {{"x", axis}}, 2);
    EXPECT_EQ(sharded.cut, 3);  // of the mask, too
    EXPECT_TRUE(sharded.exact);
    EXPECT_THAT(PrintGraph(sharded.graph), testing::AllOf(HasSubstr("block_random_uniform("), HasSubstr("each_less(")));
    ExpectSame(graph, sharded, Drawn(graph, 7));
  }
}

TEST(Shard, WhatHasNoLawIsJoined) {
  const Graph graph = GraphOf(R"(
    input x: f32[4,6]
    %1 = exp(x)
    %2 = argmax(%1, axis=0)
    %3 = cumsum(%1, axis=0)
    output y = %2
    output z = %3
  )");
  const Sharded sharded = Cut(graph, {{"x", 0}}, 2);
  EXPECT_THAT(sharded.whole, testing::ElementsAre("argmax", "cumsum"));
  EXPECT_EQ(sharded.cut, 1);
  ExpectSame(graph, sharded, Drawn(graph, 3));
}

TEST(Shard, ErrorsNameThePlacement) {
  const Graph graph = GraphOf("input x: f32[4,6]\n%1 = exp(x)\noutput y = %1\n");
  const auto error = [&](const Placement& placement, int64_t degree) {
    return std::string(Shard(graph, {placement}, degree, std::ref(LawsOfTests())).status().message());
  };
  EXPECT_THAT(error({"z", 0}, 2), HasSubstr("placement z: no input or weight has that name; there are x"));
  EXPECT_THAT(error({"x", 2}, 2), HasSubstr("x is f32[4,6], expected an axis 2"));
  EXPECT_THAT(error({"*", 1}, 4), HasSubstr("expected a size along axis 1 that 4 divides"));
  EXPECT_THAT(error({"x", 0}, 0), HasSubstr("found 0 devices"));
}

// Random graphs, every leaf of them cut along a random axis.
TEST(Shard, RandomGraphsMeanTheSame) {
  const auto core = FindRuleFile("core.rules"), laws = FindRuleFile("laws.rules");
  ASSERT_TRUE(core.ok() && laws.ok());
  const auto rules = RuleSet::FromFiles({*core, *laws}, {.allow_finite_only = true});
  ASSERT_TRUE(rules.ok()) << rules.status();
  const RandomGraphs graphs(rules->matchers());
  const int wanted = Cases(1000, 40);
  int cut = 0, exact = 0, collectives = 0;
  for (int i = 0; i < wanted; ++i) {
    const uint64_t seed = 9000 + static_cast<uint64_t>(i);
    const RandomGraph random = graphs.Grow(seed, 4);
    std::mt19937_64 rng(seed);
    const auto degree = static_cast<int64_t>(2 + rng() % 2);
    const std::vector<Placement> placements = RandomPlacements(random.graph, degree, rng);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", degree, " devices\n", PrintGraph(random.graph)));
    const Sharded sharded = Cut(random.graph, placements, degree);
    cut += sharded.cut;
    exact += sharded.exact;
    collectives += static_cast<int>(ExchangesOf(sharded.graph).size());
    absl::flat_hash_map<std::string, Tensor> inputs = random.inputs;
    ExpectSame(random.graph, sharded, inputs);
    if (HasFailure()) return;
  }
  std::cout << wanted << " graphs, " << cut << " applications on blocks by " << LawsOfTests().num_proved() << " laws, "
            << exact << " graphs exact, " << collectives << " kinds of exchanges\n";
  EXPECT_GT(cut, wanted);
}

}  // namespace
}  // namespace rewright
