// Metrics of a run as TensorBoard reads them: a file of events, each a message of TensorFlow's event.proto, in the
// frames of its record files (length, its checksum, message, checksum; CRC-32C, RFC 3720 B.4, rotated and shifted).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/files.h"

namespace rewright {

class EventFile {
 public:
  // A new file events.out.tfevents.* in the folder, which is made where there is none. If a run goes on behind a step,
  // TensorBoard drops later values in other files of the folder. Errors: of the folder and the file.
  static absl::StatusOr<EventFile> Create(const std::string& folder, std::optional<int64_t> resumed_behind);

  // Values of this step, by name: "loss", "validation/accuracy". Errors: of the file.
  absl::Status Write(int64_t step, const std::vector<std::pair<std::string, double>>& values);

 private:
  explicit EventFile(AppendFile file) : file_(std::move(file)) {}
  absl::Status WriteEvent(const std::string& event);

  AppendFile file_;
};

}  // namespace rewright
