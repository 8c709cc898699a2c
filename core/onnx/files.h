// Regular files: reading at checked offsets, and writing that either completes or leaves the old file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rewright {

// A regular file open for reading. Devices, pipes and folders are refused.
class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  int descriptor() const { return descriptor_; }
  int64_t size() const { return size_; }
  // Bytes [offset, offset + length), which must lie inside the file.
  absl::Status Read(int64_t offset, int64_t length, void* to) const;

 private:
  InputFile(std::string path, int descriptor, int64_t size);

  std::string path_;
  int descriptor_;
  int64_t size_;
};

// A file that appears under its name, complete, when Commit succeeds, and not at all otherwise.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  int descriptor() const { return descriptor_; }
  absl::Status Write(const void* data, int64_t length);
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string temporary, int descriptor);

  std::string path_;
  std::string temporary_;
  int descriptor_;
};

// The folder part of a path: "." where there is none.
std::string FolderOf(const std::string& path);
// The part after the last slash.
std::string FileNameOf(const std::string& path);

// The file of that relative path inside a folder. Absolute paths, "..", and links that lead out of the folder are
// errors.
absl::StatusOr<std::string> PathInside(const std::string& folder, const std::string& relative);

}  // namespace rewright
