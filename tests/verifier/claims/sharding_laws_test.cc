// The sharding laws of all operators: which are derived, that they are proved, and that false ones are not.
#include "verifier/claims/sharding_laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/adjoint/operators.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/rule_mutation.h"
#include "tests/verifier/rules_util.h"
#include "verifier/check/query_solver.h"
#include "verifier/check/step_checker.h"
#include "verifier/derivation/certificate_check.h"

namespace rewright {
namespace {

using sharding::Effect;
using sharding::Obstacle;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr double kLimitSeconds = 10;

std::vector<FactorLaws> LawsOf(const OpDef& op, int structures = 1, bool certify = false) {
  auto laws = ShardingLaws(op, structures, kLimitSeconds, certify);
  EXPECT_TRUE(laws.ok()) << op.name << ": " << laws.status();
  return laws.ok() ? *std::move(laws) : std::vector<FactorLaws>();
}

// "x.0 w.1: partial sum", of the axes of the first structures of the operator's samples.
std::vector<std::string> Table(const std::string& name, int structures = 1) {
  std::vector<std::string> rows;
  for (const FactorLaws& laws : LawsOf(*FindOp(name), structures)) {
    const std::string axes = absl::StrJoin(laws.factor.axes, " ") + ": ";
    if (laws.laws.empty()) rows.push_back(axes + sharding::ObstacleText(laws.factor.obstacle));
    for (const ShardingLaw& law : laws.laws) {
      const sharding::Conjecture& conjecture = laws.factor.conjectures[law.conjecture];
      const char* space = conjecture.detail.empty() ? "" : " ";
      rows.push_back(absl::StrCat(axes, sharding::EffectName(conjecture.effect), space, conjecture.detail));
    }
  }
  return rows;
}

TEST(ShardingLaws, AreWhatIsKnownOfOperators) {
  const std::vector<std::string> matmul = Table("matmul", 4);
  EXPECT_THAT(matmul, Contains("a.2 out.2: cut"));
  EXPECT_THAT(matmul, Contains("a.3 b.0: partial sum"));
  const std::vector<std::string> conv = Table("conv2d");
  EXPECT_THAT(conv, Contains("x.0 out.0: cut"));
  EXPECT_THAT(conv, Contains("x.1 w.1: partial sum, groups=1"));
  EXPECT_THAT(conv, Contains("x.1 w.0 out.1: cut"));  // groups
  EXPECT_THAT(conv, Contains(HasSubstr("x.2 out.2: halo ?pads0 before")));
  EXPECT_THAT(conv, Contains(HasSubstr("w.2 out.2: seam")));
  EXPECT_THAT(Table("softmax"), testing::ElementsAre("x.0 out.0: cut", "x.1 out.1: reduced inside"));
  EXPECT_THAT(Table("gather"), Contains("x.0: partial sum, by position"));
  EXPECT_THAT(Table("reduce_mean"), Contains("x.0: partial mean"));
  EXPECT_THAT(Table("argmax"), Contains(HasSubstr("the position is an element")));
  EXPECT_THAT(Table("max_pool2d"), Contains(HasSubstr("x.2 out.2: cut kernel0=strides0")));
  EXPECT_THAT(Table("max_pool2d"), Contains(testing::MatchesRegex("x.2 out.2: halo .pads0 before, .*by position")));
  EXPECT_THAT(Table("iota"), Contains("out.0: made by position"));
  EXPECT_THAT(Table("random_uniform", 2), Contains("out.3: made by position"));
  EXPECT_THAT(Table("cross_entropy"), Contains(HasSubstr("indexed by elements")));
  EXPECT_THAT(Table("reverse"), Contains(HasSubstr("elsewhere: a block reads others")));
  EXPECT_THAT(Table("concat"), Not(testing::IsEmpty()));
  EXPECT_THAT(Table("lrn"), Contains(HasSubstr("x.1 out.1: halo")));
}

// The law's certificate stands by itself, and no step of its derivation is wrong.
void ExpectCertificateHolds(const ShardingLaw& law) {
  StepChecker steps;
  const auto checked = CheckCertificate(law.verdict.certificate, law.rule.name, &steps);
  ASSERT_TRUE(checked.ok()) << law.rule.name << ": " << checked.status();
  EXPECT_THAT(steps.report().refused, testing::IsEmpty()) << law.rule.name;
  for (const SmtQuery& query : checked->queries) {
    const auto answer = AskZ3(query);
    ASSERT_TRUE(answer.ok()) << law.rule.name << ": " << answer.status();
    EXPECT_EQ(*answer, SmtAnswer::kUnsat) << law.rule.name << ": " << query.text;
  }
}

TEST(ShardingLaws, FunctionsOfBitsHaveCertificatesThatHold) {
  for (const char* name : {"bit_and", "bit_xor", "shift_left", "shift_right", "random_uniform"}) {
    for (const FactorLaws& laws : LawsOf(*FindOp(name), 2, true)) {
      for (const ShardingLaw& law : laws.laws) ExpectCertificateHolds(law);
    }
  }
}

// Every axis of every operator, those that training adds included, has a proved law or an obstacle: a fifth of the
// operators, others each day. The laws of a tenth have certificates that hold.
TEST(ShardingLaws, EveryAxisHasALawOrAnObstacle) {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : AllOps()) {
    ops.push_back(op);
    for (size_t k = 0; k < op->inputs.size(); ++k) {
      if (const auto gradient = GradientOp(*op, static_cast<int>(k)); gradient.ok()) ops.push_back(*gradient);
    }
  }
  std::vector<std::vector<FactorLaws>> all(ops.size());
  constexpr size_t kPart = 5, kCertified = 2 * kPart;
  const size_t today = FirstOfToday(kCertified);
  ForEachIndex(ops.size(), NumThreads(0), [&](size_t i) {
    if (!AllCases() && i % kPart != today % kPart) return;
    const bool certify = i % kCertified == today;
    all[i] = LawsOf(*ops[i], 1, certify);
    if (!certify) return;
    for (const FactorLaws& laws : all[i]) {
      for (const ShardingLaw& law : laws.laws) ExpectCertificateHolds(law);
    }
  });
  int factors = 0, proved = 0;
  Findings findings;
  double cpu_ms = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    MeaningCache cache;
    for (const FactorLaws& laws : all[i]) {
      ++factors;
      const std::string name = absl::StrCat(ops[i]->name, " ", absl::StrJoin(laws.factor.axes, " "));
      EXPECT_TRUE(findings.emplace(name, "").second) << name;
      proved += !laws.laws.empty();
      for (const ShardingLaw& law : laws.laws) cpu_ms += law.verdict.cpu_ms;
      if (laws.laws.empty()) {
        findings[name] = sharding::ObstacleText(laws.factor.obstacle);
        EXPECT_NE(laws.factor.obstacle, Obstacle::kNone) << ops[i]->name;
        EXPECT_NE(laws.factor.obstacle, Obstacle::kRefuted) << name;
      }
      for (const ShardingLaw& failed : laws.failed) {
        cpu_ms += failed.verdict.cpu_ms;
        if (failed.verdict.verdict == Verdict::kUnknown) {
          findings[absl::StrCat(name, ", ", failed.rule.name)] = "open: " + failed.verdict.reason;
        }
        if (failed.verdict.verdict == Verdict::kRefuted) {
          EXPECT_NE(failed.verdict.reason, "") << failed.rule.name;
        }
      }
    }
  }
  std::cout << ops.size() << " operators, " << factors << " factors, " << proved << " with a proved law, "
            << cpu_ms / 1000 << " s of CPU time\n";
  ExpectRecorded("verifier/lists/without_sharding_laws.txt", "axes", findings, AllCases());
}

TEST(ShardingLaws, FalseOnesAreRefutedWithValues) {
  const auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/tests/cases/rules/sharding_false.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const Rule& rule : *rules) {
    RuleProofOptions options;
    options.work_limit_s = kLimitSeconds;
    const RuleVerdict verdict = ProveRule(rule, options);
    EXPECT_EQ(verdict.verdict, Verdict::kRefuted) << rule.name << ": " << verdict.reason;
    EXPECT_THAT(verdict.reason, testing::AnyOf(HasSubstr("differ"), HasSubstr("right side"))) << rule.name;
  }
}

TEST(ShardingLaws, NoMutantThatIsRefutedIsProved) {
  const auto placements = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/placements.rules");
  ASSERT_TRUE(placements.ok()) << placements.status();
  std::vector<Rule> rules = *placements;
  for (const char* name : {"matmul", "conv2d", "add", "softmax", "reduce_sum", "layer_norm", "gather", "transpose",
                           "reshape", "concat", "slice", "matmul_grad_b"}) {
    for (FactorLaws& laws : LawsOf(*FindOp(name))) {
      for (const ShardingLaw& law : laws.laws) rules.push_back(law.rule);
    }
  }
  const JudgedMutants judged = JudgeMutants(rules, /*whole=*/500, /*instances=*/2, /*seed=*/20261123);
  EXPECT_THAT(judged.false_proofs, testing::IsEmpty());
  ExpectRecorded("verifier/lists/mutants_of_rules.txt", "sharding", judged.findings, AllCases());
}

// A device that takes itself for its neighbour, or its edges for shorter ones.
TEST(ShardingLaws, AChangedLawByPositionIsRefuted) {
  const auto changed = [](const char* op, const std::string& from, const std::string& to) {
    for (const FactorLaws& laws : LawsOf(*FindOp(op), 2)) {
      for (const ShardingLaw& law : laws.laws) {
        std::string text = laws.factor.conjectures[law.conjecture].rule;
        if (text.find("block_") == std::string::npos) continue;
        const size_t at = text.rfind(from);
        if (at == std::string::npos) continue;
        text.replace(at, from.size(), to);
        const auto rules = ParseRules("rule changed\n  " + text + "\n", "test");
        EXPECT_TRUE(rules.ok()) << rules.status();
        RuleProofOptions options;
        options.work_limit_s = kLimitSeconds;
        EXPECT_EQ(ProveRule((*rules)[0], options).verdict, Verdict::kRefuted) << text;
        return;
      }
    }
    ADD_FAILURE() << op << " has no law by position with " << from;
  };
  changed("random_uniform", "degree=?d", "degree=2 * ?d, first=?d");
  changed("iota", "degree=?d", "degree=?d + 1, first=1");
  changed("max_pool2d", "pads=[?pads0", "pads=[0");
  changed("gather", "degree=d", "degree=d + 1, first=1");
}

// The verdicts rest on the declaration of the lifted operator: if it is changed the law is not proved.
TEST(ShardingLaws, AChangedLawIsRefuted) {
  for (const FactorLaws& laws : LawsOf(*FindOp("conv2d"))) {
    if (laws.laws.empty() || laws.factor.conjectures[laws.laws[0].conjecture].effect != Effect::kHalo) continue;
    std::string text = laws.factor.conjectures[laws.laws[0].conjecture].rule;
    const size_t at = text.find("before=");
    ASSERT_NE(at, std::string::npos);
    text.insert(at + 7, "1 + ");
    const size_t after = text.find("after=");
    text.insert(after + 6, "0 - 1 + ");
    const auto rules = ParseRules("rule shifted\n  " + text + "\n", "test");
    ASSERT_TRUE(rules.ok()) << rules.status();
    RuleProofOptions options;
    options.work_limit_s = kLimitSeconds;
    EXPECT_EQ(ProveRule((*rules)[0], options).verdict, Verdict::kRefuted) << text;
    return;
  }
  FAIL() << "conv2d has no law with halos";
}

}  // namespace
}  // namespace rewright
