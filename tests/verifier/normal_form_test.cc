// The normaliser, the largest trusted part of the verifier, against plain evaluation, on the rules of the test files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "tests/support/recorded_list.h"
#include "tests/verifier/normal_form_util.h"
#include "tests/verifier/rules_util.h"
#include "verifier/integer/give_up.h"
#include "verifier/refute/counterexample.h"

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

constexpr char kTable[] = "/tests/verifier/lists/normal_form_table.txt";

// A row: its law and the choices of the attempt in brackets, the term, and the normal form behind an arrow.
//
//   a variable that an equation determines [quotients]
//     reduce_sum(x[m, n], axes=[1])
//     => 1S1[...]x@0[...]
struct TableRow {
  std::string law, term, form;
};

Strategy StrategyOf(const std::string& law) {
  Strategy strategy;
  const size_t open = law.find('[');
  if (open == std::string::npos) return strategy;
  const std::vector<std::string> words = absl::StrSplit(law.substr(open + 1, law.find(']') - open - 1), ", ");
  for (const std::string& word : words) {
    bool* choice = word == "finite laws"      ? &strategy.finite_laws
                   : word == "split products" ? &strategy.split_products
                   : word == "unfold"         ? &strategy.unfold
                   : word == "quotients"      ? &strategy.quotients
                   : word == "digits"         ? &strategy.digits
                   : word == "unroll"         ? &strategy.unroll
                                              : nullptr;
    EXPECT_NE(choice, nullptr) << law << ": " << word << " is no choice of a proof";
    if (choice != nullptr) *choice = true;
  }
  return strategy;
}

// The element of the term as the proof has it, of its first instance.
std::string PrintedForm(const TableRow& row) {
  // The right side of the rule is the same term, without the shapes of variables.
  static const std::regex kShapes(R"(([a-z]\w*)(: \w+)?\[[^\]]*\])");
  const std::string again = std::regex_replace(row.term, kShapes, "$1");
  const auto rules = ParseRules(absl::StrCat("rule row\n  ", row.term, " => ", again), "table");
  if (!rules.ok()) return std::string(rules.status().message());
  const auto compiled = CompileRule(rules->front(), RuleUse::kProof);
  if (!compiled.ok()) return std::string(compiled.status().message());
  const auto instances = Instances(**compiled, SmallLimits(**compiled));
  if (!instances.ok()) return std::string(instances.status().message());
  if (instances->empty()) return "no instance";
  const RuleInstance& instance = instances->front();
  const auto assignments = CounterexampleSearch(instance, 1).Draw(1);
  if (assignments.empty()) return "no sizes";
  try {
    ElementScene scene(instance, StrategyOf(row.law), 1, assignments[0]);
    return scene.Print(scene.Form(instance.lhs[0], scene.Positions(instance.lhs[0])));
  } catch (const GiveUp& end_of_attempt) {
    return "given up: " + end_of_attempt.reason;
  }
}

// The printed normal form of each term of the table. Whoever changes a law sees what else it changes.
TEST(NormalFormTable, IsAsWritten) {
  const std::string path = absl::StrCat(REWRIGHT_SOURCE_DIR, kTable);
  std::ifstream in(path);
  ASSERT_TRUE(in.good()) << path;
  const bool record = std::getenv("REWRIGHT_RECORD") != nullptr;
  std::string anew, differences;
  std::set<std::string> terms;
  TableRow row;
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "  ")) {
      if (!line.empty() && !absl::StartsWith(line, "#")) row = {line, "", ""};
    } else if (!absl::StartsWith(line, "  =>")) {
      absl::StrAppend(&row.term, row.term.empty() ? "" : " ", absl::StripAsciiWhitespace(line));
    } else {
      row.form = std::string(absl::StripAsciiWhitespace(line.substr(4)));
      EXPECT_TRUE(terms.insert(absl::StrCat(row.law, row.term)).second) << row.law << ": the second such row";
      const std::string found = PrintedForm(row);
      if (found != row.form) {
        absl::StrAppend(&differences, row.law, "\n  ", row.term, "\n- ", row.form, "\n+ ", found, "\n");
      }
      line = "  => " + found;
      row.term.clear();
    }
    absl::StrAppend(&anew, line, "\n");
  }
  EXPECT_GE(terms.size(), 1u) << path << " has no row";
  if (record) {
    std::ofstream(path) << anew;
  } else {
    EXPECT_EQ(differences, "")
        << "found otherwise than tests/verifier/lists/normal_form_table.txt. If that is right, "
           "the table is made anew by\n  REWRIGHT_RECORD=1 <the test program> "
           "--gtest_filter=NormalFormTable.*\nand the difference is read before it is committed.";
  }
}

}  // namespace
}  // namespace rewright::verifier
