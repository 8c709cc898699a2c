// Tests definitions of operators as rules: reading them off a meaning, writing them, and proving them.
#include "substitutions/generate/definitions/definitions.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "substitutions/egraph/derive.h"
#include "substitutions/generate/definitions/statements.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/match/matcher.h"
#include "substitutions/rule_set.h"

namespace rewright::generate {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string RulesFolder() { return std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/"; }

// An operator of one operand that is in no list.
OpDef Made(const std::string& name, std::function<Scalar(OpBuilder&, const std::vector<Index>&)> element) {
  return OpDef{.name = name, .inputs = {"x"}, .meaning = [element](OpBuilder& b) -> absl::Status {
                 b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) { return element(b, i); });
                 return absl::OkStatus();
               }};
}

std::string WhyNotRead(const OpDef& op) { return std::string(ReadDefinitions(op).status().message()); }

std::set<std::string> Keys(const std::vector<PartPtr>& parts) {
  std::set<std::string> keys;
  for (const PartPtr& part : parts) keys.insert(part->key);
  return keys;
}

std::vector<Definition> Smaller() {
  std::vector<Definition> smaller;
  for (const char* name : {"reciprocal", "rsqrt"}) smaller.push_back(ReadDefinitions(*FindOp(name))->front());
  return smaller;
}

DefinitionRules RulesOf(const std::vector<const OpDef*>& operators) {
  auto rules = RulesOfDefinitions(operators, {});
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *std::move(rules) : DefinitionRules();
}

TEST(DefinitionParts, OperatorsAreFoundByWhatTheyDo) {
  EXPECT_EQ(OperatorOf(Fn::kAdd), FindOp("add"));
  EXPECT_EQ(OperatorOf(Fn::kSub), FindOp("sub"));
  EXPECT_EQ(OperatorOf(Fn::kErf), FindOp("erf"));
  EXPECT_EQ(OperatorOf(Fn::kLess), nullptr);  // gives no float
  EXPECT_EQ(OperatorOf(ReduceKind::kSum), FindOp("reduce_sum"));
  EXPECT_EQ(OperatorOf(ReduceKind::kMax), FindOp("reduce_max"));
  EXPECT_EQ(MeanOperator(), FindOp("reduce_mean"));
}

TEST(DefinitionParts, AnOperatorThatNobodyKnowsIsRead) {
  // (x - the mean of its row) / the largest of exp(x) in its row
  const OpDef op = Made("spread", [](OpBuilder& b, const std::vector<Index>& i) {
    const int last = b.rank(0) - 1;
    const auto x = [&](const std::vector<Index>& j) {
      std::vector<Index> at = i;
      at.back() = j[0];
      return b.Read(0, at);
    };
    const Scalar mean = b.Sum({{"j", b.size(0, last)}}, x) / FromIndex(b.size(0, last), b.dtype(0));
    const Scalar most = b.MaxOver({{"j", b.size(0, last)}}, [&](const std::vector<Index>& j) { return Exp(x(j)); });
    return (b.Read(0, i) - mean) / most;
  });
  const auto definitions = ReadDefinitions(op);
  ASSERT_TRUE(definitions.ok()) << definitions.status();
  ASSERT_EQ(definitions->size(), 1u);
  EXPECT_EQ(definitions->front().whole->key, "div(sub($0,reduce_mean($0;3)),reduce_max(exp($0);3))");
  const auto statements = StatePartsAsOperator(definitions->front(), definitions->front().whole);
  EXPECT_THAT(statements,
              ElementsAre("div(sub(x[a.., k], reduce_mean(x, axes=[len(a)])), reduce_max(exp(x), axes=[len(a)]))\n"
                          "=> spread(x)",
                          "div(sub(x[k, l, m, n], reduce_mean(x, axes=[3])), reduce_max(exp(x), axes=[3]))\n"
                          "=> spread(x)"));
}

TEST(DefinitionParts, WhatIsNoGraphOfTensorsIsNotRead) {
  EXPECT_EQ(WhyNotRead(*FindOp("matmul")), "a reduction over an axis that its terms have, too");
  // sum j: x[i] x[j]: the product has two axes, x has one.
  EXPECT_EQ(WhyNotRead(Made("outer",
                            [](OpBuilder& b, const std::vector<Index>& i) {
                              return b.Sum({{"j", b.size(0, 0)}}, [&](const std::vector<Index>& j) {
                                std::vector<Index> at = i;
                                at[0] = j[0];
                                return b.Read(0, i) * b.Read(0, at);
                              });
                            })),
            "a reduction over an axis that its terms have, too");
  // A sum divided by a number other than the count of its terms is no mean.
  EXPECT_EQ(WhyNotRead(Made("no_mean",
                            [](OpBuilder& b, const std::vector<Index>& i) {
                              return b.Sum({{"j", b.size(0, 0)}}, [&](const std::vector<Index>& j) {
                                std::vector<Index> at = i;
                                at[0] = j[0];
                                return b.Read(0, at);
                              }) / FromIndex(b.size(0, 1), b.dtype(0));
                            })),
            "a position as an element");
  EXPECT_EQ(WhyNotRead(*FindOp("reverse")), "a read at a computed position");
  EXPECT_THAT(WhyNotRead(*FindOp("logical_not")), HasSubstr("elements"));  // no floats
}

TEST(DefinitionForms, ProductsInAllOrdersSquaresAndSmallerOperators) {
  const Definition gelu = ReadDefinitions(*FindOp("gelu"))->front();
  const std::string erf = "add(erf(div($0,1.4142135623730951)),1.0)";
  EXPECT_EQ(Keys(Forms(gelu, Smaller())),
            (std::set<std::string>{"mul(mul($0,0.5)," + erf + ")", "mul(mul($0," + erf + "),0.5)",
                                   "mul($0,mul(" + erf + ",0.5))"}));
  const auto norms = ReadDefinitions(*FindOp("layer_norm"));
  ASSERT_TRUE(norms.ok());
  const auto last = std::find_if(norms->begin(), norms->end(), [](const Definition& definition) {
    return std::get<int64_t>(definition.attrs.at("axis")) == definition.rank - 1;
  });
  ASSERT_NE(last, norms->end());
  const std::set<std::string> forms = Keys(Forms(*last, Smaller()));
  EXPECT_EQ(forms.size(), 12u);
  const std::string d = "sub($0,reduce_mean($0;3))";
  EXPECT_THAT(forms, Contains("add(mul(div(" + d + ",sqrt(add(reduce_mean(pow(" + d + ",2.0);3),?epsilon))),$1),$2)"));
  EXPECT_THAT(forms,
              Contains("add(mul(mul(" + d + ",rsqrt(add(reduce_mean(mul(" + d + "," + d + ");3),?epsilon))),$1),$2)"));
  EXPECT_EQ(Forms(*last, {}).size(), 6u);
}

TEST(DefinitionForms, ScaleAndShiftOfWhatIsAffineAlone) {
  const auto parts = AsScaleAndShift(ReadDefinitions(*FindOp("batch_norm"))->front());
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->factor->key, "div($1,sqrt(add($4,?epsilon)))");
  EXPECT_EQ(parts->summand->key, "sub($2,mul($3,div($1,sqrt(add($4,?epsilon)))))");
  EXPECT_FALSE(AsScaleAndShift(ReadDefinitions(*FindOp("layer_norm"))->front()).has_value());
  EXPECT_FALSE(AsScaleAndShift(ReadDefinitions(*FindOp("add"))->front()).has_value());
}

// The laws written by hand follow from the definitions, read from left to right.
TEST(Definitions, AreTheLawsThatWereWrittenByHand) {
  const DefinitionRules found = RulesOf({FindOp("rsqrt"), FindOp("gelu"), FindOp("batch_norm"), FindOp("layer_norm")});
  std::vector<std::shared_ptr<const Matcher>> matchers;
  for (const Rule& rule : found.rules) {
    ASSERT_TRUE(rule.proof.has_value()) << rule.name;
    matchers.push_back(std::make_shared<const Matcher>(*CompileRule(rule), rule.proof->domain));
  }
  std::vector<Rule> written;
  for (const char* file : {"core.rules", "laws.rules"}) {
    const auto rules = ReadRules(RulesFolder() + file);
    ASSERT_TRUE(rules.ok()) << rules.status();
    written.insert(written.end(), rules->begin(), rules->end());
  }
  const std::set<std::string> by_hand = {"gelu-from-erf", "gelu-from-erf-half-first", "layer-norm-from-parts",
                                         "layer-norm-from-parts-with-power", "batch-norm-as-scale-and-shift"};
  size_t derived = 0;
  for (const Rule& rule : written) {
    if (by_hand.count(rule.name) == 0) continue;
    const auto derivation = Derive(**CompileRule(rule), DirectedRules(matchers, /*both_ways=*/false));
    ASSERT_TRUE(derivation.ok()) << derivation.status();
    EXPECT_TRUE(derivation->derived) << rule.name << ": " << derivation->missing;
    ++derived;
  }
  EXPECT_EQ(derived, by_hand.size());
}

TEST(Definitions, WhatIsFalseIsDropped) {
  // The operator has the name of another; only its meaning counts.
  const OpDef false_gelu = Made("gelu", [](OpBuilder& b, const std::vector<Index>& i) {
    return 0.5 * b.Read(0, i) * (2.0 + Erf(b.Read(0, i) / 1.4142135623730951));
  });
  const DefinitionRules found = RulesOf({&false_gelu});
  EXPECT_THAT(found.rules, IsEmpty());
  EXPECT_EQ(found.counts.stated, 3);
  EXPECT_EQ(found.counts.refuted, 3);
  EXPECT_THAT(found.explanations, Contains(StartsWith("refuted")));
}

TEST(Definitions, ElementaryOperatorsDefineNothing) {
  const DefinitionRules found = RulesOf({FindOp("add"), FindOp("exp"), FindOp("reduce_mean"), FindOp("identity")});
  EXPECT_THAT(found.rules, IsEmpty());
  EXPECT_EQ(found.counts.elementary, 4);
}

}  // namespace
}  // namespace rewright::generate
