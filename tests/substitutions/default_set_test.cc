// Checks that every rule of the default set states its law and a model that needs it, and that the measurements agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

using ::testing::IsEmpty;

constexpr double kGain = 0.01;  // percent of a model's cost; a smaller gain does not count (bench/search/rule_gains.py)
constexpr size_t kMostRules = 200;

std::vector<Rule> RulesOf(const std::string& file) {
  auto rules = ReadRules(absl::StrCat(REWRIGHT_SOURCE_DIR, "/substitutions/rules/", file));
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *std::move(rules) : std::vector<Rule>();
}

// By rule: "MODEL on DEVICE", and by how many percent the best graph costs more without the rule.
using Gains = std::map<std::string, std::map<std::string, double>>;

Gains MeasuredGains() {
  Gains gains;
  for (const char* file : {"rule_gains.txt", "rule_gains_devices.txt", "rule_gains_operators.txt"}) {
    std::ifstream in(absl::StrCat(REWRIGHT_SOURCE_DIR, "/bench/results/", file));
    EXPECT_TRUE(in.good()) << file;
    const std::regex row(R"((\S+)\s+\d+ ways,\s+\d+ gain: (.*))"), entry(R"((\S+) (\S+) ([-+][0-9.]+)%)");
    std::string line;
    std::smatch parts;
    while (std::getline(in, line)) {
      if (!std::regex_match(line, parts, row)) continue;
      std::map<std::string, double>& of_rule = gains[parts[1]];
      const std::string entries = parts[2];
      for (auto it = std::sregex_iterator(entries.begin(), entries.end(), entry); it != std::sregex_iterator(); ++it) {
        of_rule[absl::StrCat((*it)[1].str(), " on ", (*it)[2].str())] = std::stod((*it)[3]);
      }
    }
  }
  return gains;
}

TEST(DefaultSet, EveryRuleHasAReasonThatWasMeasured) {
  const std::vector<Rule> rules = RulesOf("core.rules");
  Gains gains = MeasuredGains();
  EXPECT_LE(rules.size(), kMostRules);
  const std::regex reason(R"((Gains|On the way): (\S+ on \S+)\.)");
  for (const Rule& rule : rules) {
    std::smatch parts;
    ASSERT_GE(rule.comment.size(), 2u) << rule.name << ": found no law or no reason above it";
    ASSERT_TRUE(std::regex_match(rule.comment.back(), parts, reason))
        << rule.name << ": found " << rule.comment.back() << ", expected `Gains: MODEL on DEVICE.` or `On the way: ..`";
    const auto measured = gains[rule.name].find(parts[2]);
    ASSERT_NE(measured, gains[rule.name].end()) << rule.name << ": " << parts[2] << " was not measured";
    EXPECT_EQ(measured->second >= kGain, parts[1] == "Gains") << rule.name << ": " << measured->second << " %";
  }
}

TEST(DefaultSet, WhatLiesOnNoWayIsLeftToTheOtherLaws) {
  const std::vector<Rule> laws = RulesOf("laws.rules");
  EXPECT_GT(laws.size(), 50u);
  const Gains gains = MeasuredGains();
  std::vector<std::string> missed;
  std::set<std::string> names;
  for (const Rule& rule : RulesOf("core.rules")) names.insert(rule.name);
  for (const Rule& rule : laws) {
    EXPECT_FALSE(rule.comment.empty()) << rule.name << ": found no law above it";
    EXPECT_FALSE(names.contains(rule.name)) << rule.name;
    if (gains.contains(rule.name)) missed.push_back(rule.name);
  }
  EXPECT_THAT(missed, IsEmpty()) << "on the way to a best graph, and not in core.rules";
}

}  // namespace
}  // namespace rewright
