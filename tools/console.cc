#include "tools/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rewright {

std::string Counted(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

absl::Status Console::Open(const CommonFlags& flags) {
  json_wanted_ = flags.json;
  quiet_ = flags.quiet;
  terminal_ = isatty(STDERR_FILENO) == 1;
  if (flags.log_file.empty()) return absl::OkStatus();
  log_.open(flags.log_file, std::ios::app);
  if (!log_) {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-file: ", flags.log_file, ": cannot be opened for writing: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void Console::ToLog(const char* kind, const std::string& text) {
  if (!log_.is_open()) return;
  const std::string now(absl::FormatTime("%Y-%m-%dT%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) log_ << now << " " << kind << " " << line << "\n";
  log_.flush();
}

void Console::ToStandardError(const std::string& text) {
  const std::string shown = transient_;
  if (!shown.empty()) std::cerr << "\r\033[K";
  std::cerr << text << "\n";
  if (!shown.empty()) std::cerr << shown << std::flush;
}

void Console::Result(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ToLog("result", text);
  if (!json_wanted_) {
    std::cout << text << "\n";
  } else if (!quiet_) {
    ToStandardError(text);
  }
}

void Console::Note(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ToLog("note", text);
  if (!quiet_) ToStandardError(text);
}

void Console::Warning(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ToLog("warning", text);
  if (!quiet_) ToStandardError("warning: " + text);
}

void Console::Error(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ToLog("error", text);
  ToStandardError(text);
}

void Console::Detail(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ToLog("detail", text);
}

void Console::Transient(const std::string& line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (quiet_ || !terminal_) return;
  if (!transient_.empty() || !line.empty()) std::cerr << "\r\033[K" << line << std::flush;
  transient_ = line;
}

absl::Status Console::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Infinities and NaN are no JSON: they print as null.
  // A process that works for another one has nothing to print.
  if (json_wanted_ && !json_.empty()) std::cout << json_.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  std::cout.flush();
  if (!std::cout) return absl::InternalError("standard output cannot be written");
  return absl::OkStatus();
}

}  // namespace rewright
