#include "tools/rules.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace rewright {

void AddRules(CLI::App& app, RuleFlags* flags) {
  app.add_option("--rules", flags->files, "Rules to use (repeatable; default: those that come with the program)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--disable-rule", flags->disabled, "A rule not to use (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--exact", flags->exact, "Only rules that keep every bit");
  app.add_flag("--assume-finite", flags->assume_finite, "Also rules that need every value to be finite");
  app.add_flag("--trust-unverified", flags->trust_unverified, "Also rules without a proof that is up to date");
}

absl::StatusOr<std::vector<std::string>> RuleFiles(const RuleFlags& flags) {
  namespace fs = std::filesystem;
  if (!flags.files.empty()) return flags.files;
  std::error_code error;
  absl::StatusOr<std::string> core = FindRuleFile("core.rules");
  if (!core.ok()) return core.status();
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(fs::path(*core).parent_path(), error)) {
    if (entry.path().extension() == ".rules") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

LoadOptions LoadOptionsOf(const RuleFlags& flags) {
  LoadOptions options;
  options.trust_unverified = flags.trust_unverified;
  options.allow_finite_only = flags.assume_finite;
  options.disabled = flags.disabled;
  return options;
}

absl::StatusOr<RuleIndex> LoadRules(const RuleFlags& flags) {
  absl::StatusOr<std::vector<std::string>> files = RuleFiles(flags);
  if (!files.ok()) return files.status();
  absl::StatusOr<RuleSet> set = RuleSet::FromFiles(*files, LoadOptionsOf(flags));
  if (!set.ok()) return set.status();
  std::vector<std::shared_ptr<const Matcher>> chosen;
  for (const std::shared_ptr<const Matcher>& matcher : set->matchers()) {
    const std::optional<ProofRecord>& proof = matcher->rule().rule().proof;
    const bool exact = proof.has_value() && proof->rule_class == RuleClass::kExact;
    if (exact || !flags.exact) chosen.push_back(matcher);
  }
  return RuleIndex(std::move(chosen));
}

}  // namespace rewright
