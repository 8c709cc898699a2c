#include "core/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"

namespace rewright {
namespace {

constexpr int64_t kPiece = int64_t{32} << 20;  // bytes to read or write until an interrupt is heeded

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
  // O_NONBLOCK: opening a named pipe must not block.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError(path, "cannot open");
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    const absl::Status error = SystemError(path, "cannot read its size");
    close(descriptor);
    return error;
  }
  InputFile file(path, descriptor, static_cast<int64_t>(status.st_size));
  if (!S_ISREG(status.st_mode)) return InvalidArgument(path, ": not a regular file");
  return file;
}

absl::Status InputFile::Read(int64_t offset, int64_t length, void* to) const {
  if (offset < 0 || length < 0 || offset > size_ || length > size_ - offset) {
    return InvalidArgument(path_, ": has ", size_, " bytes; cannot read ", length, " bytes at offset ", offset);
  }
  auto* bytes = static_cast<char*>(to);
  while (length > 0) {
    const ssize_t count = pread(descriptor_, bytes, static_cast<size_t>(std::min(length, kPiece)), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path_, "cannot read");
    if (count == 0) return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read"));
    bytes += count;
    offset += count;
    length -= count;
    if (length > 0) RETURN_IF_ERROR(StopScope::Check());
  }
  return absl::OkStatus();
}

namespace {

uintptr_t PageBytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}
uintptr_t PageOf(uintptr_t address) { return address / PageBytes() * PageBytes(); }
uintptr_t PagesUpTo(uintptr_t address) { return PageOf(address + PageBytes() - 1); }

// The mapped files of this process: giving back other memory would lose its contents.
struct MappedFiles {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;  // by beginning
};

MappedFiles& Mapped() {
  static MappedFiles* const mapped = new MappedFiles;
  return *mapped;
}

// Returns begin and end of the mapping that holds the address; requires the mutex. 0, 0: none does.
std::pair<uintptr_t, uintptr_t> MappingOf(const MappedFiles& mapped, uintptr_t address) {
  auto next = mapped.ends.upper_bound(address);
  if (next == mapped.ends.begin() || (--next)->second <= address) return {0, 0};
  return *next;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const void>> InputFile::Map(int64_t offset, int64_t length) const {
  if (offset < 0 || length < 0 || offset > size_ || length > size_ - offset) {
    return InvalidArgument(path_, ": has ", size_, " bytes; cannot map ", length, " bytes at offset ", offset);
  }
  if (length == 0) return std::shared_ptr<const void>();
  const uintptr_t first = PageOf(static_cast<uintptr_t>(offset));
  const uintptr_t before = static_cast<uintptr_t>(offset) - first;
  const uintptr_t bytes = PagesUpTo(before + static_cast<uintptr_t>(length));
  // There may be no page after the end of a file: the spare bytes then lie in zeros.
  const uintptr_t all = PagesUpTo(before + static_cast<uintptr_t>(length + kSpareBytes));
  void* const at = mmap(nullptr, all, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return SystemError(path_, "cannot be mapped into memory");
  if (mmap(at, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor_, static_cast<off_t>(first)) == MAP_FAILED) {
    const absl::Status error = SystemError(path_, "cannot be mapped into memory");
    munmap(at, all);
    return error;
  }
  const auto begin = reinterpret_cast<uintptr_t>(at);
  {
    const std::lock_guard<std::mutex> lock(Mapped().mutex);
    Mapped().ends[begin] = begin + bytes;
  }
  return std::shared_ptr<const void>(static_cast<const char*>(at) + before, [at, all, begin](const void*) {
    const std::lock_guard<std::mutex> lock(Mapped().mutex);
    Mapped().ends.erase(begin);
    munmap(at, all);
  });
}

bool IsMapped(const void* memory) {
  const std::lock_guard<std::mutex> lock(Mapped().mutex);
  return MappingOf(Mapped(), reinterpret_cast<uintptr_t>(memory)).second != 0;
}

void ReleasePages(const void* memory, int64_t bytes) {
  if (bytes <= 0) return;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard<std::mutex> lock(Mapped().mutex);
  const auto [begin, end] = MappingOf(Mapped(), address);
  if (end == 0) return;
  const uintptr_t first = PageOf(address);
  const uintptr_t last = std::min(end, PagesUpTo(address + static_cast<uintptr_t>(bytes)));
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

// ---------------------------------------------------------------- targets of outputs

namespace {

// Linux follows as many.
constexpr int kMaxLinks = 40;

std::string KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "something else";
}

// The regular file at a path, or the one that will be made there.
struct Target {
  std::string path;
  bool exists = false;
  struct stat status = {};
};

absl::Status CheckFolder(const std::string& path, const std::string& at) {
  struct stat status;
  const std::string folder = FolderOf(at);
  const std::string link = at == path ? "" : absl::StrCat("leads to ", at, "; ");
  if (stat(folder.c_str(), &status) == 0) {
    return S_ISDIR(status.st_mode) ? absl::OkStatus() : InvalidArgument(path, ": ", link, folder, " is not a folder");
  }
  if (errno == ENOENT) return InvalidArgument(path, ": ", link, "the folder ", folder, " does not exist");
  if (errno == ENOTDIR) return InvalidArgument(path, ": ", link, "the path of ", folder, " is not one of folders");
  return SystemError(path, absl::StrCat(link, folder, " cannot be looked up"));
}

absl::StatusOr<std::string> ReadLink(const std::string& path) {
  std::error_code error;
  const std::filesystem::path link = std::filesystem::read_symlink(path, error);
  if (error) return absl::UnavailableError(absl::StrCat(path, ": cannot read the link: ", error.message()));
  return link.is_absolute() ? link.string() : absl::StrCat(FolderOf(path), "/", link.string());
}

absl::Status CheckKind(const std::string& path, const Target& target) {
  const mode_t mode = target.status.st_mode;
  if (S_ISREG(mode)) return absl::OkStatus();
  const std::string expected = S_ISDIR(mode) ? ", expected the name of a file" : ", expected a regular file";
  const std::string link = target.path == path ? "is " : absl::StrCat("leads to ", target.path, ", which is ");
  return InvalidArgument(path, ": ", link, KindOf(mode), expected);
}

absl::StatusOr<Target> FindTarget(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path of an output is empty");
  if (path.find('\0') != std::string::npos) return absl::InvalidArgumentError("the path of an output has a zero byte");
  // Links of /proc/self/fd may lead to files without a name: only the system can follow them.
  Target target;
  target.path = path;
  struct stat behind;
  const bool found = stat(path.c_str(), &behind) == 0;
  for (int links = 0; links <= kMaxLinks; ++links) {
    RETURN_IF_ERROR(CheckFolder(path, target.path));
    target.exists = lstat(target.path.c_str(), &target.status) == 0;
    if (!target.exists && errno != ENOENT) return SystemError(path, "cannot be looked up");
    if (target.exists && S_ISLNK(target.status.st_mode)) {
      ASSIGN_OR_RETURN(target.path, ReadLink(target.path));
      continue;
    }
    if (found && (!target.exists || target.status.st_ino != behind.st_ino || target.status.st_dev != behind.st_dev)) {
      return InvalidArgument(path, ": leads to ", S_ISREG(behind.st_mode) ? "a file" : KindOf(behind.st_mode),
                             " without a name, expected a regular file");
    }
    if (target.exists) RETURN_IF_ERROR(CheckKind(path, target));
    return target;
  }
  return InvalidArgument(path, ": its symbolic links go round in a circle");
}

absl::Status WriteAll(int descriptor, const std::string& name, const void* data, int64_t length) {
  const auto* bytes = static_cast<const char*>(data);
  while (length > 0) {
    // One call writes at most about 2 GiB.
    const ssize_t count = write(descriptor, bytes, static_cast<size_t>(std::min(length, int64_t{1} << 30)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(name, "cannot write");
    bytes += count;
    length -= count;
  }
  return absl::OkStatus();
}

// Makes a new file in the folder of `target`. The system applies the umask to it: reading the umask would change it for
// a moment, while other threads create files.
absl::StatusOr<std::pair<std::string, int>> OpenTemporary(const std::string& path, const Target& target) {
  static std::atomic<uint64_t> next{0};
  const mode_t mode = target.exists ? target.status.st_mode & 0777 : 0666;
  for (;;) {
    std::string name = absl::StrCat(FolderOf(target.path), "/", kTemporaryPrefix, getpid(), "-", next++);
    const int descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (descriptor >= 0) return std::pair(std::move(name), descriptor);
    if (errno != EEXIST && errno != EINTR) return SystemError(path, "cannot be written");
  }
}

}  // namespace

absl::StatusOr<std::string> OutputTarget(const std::string& path) {
  ASSIGN_OR_RETURN(Target target, FindTarget(path));
  return std::move(target.path);
}

absl::Status CheckFilesBeside(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string target, OutputTarget(path));
  if (IsSameFile(FolderOf(path), FolderOf(target))) return absl::OkStatus();
  return InvalidArgument(path, ": leads to ", target,
                         ", in another folder, but files beside it belong to the model; "
                         "expected the path of the model itself");
}

absl::Status CheckWritable(const std::string& path) { return OutputFile::Create(path).status(); }

// ---------------------------------------------------------------- writing

OutputFile::OutputFile(std::string path, std::string target, std::string temporary, int descriptor)
    : path_(std::move(path)), target_(std::move(target)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, "")),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  ASSIGN_OR_RETURN(const Target target, FindTarget(path));
  if (target.exists && faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) != 0) {
    return SystemError(path, "cannot be written");
  }
  ASSIGN_OR_RETURN(const auto temporary, OpenTemporary(path, target));
  OutputFile file(path, target.path, temporary.first, temporary.second);
  if (!target.exists) return file;
  // Only the superuser can change the owner; without that the file is as safe.
  [[maybe_unused]] const int ignored = fchown(temporary.second, target.status.st_uid, target.status.st_gid);
  if (fchmod(temporary.second, target.status.st_mode & 0777) != 0) return SystemError(path, "cannot set its mode");
  return file;
}

absl::Status OutputFile::Write(const void* data, int64_t length) {
  const auto* bytes = static_cast<const char*>(data);
  const int64_t begin = lseek(descriptor_, 0, SEEK_CUR), end = begin + length;
  for (int64_t at = begin; at < end;) {
    const int64_t next = std::min(end, (at / kPiece + 1) * kPiece);
    RETURN_IF_ERROR(WriteAll(descriptor_, path_, bytes + (at - begin), next - at));
    if (next % kPiece == 0) {
      // Starts writing these bytes to the disk without waiting; Finish waits. If the call fails, Finish takes longer.
      sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
      RETURN_IF_ERROR(StopScope::Check());
    }
    at = next;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Write(const InputFile& from) {
  std::string chunk(size_t{1} << 20, '\0');
  for (int64_t at = 0; at < from.size(); at += static_cast<int64_t>(chunk.size())) {
    const int64_t length = std::min(static_cast<int64_t>(chunk.size()), from.size() - at);
    RETURN_IF_ERROR(from.Read(at, length, chunk.data()));
    RETURN_IF_ERROR(Write(chunk.data(), length));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Finish() {
  if (fsync(descriptor_) != 0) return SystemError(path_, "cannot write");
  if (close(std::exchange(descriptor_, -1)) != 0) return SystemError(path_, "cannot write");
  return absl::OkStatus();
}

absl::Status OutputFile::Rename() {
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return SystemError(path_, "cannot replace");
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() { return CommitTogether({this}); }

absl::Status OutputFile::CommitTogether(const std::vector<OutputFile*>& files) {
  for (OutputFile* file : files) RETURN_IF_ERROR(file->Finish());
  for (OutputFile* file : files) RETURN_IF_ERROR(file->Rename());
  return absl::OkStatus();
}

AppendFile::AppendFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<AppendFile> AppendFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const Target target, FindTarget(path));
  // O_NONBLOCK: if a pipe has taken the name meanwhile, opening it must not block.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int descriptor = open(target.path.c_str(), flags, 0666);
  if (descriptor < 0) return SystemError(path, "cannot be written");
  AppendFile file(path, descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0) return SystemError(path, "cannot be looked up");
  RETURN_IF_ERROR(CheckKind(path, Target{target.path, true, status}));
  return file;
}

absl::Status AppendFile::Write(const void* data, int64_t length) { return WriteAll(descriptor_, path_, data, length); }

absl::Status AppendFile::Sync() {
  return fdatasync(descriptor_) == 0 ? absl::OkStatus() : SystemError(path_, "cannot write");
}

absl::Status AppendFile::CutTo(int64_t size) {
  return ftruncate(descriptor_, static_cast<off_t>(size)) == 0 ? absl::OkStatus() : SystemError(path_, "cannot cut");
}

// ---------------------------------------------------------------- whole files

absl::StatusOr<std::string> ReadText(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::string contents(static_cast<size_t>(file.size()), '\0');
  RETURN_IF_ERROR(file.Read(0, file.size(), contents.data()));
  return contents;
}

absl::Status WriteText(const std::string& path, const std::string& contents) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(file.Write(contents.data(), static_cast<int64_t>(contents.size())));
  return file.Commit();
}

absl::Status WriteStandardOutput(const std::string& contents) {
  return WriteAll(STDOUT_FILENO, "standard output", contents.data(), static_cast<int64_t>(contents.size()));
}

// ---------------------------------------------------------------- paths

std::string PathFrom(const std::string& folder, const std::string& path) {
  return !path.empty() && path[0] == '/' ? path : absl::StrCat(folder, "/", path);
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return InvalidArgument(path, ": cannot be made a folder", error ? ": " + error.message() : "");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  // Not a loop over a range: its ++ throws where the folder cannot be read any more.
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  }
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": cannot read: ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status SyncFolder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot open");
  const absl::Status synced = fsync(descriptor) == 0 ? absl::OkStatus() : SystemError(path, "cannot write");
  close(descriptor);
  return synced;
}

absl::Status RenameFolder(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return SystemError(to, "cannot replace");
  return SyncFolder(FolderOf(to));
}

absl::Status RemoveFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? absl::UnavailableError(absl::StrCat(path, ": cannot remove: ", error.message())) : absl::OkStatus();
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(FolderOf(path), error);
  return ((error ? std::filesystem::path(FolderOf(path)) : folder) / FileNameOf(path)).string();
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

std::string FileNameOf(const std::string& path) { return std::filesystem::path(path).filename().string(); }

absl::StatusOr<std::string> PathInside(const std::string& folder, const std::string& relative) {
  const auto refuse = [&](const std::string& why) { return InvalidArgument("path \"", relative, "\": ", why); };
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
