// Tests that a refuted candidate improves the search: a space whose elements or sizes hide that graphs differ is
// searched again.
#include "substitutions/generate/select/counterexamples.h"

#include <string>

#include "gtest/gtest.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "substitutions/generate/select/select_rules.h"
#include "substitutions/language/rule_printer.h"

namespace rewright::generate {
namespace {

// Scalars have one sign under each assignment, so relu(x y) = x y wherever these are tested.
Space Scalars() {
  return {.name = "scalars",
          .variables = {"n"},
          .inputs = {{"s", {}, 2}},
          .operators = {{.name = "relu", .op = "relu"},
                        {.name = "mul", .op = "mul", .arity = 2, .commutative = true, .distinct = true}},
          .max_ops = 3,
          .max_outputs = 1,
          .assignments = {{5}, {7}},
          .confirmation = {{6}, {11}},
          .nominal = {4}};
}

// Rows have one element, which equals their sum.
Space Rows() {
  return {.name = "rows",
          .variables = {"m", "n"},
          .inputs = {{"x", {{.variable = 0}, {.variable = 1}}, 1}},
          .operators = {{.name = "sum", .op = "reduce_sum", .attrs = {{"axes", std::vector<int64_t>{1}}}}},
          .max_ops = 2,
          .assignments = {{2, 1}, {3, 1}},
          .confirmation = {{5, 1}},
          .nominal = {4, 1}};
}

Selection Select(const Space& space) {
  const auto found = FindPairs(space, {});
  EXPECT_TRUE(found.ok()) << found.status();
  const auto selected = SelectRules(space, found->pairs, {});
  EXPECT_TRUE(selected.ok()) << selected.status();
  return *selected;
}

bool Has(const Selection& selection, const std::string& law) {
  for (const Rule& rule : selection.rules) {
    if (PrintLaw(rule).find(law) != std::string::npos) return true;
  }
  return false;
}

TEST(Counterexamples, BringBackARuleThatAFalsePairHid) {
  Space space = Scalars();
  const std::string law = "relu(mul(x[], relu(y[]))) => mul(relu(y), relu(x))";
  const Selection before = Select(space);
  EXPECT_GT(before.refuted.size(), 0u);
  EXPECT_FALSE(Has(before, law));
  Selection after = before;
  for (int restart = 0; restart < kMaxRestarts && !after.refuted.empty(); ++restart) {
    const auto found = FindCounterexamples(space, after.refuted, 1);
    EXPECT_GT(found.size(), 0u);
    space.counterexamples.insert(space.counterexamples.end(), found.begin(), found.end());
    after = Select(space);
  }
  EXPECT_EQ(after.refuted.size(), 0u);
  std::string all;
  for (const Rule& rule : after.rules) all += PrintLaw(rule);
  EXPECT_TRUE(Has(after, law)) << all;
}

TEST(Counterexamples, HaveOtherSizesWhereElementsDoNotHelp) {
  Space space = Rows();
  const SmallGraph x{.num_inputs = 1};
  SmallGraph sum{.size = 1};
  sum.applications[0] = {.op = 0, .operands = {0}};
  const auto found = FindCounterexamples(space, {{x, sum}}, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0].sizes[1], 1);
  const std::string law = "reduce_sum(reduce_sum(";  // a graph that is left out if a sum equals its term
  EXPECT_FALSE(Has(Select(space), law));
  space.counterexamples = found;
  EXPECT_TRUE(Has(Select(space), law));
}

TEST(Counterexamples, AreNotFoundForAnEquality) {
  const Space space = Scalars();
  SmallGraph relu{.size = 1}, twice{.size = 2};
  relu.applications[0] = {.op = 0, .operands = {0}};
  twice.applications[0] = {.op = 0, .operands = {0}};
  twice.applications[1] = {.op = 0, .operands = {OutputRef(0, 0)}};
  EXPECT_TRUE(FindCounterexamples(space, {{relu, twice}}, 1).empty());
}

TEST(Counterexamples, AreTheSameForASeed) {
  const Space space = Scalars();
  SmallGraph product{.size = 1}, relu{.size = 2};
  product.applications[0] = {.op = 1, .operands = {0, 1}};
  relu.applications[0] = {.op = 1, .operands = {0, 1}};
  relu.applications[1] = {.op = 0, .operands = {OutputRef(0, 0)}};
  const auto one = ToWords(FindCounterexamples(space, {{product, relu}}, 3));
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one, ToWords(FindCounterexamples(space, {{product, relu}}, 3)));
  EXPECT_NE(one, ToWords(FindCounterexamples(space, {{product, relu}}, 4)));
  EXPECT_EQ(one, ToWords(FromWords(space, one)));
}

}  // namespace
}  // namespace rewright::generate
