#include "core/base/data_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace rewright {

std::string ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

absl::StatusOr<std::string> FindDataFile(const std::string& name, const std::string& program_folder,
                                         const std::string& source_folder) {
  const std::string places[] = {absl::StrCat(program_folder, "/../share/rewright/", name),
                                absl::StrCat(program_folder, "/", name), absl::StrCat(source_folder, "/", name)};
  for (const std::string& place : places) {
    std::error_code error;
    if (std::filesystem::exists(place, error)) return place;
  }
  return absl::NotFoundError(
      absl::StrCat(name, ": found neither at ", places[0], " nor at ", places[1], " nor at ", places[2]));
}

}  // namespace rewright
