// Folds are allowed where the laws of what they carry are proved.
#include "verifier/claims/proved_folds.h"

#include <gtest/gtest.h>

#include "tests/support/fold_cases.h"

namespace rewright {
namespace {

class Nothing : public AllowedKernelRewrites {
 public:
  bool Allow(const std::string& law, const Graph&, NodeId, Value) const override { return law == "other"; }
};

class ProvedFoldsTest : public ::testing::TestWithParam<FoldCase> {};

TEST_P(ProvedFoldsTest, AreAllowedWithTheirRepairsAlone) {
  const std::unique_ptr<AllowedKernelRewrites> allowed = WithProvedFolds(std::make_unique<Nothing>());
  const Grouped group(GetParam().graph);
  absl::StatusOr<Fold> fold = group.FoldAlong(GetParam().operand, GetParam().axis);
  ASSERT_TRUE(fold.ok()) << fold.status();
  EXPECT_TRUE(allowed->AllowFold(*fold));
  EXPECT_TRUE(allowed->AllowFold(*fold)) << "the second time";
  for (Carried& carried : fold->carried) {
    if (carried.repair == nullptr) continue;
    const ExprPtr repair = std::exchange(carried.repair, nullptr);
    EXPECT_FALSE(allowed->AllowFold(*fold));
    carried.repair = repair;
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, ProvedFoldsTest, ::testing::ValuesIn(FoldCases()),
                         [](const auto& info) { return info.param.name; });

TEST(ProvedFolds, LeaveOtherLawsAsTheyAre) {
  const std::unique_ptr<AllowedKernelRewrites> allowed = WithProvedFolds(std::make_unique<Nothing>());
  const Graph graph = GraphOf("input x: f32[4]\n%0 = exp(x)\noutput y = %0\n");
  const Value y = graph.outputs()[0].value;
  EXPECT_TRUE(allowed->Allow("other", graph, y.node, y));
  EXPECT_FALSE(allowed->Allow("another", graph, y.node, y));
}

}  // namespace
}  // namespace rewright
