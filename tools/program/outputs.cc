#include "tools/program/outputs.h"

#include <unistd.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

using OutputUse = OutputFlag::Use;

absl::Status Refuse(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status TakeStandardOutput(const OutputFlag& output, std::string* taken_by, Session& session) {
  if (output.use == OutputUse::kKeep)
    return Refuse(absl::StrCat(output.flag, ": found `-`, expected the name of a file"));
  if (!taken_by->empty()) {
    return Refuse(absl::StrCat(output.flag, " -: standard output is taken by ", *taken_by, " already"));
  }
  if (session.flags.json) {
    return Refuse(absl::StrCat(output.flag, " -: --json prints on standard output as well; give one of them a file"));
  }
  if (output.binary && isatty(STDOUT_FILENO) == 1) {
    return Refuse(absl::StrCat(output.flag, " -: standard output is a terminal, expected a file or a pipe"));
  }
  *taken_by = output.flag;
  session.console.LeaveStandardOutput();
  return absl::OkStatus();
}

}  // namespace

bool IsStandardOutput(const std::string& path) { return path == "-"; }

absl::Status CheckOutputs(const std::vector<OutputFlag>& outputs, const std::vector<std::string>& inputs,
                          Session& session) {
  std::string standard_output;
  std::map<std::string, std::string> flags;  // by the file that each will write
  if (!session.flags.log_file.empty()) {
    absl::StatusOr<std::string> log = OutputTarget(session.flags.log_file);
    if (!log.ok()) return log.status();
    flags[AbsolutePath(*log)] = "--log-file";
  }
  for (const OutputFlag& output : outputs) {
    if (output.path.empty()) continue;
    if (IsStandardOutput(output.path)) {
      RETURN_IF_ERROR(TakeStandardOutput(output, &standard_output, session));
      continue;
    }
    if (output.use != OutputUse::kKeep) RETURN_IF_ERROR(CheckWritable(output.path));
    ASSIGN_OR_RETURN(const std::string target, OutputTarget(output.path));
    const auto [taken, fresh] = flags.emplace(AbsolutePath(target), output.flag);
    if (!fresh)
      return Refuse(absl::StrCat(output.flag, ": ", output.path, " is the file of ", taken->second, " already"));
    for (size_t i = output.use == OutputUse::kReplaceInPlace ? 1 : 0; i < inputs.size(); ++i) {
      if (!IsSameFile(inputs[i], target)) continue;
      return Refuse(absl::StrCat(output.flag, ": ", output.path, " is read here, and would be lost"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteOutput(const std::string& path, const std::string& contents) {
  return IsStandardOutput(path) ? WriteStandardOutput(contents) : WriteText(path, contents);
}

}  // namespace rewright
