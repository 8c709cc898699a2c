#include "tools/library/optimizer_rules.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "substitutions/language/rule_printer.h"

namespace rewright {
namespace {

// The files that the flags name, or those that come with the program.
absl::StatusOr<std::vector<std::string>> FilesOf(const RuleFlags& flags) {
  if (!flags.files.empty()) return flags.files;
  ASSIGN_OR_RETURN(std::string all, FindRuleFile("core.rules"));
  return std::vector<std::string>{std::move(all)};
}

// Drops names that `files` have and the files of the search do not.
absl::Status KeepDisabled(const RuleFlags& flags, const std::vector<std::string>& files, RuleReader* reader,
                          std::vector<std::string>* disabled) {
  ASSIGN_OR_RETURN(const std::vector<std::string> of_search, FilesOf(flags));
  const auto names_in = [&](const std::vector<std::string>& paths) -> absl::StatusOr<std::set<std::string>> {
    std::set<std::string> names;
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(const std::vector<Rule>* const rules, reader->Read(path));
      for (const Rule& rule : *rules) names.insert(rule.name);
    }
    return names;
  };
  ASSIGN_OR_RETURN(const std::set<std::string> own, names_in(of_search));
  ASSIGN_OR_RETURN(const std::set<std::string> others, names_in(files));
  std::erase_if(*disabled, [&](const std::string& name) { return others.contains(name) && !own.contains(name); });
  return absl::OkStatus();
}

}  // namespace

LoadOptions LoadOptionsOf(const RuleFlags& flags) {
  LoadOptions options;
  options.trust_unverified = flags.trust_unverified;
  options.allow_finite_only = flags.assume_finite;
  options.exact_only = flags.exact;
  options.disabled = flags.disabled;
  return options;
}

absl::StatusOr<RuleIndex> LoadRules(const RuleFlags& flags, RuleReader* reader) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(flags));
  ASSIGN_OR_RETURN(const RuleSet set, RuleSet::FromFiles(files, LoadOptionsOf(flags), reader));
  return set.index();
}

absl::StatusOr<OptimizerRules> LoadOptimizerRules(const RuleFlags& flags) {
  OptimizerRules loaded;
  RuleReader reader;
  RuleFlags of_search = flags;
  if (flags.baseline.value_or(flags.files.empty())) {
    ASSIGN_OR_RETURN(loaded.baseline, Baseline::Load(LoadOptionsOf(flags), &reader));
    // A disabled rule may be one that only the baseline has.
    if (!flags.disabled.empty()) {
      RETURN_IF_ERROR(KeepDisabled(flags, loaded.baseline->rule_files(), &reader, &of_search.disabled));
    }
  }
  ASSIGN_OR_RETURN(loaded.rules, LoadRules(of_search, &reader));
  ASSIGN_OR_RETURN(loaded.files, FilesOf(flags));
  std::vector<std::shared_ptr<const Matcher>> all = loaded.rules.matchers();
  if (loaded.baseline) {
    std::set<std::string> names;
    for (const auto& matcher : all) names.insert(matcher->rule().name());
    for (const auto& matcher : loaded.baseline->matchers()) {
      if (names.insert(matcher->rule().name()).second) all.push_back(matcher);
    }
    for (const std::string& file : loaded.baseline->rule_files()) {
      if (std::find(loaded.files.begin(), loaded.files.end(), file) == loaded.files.end()) loaded.files.push_back(file);
    }
  }
  loaded.all = RuleIndex(std::move(all));
  return loaded;
}

std::string HashOf(const OptimizerRules& rules) {
  TextHash hash;
  for (const auto& matcher : rules.rules.matchers()) hash.Add(PrintLaw(matcher->rule().rule()));
  if (rules.baseline) {
    for (const auto& matcher : rules.baseline->matchers()) hash.Add(PrintLaw(matcher->rule().rule()));
  }
  return hash.Hex();
}

}  // namespace rewright
