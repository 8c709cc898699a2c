#include "tools/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/onnx/files.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;

absl::Status PathError(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path) {
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  std::string contents(static_cast<size_t>(file->size()), '\0');
  absl::Status status = file->Read(0, file->size(), contents.data());
  if (!status.ok()) return status;
  return contents;
}

absl::Status WriteText(const std::string& path, const std::string& contents) {
  absl::StatusOr<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = file->Write(contents.data(), static_cast<int64_t>(contents.size()));
  if (!status.ok()) return status;
  return file->Commit();
}

absl::Status CheckWritable(const std::string& path) {
  std::error_code error;
  if (path.empty()) return absl::InvalidArgumentError("the path of an output is empty");
  if (fs::is_directory(path, error)) return PathError(path, "is a folder, expected the name of a file");
  const std::string folder = FolderOf(path);
  if (!fs::exists(folder, error)) return PathError(path, absl::StrCat("the folder ", folder, " does not exist"));
  if (!fs::is_directory(folder, error)) return PathError(path, absl::StrCat(folder, " is not a folder"));
  const std::string probe = absl::StrCat(path, ".probe-", getpid());
  const int file = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return PathError(path, absl::StrCat("cannot be written: ", std::strerror(errno)));
  close(file);
  std::remove(probe.c_str());
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!fs::is_directory(path)) {
    return PathError(path, absl::StrCat("cannot be made a folder", error ? ": " + error.message() : ""));
  }
  return absl::OkStatus();
}

}  // namespace rewright
