#include "tools/program/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "tools/program/interrupt.h"
#include "tools/program/terminal.h"

namespace rewright {

absl::Status FlushStandardOutput(int known_error) {
  errno = 0;
  std::cout.flush();
  if (std::cout) return absl::OkStatus();
  const int error = known_error != 0 ? known_error : errno;
  return absl::UnavailableError(absl::StrCat("standard output cannot be written", error != 0 ? ": " : "",
                                             error != 0 ? std::strerror(error) : ""));
}

absl::Status Console::Open(const CommonFlags& flags) {
  json_wanted_ = results_on_error_ = flags.json;
  quiet_ = flags.quiet;
  terminal_ = isatty(STDERR_FILENO) == 1;
  output_colors_ = HasColors(STDOUT_FILENO);
  error_colors_ = HasColors(STDERR_FILENO);
  if (flags.json) OpenUnblocked();
  if (flags.log_file.empty()) return absl::OkStatus();
  return ErrorAt("--log-file", OpenLog(flags.log_file));
}

absl::Status Console::OpenLog(const std::string& path) {
  ASSIGN_OR_RETURN(AppendFile log, AppendFile::Open(path));
  ASSIGN_OR_RETURN(const InputFile before, InputFile::Open(path));
  // A mistyped path must not put lines into a model.
  const std::string form = "0000-00-00T00:00:00";
  std::string start(std::min(form.size(), static_cast<size_t>(before.size())), '\0');
  RETURN_IF_ERROR(before.Read(0, static_cast<int64_t>(start.size()), start.data()));
  std::replace_if(start.begin(), start.end(), absl::ascii_isdigit, '0');
  if (!start.empty() && start != form) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": found another file, expected a log of this program"));
  }
  log_.emplace(std::move(log));
  return absl::OkStatus();
}

void Console::ToLog(const char* kind, const std::string& text) {
  if (!log_) return;
  const std::string now(absl::FormatTime("%Y-%m-%dT%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()));
  std::istringstream lines(text);
  std::string entry;
  for (std::string line; std::getline(lines, line);) absl::StrAppend(&entry, now, " ", kind, " ", line, "\n");
  const absl::Status written = log_->Write(entry);
  if (written.ok()) return;
  log_.reset();  // the work goes on without
  ToStandardError(absl::StrCat("warning: --log-file: ", written.message(), "; nothing more is logged"));
}

void Console::ToStandardError(const std::string& text) {
  const std::string shown = transient_;
  if (!shown.empty()) std::cerr << "\r\033[K";
  std::cerr << (error_colors_ ? Colored(text) : text) << "\n";
  if (!shown.empty()) std::cerr << shown << std::flush;
}

void Console::LeaveStandardOutput() {
  const std::lock_guard<std::mutex> lock(mutex_);
  results_on_error_ = true;
}

void Console::Mute() {
  const std::lock_guard<std::mutex> lock(mutex_);
  quiet_ = results_on_error_ = true;
  json_wanted_ = false;
}

void Console::Result(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ToLog("result", text);
  if (!results_on_error_) {
    Print(text);
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
  // A line that is as wide as the terminal would move on to the next one, and stay there.
  const int columns = TerminalWidth(STDERR_FILENO);
  const std::string shown = columns > 1 ? WholeWords(line, static_cast<size_t>(columns) - 1) : line;
  if (!transient_.empty() || !shown.empty()) std::cerr << "\r\033[K" << shown << std::flush;
  transient_ = shown;
}

void Console::JsonLine(const Json& object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!json_wanted_) return;
  const std::string line = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (unblocked_ < 0 || !std::cout.flush()) {
    Print(line);
    std::cout.flush();
  } else if (!WriteUnblocked(line + "\n")) {
    if (output_error_ == 0) output_error_ = errno;
    std::cout.setstate(std::ios::badbit);
  }
}

void Console::OpenUnblocked() {
  struct stat status = {};
  if (fstat(STDOUT_FILENO, &status) != 0 || !(S_ISFIFO(status.st_mode) || isatty(STDOUT_FILENO) == 1)) return;
  // A description of its own: other processes on the same standard output still wait where it is full.
  unblocked_ = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool Console::WriteUnblocked(const std::string& text) {
  constexpr int kMilliseconds = 20, kWaits = 5;  // for room, once the run is to end
  int waits = 0;
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(unblocked_, text.data() + at, text.size() - at);
    if (written > 0) at += static_cast<size_t>(written);
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN || (InterruptGuard::interrupted() && ++waits > kWaits)) return false;
    pollfd room = {unblocked_, POLLOUT, 0};
    poll(&room, 1, kMilliseconds);
  }
  return true;
}

bool Console::output_failed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !std::cout;
}

absl::Status Console::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Infinities and NaN are no JSON: they print as null.
  // A process that works for another one has nothing to print.
  if (json_wanted_ && !json_.empty()) Print(json_.dump(2, ' ', false, Json::error_handler_t::replace));
  return FlushStandardOutput(output_error_);
}

void Console::Print(const std::string& text) {
  errno = 0;
  std::cout << (output_colors_ ? Colored(text) : text) << "\n";
  if (!std::cout && output_error_ == 0) output_error_ = errno;
}

}  // namespace rewright
