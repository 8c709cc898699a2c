// Runs programs as several processes, if mpirun is installed.
#pragma once

#include <cstdlib>
#include <string>

namespace rewright {

inline bool HasMpirun() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

// Returns the prefix of a shell command that runs it as `processes` processes, with more flags of mpirun. Both
// variables must be set if the user is root.
inline std::string Mpirun(int processes, const std::string& flags = "") {
  return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe " + flags + " -n " +
         std::to_string(processes) + " ";
}

}  // namespace rewright
