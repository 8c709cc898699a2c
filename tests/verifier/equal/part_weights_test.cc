#include "verifier/equal/part_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

// Slices of what is computed from a weight are computed from parts of it, however long the way is, and though each
// value on it reads the one before twice.
TEST(PartWeights, BehindValuesThatAreReadTwice) {
  const Graph graph = GraphOf("input x: f32[2,6]\nstate w: f32[2,6]\n%0 = add(x, w)\noutput y = %0\n");
  Arena& arena = *graph.arena();
  Value sum = graph.outputs()[0].value;
  for (int i = 0; i < 60; ++i) sum = *arena.Apply("add", {sum, sum});
  const auto slice = [&](int64_t begin, int64_t end) {
    return *arena.Apply("slice", {sum},
                        {{"starts", std::vector<int64_t>{0, begin}}, {"stops", std::vector<int64_t>{2, end}}});
  };
  const auto parted = PartWeights({graph.arena(), {{slice(0, 2), slice(2, 6)}}, 63});
  ASSERT_TRUE(parted.ok()) << parted.status();
  const Graph made(parted->arena, {}, {{parted->pairs[0].first, "a"}, {parted->pairs[0].second, "b"}});
  EXPECT_THAT(PrintGraph(made), testing::AllOf(testing::HasSubstr("f32[2,2]"), testing::HasSubstr("f32[2,4]")));
  EXPECT_THAT(PrintGraph(made), testing::HasSubstr("concat("));
}

}  // namespace
}  // namespace rewright
