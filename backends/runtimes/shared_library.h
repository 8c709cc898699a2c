// Shared libraries of other runtimes, found when they are asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rewright {

// Where the library of a runtime is looked for.
struct LibraryPlaces {
  std::string runtime;             // for messages: "onnxruntime"
  std::string variable;            // of the environment, which may name the library
  std::vector<std::string> names;  // where the loader looks
  std::string package;             // the folder of a Python package that holds it, such as "onnxruntime/capi"
  std::string file;                // how its name begins there
};

// Loads the library that the variable names; without it the first of the others that `init` takes: of the names, and of
// the package of PythonProgram() (core/base/data_file.h). `init` gets the handle and the path. Libraries stay loaded,
// since they have threads of their own. Error: none was taken, with all that was looked for.
absl::Status LoadLibrary(const LibraryPlaces& places,
                         const std::function<absl::Status(void* handle, const std::string& path)>& init);

// Error: the library of the path has no such function.
absl::Status FindFunction(void* handle, const LibraryPlaces& places, absl::string_view path, const char* name,
                          void** function);

}  // namespace rewright
