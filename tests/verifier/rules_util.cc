#include "tests/verifier/rules_util.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"

namespace rewright {

Rule RuleOf(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? rules->at(0) : Rule();
}

RuleVerdict ProveUnclassified(const Rule& rule) {
  RuleProofOptions options;
  options.classify = false;
  return ProveRule(rule, options);
}

std::vector<RuleCase> LoadRules(const std::string& file) {
  std::ifstream in(absl::StrCat(REWRIGHT_SOURCE_DIR, "/tests/verifier/", file));
  EXPECT_TRUE(in.good()) << file;
  std::stringstream text;
  text << in.rdbuf();
  auto rules = ParseRules(text.str(), file);
  EXPECT_TRUE(rules.ok()) << rules.status();
  std::vector<RuleCase> cases;
  if (!rules.ok()) return cases;
  DomainLimits limits;
  limits.max_rank = 4;
  limits.max_perm_rank = 3;
  limits.max_broadcast_rank = 2;
  for (const Rule& rule : *rules) {
    auto compiled = CompileRule(rule);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) continue;
    // Larger where the rule's own shapes need more.
    DomainLimits enough = limits;
    enough.max_rank = std::max(limits.max_rank, SmallLimits(**compiled).max_rank);
    auto instances = Instances(**compiled, enough);
    EXPECT_TRUE(instances.ok()) << instances.status();
    if (instances.ok()) cases.push_back({rule.name, rule.expect, *std::move(instances)});
  }
  return cases;
}

std::vector<Rule> HandWrittenRules() {
  std::vector<Rule> all;
  for (const char* file : {"core.rules", "laws.rules"}) {
    const auto rules = ReadRules(absl::StrCat(REWRIGHT_SOURCE_DIR, "/substitutions/rules/", file));
    EXPECT_TRUE(rules.ok()) << rules.status();
    if (rules.ok()) all.insert(all.end(), rules->begin(), rules->end());
  }
  return all;
}

std::vector<std::string> ShippedRuleFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"rules", "baseline"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(absl::StrCat(REWRIGHT_SOURCE_DIR, "/substitutions/", folder))) {
      if (entry.path().extension() == ".rules") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string TestNameOf(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace rewright
