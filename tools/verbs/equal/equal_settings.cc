#include "tools/verbs/equal/equal_settings.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/tensor/npy.h"

namespace rewright {

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
