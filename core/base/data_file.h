// Files that come with the program and the library.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rewright {

// Returns the folder of the file that this code was loaded from: the shared library, or the program if the code is
// linked into it. Empty if the system does not tell.
std::string CodeFolder();

// Sets the folder of the data files for the whole process: the installed share/rewright, as given by the program that
// uses the library. An empty text undoes it. Must be called before the first file is looked up.
void UseDataFolder(const std::string& folder);

// Finds a file such as "rules/core.rules". If UseDataFolder has set a folder, only that one is searched; else the
// installed share/rewright (next to the folder of the code or to its parent, as in lib/x86_64-linux-gnu), the folder of
// the code, and `source_folder`. Error: the file is in none of them.
absl::StatusOr<std::string> FindDataFile(const std::string& name, const std::string& source_folder);

// Returns the path of the file in the first of the folders that has it.
absl::StatusOr<std::string> FindInFolders(const std::string& name, const std::vector<std::string>& folders);

// Returns the Python interpreter whose packages are used: $REWRIGHT_PYTHON, or .venv/bin/python above the folder of the
// code, or python3 on the PATH.
std::string PythonProgram();

}  // namespace rewright
