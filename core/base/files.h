// Files that are read and written. Whatever the program writes is opened here and nowhere else.
//
// An output is a regular file, or a name where one can be made: a folder, a device, a pipe or a socket of that name is
// refused, since no one means to replace it. A symbolic link stays; what it leads to is written. A file is written
// under another name in the same folder and renamed, so that its name stands for the old contents or the whole new
// ones, whatever happens. Errors name the path and what is wrong with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  int64_t size() const { return size_; }
  // Bytes [offset, offset + length), which must lie inside the file.
  absl::Status Read(int64_t offset, int64_t length, void* to) const;
  // The whole of it in memory, read where it is used; null for an empty file. Who keeps what is given keeps the memory,
  // and needs this object no longer. A file that becomes shorter then ends the process (SIGBUS); one that takes its
  // name, by renaming, is another file.
  absl::StatusOr<std::shared_ptr<const void>> Map() const { return Map(0, size_); }
  // Maps bytes [offset, offset + length) alone, which must lie inside the file. At least kSpareBytes bytes beyond them
  // are readable.
  absl::StatusOr<std::shared_ptr<const void>> Map(int64_t offset, int64_t length) const;
  static constexpr int64_t kSpareBytes = 64;

 private:
  InputFile(std::string path, int descriptor, int64_t size);

  std::string path_;
  int descriptor_;
  int64_t size_;
};

// True if the memory is a file that InputFile::Map has mapped.
bool IsMapped(const void* memory);
// Gives the memory of these bytes back to the system where they are such a file, of which they are read again where
// they are used again; does nothing to other memory. For who has read through many of them. Thread-safe.
void ReleasePages(const void* memory, int64_t bytes);

// A file that appears under its name, complete, when Commit succeeds, and not at all otherwise. It keeps the
// permissions of the file that it replaces; other names of that file (hard links) keep the old contents.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Write(const void* data, int64_t length);
  // The whole of another file.
  absl::Status Write(const InputFile& from);
  absl::Status Commit();
  // All of them, in that order; nothing is renamed before all is on the disk.
  static absl::Status CommitTogether(const std::vector<OutputFile*>& files);

 private:
  OutputFile(std::string path, std::string target, std::string temporary, int descriptor);

  absl::Status Finish();
  absl::Status Rename();

  std::string path_;    // as it was asked for
  std::string target_;  // behind links
  std::string temporary_;
  int descriptor_;
};

// A file to append to, such as a log or a journal; it is created if it does not exist. A write that fails may leave
// part of its bytes at the end.
class AppendFile {
 public:
  static absl::StatusOr<AppendFile> Open(const std::string& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  absl::Status Write(const void* data, int64_t length);
  absl::Status Write(const std::string& text) { return Write(text.data(), static_cast<int64_t>(text.size())); }
  // Waits until all written bytes are on the disk.
  absl::Status Sync();
  // Drops what follows the first `size` bytes.
  absl::Status CutTo(int64_t size);

 private:
  AppendFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

absl::StatusOr<std::string> ReadText(const std::string& path);
absl::Status WriteText(const std::string& path, const std::string& contents);
absl::Status WriteStandardOutput(const std::string& contents);

// The file that writing to `path` would make or replace: `path` itself, or what its links lead to. An error where
// something else than a regular file is there, where the folder does not exist, or where links go round in a circle.
absl::StatusOr<std::string> OutputTarget(const std::string& path);
// For a file that names others of its folder: an error where its links lead to another folder, from which they would
// not be found.
absl::Status CheckFilesBeside(const std::string& path);
// Checks that `path` could be written, before long work begins. Leaves nothing behind.
absl::Status CheckWritable(const std::string& path);

// Makes the folder where it does not exist. Error when something else has that name.
absl::Status MakeFolder(const std::string& path);

// Names that were made or removed in the folder stay so when the machine fails.
absl::Status SyncFolder(const std::string& path);
// Renames a folder, in one step and for good. Nothing may have the new name but an empty folder.
absl::Status RenameFolder(const std::string& from, const std::string& to);
// With all that it holds; nothing where it is not there.
absl::Status RemoveFolder(const std::string& path);

// From the root, with the folder's links resolved: one text for each name of the file system.
std::string AbsolutePath(const std::string& path);
// True if both paths exist and name one file, by links or other names.
bool IsSameFile(const std::string& a, const std::string& b);

// Resolves a path that stands in a file of `folder`; an absolute path stays as it is.
std::string PathFrom(const std::string& folder, const std::string& path);
// Prefix of the temporary files that are written and then renamed; one is left over if the process is killed.
inline constexpr char kTemporaryPrefix[] = ".rewright-";

// Returns the folder part of a path; "." if it has none.
std::string FolderOf(const std::string& path);
// The part after the last slash.
std::string FileNameOf(const std::string& path);

// The file of that relative path inside a folder. Absolute paths, "..", and links that lead out of the folder are
// errors.
absl::StatusOr<std::string> PathInside(const std::string& folder, const std::string& relative);

}  // namespace rewright
