#include "core/onnx/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

absl::Status SystemError(const std::string& path, const std::string& what) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

}  // namespace

// ---------------------------------------------------------------- reading

InputFile::InputFile(std::string path, int descriptor, int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // O_NONBLOCK: a named pipe must not keep us waiting.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError(path, "cannot open");
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    const absl::Status error = SystemError(path, "cannot read its size");
    close(descriptor);
    return error;
  }
  InputFile file(path, descriptor, static_cast<int64_t>(status.st_size));
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  return file;
}

absl::Status InputFile::Read(int64_t offset, int64_t length, void* to) const {
  if (offset < 0 || length < 0 || offset > size_ || length > size_ - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": has ", size_, " bytes; cannot read ", length, " bytes at offset ", offset));
  }
  auto* bytes = static_cast<char*>(to);
  while (length > 0) {
    const ssize_t count = pread(descriptor_, bytes, static_cast<size_t>(length), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path_, "cannot read");
    if (count == 0) return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read"));
    bytes += count;
    offset += count;
    length -= count;
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- writing

OutputFile::OutputFile(std::string path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot create");
  OutputFile file(path, temporary, descriptor);
  // mkostemp makes it private; give it the mode of any other new file.
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, 0666 & ~mask) != 0) return SystemError(path, "cannot set its mode");
  return file;
}

absl::Status OutputFile::Write(const void* data, int64_t length) {
  const auto* bytes = static_cast<const char*>(data);
  while (length > 0) {
    // One call writes at most about 2 GiB.
    const ssize_t count = write(descriptor_, bytes, static_cast<size_t>(std::min(length, int64_t{1} << 30)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path_, "cannot write");
    bytes += count;
    length -= count;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (fsync(descriptor_) != 0) return SystemError(path_, "cannot write");
  if (close(std::exchange(descriptor_, -1)) != 0) return SystemError(path_, "cannot write");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return SystemError(path_, "cannot replace");
  temporary_.clear();
  return absl::OkStatus();
}

// ---------------------------------------------------------------- paths

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string FileNameOf(const std::string& path) { return std::filesystem::path(path).filename().string(); }

absl::StatusOr<std::string> PathInside(const std::string& folder, const std::string& relative) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("path \"", relative, "\": ", why));
  };
  if (relative.empty()) return refuse("is empty");
  if (relative.find('\0') != std::string::npos) return refuse("holds a zero byte");
  const std::filesystem::path path(relative);
  if (path.is_absolute()) return refuse("is absolute; expected one relative to the model");
  for (const std::filesystem::path& part : path) {
    if (part == "..") return refuse("leads out of the model's folder");
  }
  std::error_code error;
  const std::filesystem::path root = std::filesystem::canonical(folder, error);
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  const std::filesystem::path resolved = std::filesystem::canonical(root / path, error);
  if (error) return absl::NotFoundError(absl::StrCat((root / path).string(), ": ", error.message()));
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), resolved.begin(), resolved.end());
  if (end != root.end()) return refuse("is a link that leads out of the model's folder");
  return resolved.string();
}

}  // namespace rewright
