// Work is counted in steps that are the same whenever the same is proved, and no proof asks the clock.
#include "core/base/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "tests/verifier/rules_util.h"
#include "verifier/check/step_checker.h"
#include "verifier/integer/give_up.h"
#include "verifier/normal_form/substitute.h"
#include "verifier/prove/align.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

int64_t StepsOf(const RuleInstance& instance, const ProofOptions& options) {
  const int64_t before = verifier::ThreadSteps();
  Prove(instance, options);
  return verifier::ThreadSteps() - before;
}

TEST(Work, IsTheSameWheneverTheSameIsProved) {
  for (const char* file : {"elementwise.rules", "matmul.rules", "conv.rules"}) {
    for (const RuleCase& rule : LoadRules(file)) {
      if (rule.instances.empty()) continue;
      const int64_t once = StepsOf(rule.instances[0], {});
      EXPECT_GT(once, 0) << rule.name;
      EXPECT_EQ(StepsOf(rule.instances[0], {}), once) << rule.name;
    }
  }
}

// Going through polynomials and forms is work, whether or not a monomial is made.
TEST(Work, IsCountedWhereFormsAreOnlyLookedAt) {
  verifier::ProofSession session;
  verifier::Context ctx(&session, {}, 1);
  const verifier::Var v = ctx.NewParam("n", 1);
  const verifier::Poly p = verifier::Poly::Of(v) + verifier::Poly(1);
  const auto counts = [](const std::function<void()>& work) {
    const int64_t before = verifier::ThreadSteps();
    work();
    return verifier::ThreadSteps() > before;
  };
  EXPECT_TRUE(counts([&] { p.Vars(); }));
  EXPECT_TRUE(counts([&] { ctx.BaseVars(p); }));
  EXPECT_TRUE(counts([&] { ctx.Print(p); }));
  const verifier::Atom atom = verifier::MakeRead(ctx, verifier::Leaf{"x"}, {});
  EXPECT_TRUE(counts([&] { verifier::AtomKey(ctx, atom); }));
  EXPECT_TRUE(counts([&] { verifier::SkeletonOf(verifier::Term{.atoms = {atom}}); }));
}

// A form of many functions inside one another is gone through up to the limit.
TEST(Work, ALimitEndsGoingThroughAForm) {
  verifier::ProofSession session;
  verifier::Context ctx(&session, {}, 1);
  const verifier::Var v = ctx.NewLocal("i");
  verifier::Atom atom = verifier::MakeRead(ctx, verifier::Leaf{"x"}, {verifier::Poly::Of(v)});
  for (int k = 0; k < 20; ++k) atom = verifier::MakeFnAtom(ctx, "exp", {{verifier::Term{.atoms = {atom}}}});
  verifier::Substitution moved;
  moved.Set(v, verifier::Poly(1));
  session.work_limit_s = 0;
  EXPECT_THROW(verifier::Subst(ctx, {verifier::Term{.atoms = {atom}}}, moved), verifier::GiveUp);
}

// How far a proof gets under a limit, too, though the limit ends it amid its work.
TEST(Work, ALimitEndsAProofAtTheSamePlaceEachTime) {
  for (const RuleCase& rule : LoadRules("conv.rules")) {
    if (rule.instances.empty()) continue;
    for (double limit : {1e-4, 1e-3, 1e-2, 1e-1}) {
      const ProofOptions options{.work_limit_s = limit};
      const ProofResult once = Prove(rule.instances[0], options), again = Prove(rule.instances[0], options);
      EXPECT_EQ(once.verdict, again.verdict) << rule.name << " within " << limit;
      EXPECT_EQ(once.reason, again.reason) << rule.name << " within " << limit;
      EXPECT_EQ(once.queries, again.queries) << rule.name << " within " << limit;
    }
  }
}

// More steps than an unsigned integer counts: a query gets the same limit as always.
TEST(Work, AHugeLimitIsNone) {
  for (const RuleCase& rule : LoadRules("conv.rules")) {
    if (rule.expect != "proved" || rule.instances.empty()) continue;
    for (double limit : {0x1p32 / verifier::kStepsPerSecond + 1e-3, 1e9, 1e300, verifier::kNoLimit}) {
      EXPECT_EQ(Prove(rule.instances[0], {.work_limit_s = limit}).verdict, Verdict::kProved) << rule.name << limit;
    }
  }
}

// The clock and the processor's time are for reports. If the prover read them, a verdict might depend on them.
TEST(Work, TheProverDoesNotAskTheClock) {
  const std::filesystem::path folder = std::filesystem::path(REWRIGHT_SOURCE_DIR) / "verifier";
  // Allowed uses: reports of how long it took; the limit of `equal` on the clock, which its user sets and its answer
  // names; the time after which a query is taken to hang.
  const std::string reports[] = {"context.h", "replay.cc",          "prove_rule.cc",  "infer.cc",
                                 "equal.cc",  "equal_by_claims.cc", "equal_ranks.cc", "cvc5_query_solver.cc",
                                 "watchdog.h"};
  int looked_at = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    ++looked_at;
    if (std::find(std::begin(reports), std::end(reports), name) != std::end(reports)) continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    for (const char* clock : {"ThreadCpuSeconds", "steady_clock", "system_clock", "absl::Now", "\"timeout\""}) {
      EXPECT_EQ(text.find(clock), std::string::npos) << name << " uses " << clock;
    }
  }
  EXPECT_GT(looked_at, 100);
}

TEST(Determinant, IsExactOrNothing) {
  EXPECT_EQ(verifier::Determinant({}), 1);
  EXPECT_EQ(verifier::Determinant({{0, 1}, {1, 0}}), -1);
  EXPECT_EQ(verifier::Determinant({{2, 0, 1}, {1, 1, 0}, {0, 3, 1}}), 5);
  EXPECT_EQ(verifier::Determinant({{1, 2}, {2, 4}}), 0);
  // 1000 times the identity: its determinant, 10^24, exceeds 64 bits, and so do products of its minors: there is no
  // result.
  std::vector<std::vector<int64_t>> large(8, std::vector<int64_t>(8, 0));
  for (size_t i = 0; i < large.size(); ++i) large[i][i] = 1000;
  EXPECT_EQ(verifier::Determinant(large), std::nullopt);
}

// A failed CHECK is a fault of the program, in every caller: it never makes a rule unknown.
class FaultyListener : public StepChecker {
 public:
  void Begin(const RuleInstance&, const std::vector<std::vector<int64_t>>&) override { CHECK(false) << "at the start"; }
};

TEST(Prove, AFaultOfTheProgramIsNoVerdict) {
  const auto rules = LoadRules("elementwise.rules");
  FaultyListener observer;
  ProofOptions options;
  options.observer = &observer;
  for (const RuleCase& rule : rules) {
    if (rule.expect != "proved" || rule.instances.empty()) continue;
    EXPECT_THROW(Prove(rule.instances[0], options), InternalFault) << rule.name;
    break;
  }
}

}  // namespace
}  // namespace rewright
