// rewright explain: where rules apply, or why they do not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ExplainVerb : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Rewright("zoo squeezenet --image-size 64 -o " + model_).status, 0); }
  Outcome Explain(const std::string& flags) const {
    return Rewright("explain " + model_ + " --json --cost analytic:zen3 " + flags);
  }

  const TemporaryFolder folder_;
  const std::string model_ = folder_ / "m.onnx";
};

TEST_F(ExplainVerb, RulesThatApplyAndRulesThatDoNot) {
  const Outcome all = Explain("");
  EXPECT_EQ(all.status, 0);
  const nlohmann::json rules = all.Json()["rules"];
  ASSERT_FALSE(rules.empty());
  bool applies = false;
  for (const auto& rule : rules) {
    for (const auto& place : rule["places"]) {
      applies |= place["fit"] == "applies";
      EXPECT_NE(place["fit"], "part");  // nobody asked for those
    }
  }
  EXPECT_TRUE(applies) << all.out;
  EXPECT_THAT(all.err, HasSubstr("rules have their pattern nowhere"));

  const nlohmann::json one = Explain("--rule conv-absorb-batch-norm").Json();
  for (const auto& rule : one["rules"]) EXPECT_EQ(rule["rule"], "conv-absorb-batch-norm");
  EXPECT_THAT(Explain("--rule gelu-from-erf").err,
              HasSubstr("the model has no mul, with which the rule's pattern begins"));
}

TEST_F(ExplainVerb, NamesThatAreNone) {
  EXPECT_THAT(Explain("--rule conv-absorb-batch-nrm").err,
              HasSubstr("no rule is called `conv-absorb-batch-nrm`; did you mean `conv-absorb-batch-norm`?"));
  const Outcome node = Explain("--node nothing");
  EXPECT_EQ(node.status, 2);
  EXPECT_THAT(node.err, HasSubstr("--node: no value that is computed at inference is called `nothing`"));
}

TEST_F(ExplainVerb, RulesThatAreSwitchedOff) {
  const Outcome off = Explain("--rule conv-absorb-batch-norm --disable-rule conv-absorb-batch-norm");
  EXPECT_EQ(off.status, 0);
  EXPECT_THAT(off.err, AllOf(HasSubstr("is not used"), HasSubstr("--disable-rule")));
}

}  // namespace
}  // namespace rewright
