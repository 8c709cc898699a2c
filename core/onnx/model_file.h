// The file or the bytes that a model was read from, to be written back unchanged: byte for byte, with the external data
// files that it names. A copy written elsewhere can be read from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/base/files.h"

namespace rewright {

class ModelFile {
 public:
  // Opens the file, before the model is read. It stays open: a file that takes its name later is another file.
  static absl::StatusOr<ModelFile> Open(const std::string& path);
  // A model that is no file: nothing lies beside it, and it does not change.
  static ModelFile OfBytes(std::string bytes);
  ModelFile(ModelFile&&) noexcept = default;

  // Empty for bytes.
  std::string path() const { return file_ ? file_->path() : ""; }

  // Sets the files of ImportedModel::external_files, after they were read or mapped.
  void set_external_files(std::vector<std::string> names);
  // Returns an error if the file or an external one was written to since. Other files may have taken their names.
  absl::Status CheckUnchanged() const;

  // True if a path is the model or one of its external files.
  bool Holds(const std::string& path) const;

  // Checks before long work that the file can be copied to `path`. Nothing existing is overwritten apart from `path`
  // itself: external files are copied if they are missing there; another file of the same name is an error.
  absl::Status CheckCopy(const std::string& path) const;
  // Writes the copy. If `path` is the file itself, nothing is touched.
  absl::Status CopyTo(const std::string& path) const;
  // Returns the bytes. Error: there are external files, which a model without a folder cannot find.
  absl::StatusOr<std::string> Bytes() const;
  // Returns the total size of the file and its external files.
  int64_t TotalBytes() const;
  // True if these are the bytes, and all of the model.
  bool Equals(const absl::Cord& bytes) const;

 private:
  struct Stamp {
    int64_t size = 0;
    int64_t seconds = 0, nanoseconds = 0;  // when it was changed last
    bool operator==(const Stamp&) const = default;
  };
  struct ExternalCopy {
    std::string from, to;
  };

  struct Watched {
    InputFile file;
    Stamp stamp;
  };

  ModelFile() = default;
  static absl::StatusOr<Stamp> StampOf(const InputFile& file);
  static absl::Status CheckStamp(const InputFile& file, const Stamp& stamp);
  // Returns the external files that a copy at `path` lacks.
  absl::StatusOr<std::vector<ExternalCopy>> MissingFiles(const std::string& path) const;
  absl::StatusOr<bool> IsMissing(const std::string& name, const std::string& from, const std::string& path) const;

  std::optional<InputFile> file_;
  std::string bytes_;  // where there is no file
  Stamp stamp_;
  std::vector<std::string> external_files_;
  std::vector<Watched> watched_;  // of these those that are there
};

}  // namespace rewright
