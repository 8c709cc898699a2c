#include "tools/verbs/equal/equal_settings.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/tensor/npy.h"

namespace rewright {

absl::StatusOr<OptimizerRules> LoadEqualRules(RuleSettings settings) {
  settings.assume_finite = true;  // laws of real numbers
  if (settings.rules.empty()) {
    // Rules without a gain for a search are laws all the same.
    ASSIGN_OR_RETURN(std::string core, FindRuleFile("core.rules"));
    ASSIGN_OR_RETURN(std::string laws, FindRuleFile("laws.rules"));
    settings.rules = {std::move(core), std::move(laws)};
    settings.baseline = true;
  }
  return LoadOptimizerRules(settings);
}

EqualOptions OptionsOfProof(const OptimizerRules& rules, const Session& session) {
  EqualOptions options;
  options.rules = RulesForEqual(rules.all.matchers());
  options.seed = session.flags.seed;
  options.threads = NumThreads(session.flags.threads);
  return options;
}

std::string NpyNameOf(const std::string& name) {
  std::string file = name;
  for (char& c : file) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return file;
}

absl::Status WriteInputs(const std::string& folder, const std::vector<std::pair<std::string, Tensor>>& inputs) {
  RETURN_IF_ERROR(MakeFolder(folder));
  for (const auto& [name, tensor] : inputs) {
    RETURN_IF_ERROR(SaveNpy((std::filesystem::path(folder) / (NpyNameOf(name) + ".npy")).string(), tensor));
  }
  return absl::OkStatus();
}

}  // namespace rewright
