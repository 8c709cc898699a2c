// The normaliser against plain evaluation on random compositions of operators: more shapes of terms than any list of
// rules has.
#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "tests/counts.h"
#include "tests/support/recorded_list.h"
#include "tests/verifier/normal_form_util.h"
#include "verifier/integer/give_up.h"

namespace rewright::verifier {
namespace {

using Rng = std::mt19937_64;

// A random term of rank 2 in the rule language, with its sizes.
struct RandomTerm {
  std::string text, rows, columns;
};

std::string Pick(Rng& rng, const std::vector<std::string>& choices) { return choices[rng() % choices.size()]; }

RandomTerm Leaf(Rng& rng) {
  const std::string m = Pick(rng, {"m", "n"}), k = Pick(rng, {"m", "k"});
  // One leaf for each pair of sizes: terms share leaves.
  return {"x" + m + k, m, k};
}

// `text` of the shape wanted, from one of any shape, where no operator gives it otherwise.
RandomTerm Make(Rng& rng, int depth) {
  if (depth == 0) return Leaf(rng);
  const RandomTerm a = Make(rng, depth - 1);
  switch (rng() % 20) {
    case 0: return {"relu(" + a.text + ")", a.rows, a.columns};
    case 1: return {"neg(" + a.text + ")", a.rows, a.columns};
    case 2: return {"mul(" + a.text + ", " + Pick(rng, {"2", "-1", "0.5"}) + ")", a.rows, a.columns};
    case 3: return {"transpose(" + a.text + ", perm=[1, 0])", a.columns, a.rows};
    case 4: return {"concat(" + a.text + ", " + a.text + ", axis=0)", "2 * (" + a.rows + ")", a.columns};
    case 5:
      return {"pad(" + a.text + ", before=[1, 0], after=[0, 2], value=" + Pick(rng, {"0", "1"}) + ")", a.rows + " + 1",
              a.columns + " + 2"};
    case 6: return {"reduce_sum(" + a.text + ", axes=[0], keepdims=1)", "1", a.columns};
    case 7: return {"reduce_max(" + a.text + ", axes=[1], keepdims=1)", a.rows, "1"};
    case 8: return {"reverse(" + a.text + ", axes=[" + Pick(rng, {"0", "1", "0, 1"}) + "])", a.rows, a.columns};
    case 9: return {"reshape(" + a.text + ", shape=[" + a.columns + ", " + a.rows + "])", a.columns, a.rows};
    case 10: return {"slice(" + a.text + ", starts=[0, 0], stops=[1, " + a.columns + "])", "1", a.columns};
    case 11: return {"add(" + a.text + ", reduce_sum(" + a.text + ", axes=[1], keepdims=1))", a.rows, a.columns};
    case 12: return {"mul(" + a.text + ", reduce_max(" + a.text + ", axes=[0], keepdims=1))", a.rows, a.columns};
    case 13: return {"max(" + a.text + ", neg(" + a.text + "))", a.rows, a.columns};
    case 14: return {"mul(" + a.text + ", relu(" + a.text + "))", a.rows, a.columns};
    case 15: return {"relu(mul(" + a.text + ", neg(" + a.text + ")))", a.rows, a.columns};
    case 16: return {"max(" + a.text + ", mul(" + a.text + ", " + a.text + "))", a.rows, a.columns};
    case 17: return {"mul(neg(" + a.text + "), relu(" + a.text + "))", a.rows, a.columns};
    case 18: return {"mul(" + a.text + ", relu(reduce_sum(" + a.text + ", axes=[1], keepdims=1)))", a.rows, a.columns};
    default: return {"matmul(" + a.text + ", transpose(" + a.text + ", perm=[1, 0]))", a.rows, a.rows};
  }
}

TEST(RandomTermsTest, NormalFormsHaveTheValuesOfTheDeclarations) {
  constexpr uint64_t kSeed = 20240611;
  Findings findings;
  int compared = 0;
  ForTodaysCases(5000, [&](size_t k) {
    Rng rng(kSeed + k);
    const RandomTerm term = Make(rng, 1 + static_cast<int>(rng() % 4));
    // The sizes of the leaves are given where they first occur.
    std::string text = term.text;
    for (const char* m : {"m", "n"}) {
      for (const char* n : {"m", "k"}) {
        const std::string name = std::string("x") + m + n;
        const size_t at = text.find(name);
        if (at != std::string::npos) text.insert(at + name.size(), std::string("[") + m + ", " + n + "]");
      }
    }
    const auto rules = ParseRules("rule random\n  " + text + " => " + term.text, "random");
    ASSERT_TRUE(rules.ok()) << rules.status() << "\n" << text;
    const auto compiled = CompileRule(rules->front());
    if (!compiled.ok()) return;  // a bare leaf
    const auto instances = Instances(**compiled, SmallLimits(**compiled));
    ASSERT_TRUE(instances.ok()) << instances.status() << "\n" << text;
    std::string& found = findings[absl::StrCat("#", k, " ", text)];
    Counts counts;
    for (const RuleInstance& instance : *instances) {
      const Strategy strategy{.split_products = rng() % 2 == 0, .finite_laws = rng() % 2 == 0};
      try {
        SCOPED_TRACE(text);
        CompareAll(instance, strategy, rng(), &counts);
      } catch (const GiveUp& end) {
        found = absl::StrCat("given up: ", end.reason);
      }
    }
    if (found.empty()) found = Skipped(counts);
    compared += counts.compared;
  });
  std::cout << "seed " << kSeed << ": " << findings.size() << " terms, " << compared << " values compared\n";
  ExpectRecorded("verifier/lists/normal_forms_skipped.txt", "random terms", findings, AllCases());
}

}  // namespace
}  // namespace rewright::verifier
