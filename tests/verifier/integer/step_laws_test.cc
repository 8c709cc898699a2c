#include "verifier/integer/law.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace rewright::verifier {
namespace {

const std::string kRoot = REWRIGHT_SOURCE_DIR;

std::string TextOf(const std::string& path) {
  std::ifstream file(kRoot + path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The witnesses of the table of altered laws: the last column of its rows.
std::set<std::string> Witnesses() {
  std::set<std::string> witnesses;
  std::istringstream table(TextOf("/tests/verifier/altered/algebra_mutations.txt"));
  for (std::string line; std::getline(table, line);) {
    const size_t at = line.rfind(" :: ");
    if (!line.starts_with("#") && at != std::string::npos) witnesses.insert(line.substr(at + 4));
  }
  return witnesses;
}

bool IsReason(const LawInfo& info) { return std::string(info.shown_by).starts_with("= "); }

TEST(Laws, AreFoundByTheirNames) {
  for (const LawInfo& info : kAllLaws) {
    EXPECT_EQ(FindLaw(info.text), info.law) << info.text;
    EXPECT_STREQ(LawName(info.law), info.text);
  }
  EXPECT_EQ(FindLaw("no law"), std::nullopt);
}

TEST(Laws, HaveAnAlteredLawThatShowsThemOrAReasonWhyNot) {
  const std::set<std::string> witnesses = Witnesses();
  EXPECT_GT(witnesses.size(), 30u);
  for (const LawInfo& info : kAllLaws) {
    if (IsReason(info)) continue;
    EXPECT_EQ(witnesses.count(info.shown_by), 1u)
        << info.text << ": found `" << info.shown_by << "`, expected a witness of algebra_mutations.txt";
  }
}

// The table of docs/verifier.md has a row for each, in this order.
TEST(Laws, StandInTheirPage) {
  std::string table = "| law | says | checked by | altered law that shows it |\n|---|---|---|---|\n";
  for (const LawInfo& info : kAllLaws) {
    const char* check = info.check == LawCheck::kText       ? "texts"
                        : info.check == LawCheck::kQuestion ? "questions"
                                                            : "values";
    const std::string shown = IsReason(info) ? absl::StrCat("none: ", std::string(info.shown_by).substr(2))
                                             : absl::StrCat("`", info.shown_by, "`");
    absl::StrAppend(&table, "| ", info.text, " | `", info.statement, "` | ", check, " | ", shown, " |\n");
  }
  EXPECT_NE(TextOf("/docs/verifier.md").find(table), std::string::npos) << "docs/verifier.md, expected\n" << table;
}

}  // namespace
}  // namespace rewright::verifier
