// The laws of folds, for all sizes, and laws that are altered.
#include "verifier/claims/fold_claims.h"

#include <gtest/gtest.h>

#include "core/ir/rewrite.h"
#include "tests/support/fold_cases.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {
namespace {

class FoldClaims : public ::testing::TestWithParam<FoldCase> {};

TEST_P(FoldClaims, AreProved) {
  const Grouped group(GetParam().graph);
  const absl::StatusOr<Fold> fold = group.FoldAlong(GetParam().operand, GetParam().axis);
  ASSERT_TRUE(fold.ok()) << fold.status();
  for (size_t k = 0; k < fold->carried.size(); ++k) {
    const absl::StatusOr<FoldLaw> law = LawOfCarried(*fold, static_cast<int>(k));
    ASSERT_TRUE(law.ok()) << law.status();
    const ProofResult proof = Prove(law->instance);
    EXPECT_EQ(proof.verdict, Verdict::kProved) << "c" << k << ": " << proof.reason;
  }
}

// Without its repair, with the new and the old values exchanged, or with another sign, no law is proved.
TEST_P(FoldClaims, AreRefutedWhereTheRepairIsAltered) {
  const Grouped group(GetParam().graph);
  const absl::StatusOr<Fold> fold = group.FoldAlong(GetParam().operand, GetParam().axis);
  ASSERT_TRUE(fold.ok()) << fold.status();
  const int first = fold->num_operands, count = static_cast<int>(fold->carried.size());
  for (int k = 0; k < count; ++k) {
    const ExprPtr repair = fold->carried[static_cast<size_t>(k)].repair;
    if (repair == nullptr) continue;
    const auto exchanged = [&](const ExprPtr& node) {
      if (!node->IsRead() || node->operand() < first || node->operand() == first + k) return node;
      const int other = node->operand() + (node->operand() < first + count ? count : -count);
      return ReadOperand(other, {node->args().begin(), node->args().end()}, node->dtype()).node();
    };
    const auto negated = [&](const ExprPtr& node) {
      return node->IsCall(Fn::kSub) ? (Scalar(node->arg(0)) + Scalar(node->arg(1))).node() : node;
    };
    for (const ExprPtr& altered : {ExprPtr(), RewriteExpr(repair, exchanged), RewriteExpr(repair, negated)}) {
      Fold wrong = *fold;
      wrong.carried[static_cast<size_t>(k)].repair = altered;
      const absl::StatusOr<FoldLaw> law = LawOfCarried(wrong, k);
      if (!law.ok()) continue;
      EXPECT_EQ(Prove(law->instance).verdict, Verdict::kRefuted) << "c" << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, FoldClaims, ::testing::ValuesIn(FoldCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rewright
