// Tests the choice of placements by made-up costs, and the file that it is written to.
#include "tools/verbs/layout/placement_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "tools/verbs/layout/layout_file.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

std::vector<TensorGroup> Groups(int count) {
  std::vector<TensorGroup> groups;
  for (int k = 0; k < count; ++k) groups.push_back({{absl::StrCat("w", k)}, {0, 1}});
  return groups;
}

// A tensor that is cut saves time, and one that is cut otherwise than the one before costs an exchange.
absl::StatusOr<PlacementCost> ChainCost(const std::vector<sharding::Placement>& placements, int count) {
  std::map<std::string, int> axes;
  for (const auto& placement : placements) axes[placement.tensor] = placement.axis;
  PlacementCost cost;
  int before = -1;
  for (int k = 0; k < count; ++k) {
    const auto found = axes.find(absl::StrCat("w", k));
    const int axis = found == axes.end() ? -1 : found->second;
    cost.seconds += axis < 0 ? 2 : 1;
    cost.bytes += axis < 0 ? 4 : 2;
    if (k > 0 && axis == before && axis >= 0) cost.seconds += 0.4;  // columns want rows behind them
    before = axis;
  }
  return cost;
}

TEST(PlacementSearchTest, TheChoiceIsTheBestOfAllWhereTheDescentReachesIt) {
  constexpr int kCount = 4;
  const auto cost = [&](const std::vector<sharding::Placement>& placements) { return ChainCost(placements, kCount); };
  const auto choice = ChoosePlacements(Groups(kCount), cost, {});
  ASSERT_TRUE(choice.ok()) << choice.status();
  double best = 1e9;
  for (int code = 0; code < 81; ++code) {
    std::vector<sharding::Placement> placements;
    for (int k = 0, rest = code; k < kCount; ++k, rest /= 3) {
      if (rest % 3 < 2) placements.push_back({absl::StrCat("w", k), rest % 3});
    }
    best = std::min(best, cost(placements)->seconds);
  }
  EXPECT_DOUBLE_EQ(choice->cost.seconds, best);
  EXPECT_EQ(choice->Placements().size(), 4u);
  ASSERT_EQ(choice->Reasons().size(), 4u);
  EXPECT_THAT(choice->Reasons()[0], HasSubstr("w0: along axis "));
  EXPECT_THAT(choice->Reasons()[0], HasSubstr(" would take "));
}

// However few costs are asked for.
TEST(PlacementSearchTest, TheChoiceIsNeverWorseThanAStart) {
  const auto cost = [](const std::vector<sharding::Placement>& placements) { return ChainCost(placements, 4); };
  for (const int64_t most : {1, 2, 3, 10}) {
    const auto choice = ChoosePlacements(
        Groups(4), cost, {.most_tried = most, .starts = {{-1, -1, -1, -1}, {0, 1, 0, 1}, {1, 1, 1, 1}}});
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_LE(choice->cost.seconds, 4) << most;
  }
}

TEST(PlacementSearchTest, ThePartFitsIntoTheMemory) {
  // Cutting costs more than it saves, but all of it does not fit.
  const auto cost = [](const std::vector<sharding::Placement>& placements) -> absl::StatusOr<PlacementCost> {
    const auto cut = static_cast<int64_t>(placements.size());
    return PlacementCost{1.0 + static_cast<double>(cut), 100 - 20 * cut};
  };
  EXPECT_EQ(ChoosePlacements(Groups(4), cost, {})->cost.bytes, 100);
  const auto tight = ChoosePlacements(Groups(4), cost, {.memory_bytes = 60});
  EXPECT_EQ(tight->cost.bytes, 60);
  EXPECT_EQ(tight->cost.seconds, 3);
}

// By proved laws, on 4 and 8 devices of a described cluster.
TEST(PlacementSearchTest, SmallModelsAreCutAsByExhaustiveSearch) {
  const auto cluster = distributed::ReadCluster("many-core");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ProvedLaws laws(2);
  for (const char* text :
       {"input x: f32[64,256]\nstate v: f32[256,512]\nstate w: f32[512,256]\n%1 = matmul(x, v)\n%2 = relu(%1)\n"
        "%3 = matmul(%2, w)\noutput y = %3\n",
        "input x: f32[8,512]\nstate u: f32[512,1024]\nstate v: f32[512,1024]\nstate w: f32[1024,512]\n"
        "%1 = matmul(x, u)\n%2 = matmul(x, v)\n%3 = sigmoid(%1)\n%4 = mul(%3, %2)\n%5 = matmul(%4, w)\n"
        "%6 = add(%5, x)\noutput y = %6\n",
        "input x: f32[16,1024]\nstate v: f32[1024,1024]\nstate b: f32[1024]\nstate w: f32[1024,1024]\n"
        "%1 = matmul(x, v)\n%2 = add(%1, b)\n%3 = tanh(%2)\n%4 = matmul(%3, w)\n%5 = softmax(%4, axis=1)\n"
        "output y = %5\n"}) {
    const auto graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const int degree : {4, 8}) {
      SCOPED_TRACE(absl::StrCat(degree, "\n", text));
      const auto choice = PlacementsOfModel(*graph, degree, *cluster, std::ref(laws));
      ASSERT_TRUE(choice.ok()) << choice.status();
      const ModelCosts costs(*graph, degree, *cluster, std::ref(laws));
      const std::vector<TensorGroup>& groups = costs.groups();
      double best = 1e9;
      int count = 1;
      for (const TensorGroup& group : groups) count *= static_cast<int>(group.axes.size()) + 1;
      for (int code = 0; code < count; ++code) {
        std::vector<sharding::Placement> placements;
        int rest = code;
        for (const TensorGroup& group : groups) {
          const int places = static_cast<int>(group.axes.size()) + 1;
          if (rest % places > 0) placements.push_back({group.names[0], group.axes[rest % places - 1]});
          rest /= places;
        }
        const auto cost = costs.Of(placements);
        ASSERT_TRUE(cost.ok()) << cost.status();
        best = std::min(best, cost->seconds);
      }
      EXPECT_GE(count, 27);
      EXPECT_LE(choice->cost.seconds, best * (1 + 1e-9));
    }
  }
}

TEST(LayoutFileTest, PrintsAndParses) {
  const LayoutFile file{"dp=2,tp=2,micro=8", /*memory_bytes=*/0, {{"layer0.weight", 1}, {"a:b", 0}}};
  const std::string text = PrintLayoutFile(file, {"dp=2: because"});
  EXPECT_EQ(text, "# dp=2: because\nlayout dp=2,tp=2,micro=8\nlayer0.weight:1\na:b:0\n");
  const auto parsed = ParseLayoutFile(text, "f.layout");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(PrintLayoutFile(*parsed, {}), PrintLayoutFile(file, {}));
  EXPECT_THAT(std::string(ParseLayoutFile("layout dp=2\nlayout dp=4 # once more\n", "f").status().message()),
              HasSubstr("f, line 2: found a second layout"));
  EXPECT_THAT(std::string(ParseLayoutFile("layout dp=2\n\nlayer0\n", "f").status().message()),
              HasSubstr("f, line 3: found `layer0`, expected NAME:AXIS"));
}

}  // namespace
}  // namespace rewright
