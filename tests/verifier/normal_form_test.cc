// The normaliser, the largest trusted part of the verifier, against plain evaluation, on the rules of the test files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/recorded_list.h"
#include "tests/verifier/normal_form_util.h"
#include "tests/verifier/rules_util.h"
#include "verifier/integer/give_up.h"

namespace rewright::verifier {
namespace {

class NormalFormTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NormalFormTest, NormalFormsHaveTheValuesOfTheDeclarations) {
  const std::vector<std::pair<std::string, Strategy>> strategies = {
      {"plain", {}},
      {"finite laws", {.finite_laws = true}},
      {"products split", {.split_products = true, .finite_laws = true}},
      {"unfolded", {.finite_laws = true, .unfold = true}}};
  Findings findings;
  for (const RuleCase& rule : LoadRules(GetParam())) {
    for (size_t i = 0; i < rule.instances.size() && i < 3; ++i) {
      for (size_t s = 0; s < strategies.size(); ++s) {
        std::string& found = findings[absl::StrCat(rule.name, " #", i, ", ", strategies[s].first)];
        Counts counts;
        try {
          CompareAll(rule.instances[i], strategies[s].second, 17 * i + s + 1, &counts);
          found = Skipped(counts);
        } catch (const GiveUp& end) {
          found = absl::StrCat("given up: ", end.reason);
        }
      }
    }
  }
  ExpectRecorded("verifier/lists/normal_forms_skipped.txt", GetParam(), findings, /*whole=*/true);
}

INSTANTIATE_TEST_SUITE_P(Rules, NormalFormTest,
                         ::testing::Values("matmul.rules", "conv.rules", "elementwise.rules", "extra.rules",
                                           "structure.rules", "taso_axioms.rules", "xla_simplifier.rules",
                                           "missed.rules"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

// ---------------------------------------------------------------- the table

// The printed normal form of each term of the table. Whoever changes a law sees what else it changes.
TEST(NormalFormTable, IsAsWritten) {
  std::string anew, differences;
  std::set<std::string> names;
  const std::vector<TableRow> rows = ReadTable();
  for (const TableRow& row : rows) {
    EXPECT_TRUE(names.insert(absl::StrCat(row.law, row.term)).second) << row.law << ": the second such row";
    const std::string found = PrintedForm(row);
    absl::StrAppend(&anew, row.before, row.law, "\n  ", row.term, "\n  => ", found, "\n");
    if (found == row.form) continue;
    absl::StrAppend(&differences, row.law, "\n  ", row.term, "\n- ", row.form, "\n+ ", found, "\n");
  }
  EXPECT_FALSE(rows.empty());
  if (std::getenv("REWRIGHT_RECORD") != nullptr) {
    std::ofstream(TablePath()) << anew;
    return;
  }
  EXPECT_EQ(differences, "")
      << "found otherwise than tests/verifier/lists/normal_form_table.txt. If that is right, the "
         "table is made anew by\n  REWRIGHT_RECORD=1 <the test program> "
         "--gtest_filter=NormalFormTable.*\nand the difference is read before it is committed.";
}

}  // namespace
}  // namespace rewright::verifier
