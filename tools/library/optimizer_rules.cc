#include "tools/library/optimizer_rules.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "substitutions/language/rule_printer.h"
#include "tools/library/rule_paths.h"

namespace rewright {
namespace {

// The files that the settings name, or those that come with the program.
absl::StatusOr<std::vector<std::string>> FilesOf(const RuleSettings& settings) {
  std::vector<std::string> files = settings.rules;
  for (std::string& file : files) file = PathOfRules(std::move(file));
  if (!files.empty()) return files;
  ASSIGN_OR_RETURN(std::string all, FindRuleFile("core.rules"));
  return std::vector<std::string>{std::move(all)};
}

// Drops names that `files` have and the files of the search do not.
absl::Status KeepDisabled(const RuleSettings& settings, const std::vector<std::string>& files, RuleReader* reader,
                          std::vector<std::string>* disabled) {
  ASSIGN_OR_RETURN(const std::vector<std::string> of_search, FilesOf(settings));
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

std::string PathOfRules(std::string name) {
  if (absl::StrContains(name, '/') || std::filesystem::exists(name)) return name;
  for (const char* const ending : {"", ".rules"}) {
    if (absl::StatusOr<std::string> path = FindRuleFile(name + ending); path.ok()) return *std::move(path);
  }
  return name;
}

LoadOptions LoadOptionsOf(const RuleSettings& settings) {
  LoadOptions options;
  options.trust_unverified = settings.trust_unverified;
  options.allow_finite_only = settings.assume_finite;
  options.exact_only = settings.exact;
  options.disabled = settings.disabled_rules;
  return options;
}

absl::StatusOr<RuleIndex> LoadRules(const RuleSettings& settings, RuleReader* reader) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(settings));
  ASSIGN_OR_RETURN(const RuleSet set, RuleSet::FromFiles(files, LoadOptionsOf(settings), reader));
  return set.index();
}

absl::StatusOr<OptimizerRules> LoadOptimizerRules(const RuleSettings& settings) {
  OptimizerRules loaded;
  RuleReader reader;
  RuleSettings of_search = settings;
  if (settings.baseline.value_or(settings.rules.empty())) {
    ASSIGN_OR_RETURN(loaded.baseline, Baseline::Load(LoadOptionsOf(settings), &reader));
    // A disabled rule may be one that only the baseline has.
    if (!settings.disabled_rules.empty()) {
      RETURN_IF_ERROR(KeepDisabled(settings, loaded.baseline->rule_files(), &reader, &of_search.disabled_rules));
    }
  }
  ASSIGN_OR_RETURN(loaded.rules, LoadRules(of_search, &reader));
  ASSIGN_OR_RETURN(loaded.files, FilesOf(settings));
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
