// Rules of text files, for the verifier's tests.
#pragma once

#include <string>
#include <vector>

#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"
#include "verifier/prove_rule.h"

namespace rewright {

struct RuleCase {
  std::string name;
  std::string expect;  // proved, refuted, unknown
  std::vector<RuleInstance> instances;
};

// The rules of tests/verifier/<file>, instantiated at small ranks. A rule that does not compile fails the test.
std::vector<RuleCase> LoadRules(const std::string& file);

// The first rule of a text; a text that does not parse fails the test.
Rule RuleOf(const std::string& text);

// The verdict alone, without the rule's class.
RuleVerdict ProveUnclassified(const Rule& rule);

// core.rules and laws.rules.
std::vector<Rule> HandWrittenRules();

// The rule files that people wrote and that come with the program, in order of their paths.
std::vector<std::string> ShippedRuleFiles();

// The name of the file at `path` as googletest takes it.
std::string TestNameOf(const std::string& path);

}  // namespace rewright
