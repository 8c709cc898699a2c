// Checks the places of a verb's outputs before it begins to work: long work whose result has no place is never done.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/program/verb.h"

namespace rewright {

// The path "-" of a flag that takes a file: standard output.
bool IsStandardOutput(const std::string& path);

// A flag that names a file to write.
struct OutputFlag {
  enum class Use : uint8_t {
    kReplace,         // written whole at the end; "-" is standard output
    kReplaceInPlace,  // the same; may be the first of the inputs
    kKeep             // opened early and added to: a database, a journal
  };
  std::string flag;
  std::string path;  // empty: not given
  Use use = Use::kReplace;
  bool binary = false;  // nothing for a terminal
};

// Errors: a path that is no regular file and cannot become one, a folder where nothing can be made, two flags for one
// file, an input that would be lost, standard output asked for twice (--json prints there, too) or, for a model, on a
// terminal. Where standard output is taken, results go to standard error from now on. The log file counts as well.
absl::Status CheckOutputs(const std::vector<OutputFlag>& outputs, const std::vector<std::string>& inputs,
                          Session& session);

// Writes to the file, or to standard output.
absl::Status WriteOutput(const std::string& path, const std::string& contents);

}  // namespace rewright
