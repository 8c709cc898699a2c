// The normaliser, the largest trusted part of the verifier, against plain evaluation, on the rules of the test files.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/verifier/normal_form_util.h"
#include "tests/verifier/rules_util.h"
#include "verifier/integer/give_up.h"

namespace rewright::verifier {
namespace {

class NormalFormTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NormalFormTest, NormalFormsHaveTheValuesOfTheDeclarations) {
  Counts counts;
  const std::vector<Strategy> strategies = {
      {}, {.finite_laws = true}, {.split_products = true, .finite_laws = true}, {.finite_laws = true, .unfold = true}};
  for (const RuleCase& rule : LoadRules(GetParam())) {
    for (size_t i = 0; i < rule.instances.size() && i < 3; ++i) {
      for (size_t s = 0; s < strategies.size(); ++s) {
        try {
          CompareAll(rule.instances[i], strategies[s], 17 * i + s + 1, &counts);
        } catch (const GiveUp&) {
          ++counts.skipped;
        }
      }
    }
  }
  RecordProperty("compared", counts.compared);
  RecordProperty("skipped", counts.skipped);
  std::cout << GetParam() << ": " << counts.compared << " compared, " << counts.skipped << " skipped\n";
  EXPECT_GT(counts.compared, 60);
  EXPECT_LT(counts.skipped, counts.compared);
}

INSTANTIATE_TEST_SUITE_P(Rules, NormalFormTest,
                         ::testing::Values("matmul.rules", "conv.rules", "elementwise.rules", "extra.rules",
                                           "structure.rules", "taso_axioms.rules", "xla_simplifier.rules",
                                           "missed.rules"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace rewright::verifier
