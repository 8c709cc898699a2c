#include "core/onnx/model_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<bool> HaveSameContents(const std::string& a, const std::string& b) {
  ASSIGN_OR_RETURN(const InputFile first, InputFile::Open(a));
  ASSIGN_OR_RETURN(const InputFile second, InputFile::Open(b));
  if (first.size() != second.size()) return false;
  std::string left(size_t{1} << 20, '\0'), right = left;
  for (int64_t at = 0; at < first.size(); at += static_cast<int64_t>(left.size())) {
    const int64_t length = std::min(static_cast<int64_t>(left.size()), first.size() - at);
    RETURN_IF_ERROR(first.Read(at, length, left.data()));
    RETURN_IF_ERROR(second.Read(at, length, right.data()));
    if (left != right) return false;
  }
  return true;
}

// True if the existing part of the path lies in the folder, links resolved.
bool LiesInside(const std::string& folder, const fs::path& path) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return false;
  const fs::path resolved = fs::weakly_canonical(path, error);
  return !error && std::mismatch(root.begin(), root.end(), resolved.begin(), resolved.end()).first == root.end();
}

}  // namespace

absl::StatusOr<ModelFile> ModelFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  ModelFile model;
  model.file_.emplace(std::move(file));
  ASSIGN_OR_RETURN(model.stamp_, StampOf(*model.file_));
  return model;
}

ModelFile ModelFile::OfBytes(std::string bytes) {
  ModelFile model;
  model.stamp_.size = static_cast<int64_t>(bytes.size());
  model.bytes_ = std::move(bytes);
  return model;
}

void ModelFile::set_external_files(std::vector<std::string> names) {
  external_files_ = std::move(names);
  watched_.clear();
  for (const std::string& name : external_files_) {
    const absl::StatusOr<std::string> path = PathInside(FolderOf(this->path()), name);
    if (!path.ok()) continue;
    absl::StatusOr<InputFile> file = InputFile::Open(*path);
    if (!file.ok()) continue;
    if (const absl::StatusOr<Stamp> stamp = StampOf(*file); stamp.ok()) {
      watched_.push_back({*std::move(file), *stamp});
    }
  }
}

absl::StatusOr<ModelFile::Stamp> ModelFile::StampOf(const InputFile& file) {
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) {
    return absl::UnavailableError(absl::StrCat(file.path(), ": cannot be looked up: ", std::strerror(errno)));
  }
  return Stamp{status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

int64_t ModelFile::TotalBytes() const {
  int64_t bytes = stamp_.size;
  for (const std::string& name : external_files_) {
    std::error_code error;
    const auto size = fs::file_size(fs::path(FolderOf(this->path())) / name, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

absl::Status ModelFile::CheckStamp(const InputFile& file, const Stamp& stamp) {
  ASSIGN_OR_RETURN(const Stamp now, StampOf(file));
  if (now == stamp) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(file.path(), ": has changed since it was read, and cannot be written back"));
}

absl::Status ModelFile::CheckUnchanged() const {
  if (file_) RETURN_IF_ERROR(CheckStamp(*file_, stamp_));
  for (const Watched& external : watched_) RETURN_IF_ERROR(CheckStamp(external.file, external.stamp));
  return absl::OkStatus();
}

bool ModelFile::Holds(const std::string& path) const {
  if (!file_) return false;
  const std::string folder = FolderOf(this->path());
  return IsSameFile(path, this->path()) ||
         std::any_of(external_files_.begin(), external_files_.end(),
                     [&](const std::string& name) { return IsSameFile(path, absl::StrCat(folder, "/", name)); });
}

absl::StatusOr<bool> ModelFile::IsMissing(const std::string& name, const std::string& from,
                                          const std::string& path) const {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument(path, ": the model's data lies in ", name, " beside it; ", why,
                           "; expected another folder or name");
  };
  const std::string folder = FolderOf(path);
  const std::string to = absl::StrCat(folder, "/", name);
  if (IsSameFile(path, from) || AbsolutePath(path) == AbsolutePath(to)) return refuse("the model would take its name");
  if (!LiesInside(folder, to)) return refuse(absl::StrCat(to, " leads out of the folder"));
  std::error_code error;
  if (!fs::exists(fs::symlink_status(to, error))) return true;
  if (IsSameFile(from, to)) return false;
  const absl::StatusOr<bool> same = HaveSameContents(from, to);
  if (!same.ok()) return refuse(std::string(same.status().message()));
  if (!*same) return refuse(absl::StrCat(to, " is there and holds something else"));
  return false;
}

absl::StatusOr<std::vector<ModelFile::ExternalCopy>> ModelFile::MissingFiles(const std::string& path) const {
  std::vector<ExternalCopy> missing;
  if (external_files_.empty()) return missing;
  RETURN_IF_ERROR(CheckFilesBeside(path));
  const std::string from_folder = FolderOf(this->path());
  for (const std::string& name : external_files_) {
    const absl::StatusOr<std::string> from = PathInside(from_folder, name);
    // The file belongs to a tensor that nothing reads; it is missing for the copy as for the model.
    if (absl::IsNotFound(from.status())) continue;
    if (!from.ok()) {
      if (IsSameFile(from_folder, FolderOf(path))) continue;
      return InvalidArgument(path, ": external data: ", from.status().message());
    }
    ASSIGN_OR_RETURN(const bool is_missing, IsMissing(name, *from, path));
    if (is_missing) missing.push_back({*from, absl::StrCat(FolderOf(path), "/", name)});
  }
  return missing;
}

absl::Status ModelFile::CheckCopy(const std::string& path) const { return MissingFiles(path).status(); }

absl::Status ModelFile::CopyTo(const std::string& path) const {
  RETURN_IF_ERROR(CheckUnchanged());
  ASSIGN_OR_RETURN(const std::vector<ExternalCopy> missing, MissingFiles(path));
  if (file_ && IsSameFile(path, this->path())) return absl::OkStatus();
  std::vector<OutputFile> files;
  for (const ExternalCopy& copy : missing) {
    RETURN_IF_ERROR(MakeFolder(FolderOf(copy.to)));
    ASSIGN_OR_RETURN(const InputFile from, InputFile::Open(copy.from));
    ASSIGN_OR_RETURN(OutputFile to, OutputFile::Create(copy.to));
    RETURN_IF_ERROR(to.Write(from));
    files.push_back(std::move(to));
  }
  ASSIGN_OR_RETURN(OutputFile to, OutputFile::Create(path));
  RETURN_IF_ERROR(file_ ? to.Write(*file_) : to.Write(bytes_.data(), stamp_.size));
  RETURN_IF_ERROR(CheckUnchanged());
  files.push_back(std::move(to));  // last: it names the others
  std::vector<OutputFile*> all;
  for (OutputFile& file : files) all.push_back(&file);
  return OutputFile::CommitTogether(all);
}

absl::StatusOr<std::string> ModelFile::Bytes() const {
  if (!external_files_.empty()) {
    return InvalidArgument(this->path(), ": its data lies in ", external_files_[0],
                           " beside it; expected the name of a file to write, for its folder");
  }
  if (!file_) return bytes_;
  std::string bytes(static_cast<size_t>(file_->size()), '\0');
  RETURN_IF_ERROR(file_->Read(0, file_->size(), bytes.data()));
  RETURN_IF_ERROR(CheckUnchanged());
  return bytes;
}

bool ModelFile::Equals(const absl::Cord& bytes) const {
  if (static_cast<int64_t>(bytes.size()) != stamp_.size) return false;  // need not be read
  const absl::StatusOr<std::string> own = Bytes();
  return own.ok() && bytes == *own;
}

}  // namespace rewright
