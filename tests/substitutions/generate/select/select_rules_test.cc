// Tests the selection of rules from pairs, on any number of threads and after any interruption.
#include "substitutions/generate/select/select_rules.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "substitutions/language/rule_printer.h"
#include "tests/support/temporary_folder.h"

namespace rewright::generate {
namespace {

Space SmallSpace(const std::vector<std::string>& ops, int max_ops) {
  Space space = TasoSpace();
  EXPECT_TRUE(Restrict(ops, 3, &space).ok());
  space.max_ops = max_ops;
  return space;
}

std::string Rules(const Space& space, const SelectOptions& options) {
  const auto found = FindPairs(space, {});
  EXPECT_TRUE(found.ok());
  const auto selected = SelectRules(space, found->pairs, options);
  EXPECT_TRUE(selected.ok()) << selected.status().message();
  std::string text;
  for (const Rule& rule : selected->rules) text += PrintRule(rule);
  return text;
}

const std::vector<std::string> kLinear = {"matmul", "add", "concat1_2d", "split1"};

TEST(SelectRules, MergesProductsThatShareAFactor) {
  const std::string rules = Rules(SmallSpace(kLinear, 3), {});
  EXPECT_NE(rules.find("{ matmul(x[b.., m, m2], y[b.., m2, n]), matmul(x, z[b.., m2, n2]) }\n"
                       "  => split(matmul(x, concat(y, z, axis=len(b) + 1)), axis=len(b) + 1, sizes=[n, n2])"),
            std::string::npos)
      << rules;
}

TEST(SelectRules, AnEqualityOfElementwiseOperatorsIsStatedForAnyShape) {
  const std::string rules = Rules(SmallSpace({"relu"}, 2), {});
  EXPECT_NE(rules.find("relu(relu(x)) => relu(x)"), std::string::npos) << rules;
}

TEST(SelectRules, DropsWhatFollows) {
  const Space space = SmallSpace({"relu", "transpose", "add"}, 3);
  const auto found = FindPairs(space, {});
  ASSERT_TRUE(found.ok());
  const auto selected = SelectRules(space, found->pairs, {});
  ASSERT_TRUE(selected.ok());
  const SelectCounts& counts = selected->counts;
  EXPECT_EQ(counts.done, counts.candidates);
  EXPECT_EQ(counts.derivable + counts.kept + counts.special + counts.refuted + counts.unknown, counts.candidates);
  EXPECT_GT(counts.derivable, 0u);
  EXPECT_EQ(counts.refuted, 0u);
}

// Finding this space's rules takes a second or two; the larger space is for REWRIGHT_FULL.
Space Quick() {
  return std::getenv("REWRIGHT_FULL") != nullptr ? SmallSpace(kLinear, 3) : SmallSpace({"relu", "transpose", "add"}, 3);
}

TEST(SelectRules, ThreadsDoNotMatter) {
  const Space space = Quick();
  EXPECT_EQ(Rules(space, {.threads = 1}), Rules(space, {.threads = 3}));
}

// A run that was killed at any byte of its journal resumes and finds the same rules.
TEST(SelectRules, GoesOnFromAJournalCutAnywhere) {
  const Space space = Quick();
  const std::string path = TemporaryFile("selection.journal");
  std::remove(path.c_str());
  const std::string whole = Rules(space, {.journal = path});
  std::string text;
  {
    std::ifstream in(path);
    std::stringstream all;
    all << in.rdbuf();
    text = all.str();
  }
  ASSERT_GT(text.size(), 200u);
  for (size_t cut : {size_t{0}, size_t{10}, text.size() / 3, text.size() / 2 + 7, text.size() - 1, text.size()}) {
    std::ofstream(path, std::ios::trunc) << text.substr(0, cut);
    EXPECT_EQ(Rules(space, {.journal = path}), whole) << "cut at " << cut;
  }
  // An altered line of the journal is rejected: a verdict, a class, a domain.
  constexpr std::pair<const char*, const char*> kEdits[] = {
      {"\tproved\t", "\trefuted\t"}, {"\treassociating\t", "\texact\t"}, {"\t6\t", "\t99\t"}};
  for (const auto& [from, to] : kEdits) {
    const std::string altered = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(altered, text) << from;
    std::ofstream(path, std::ios::trunc) << altered;
    EXPECT_EQ(Rules(space, {.journal = path}), whole) << from;
  }
  // The journal of another run is refused.
  const auto found = FindPairs(space, {});
  ASSERT_TRUE(found.ok());
  const auto other = SelectRules(space, found->pairs, {.seed = 2, .journal = path});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("seed=1"), std::string::npos) << other.status().message();
  std::remove(path.c_str());
}

}  // namespace
}  // namespace rewright::generate
