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
  absl::StatusOr<std::string> all = FindRuleFile("core.rules");
  if (!all.ok()) return all.status();
  return std::vector<std::string>{*all};
}

// Drops names that `files` have and the files of the search do not.
absl::Status KeepDisabled(const RuleFlags& flags, const std::vector<std::string>& files, RuleReader* reader,
                          std::vector<std::string>* disabled) {
  absl::StatusOr<std::vector<std::string>> of_search = FilesOf(flags);
  if (!of_search.ok()) return of_search.status();
  const auto names_in = [&](const std::vector<std::string>& paths) -> absl::StatusOr<std::set<std::string>> {
    std::set<std::string> names;
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(const std::vector<Rule>* const rules, reader->Read(path));
      for (const Rule& rule : *rules) names.insert(rule.name);
    }
    return names;
  };
  const auto own = names_in(*of_search), others = names_in(files);
  if (!own.ok()) return own.status();
  if (!others.ok()) return others.status();
  std::erase_if(*disabled, [&](const std::string& name) { return others->contains(name) && !own->contains(name); });
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
  absl::StatusOr<std::vector<std::string>> files = FilesOf(flags);
  if (!files.ok()) return files.status();
  absl::StatusOr<RuleSet> set = RuleSet::FromFiles(*files, LoadOptionsOf(flags), reader);
  if (!set.ok()) return set.status();
  return set->index();
}

absl::StatusOr<OptimizerRules> LoadOptimizerRules(const RuleFlags& flags) {
  OptimizerRules loaded;
  RuleReader reader;
  RuleFlags of_search = flags;
  if (flags.baseline.value_or(flags.files.empty())) {
    absl::StatusOr<Baseline> baseline = Baseline::Load(LoadOptionsOf(flags), &reader);
    if (!baseline.ok()) return baseline.status();
    // A disabled rule may be one that only the baseline has.
    if (!flags.disabled.empty()) {
      absl::Status status = KeepDisabled(flags, baseline->rule_files(), &reader, &of_search.disabled);
      if (!status.ok()) return status;
    }
    loaded.baseline = *std::move(baseline);
  }
  absl::StatusOr<RuleIndex> rules = LoadRules(of_search, &reader);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<std::vector<std::string>> files = FilesOf(flags);
  if (!files.ok()) return files.status();
  loaded.rules = *std::move(rules);
  loaded.files = *std::move(files);
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
