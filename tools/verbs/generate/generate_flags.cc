#include "tools/verbs/generate/generate_flags.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/program/outputs.h"

namespace rewright {
namespace {

void AppendFiles(const std::string& flag, const std::vector<std::string>& files, std::string* command) {
  if (!files.empty()) absl::StrAppend(command, " ", flag);
  for (const std::string& file : files) {
    absl::StrAppend(command, " ", std::filesystem::path(file).filename().string());
  }
}

}  // namespace

absl::Status CheckRulesOutput(const GenerateFlags& flags, Session& session) {
  // A selection may take the place of the file that it adds to.
  std::vector<std::string> inputs = flags.base;
  inputs.insert(inputs.end(), flags.combine.begin(), flags.combine.end());
  return CheckOutputs({{"-o", flags.output, OutputFlag::Use::kReplaceInPlace}}, inputs, session);
}

std::string CommandOf(const GenerateFlags& flags, const Session& session) {
  if (!flags.combine.empty()) {
    std::string command = "rewright generate";
    AppendFiles("--base", flags.base, &command);
    AppendFiles("--combine", flags.combine, &command);
    AppendFiles("-o", {flags.output}, &command);
    return command;
  }
  std::string command = "rewright generate";
  if (flags.models.empty()) {
    absl::StrAppend(&command, " --preset ", flags.preset);
  } else {
    AppendFiles("--from", flags.models, &command);
    AppendFiles("--base", flags.base, &command);
    for (const auto& [name, size] : flags.dims) absl::StrAppend(&command, " --dim ", name, "=", size);
    absl::StrAppend(&command, " --min-count ", flags.min_count, " --max-spaces ", flags.max_spaces);
  }
  if (!flags.space.empty()) absl::StrAppend(&command, " --space ", flags.space);
  if (!flags.ops.empty()) absl::StrAppend(&command, " --ops ", absl::StrJoin(flags.ops, ","));
  if (flags.max_ops > 0) absl::StrAppend(&command, " --max-ops ", flags.max_ops);
  if (flags.inputs > 0) absl::StrAppend(&command, " --inputs ", flags.inputs);
  if (flags.rule_limit != 1) absl::StrAppend(&command, " --rule-limit ", flags.rule_limit);
  if (session.flags.seed != 1) absl::StrAppend(&command, " --seed ", session.flags.seed);
  AppendFiles("-o", {flags.output}, &command);
  return command;
}

}  // namespace rewright
