// Where the program's words go.
//
//   results   standard output; with --json, or where standard output takes what the verb makes (-o -), standard error
//             (nothing with --quiet)
//   --json    one object on standard output; of verbs that report as they go, one a line
//   notes     standard error, not with --quiet
//   errors    standard error, always
//   log file  all of the above with the time, and details that no one wants to watch
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/counted.h"
#include "core/base/files.h"
#include "nlohmann/json.hpp"

namespace rewright {

using Json = nlohmann::ordered_json;

// Flags that every verb takes.
struct CommonFlags {
  bool json = false;
  bool quiet = false;
  std::string log_file;
  uint64_t seed = 1;
  int64_t threads = 0;  // 0: all that the machine offers
};

// Error: what was printed did not get there. `known_error`: the errno of an earlier failure, if any.
absl::Status FlushStandardOutput(int known_error = 0);

// Thread-safe, except for json().
class Console {
 public:
  // Error: the log file cannot be opened.
  absl::Status Open(const CommonFlags& flags);

  // Standard output is for something else from now on.
  void LeaveStandardOutput();
  // Another process says the same: from now on nothing but errors and the log file.
  void Mute();

  // Each takes one or more lines, without a newline at the end.
  void Result(const std::string& text);
  void Note(const std::string& text);
  void Warning(const std::string& text);
  void Error(const std::string& text);
  void Detail(const std::string& text);

  // The object that --json prints.
  Json& json() { return json_; }
  // With --json: one object on one line, at once. For verbs that report as they go: who reads no more does not keep an
  // interrupted run from its end (InterruptGuard), the line is given up.
  void JsonLine(const Json& object);
  // Returns whether a result could not be written to standard output.
  bool output_failed();
  // Prints it, and what is left to print. Error: standard output cannot be written.
  absl::Status Finish();

  // A line that is rewritten in place on a terminal; empty: it is taken away. For Progress.
  void Transient(const std::string& line);
  bool transient_possible() const { return !quiet_ && terminal_; }
  bool quiet() const { return quiet_; }

 private:
  absl::Status OpenLog(const std::string& path);
  void Print(const std::string& text);  // on standard output
  // Opens standard output once more where it is a pipe or a terminal, for writes that do not block.
  void OpenUnblocked();
  bool WriteUnblocked(const std::string& text);
  void ToStandardError(const std::string& text);
  void ToLog(const char* kind, const std::string& text);

  std::mutex mutex_;
  bool json_wanted_ = false;
  bool quiet_ = false;
  bool terminal_ = false;
  bool output_colors_ = false, error_colors_ = false;
  std::string transient_;
  bool results_on_error_ = false;
  int unblocked_ = -1;    // standard output, where a write may block; else -1
  int output_error_ = 0;  // of the first result that standard output did not take
  std::optional<AppendFile> log_;
  Json json_ = Json::object();
};

}  // namespace rewright
