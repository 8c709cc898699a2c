// The result of an optimization proved equal to the original as a whole, and not when it is another function.
#include "tools/library/prove_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/ir/text.h"
#include "substitutions/rule_set.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kLimit = 20;

// relu(x) + y, and what takes its place.
struct Sum {
  Graph original = GraphOf("input x: f32[4,6]\ninput y: f32[4,6]\n%0 = relu(x)\n%1 = add(%0, y)\noutput z = %1\n");
  Value x = original.inputs()[0], y = original.inputs()[1];

  Value Apply(const char* op, std::vector<Value> operands) {
    const auto made = original.arena()->Add(op, std::move(operands), {});
    EXPECT_TRUE(made.ok()) << made.status();
    return {*made, 0};
  }
  // One step of a search that put `result` in the place of the output.
  OptimizeReport ReportOf(Value result) const {
    OptimizeReport report;
    report.rewritten = true;
    report.graph = Graph(original.arena(), original.inputs(), {{result, "z"}});
    report.search.trace = {{-1, "a rule", "", 2, 1, {{original.outputs()[0].value, result}}}};
    report.path = {0};
    return report;
  }
};

TEST(ProveResult, ARightResultIsProved) {
  Sum sum;
  const Value relu = sum.Apply("relu", {sum.x});
  const OptimizeReport report = sum.ReportOf(sum.Apply("add", {sum.y, sum.Apply("relu", {relu})}));
  const ResultProof proof = ProveResult(sum.original, report, RuleIndex(), kLimit);
  EXPECT_TRUE(proof.proved) << proof.text;
  EXPECT_EQ(proof.text, "proved equal as a whole (1 region)");
}

// The rules of a file that does not come with the program are its user's to answer for: the file is named.
TEST(ProveResult, FilesOfOwnRulesAreNamed) {
  Sum sum;
  OptimizeReport report = sum.ReportOf(sum.Apply("add", {sum.y, sum.Apply("relu", {sum.x})}));
  report.search.trace[0].rule = "swap";
  LoadOptions options;
  options.trust_unverified = true;
  const auto rules = RuleSet::FromText("rule swap\n  add(x, y) => add(y, x)\n", "folder/my.rules", options);
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(ProveResult(sum.original, report, rules->index(), kLimit).text,
            "proved equal as a whole (1 region, by rules of my.rules)");
}

// A search by windows puts what it found in many places into one step.
TEST(ProveResult, AStepOfManyPlacesIsTakenApart) {
  Sum sum;
  Value before = sum.x, after = sum.x, other = sum.y;
  for (int i = 0; i < 40; ++i) {  // more than one region holds
    other = sum.Apply("tanh", {other});
    before = sum.Apply("sub", {before, sum.Apply("relu", {other})});
    after = sum.Apply("sub", {after, sum.Apply("relu", {sum.Apply("relu", {other})})});
  }
  OptimizeReport report = sum.ReportOf(after);
  report.search.trace[0].replacement = {{before, after}};
  sum.original = Graph(sum.original.arena(), sum.original.inputs(), {{before, "z"}});
  const ResultProof proof = ProveResult(sum.original, report, RuleIndex(), kLimit);
  EXPECT_EQ(proof.text, "proved equal as a whole (40 regions)");
}

// The steps of the search are claims, never grounds.
TEST(ProveResult, AWrongResultStaysOpenWhateverTheStepsSay) {
  Sum sum;
  for (const Value wrong : {sum.Apply("add", {sum.x, sum.y}), sum.Apply("sub", {sum.Apply("relu", {sum.x}), sum.y}),
                            sum.Apply("add", {sum.Apply("relu", {sum.y}), sum.x})}) {
    const ResultProof proof = ProveResult(sum.original, sum.ReportOf(wrong), RuleIndex(), kLimit);
    EXPECT_FALSE(proof.proved);
    EXPECT_THAT(proof.text, StartsWith("open: "));
    EXPECT_EQ(proof.result.open.size(), 1u);
  }
}

TEST(ProveResult, NoTimeIsSaid) {
  Sum sum;
  const OptimizeReport report = sum.ReportOf(sum.Apply("add", {sum.x, sum.y}));
  EXPECT_EQ(ProveResult(sum.original, report, RuleIndex(), 0).text, "open: not settled within 0 s");
}

}  // namespace
}  // namespace rewright
