#include "core/base/data_file.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rewright {
namespace {

struct DataFolder {
  std::mutex mutex;
  std::string folder;
};

DataFolder& Given() {
  static DataFolder* const given = new DataFolder;
  return *given;
}

}  // namespace

std::string CodeFolder() {
  std::error_code error;
  Dl_info info;
  link_map* object = nullptr;
  const bool known =
      dladdr1(reinterpret_cast<void*>(&CodeFolder), &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) != 0;
  // The link map has no name for the program itself, and its argv[0] need not be a path.
  if (known && object != nullptr && object->l_name != nullptr && *object->l_name != '\0') {
    return std::filesystem::weakly_canonical(object->l_name, error).parent_path().string();
  }
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

void UseDataFolder(const std::string& folder) {
  DataFolder& given = Given();
  const std::lock_guard<std::mutex> lock(given.mutex);
  given.folder = folder;
}

absl::StatusOr<std::string> FindInFolders(const std::string& name, const std::vector<std::string>& folders) {
  std::vector<std::string> places;
  for (const std::string& folder : folders) {
    places.push_back(absl::StrCat(folder, "/", name));
    std::error_code error;
    if (std::filesystem::exists(places.back(), error)) return places.back();
  }
  return absl::NotFoundError(absl::StrCat(name, ": not found at ", absl::StrJoin(places, " nor at ")));
}

std::string PythonProgram() {
  namespace fs = std::filesystem;
  if (const char* given = std::getenv("REWRIGHT_PYTHON"); given != nullptr && *given != '\0') return given;
  std::error_code error;
  fs::path folder = CodeFolder();
  for (int level = 0; level < 3 && !folder.empty(); ++level) {
    const fs::path python = folder / ".venv" / "bin" / "python";
    if (fs::exists(python, error)) return python.string();
    folder = folder.parent_path();
  }
  return "python3";
}

absl::StatusOr<std::string> FindDataFile(const std::string& name, const std::string& source_folder) {
  {
    DataFolder& given = Given();
    const std::lock_guard<std::mutex> lock(given.mutex);
    if (!given.folder.empty()) return FindInFolders(name, {given.folder});
  }
  const std::string code = CodeFolder();
  return FindInFolders(name, {absl::StrCat(code, "/../share/rewright"), absl::StrCat(code, "/../../share/rewright"),
                              code, source_folder});
}

}  // namespace rewright
