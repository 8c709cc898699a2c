// Files that come with the program and the library.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rewright {

// The folder of the file that this code was loaded from: the shared library's, or the program's where it is linked into
// the program. Empty where the system does not tell.
std::string CodeFolder();

// Where such files lie, said by the program that uses the library: the installed share/rewright. Empty takes it back.
// For the whole process, as the files are; to be called before they are asked for.
void UseDataFolder(const std::string& folder);

// Where a file such as "rules/core.rules" lies: in the folder that was set and nowhere else, or else beside what is
// installed (share/rewright, next to the folder of the code or to the one above it, as in lib/x86_64-linux-gnu), beside
// the code, or in `source_folder`. Error: in none of them.
absl::StatusOr<std::string> FindDataFile(const std::string& name, const std::string& source_folder);

// The first of the folders that has the file.
absl::StatusOr<std::string> FindInFolders(const std::string& name, const std::vector<std::string>& folders);

// The Python whose packages are used: $REWRIGHT_PYTHON, or .venv/bin/python above the folder of the code, or python3 on
// the PATH.
std::string PythonProgram();

}  // namespace rewright
