#include "core/ir/graph_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;

constexpr char kBounds[] = R"(
  input x: f32[1000]
  input n: i8[1000]
  input ids: i64[1000]
  state table: f32[7,3]
  const %0: f32[] = [-3000]
  %1 = max(x, %0)
  %2 = clip(%1, min=0, max=50)
  %3 = gather(table, ids, axis=0)
  output a = %2
  output b = %3
  output c = n
)";

TEST(GraphNumbers, AreSmallConstantsAndAttributesByMagnitude) {
  const Graph graph = GraphOf(kBounds);
  const Graph other = GraphOf("input x: f32[2]\n%0 = clip(x, min=-50, max=4)\noutput y = %0\n");
  EXPECT_THAT(NumbersOf({&graph}, 8), ElementsAre(ElementsAre(50), ElementsAre(-3000)));
  EXPECT_THAT(NumbersOf({&graph, &other}, 2), ElementsAre(ElementsAre(4, 50), ElementsAre(-3000)));
  EXPECT_THAT(NumbersOf({&other}, 8, &graph), ElementsAre(ElementsAre(4)));
}

TEST(GraphNumbers, InputsLieOnBothSidesAndAtThem) {
  const Graph graph = GraphOf(kBounds);
  const std::vector<Tensor> inputs = *InputsAround(graph, 1, {-3000});
  int at = 0, below = 0, above = 0, negative = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const double x = inputs[0].At(i);
    at += x == -3000;
    below += x < -3000 && x >= -6000;
    above += x > -3000 && x <= -1500;
    negative += x >= 1500;
    EXPECT_LT(inputs[1].AtInt(i), 2);  // the type ends before
    EXPECT_LT(inputs[2].AtInt(i), 7);  // an index
  }
  for (const int count : {at, below, above, negative}) EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace rewright
