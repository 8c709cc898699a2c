#include "tools/rules.h"

#include <unistd.h>

#include "substitutions/rule_set.h"

namespace rewright {

std::string RuleFile(std::string name) {
  if (name.find('/') != std::string::npos || access(name.c_str(), F_OK) == 0) return name;
  return FindRuleFile(name).value_or(name);
}

void AddRules(CLI::App& app, RuleFlags* flags) {
  app.add_option("--rules", flags->files,
                 "Rules to use, a file or the name of one that comes with the program (repeatable; default core.rules)")
      ->transform(RuleFile)
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--disable-rule", flags->disabled, "A rule not to use (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--exact", flags->exact,
               "Only rules that keep every bit in the reference interpreter's float32 and float64");
  app.add_flag("--assume-finite", flags->assume_finite, "Also rules that need every value to be finite");
  app.add_flag("--trust-unverified", flags->trust_unverified, "Also rules without a proof that is up to date");
}

void AddNoRule(CLI::App& app, std::vector<std::string>* names) {
  app.add_option("--no-rule", *names, "A proved law by which no kernel may compute an operator (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

}  // namespace rewright
