// Files that are read and written. All output of the program is opened here.
//
// An output is a regular file, or a name where one can be made: a folder, a device, a pipe or a socket of that name is
// refused, since replacing it would be a mistake. A symbolic link stays; its target is written. A file is written under
// another name in the same folder and renamed, so that its name always gives either the old contents or the whole new
// ones. Errors name the path and the fault.
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
  // Reads bytes [offset, offset + length), which must lie inside the file.
  absl::Status Read(int64_t offset, int64_t length, void* to) const;
  // Maps the whole file into memory, which is read on access; null for an empty file. The result keeps the memory alive
  // without this object. If the file becomes shorter, an access ends the process (SIGBUS). A file that replaces this
  // one by renaming is another file.
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
// Gives the memory of these bytes back to the system if they are mapped from a file; the next access reads them from
// the file again. Does nothing to other memory. For callers that have read through many bytes. Thread-safe.
void ReleasePages(const void* memory, int64_t bytes);

// A file that appears under its name, complete, if Commit succeeds, and not at all otherwise. It keeps the permissions
// of the file that it replaces; other names of that file (hard links) keep the old contents.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Write(const void* data, int64_t length);
  // Writes the whole of another file.
  absl::Status Write(const InputFile& from);
  absl::Status Commit();
  // Commits all files, in that order; none is renamed before all are on the disk.
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
  // Cuts the file to its first `size` bytes.
  absl::Status CutTo(int64_t size);

 private:
  AppendFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

absl::StatusOr<std::string> ReadText(const std::string& path);
absl::Status WriteText(const std::string& path, const std::string& contents);
absl::Status WriteStandardOutput(const std::string& contents);

// Returns the file that writing to `path` would make or replace: `path` itself, or the target of its links. Error:
// something else than a regular file has that name, the folder does not exist, or links form a cycle.
absl::StatusOr<std::string> OutputTarget(const std::string& path);
// Checks a file that will name others of its folder. Error: its links lead to another folder, in which the others would
// not be found.
absl::Status CheckFilesBeside(const std::string& path);
// Checks that `path` could be written, before long work begins. Leaves nothing behind.
absl::Status CheckWritable(const std::string& path);

// Makes the folder if it does not exist. Error: something else has that name.
absl::Status MakeFolder(const std::string& path);

// Returns the names in a folder, ascending. Errors: there is no such folder, or it cannot be read to its end.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder);

// Makes creations and removals of names in the folder durable if the machine fails.
absl::Status SyncFolder(const std::string& path);
// Renames a folder atomically and durably. The new name must be free or name an empty folder.
absl::Status RenameFolder(const std::string& from, const std::string& to);
// Removes a folder with its contents; does nothing if it does not exist.
absl::Status RemoveFolder(const std::string& path);

// Returns the path from the root, with the folder's links resolved: one text for each name of the file system.
std::string AbsolutePath(const std::string& path);
// True if both paths exist and name one file, by links or other names.
bool IsSameFile(const std::string& a, const std::string& b);

// Resolves a path that stands in a file of `folder`; an absolute path stays as it is.
std::string PathFrom(const std::string& folder, const std::string& path);
// Prefix of the temporary files that are written and then renamed; one is left over if the process is killed.
inline constexpr char kTemporaryPrefix[] = ".rewright-";

// Returns the folder part of a path; "." if it has none.
std::string FolderOf(const std::string& path);
// Returns the part after the last slash.
std::string FileNameOf(const std::string& path);

// Returns the path of a file inside a folder, from its relative path. Errors: absolute paths, "..", and links that lead
// out of the folder.
absl::StatusOr<std::string> PathInside(const std::string& folder, const std::string& relative);

}  // namespace rewright
