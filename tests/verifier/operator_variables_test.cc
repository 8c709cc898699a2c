// Rules with an operator variable: one proof for a family, its properties, and the class of the worst of it.
#include "substitutions/language/operator_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/stand_ins.h"
#include "substitutions/match/applier.h"
#include "substitutions/rule_set.h"
#include "tests/verifier/rules_util.h"
#include "verifier/check/bounded/bounded_check.h"
#include "verifier/check/step_checker.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kTransposed[] = "rule r\n  ?f(transpose(x, perm=?p)) => transpose(?f(x), perm=?p)\n";
constexpr char kPooled[] =
    "rule r\n  ?f(max_pool2d(x[n, c, h, w], attrs=?p)) => max_pool2d(?f(x), attrs=?p)\n  when increasing(?f)\n";

// Proves at the smallest ranks that show something.
RuleVerdict Prove(const Rule& rule, StepChecker* checker = nullptr) {
  RuleProofOptions options;
  options.limits.max_rank = 4;
  options.limits.max_perm_rank = 3;
  options.limits.max_broadcast_rank = 2;
  options.classify = false;
  options.observer = checker;
  return ProveRule(rule, options);
}

TEST(OperatorVariables, ParseAndPrint) {
  for (const char* text : {kTransposed, kPooled}) EXPECT_EQ(PrintLaw(RuleOf(text)), text);
  EXPECT_EQ(PrintLaw(PutOperator(RuleOf(kPooled), *FindOp("relu"))),
            "rule r:relu\n  relu(max_pool2d(x[n, c, h, w], attrs=?p)) => max_pool2d(relu(x), attrs=?p)\n");
}

TEST(OperatorVariables, ErrorsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"rule r ?f(?g(x)) => ?g(?f(x))", "f.rules:1:11: rule r: found ?g beside ?f, expected one operator variable"},
      {"rule r ?f(x, axis=1) => x", "found an attribute of ?f, expected none"},
      {"rule r ?f(x[n]) => ?f(x, x)",
       "f.rules:1:20: rule r: found 2 operands of ?f, expected 1 as where it occurs first"},
      {"rule r ?f(x, y, z) => x", "found 3 operands of ?f, expected 1 or 2"},
      {"rule r ?f(x) => x when odd(?g)", "f.rules:1:24: rule r: found a property of something else, expected it of ?f"},
      {"rule r relu(x) => x when odd(?f)", "expected it of an operator variable ?f"},
      {"rule r ?f(x) => x when not odd(?f)", "found a property within another condition"},
      {"rule r ?f(x) => x when odd(?f) and increasing(?f)", "beside another property, expected one by itself"},
      {"rule r ?f(x[n], x) => x when odd(?f)", "found a property of an operator with 2 operands, expected one with 1"},
      {"rule r relu(x) => ?f(x)", "expected an operator variable that the left side binds"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(std::string(ParseRules(text, "f.rules").status().message()), HasSubstr(expected)) << text;
  }
}

// Declarations decide: operators with attributes, of other types or with other places are not in a family.
TEST(OperatorVariables, FamiliesAreElementwise) {
  const auto names = [](int operands) {
    std::vector<std::string> all;
    for (const OpDef* op : ElementwiseOps(operands)) all.push_back(op->name);
    return all;
  };
  EXPECT_THAT(names(1), ::testing::IsSupersetOf({"relu", "gelu", "swish", "exp", "neg", "floor", "identity", "rsqrt"}));
  for (const char* other : {"leaky_relu", "cast", "transpose", "logical_not", "softmax", "cumsum", "reduce_sum"}) {
    EXPECT_THAT(names(1), Not(Contains(other)));
  }
  EXPECT_EQ(names(2), (std::vector<std::string>{"add", "div", "max", "min", "mul", "pow", "sub"}));
}

struct VariableCase {
  const char* rule;
  Verdict expected;
};
void PrintTo(const VariableCase& c, std::ostream* os) { *os << c.rule; }

class OperatorVerdicts : public ::testing::TestWithParam<VariableCase> {};

// Each step of a proof is checked, and the bounded check agrees; a refuted rule is refuted for an operator that is
// named.
TEST_P(OperatorVerdicts, AreRight) {
  const Rule rule = RuleOf(GetParam().rule);
  StepChecker checker;
  const RuleVerdict verdict = Prove(rule, &checker);
  ASSERT_STREQ(VerdictName(verdict.verdict), VerdictName(GetParam().expected)) << verdict.reason;
  if (verdict.verdict == Verdict::kRefuted) {
    EXPECT_THAT(verdict.reason, HasSubstr("for the operator "));
    return;
  }
  EXPECT_THAT(checker.report().refused, IsEmpty());
  EXPECT_THAT(checker.report().open, IsEmpty());
  const auto derived = CheckAtSmallSizes(**CompileRule(rule));
  ASSERT_TRUE(derived.ok()) << derived.status();
  EXPECT_EQ(derived->verdict, BoundedVerdict::kConfirmed) << derived->reason;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, OperatorVerdicts,
    ::testing::Values(
        VariableCase{kTransposed, Verdict::kProved}, VariableCase{kPooled, Verdict::kProved},
        VariableCase{"rule r ?f(max_pool2d(x[n, c, h, w], attrs=?p)) => max_pool2d(?f(x), attrs=?p)",
                     Verdict::kRefuted},
        VariableCase{"rule r ?f(reduce_max(x[m, n], axes=[0])) => reduce_max(?f(x), axes=[0]) when increasing(?f)",
                     Verdict::kProved},
        VariableCase{"rule r ?f(reduce_sum(x[m, n], axes=[0])) => reduce_sum(?f(x), axes=[0])", Verdict::kRefuted},
        VariableCase{
            "rule r ?f(pad(x[m, n], before=?a, after=?b)) => pad(?f(x), before=?a, after=?b) when keeps_zero(?f)",
            Verdict::kProved},
        VariableCase{"rule r ?f(pad(x[m, n], before=?a, after=?b)) => pad(?f(x), before=?a, after=?b)",
                     Verdict::kRefuted},
        VariableCase{"rule r ?f(sub(x[n], y[n])) => neg(?f(sub(y, x))) when odd(?f)", Verdict::kProved},
        VariableCase{"rule r ?f(sub(x[n], y[n])) => neg(?f(sub(y, x))) when increasing(?f)", Verdict::kRefuted},
        VariableCase{"rule r ?f(transpose(x, perm=?p), a[~ 1]) => transpose(?f(x, a), perm=?p) when rank(x) >= 1",
                     Verdict::kProved},
        VariableCase{"rule r ?f(x[n], y[n]) => ?f(y, x)", Verdict::kRefuted}));

// A property is itself a law, and every operator is tested for it.
TEST(OperatorVariables, PropertiesAreProved) {
  const auto with = [](const char* property) {
    return OperatorsOf(RuleOf(absl::StrCat("rule r ?f(x) => ?f(x) when ", property, "(?f)")));
  };
  const std::vector<std::string> increasing = with("increasing"), odd = with("odd"), zero = with("keeps_zero");
  EXPECT_THAT(increasing, ::testing::IsSupersetOf({"exp", "floor", "identity", "relu", "sigmoid", "tanh"}));
  EXPECT_THAT(odd, ::testing::IsSupersetOf({"identity", "neg", "sin", "tanh"}));
  EXPECT_THAT(zero, ::testing::IsSupersetOf({"abs", "gelu", "relu", "swish", "tanh"}));
  for (const char* other : {"abs", "cos", "gelu", "neg", "sqrt", "swish"})
    EXPECT_THAT(increasing, Not(Contains(other)));
  for (const char* other : {"abs", "exp", "reciprocal", "relu", "sqrt"}) EXPECT_THAT(odd, Not(Contains(other)));
  for (const char* other : {"cos", "exp", "log", "reciprocal", "sigmoid"}) EXPECT_THAT(zero, Not(Contains(other)));
}

// The record names the operators, and is about their declarations; loading makes a rule of each.
TEST(OperatorVariables, RecordsNameTheOperators) {
  Rule rule = RuleOf(kPooled);
  RuleProofOptions options;
  options.limits.max_rank = 4;
  const RuleVerdict verdict = ProveRule(rule, options);
  ASSERT_EQ(verdict.verdict, Verdict::kProved) << verdict.reason;
  auto record = RecordOf(rule, verdict, "", /*halves=*/false);
  ASSERT_TRUE(record.ok()) << record.status();
  rule.proof = *record;
  const std::string text = PrintRule(rule);
  EXPECT_EQ(PrintRule(RuleOf(text)), text);
  LoadOptions all;
  all.allow_risky = all.allow_finite_only = true;
  const auto set = RuleSet::FromText(text, "f.rules", all);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->matchers().size(), record->operators.size());
  ASSERT_NE(set->Find("r:relu"), nullptr);
  EXPECT_EQ(set->Find("r:abs"), nullptr);
  // A maximum of zeros of both signs, as ceil gives them, is whichever comes first.
  EXPECT_EQ(record->rule_class, RuleClass::kReassociating);
  // No law says that an exponential that rounds keeps order.
  EXPECT_THAT(record->exact, ::testing::AllOf(Contains("relu"), Not(Contains("exp")), Not(Contains("ceil"))));
  LoadOptions exact;
  exact.exact_only = true;
  const auto exact_set = RuleSet::FromText(text, "f.rules", exact);
  ASSERT_TRUE(exact_set.ok()) << exact_set.status();
  EXPECT_NE(exact_set->Find("r:relu"), nullptr);
  EXPECT_EQ(exact_set->Find("r:ceil"), nullptr);

  const auto graph = ParseGraph(
      "input x: f32[2,3,8,8]\n%1 = max_pool2d(x, kernel=[2,2], strides=[2,2])\n%2 = relu(%1)\noutput y = %2\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<Match> matches = set->index().FindMatches(*graph);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].rule->name(), "r:relu");
  const auto rewritten = ApplyMatch(*graph, matches[0]);
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  EXPECT_THAT(PrintGraph(*rewritten), HasSubstr("relu(x)"));

  rule.proof->exact.push_back("tanh");
  EXPECT_THAT(std::string(RuleSet::FromText(PrintRule(rule), "f.rules", all).status().message()),
              HasSubstr("stale proof"));
  rule.proof->exact.pop_back();
  rule.proof->operators.push_back("abs");
  EXPECT_THAT(std::string(RuleSet::FromText(PrintRule(rule), "f.rules", all).status().message()),
              HasSubstr("stale proof"));
  rule.proof->operators = {"matmul"};
  EXPECT_THAT(std::string(RuleSet::FromText(PrintRule(rule), "f.rules", all).status().message()),
              HasSubstr("found matmul in operators=, expected an operator with 1 operands"));
}

// exp rounds after the maximum or before it; if one operator rounds differently, the rule is not exact for the family.
TEST(OperatorVariables, ClassIsTheWorstOfTheFamily) {
  const Rule rule = RuleOf("rule r ?f(sub(x[n], y[n])) => neg(?f(sub(y, x))) when odd(?f)");
  RuleProofOptions options;
  options.limits.max_rank = 2;
  const RuleVerdict verdict = ProveRule(rule, options);
  ASSERT_EQ(verdict.verdict, Verdict::kProved) << verdict.reason;
  const std::vector<RuleClass> worst_last = {RuleClass::kExact, RuleClass::kReassociating, RuleClass::kFiniteOnly,
                                             RuleClass::kNumericallyRisky};
  const auto place = [&](RuleClass c) {
    return std::find(worst_last.begin(), worst_last.end(), c) - worst_last.begin();
  };
  std::ptrdiff_t worst = 0;
  for (const std::string& name : OperatorsOf(rule)) {
    const RuleVerdict one = ProveRule(PutOperator(rule, *FindOp(name)), options);
    ASSERT_EQ(one.verdict, Verdict::kProved) << name << ": " << one.reason;
    worst = std::max(worst, place(one.rule_class));
  }
  EXPECT_EQ(place(verdict.rule_class), worst);
}

}  // namespace
}  // namespace rewright
