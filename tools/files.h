// Files that the program reads and writes. Errors name the path and what is wrong with it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rewright {

absl::StatusOr<std::string> ReadText(const std::string& path);

// `path` holds the old contents or the whole new ones, whatever happens.
absl::Status WriteText(const std::string& path, const std::string& contents);

// Whether `path` could be written, asked before long work: an error when it is a folder, when its folder does not
// exist, or when nothing can be created there. Leaves nothing behind.
absl::Status CheckWritable(const std::string& path);

// Makes the folder where it does not exist. Error when something else has that name.
absl::Status MakeFolder(const std::string& path);

}  // namespace rewright
