// Claims about derived operators: the prover's verdicts on true ones and on ones that were made false.
#include "verifier/claims/gradient_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/ops/ops.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/rule_mutation.h"
#include "verifier/check/cvc5_query_solver.h"
#include "verifier/check/query_solver.h"
#include "verifier/derivation/certificate_check.h"

namespace rewright {
namespace {

constexpr double kLimitSeconds = 10;

std::vector<GradientClaim> ClaimsOf(const char* name) {
  const OpDef* op = FindOp(name);
  EXPECT_NE(op, nullptr) << name;
  auto claims = GradientClaims(*op, 1);
  EXPECT_TRUE(claims.ok()) << claims.status();
  return claims.ok() ? *claims : std::vector<GradientClaim>();
}

class EveryOperatorClaims : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOperatorClaims, AreProvedForEverySize) {
  const std::string& op = GetParam()->name;
  for (const GradientClaim& claim : ClaimsOf(op.c_str())) {
    const RuleVerdict verdict = JudgeClaim(claim, kLimitSeconds);
    EXPECT_EQ(verdict.verdict, Verdict::kProved)
        << ClaimName(claim.kind) << " " << claim.input << " " << claim.structure << ": " << verdict.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, EveryOperatorClaims, ::testing::ValuesIn(AllOps()),
                         [](const auto& info) { return info.param->name; });

// The certificate of a claim stands by itself.
TEST(GradientClaims, CertificatesHold) {
  for (const char* op : {"slice", "softmax", "cross_entropy", "halo"}) {
    for (const GradientClaim& claim : ClaimsOf(op)) {
      const RuleVerdict verdict = JudgeClaim(claim, kLimitSeconds, /*certify=*/true);
      ASSERT_EQ(verdict.verdict, Verdict::kProved) << claim.rule.name << ": " << verdict.reason;
      const auto checked = CheckCertificate(verdict.certificate, claim.rule.name);
      ASSERT_TRUE(checked.ok()) << claim.rule.name << ": " << checked.status();
      const auto answers = AskCvc5(checked->queries, /*limit_s=*/20);
      if (absl::IsNotFound(answers.status())) continue;  // there is no cvc5 here
      ASSERT_TRUE(answers.ok()) << claim.rule.name << ": " << answers.status();
      EXPECT_THAT(*answers, testing::Each(SmtAnswer::kUnsat)) << claim.rule.name;
    }
  }
}

// Gradients by results instead of operands: 0 < max(x, 0) where 0 < x, and exp(log a) = a for a > 0.
TEST(GradientRules, ByResultsAreProved) {
  const auto rules = ParseRules(
      "rule relu\n  relu_grad_x(x[b..], u[b..]) => where(less(0, relu(x)), u, 0)\n"
      "rule log-softmax\n  log_softmax_grad_x(x[b.., n, c..], u[b.., n, c..], axis=len(b))\n"
      "  => sub(u, mul(exp(log_softmax(x, axis=len(b))), reduce_sum(u, axes=[len(b)])))\n"
      "rule false-relu\n  relu_grad_x(x[b..], u[b..]) => where(less(1, relu(x)), u, 0)\n"
      "rule false-exponential\n  exp(log(x[b..])) => relu(x)\n",
      "results.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const Rule& rule : *rules) {
    const RuleVerdict verdict = ProveRule(rule, {.work_limit_s = kLimitSeconds});
    const bool is_false = rule.name.starts_with("false-");
    EXPECT_EQ(verdict.verdict == Verdict::kProved, !is_false) << rule.name << ": " << verdict.reason;
  }
}

TEST(GradientClaims, OperatorsWithoutGradientsHaveNone) {
  EXPECT_TRUE(ClaimsOf("argmax").empty());
  EXPECT_TRUE(ClaimsOf("logical_and").empty());
}

// An operator whose output depends on a value that it marks as a shift.
const OpDef& Misdeclared() {
  static const OpDef* const op =
      new OpDef{.name = "test_distance",
                .summary = "How far elements are below the greatest.",
                .inputs = {"x"},
                .attrs = {},
                .meaning =
                    [](OpBuilder& b) {
                      b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
                        const auto element = [&](const std::vector<Index>& k) { return b.Read(0, k); };
                        return b.Shift(b.MaxOver({{"k", b.size(0, 0)}}, element)) - b.Read(0, i);
                      });
                      return absl::OkStatus();
                    },
                .sample =
                    [](Rng&) {
                      return OpSample{.inputs = {{DType::kFloat32, {3}}}, .attrs = {}};
                    }};
  return *op;
}

TEST(GradientClaims, AShiftThatCountsIsRefuted) {
  const auto claims = GradientClaims(Misdeclared(), 1);
  ASSERT_TRUE(claims.ok()) << claims.status();
  ASSERT_EQ(claims->back().kind, GradientClaim::Kind::kShift);
  EXPECT_EQ(JudgeClaim(claims->back(), kLimitSeconds).verdict, Verdict::kRefuted);
}

// Each of these has a form in operators with kernels; all rules of the file are proved again by ProvedAgainTest.
TEST(GradientRules, OperatorsThatNeedThemHaveThem) {
  const auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/gradients.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const std::string name : {"conv2d", "convolution", "matmul", "dot_general", "avg_pool2d", "layer_norm",
                                 "batch_norm_train", "softmax", "cross_entropy", "gather"}) {
    EXPECT_TRUE(std::any_of(rules->begin(), rules->end(), [&](const Rule& rule) {
      return rule.proof.has_value() && rule.lhs.outputs[0].name.starts_with(name + "_grad_");
    })) << name;
  }
}

TEST(GradientRules, NoMutantThatIsRefutedIsProved) {
  const auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/gradients.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const JudgedMutants judged = JudgeMutants(*rules, /*whole=*/500, /*instances=*/2, /*seed=*/20261122);
  EXPECT_THAT(judged.false_proofs, testing::IsEmpty());
  ExpectRecorded("verifier/lists/mutants_of_rules.txt", "gradients", judged.findings, AllCases());
}

// The steps by which a scattered gradient was gathered, gone wrong: the gathered element with another index, bound,
// guard or function.
TEST(GradientClaims, NoMutantOfAnInversionThatIsToldApartIsProved) {
  std::vector<RuleInstance> instances;
  for (const OpDef* op : AllOps()) {
    for (const GradientClaim& claim : ClaimsOf(op->name.c_str())) {
      if (claim.kind != GradientClaim::Kind::kInversion) continue;
      const auto compiled = CompileRule(claim.rule, RuleUse::kProof);
      ASSERT_TRUE(compiled.ok()) << op->name << ": " << compiled.status();
      const auto found = Instances(**compiled);
      ASSERT_TRUE(found.ok()) << op->name << ": " << found.status();
      instances.push_back(found->front());
    }
  }
  const JudgedMutants judged = JudgeDeclarationMutants(instances, /*whole=*/500, /*seed=*/20261123);
  EXPECT_THAT(judged.false_proofs, testing::IsEmpty());
  ExpectRecorded("verifier/lists/mutants_of_declarations.txt", "inversions", judged.findings, AllCases());
}

}  // namespace
}  // namespace rewright
