// The rules that come with the program are proved again: a tenth of each file, all with REWRIGHT_FULL (bench/full).
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "substitutions/rule_set.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const char* folder : {"rules", "baseline"}) {
    const std::string path = absl::StrCat(REWRIGHT_SOURCE_DIR, "/substitutions/", folder);
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".rules") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ShippedRulesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedRulesTest, AreProvedAgainAsTheFileSays) {
  const auto rules = ReadRules(GetParam());
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_FALSE(rules->empty());
  LoadOptions all;
  all.allow_risky = all.allow_finite_only = true;
  const auto loaded = RuleSet::FromFiles({GetParam()}, all);  // proofs that are missing or stale are refused
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const size_t step = std::getenv("REWRIGHT_FULL") != nullptr ? 1 : 10;
  RuleProofOptions options;
  options.classify = false;
  for (size_t i = 0; i < rules->size(); i += step) {
    const Rule& rule = (*rules)[i];
    const RuleVerdict verdict = ProveRule(rule, options);
    EXPECT_EQ(verdict.verdict, Verdict::kProved) << rule.name << ": " << verdict.reason;
    EXPECT_EQ(verdict.limits, rule.proof->domain) << rule.name;
    EXPECT_EQ(verdict.instances, rule.proof->instances) << rule.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ShippedRulesTest, ::testing::ValuesIn(Files()), [](const auto& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace rewright
