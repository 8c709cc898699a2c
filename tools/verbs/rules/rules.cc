#include "tools/verbs/rules/rules.h"

#include <unistd.h>

#include "substitutions/rule_set.h"

namespace rewright {

std::string RuleFile(std::string name) {
  if (name.find('/') != std::string::npos || access(name.c_str(), F_OK) == 0) return name;
  return FindRuleFile(name).value_or(name);
}

void AddRules(CommandLine& line, RuleSettings* settings) {
  line.Add("--rules", &settings->rules,
           "Rules to use, a file or the name of one that comes with the program (repeatable; default core.rules)")
      .Map(RuleFile)
      .Type("FILE")
      .OneAtATime();
  line.Add("--disable-rule", &settings->disabled_rules, "A rule not to use (repeatable)").Type("NAME").OneAtATime();
  line.AddSwitch("--exact", &settings->exact,
                 "Only rules that keep every bit in the reference interpreter's float32 and float64");
  line.AddSwitch("--assume-finite", &settings->assume_finite, "Also rules that need every value to be finite");
  line.AddSwitch("--trust-unverified", &settings->trust_unverified, "Also rules without a proof that is up to date");
}

void AddNoRule(CommandLine& line, std::vector<std::string>* names) {
  line.Add("--no-rule", names, "A proved law by which no kernel may compute an operator (repeatable)")
      .Type("NAME")
      .OneAtATime();
}

}  // namespace rewright
