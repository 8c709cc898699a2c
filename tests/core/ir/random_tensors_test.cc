#include "core/ir/random_tensors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/text.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

const char kEmbedding[] = R"(
  input ids: i64[4,16]
  input mask: i64[4,16]
  state table: f32[7,3]
  state wide: f32[3,90]
  %1 = gather(table, ids, axis=0)
  %2 = gather(wide, ids, axis=1)
  output a = %1
  output b = %2
  output c = mask
)";

TEST(RandomInputs, IndicesStayInsideWhatTheyIndex) {
  const Graph graph = GraphOf(kEmbedding);
  EXPECT_EQ(IndexedSize(graph, graph.inputs()[0]), 7);
  EXPECT_EQ(IndexedSize(graph, graph.inputs()[1]), 0);
  const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
  ASSERT_EQ(inputs.size(), 2u);
  int64_t largest = 0;
  for (int64_t i = 0; i < inputs[0].num_elements(); ++i) {
    EXPECT_GE(inputs[0].AtInt(i), 0);
    EXPECT_LT(inputs[0].AtInt(i), 7);
    largest = std::max(largest, inputs[0].AtInt(i));
    EXPECT_LT(inputs[1].AtInt(i), 2);
  }
  EXPECT_GT(largest, 1);
}

TEST(RandomInputs, DependOnSeedNameAndTypeAlone) {
  const Graph one = GraphOf("input x: f32[8]\noutput y = x\n");
  const Graph two = GraphOf("input w: f32[3]\ninput x: f32[8]\n%1 = neg(x)\noutput y = %1\noutput z = w\n");
  EXPECT_TRUE((*RandomInputs(one, 5))[0].BitEqual((*RandomInputs(two, 5))[1]));
  EXPECT_FALSE((*RandomInputs(one, 5))[0].BitEqual((*RandomInputs(one, 6))[0]));
}

TEST(RandomInputs, FloatsAreNormal) {
  const Tensor x = (*RandomInputs(GraphOf("input x: f32[10000]\noutput y = x\n"), 1))[0];
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    sum += x.At(i);
    squares += x.At(i) * x.At(i);
  }
  EXPECT_NEAR(sum / 10000, 0, 0.05);
  EXPECT_NEAR(squares / 10000, 1, 0.05);
}

TEST(StressInputs, HaveTheMagnitudesThatAreAskedFor) {
  const Graph graph = GraphOf(
      "input h: f16[400]\ninput x: f32[400]\ninput i: i8[400]\ninput u: u64[400]\ninput ids: i64[400]\n"
      "state table: f32[7,3]\n%1 = gather(table, ids, axis=0)\noutput a = %1\noutput b = h\noutput c = x\noutput d = "
      "i\n"
      "output e = u\n");
  const double halves[] = {0x1p-4, 1, 32, 32752}, others[] = {0x1p-10, 1, 0x1p10, 0x1p20};
  for (int k = 0; k < kMagnitudes; ++k) {
    const auto inputs = StressInputs(graph, 3, std::vector<Magnitude>(5, static_cast<Magnitude>(k)));
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    for (int i = 0; i < 400; ++i) {
      EXPECT_TRUE(std::abs((*inputs)[0].At(i)) >= halves[k] && std::abs((*inputs)[0].At(i)) <= 2 * halves[k]);
      EXPECT_TRUE(std::abs((*inputs)[1].At(i)) >= others[k] && std::abs((*inputs)[1].At(i)) <= 2 * others[k]);
      EXPECT_TRUE((*inputs)[4].AtInt(i) >= 0 && (*inputs)[4].AtInt(i) < 7) << "indices stay inside";
      EXPECT_TRUE(k != 3 || std::abs((*inputs)[2].AtInt(i)) >= 125) << "the ends of i8";
      const uint64_t u = static_cast<uint64_t>((*inputs)[3].AtInt(i));
      EXPECT_TRUE(k == 3 ? u + 3 < 6 : u <= (k == 0 ? 1u : k == 1 ? 8u : 1000u)) << u;
    }
  }
}

}  // namespace
}  // namespace rewright
