// The normaliser against plain evaluation on random compositions of operators: more shapes of terms than any list of
// rules has.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "tests/counts.h"
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
  const int terms = Cases(5000);
  Rng rng(kSeed);
  Counts counts;
  int built = 0, given_up = 0;
  for (int i = 0; i < terms; ++i) {
    const RandomTerm term = Make(rng, 1 + static_cast<int>(rng() % 4));
    // The sizes of the leaves are given where they first occur.
    std::string text = term.text;
    for (const char* m : {"m", "n"}) {
      for (const char* k : {"m", "k"}) {
        const std::string name = std::string("x") + m + k;
        const size_t at = text.find(name);
        if (at != std::string::npos) text.insert(at + name.size(), std::string("[") + m + ", " + k + "]");
      }
    }
    const auto rules = ParseRules("rule random\n  " + text + " => " + term.text, "random");
    ASSERT_TRUE(rules.ok()) << rules.status() << "\n" << text;
    const auto compiled = CompileRule(rules->front());
    if (!compiled.ok()) continue;  // a bare leaf
    const auto instances = Instances(**compiled, SmallLimits(**compiled));
    ASSERT_TRUE(instances.ok()) << instances.status() << "\n" << text;
    for (const RuleInstance& instance : *instances) {
      ++built;
      const Strategy strategy{.split_products = rng() % 2 == 0, .finite_laws = rng() % 2 == 0};
      try {
        SCOPED_TRACE(text);
        CompareAll(instance, strategy, rng(), &counts);
      } catch (const GiveUp&) {
        ++given_up;
      }
    }
  }
  std::cout << "seed " << kSeed << ": " << built << " terms, " << counts.compared << " values compared, "
            << counts.skipped << " skipped, " << given_up << " given up\n";
  EXPECT_GT(built, terms * 9 / 10);
  EXPECT_GT(counts.compared, built);
  EXPECT_LT(given_up, built / 5);
}

}  // namespace
}  // namespace rewright::verifier
