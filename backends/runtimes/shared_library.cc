#include "backends/runtimes/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/data_file.h"
#include "core/base/files.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;

// Paths of what lies in a folder; none where it cannot be read.
std::vector<fs::path> In(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const std::string& name : NamesIn(folder.string()).value_or(std::vector<std::string>())) {
    paths.push_back(folder / name);
  }
  return paths;
}

// The library in the package of PythonProgram(); where there is none, the place where it would be. Nothing where the
// program has no whole path: the current folder, which may be anybody's, is not looked at.
std::optional<std::string> OfPython(const LibraryPlaces& places) {
  const fs::path program = PythonProgram();
  if (!program.is_absolute()) return std::nullopt;
  const fs::path libraries = program.parent_path().parent_path() / "lib";
  const fs::path package = fs::path("site-packages") / places.package;
  for (const fs::path& version : In(libraries)) {
    for (const fs::path& file : In(version / package)) {
      if (absl::StartsWith(file.filename().string(), places.file)) return file.string();
    }
  }
  return (libraries / "python3" / package / places.file).string();
}

}  // namespace

absl::Status LoadLibrary(const LibraryPlaces& places,
                         const std::function<absl::Status(void* handle, const std::string& path)>& init) {
  const char* const given = std::getenv(places.variable.c_str());
  std::vector<std::string> names;
  if (given != nullptr && *given != '\0') {
    names.push_back(given);
  } else {
    names = places.names;
    if (const std::optional<std::string> name = OfPython(places)) names.push_back(*name);
  }
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      reasons.push_back(dlerror());
      continue;
    }
    const absl::Status status = init(handle, name);
    if (status.ok()) return status;
    reasons.emplace_back(status.message());  // the next one may be of another version
  }
  return absl::NotFoundError(absl::StrCat("device ", places.runtime, ": no library of ", places.runtime,
                                          " can be loaded: ", absl::StrJoin(reasons, "; "), " (set ", places.variable,
                                          " to the path of one)"));
}

absl::Status FindFunction(void* handle, const LibraryPlaces& places, absl::string_view path, const char* name,
                          void** function) {
  *function = dlsym(handle, name);
  if (*function != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("device ", places.runtime, ": ", path, " has no function ", name));
}

}  // namespace rewright
