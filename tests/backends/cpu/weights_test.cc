// Weights in the memory of executables: packed once for all that are alive, not at all where memory is spared.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/cpu/lower/packed_weights.h"
#include "backends/device_factory.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

// Products with a weight as it is, transposed, and with two that are joined beforehand: a part of more than a megabyte,
// which is computed when it is packed.
constexpr char kProducts[] = R"(
input x: f32[8,512]
state v: f32[512,512]
state w: f32[512,512]
%0 = concat(v, w, axis=1)
%1 = matmul(x, %0)
%2 = transpose(w, perm=[1,0])
%3 = matmul(x, %2)
%4 = matmul(%3, v)
%5 = dot_general(%4, v, lhs_batch=[], lhs_contracting=[1], rhs_batch=[], rhs_contracting=[1])
output y = %1
output z = %5
)";

class CpuWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = MakeDevice("cpu", {2});
    ASSERT_TRUE(device.ok());
    device_ = *std::move(device);
  }
  // The addresses of large constants that are not the graph's weights.
  static std::multiset<const void*> Made(const Schedule& schedule, const Graph& graph) {
    std::multiset<const void*> made;
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.kind != Buffer::Kind::kConstant || buffer.bytes < 100000) continue;
      const bool own = std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) {
        const Tensor* weight = graph.arena()->Elements(id);
        return weight != nullptr && weight->data() == buffer.data.get();
      });
      if (!own) made.insert(buffer.data.get());
    }
    return made;
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CpuWeights, ArePackedOnceForAllExecutables) {
  const Graph graph = GraphWithWeights(kProducts, -1, 1, 1);
  auto one = device_->Compile(graph), two = device_->Compile(graph);
  ASSERT_TRUE(one.ok() && two.ok());
  const auto first = Made(*one, graph), second = Made(*two, graph);
  // v as it is and turned, w turned, and what is computed for each schedule by itself.
  EXPECT_EQ(first.size(), 4u);
  std::vector<const void*> shared;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(shared));
  EXPECT_EQ(shared.size(), 3u);
  *one = Schedule();
  ExpectAgrees(*std::move(two), graph, -1, 1, 2);
  // Other weights that may lie where those were.
  for (uint64_t seed = 3; seed < 6; ++seed) {
    const Graph other = GraphWithWeights(kProducts, -1, 1, seed);
    auto schedule = device_->Compile(other);
    ASSERT_TRUE(schedule.ok());
    ExpectAgrees(*std::move(schedule), other, -1, 1, seed);
  }
}

TEST_F(CpuWeights, AreReadWhereTheyLieToSpareMemory) {
  const Graph graph = GraphWithWeights(kProducts, -1, 1, 1);
  auto sparing = device_->CompileSparing(graph);
  ASSERT_TRUE(sparing.ok()) << sparing.status();
  EXPECT_EQ(Made(*sparing, graph).size(), 1u);  // v beside w
  ExpectAgrees(*std::move(sparing), graph, -1, 1, 2);
}

// Those of 16 bits are widened by each run then, in memory that steps share.
TEST_F(CpuWeights, Of16BitsAreWidenedByRunsToSpareMemory) {
  const Graph graph = GraphWithWeights(R"(
input x: f16[8,512]
input image: f16[1,128,6,6]
state w: f16[512,512]
state k: f16[64,128,3,3]
state b: f16[64]
%0 = matmul(x, w)
%1 = matmul(%0, w)
%2 = reshape(b, shape=[64,1,1])
%3 = conv2d(image, k, dilations=[1,1], groups=1, pads=[1,1,1,1], strides=[1,1])
%4 = add(%3, %2)
%5 = relu(%4)
output y = %1
output z = %5
)",
                                       -0.1, 0.1, 1);
  auto sparing = device_->CompileSparing(graph), plain = device_->Compile(graph);
  ASSERT_TRUE(sparing.ok() && plain.ok()) << sparing.status();
  EXPECT_GT(Made(*plain, graph).size(), 0u);
  EXPECT_EQ(Made(*sparing, graph).size(), 0u);
  ExpectAgrees(*std::move(sparing), graph, -0.1, 0.1, 2, 0.01);
}

TEST_F(CpuWeights, ThatManyGroupsReadStay) {
  // Layouts, epilogues and several readers of what is computed beforehand.
  const Graph graph = GraphWithWeights(R"(
input x: f32[8,512]
state v: f32[512,512]
state b: f32[512]
%0 = neg(v)
%1 = matmul(x, %0)
%2 = neg(b)
%3 = add(%1, %2)
%4 = matmul(%3, %0)
%5 = transpose(%0, perm=[1,0])
%6 = matmul(%4, %5)
%7 = slice(%0, starts=[0,0], stops=[8,512])
%8 = add(%6, %7)
output y = %8
output w = %0
)",
                                       -0.1, 0.1, 1);
  for (const bool spare : {false, true}) {
    auto schedule = spare ? device_->CompileSparing(graph) : device_->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ExpectAgrees(*std::move(schedule), graph, -0.1, 0.1, 2);
  }
}

// A file may have as many views of a weight in a row as it likes.
TEST_F(CpuWeights, BehindManyViews) {
  auto arena = std::make_shared<Arena>();
  const TensorType type{DType::kFloat32, {4, 4}};
  const Value x = *arena->AddInput("x", type);
  Value weight = *arena->AddState("w", Tensor(type));
  for (int i = 0; i < 200'000; ++i) {
    weight = *arena->Apply("transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
  }
  const Graph graph(arena, {x}, {{*arena->Apply("matmul", {x, weight}), "y"}});
  const auto schedule = device_->Compile(graph);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
}

TEST(PackedWeights, AreGoneWithTheLastOfTheirUsers) {
  cpu::PackedWeights packed;
  int made = 0;
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<void>> {
    ++made;
    return std::shared_ptr<void>(std::make_shared<int>(made));
  };
  const auto weights = std::make_shared<int>(0);
  const auto get = [&](int64_t n) { return *packed.Get({weights.get(), 1, n, n, 1}, weights, make); };
  auto one = get(1), again = get(1);
  EXPECT_EQ(one, again);
  EXPECT_NE(get(2), one);
  EXPECT_EQ(made, 2);
  one = nullptr;
  EXPECT_EQ(*static_cast<int*>(again.get()), 1);
  // They keep the elements that they were made of: no others lie there.
  EXPECT_EQ(weights.use_count(), 2);
  again = nullptr;
  EXPECT_EQ(weights.use_count(), 1);
  for (int64_t n = 0; n < 300; ++n) get(n);
  EXPECT_EQ(made, 302);
}

}  // namespace
}  // namespace rewright
