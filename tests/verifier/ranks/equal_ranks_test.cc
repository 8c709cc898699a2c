#include "verifier/ranks/equal_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/ir/text.h"

namespace rewright {
namespace {

using testing::HasSubstr;

constexpr char kMlp[] = R"(
input x: f32[4,6]
input v: f32[6,10]
input w: f32[10,6]
%0 = matmul(x, v)
%1 = relu(%0)
%2 = matmul(%1, w)
output y = %2
)";

// A graph of a rank; `all_reduce(x, rows d)` stands for collective number 1, of a tensor f32[d,6].
RankModel Rank(const std::string& text, std::vector<int64_t> group) {
  const std::string written =
      absl::StrReplaceAll(text, {{"all_reduce(", "foreign.rewright.ranks.AllReduce("},
                                 {", rows 4)", ", node=1, dtypes=[0], ranks=[2], sizes=[4,6])"},
                                 {", rows 2)", ", node=1, dtypes=[0], ranks=[2], sizes=[2,6])"}});
  const auto graph = ParseGraph(written);
  EXPECT_TRUE(graph.ok()) << graph.status();
  RankModel rank{.graph = *graph};
  rank.collectives[1] = {.group = std::move(group)};
  return rank;
}

// Two ranks whose last lines are these, behind the two layers.
RankPlan TwoRanks(const std::string& first, const std::string& second) {
  constexpr char kLayers[] = R"(
input x: f32[4,6]
input v: f32[6,5]
input w: f32[5,6]
%0 = matmul(x, v)
)";
  return {.mesh = {{"tp", 2}},
          .ranks = {Rank(absl::StrCat(kLayers, first), {0, 1}), Rank(absl::StrCat(kLayers, second), {0, 1})},
          .inputs = {{"x", {kWhole}}, {"v", {1}}, {"w", {0}}},
          .outputs = {{"y", {kWhole}}}};
}
RankPlan TwoRanks(const std::string& lines) { return TwoRanks(lines, lines); }

EqualRanksResult Judge(const std::string& model, const RankPlan& plan) {
  const auto graph = ParseGraph(model);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto result = ProveRanks(*graph, plan, {});
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

constexpr char kReduced[] = R"(
%1 = relu(%0)
%2 = matmul(%1, w)
%3 = all_reduce(%2, rows 4)
output y = %3
)";

TEST(EqualRanks, ProvesColumnsThenRowsForAnyNumberOfRanks) {
  const EqualRanksResult result = Judge(kMlp, TwoRanks(kReduced));
  EXPECT_EQ(result.equality, Equality::kProved) << absl::StrJoin(result.open, ", ");
  EXPECT_EQ(result.values, 4);
  EXPECT_EQ(result.statements, 4);
  EXPECT_EQ(result.claims.size(), 3U);
  EXPECT_EQ(result.at_any_size, 3);
}

TEST(EqualRanks, TellsAMissingReduction) {
  const EqualRanksResult result = Judge(kMlp, TwoRanks("%1 = relu(%0)\n%2 = matmul(%1, w)\noutput y = %2\n"));
  EXPECT_EQ(result.equality, Equality::kDifferent);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(result.fault->collective, "no reduction");
  EXPECT_EQ(result.fault->ranks, "tp, ranks 0,1");
  ASSERT_EQ(result.differences.size(), 1U);
  EXPECT_EQ(result.differences[0].disagree, "tp, ranks 0,1");
}

TEST(EqualRanks, TellsAReaderOfSummands) {
  const EqualRanksResult result = Judge(
      absl::StrReplaceAll(kMlp, {{"output y = %2", "%3 = tanh(%2)\noutput y = %3"}}),
      TwoRanks("%1 = relu(%0)\n%2 = matmul(%1, w)\n%3 = tanh(%2)\n%4 = all_reduce(%3, rows 4)\noutput y = %4\n"));
  EXPECT_EQ(result.equality, Equality::kDifferent);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(result.fault->collective, "no reduction");
  EXPECT_THAT(result.fault->text, HasSubstr("tanh reads summands over tp"));
}

TEST(EqualRanks, TellsHowManyTimesTooLarge) {
  const EqualRanksResult result = Judge(
      absl::StrReplaceAll(kMlp, {{"output y = %2", "%3 = tanh(%2)\noutput y = %3"}}),
      TwoRanks(R"(
%1 = relu(%0)
%2 = matmul(%1, w)
%3 = all_reduce(%2, rows 4)
%4 = tanh(%3)
%5 = add(%4, %4)
output y = %5
)"));
  EXPECT_EQ(result.equality, Equality::kDifferent);
  ASSERT_EQ(result.differences.size(), 1U);
  EXPECT_NEAR(result.differences[0].factor, 2, 1e-9);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_THAT(result.fault->text, HasSubstr("is 2 times tanh of the model"));
}

// The elements are the same but for 1e-12, and no proof may believe them.
TEST(EqualRanks, LeavesOpenWhatOnlyLooksEqual) {
  const EqualRanksResult result = Judge(kMlp, TwoRanks(R"(
const %1: f64[] = [1.000000000001]
%2 = cast(%1, to=f64)
%3 = relu(%0)
%4 = cast(%3, to=f64)
%5 = mul(%4, %2)
%6 = cast(%5, to=f32)
%7 = matmul(%6, w)
%8 = all_reduce(%7, rows 4)
output y = %8
)"));
  EXPECT_EQ(result.equality, Equality::kOpen);
  EXPECT_THAT(result.open, testing::ElementsAre("y"));
}

TEST(EqualRanks, TellsRanksThatRunAnotherGraph) {
  const EqualRanksResult result = Judge(kMlp, TwoRanks(kReduced, absl::StrReplaceAll(kReduced, {{"relu", "tanh"}})));
  EXPECT_EQ(result.equality, Equality::kOpen);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_THAT(result.fault->text, HasSubstr("rank 1 runs another graph than rank 0"));
  EXPECT_THAT(result.fault->text, HasSubstr("found tanh"));
}

TEST(EqualRanks, NamesTheRankWithAnotherConstant) {
  const auto ranks = [](const std::string& number) {
    return absl::StrCat("const %1: f32[] = [", number, "]\n%2 = mul(%0, %1)\n%3 = matmul(%2, w)\n",
                        "%4 = all_reduce(%3, rows 4)\noutput y = %4\n");
  };
  const std::string model = absl::StrReplaceAll(
      kMlp, {{"%1 = relu(%0)", "const %3: f32[] = [3]\n%1 = mul(%0, %3)"}});
  EXPECT_EQ(Judge(model, TwoRanks(ranks("3"))).equality, Equality::kProved);
  const EqualRanksResult result = Judge(model, TwoRanks(ranks("3"), ranks("4")));
  EXPECT_EQ(result.equality, Equality::kDifferent);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_THAT(result.fault->text, HasSubstr("rank 1 has 4 where rank 0 has 3"));
}

RankPlan FourRanks(bool right) {
  constexpr char kLines[] = R"(
input x: f32[2,6]
input v: f32[6,5]
input w: f32[5,6]
%0 = matmul(x, v)
%1 = relu(%0)
%2 = matmul(%1, w)
%3 = all_reduce(%2, rows 2)
output y = %3
)";
  RankPlan plan{.mesh = {{"dp", 2}, {"tp", 2}},
                .ranks = {},
                .inputs = {{"x", {0, kWhole}}, {"v", {kWhole, 1}}, {"w", {kWhole, 0}}},
                .outputs = {{"y", {0, kWhole}}}};
  for (int64_t rank = 0; rank < 4; ++rank) {
    const int64_t first = right ? rank / 2 * 2 : rank % 2;
    plan.ranks.push_back(Rank(kLines, {first, first + (right ? 1 : 2)}));
  }
  return plan;
}

TEST(EqualRanks, TellsTheWrongGroup) {
  EXPECT_EQ(Judge(kMlp, FourRanks(true)).equality, Equality::kProved);
  const EqualRanksResult result = Judge(kMlp, FourRanks(false));
  EXPECT_EQ(result.equality, Equality::kDifferent);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(result.fault->collective, "all-reduce");
  EXPECT_EQ(result.fault->ranks, "dp, ranks 0,2..");
  EXPECT_THAT(result.fault->text, HasSubstr("and not over tp"));
}

TEST(EqualRanks, NamesAGroupThatIsNoAxis) {
  RankPlan plan = FourRanks(true);
  plan.ranks[2].collectives[1].group = {1, 2};
  const EqualRanksResult result = Judge(kMlp, plan);
  EXPECT_EQ(result.equality, Equality::kOpen);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_THAT(result.fault->text, HasSubstr("goes over the ranks 1,2"));
}

TEST(EqualRanks, RefusesPlansOfOtherInputs) {
  RankPlan plan = TwoRanks(kReduced);
  plan.inputs.erase("v");
  const auto graph = ParseGraph(kMlp);
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(std::string(ProveRanks(*graph, plan, {}).status().message()),
              HasSubstr("the plan has no placement of the input v"));
  plan = TwoRanks(kReduced);
  plan.mesh[0].size = 3;
  EXPECT_THAT(std::string(ProveRanks(*graph, plan, {}).status().message()),
              HasSubstr("found 2 graphs, expected one for each of the 3 ranks"));
}

constexpr char kTable[] = R"(
input ids: i64[4]
input table: f32[6,6]
%0 = gather(table, ids, axis=0)
output y = %0
)";

// Two ranks that have three rows each of a table. `outside` tells which indices a rank has not, and `found` masks them.
RankPlan CutTable(const std::string& outside, const std::string& found) {
  const auto rank = [&](int begin) {
    return Rank(absl::StrCat("input ids: i64[4]\ninput table: f32[3,6]\nconst %1: i64[] = [", begin, "]\n", R"(
const %2: i64[] = [3]
const %3: i64[] = [0]
const %4: f32[] = [0]
%5 = sub(ids, %1)
%6 = less(%5, %3)
)",
                             outside, R"(
%8 = logical_or(%6, %7)
%9 = where(%8, %3, %5)
%10 = gather(table, %9, axis=0)
%11 = reshape(%8, shape=[4,1])
)",
                             found),
                {0, 1});
  };
  return {.mesh = {{"tp", 2}},
          .ranks = {rank(0), rank(3)},
          .inputs = {{"ids", {kWhole}}, {"table", {0}}},
          .outputs = {{"y", {kWhole}}}};
}

TEST(EqualRanks, ProvesALookUpInACutTableWhereIndicesAreInTheTable) {
  constexpr char kOutside[] = "%7 = less_equal(%2, %5)", kLater[] = "%7 = less(%2, %5)";
  constexpr char kMasked[] = "%12 = where(%11, %4, %10)\n%13 = all_reduce(%12, rows 4)\noutput y = %13\n";
  const EqualRanksResult result = Judge(kTable, CutTable(kOutside, kMasked));
  EXPECT_EQ(result.equality, Equality::kProved) << absl::StrJoin(result.open, ", ");
  EXPECT_THAT(result.assumed, testing::ElementsAre("0 <= ids < 6, the places along axis 0 of table"));
  for (const RankPlan& wrong :
       {CutTable(kLater, kMasked), CutTable(kOutside, "%12 = all_reduce(%10, rows 4)\noutput y = %12\n"),
        CutTable(kOutside, "%12 = where(%11, %4, %10)\noutput y = %12\n")}) {
    EXPECT_EQ(Judge(kTable, wrong).equality, Equality::kDifferent);
  }
  EXPECT_THAT(Judge(kTable, CutTable(kLater, kMasked)).fault->text, HasSubstr("the ranks, not the model, read"));
}

TEST(EqualRanks, AssumesNothingOfIndicesThatEachRankLooksUp) {
  const RankModel rank = Rank(
      "input ids: i64[4]\ninput table: f32[6,3]\n%0 = gather(table, ids, axis=0)\noutput y = %0\n", {0, 1});
  const EqualRanksResult result = Judge(kTable, {.mesh = {{"tp", 2}},
                                                 .ranks = {rank, rank},
                                                 .inputs = {{"ids", {kWhole}}, {"table", {1}}},
                                                 .outputs = {{"y", {1}}}});
  EXPECT_EQ(result.equality, Equality::kProved) << absl::StrJoin(result.open, ", ");
  EXPECT_THAT(result.assumed, testing::IsEmpty());
}

}  // namespace
}  // namespace rewright
