// Files that come with the program.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rewright {

// The folder of the running program; empty where the system does not tell.
std::string ProgramFolder();

// Where a file such as "rules/core.rules" lies: beside an installed program (PROGRAM_FOLDER/../share/rewright), beside
// the program, or in `source_folder`. Error: in none of them.
absl::StatusOr<std::string> FindDataFile(const std::string& name, const std::string& program_folder,
                                         const std::string& source_folder);

}  // namespace rewright
