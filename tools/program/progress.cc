#include "tools/program/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/program/terminal.h"

namespace rewright {
namespace {

constexpr std::chrono::milliseconds kRedraw(100);
constexpr std::chrono::seconds kPlainLine(5);
constexpr int kWideTerminal = 110;  // columns; on a narrower one the bar is short

}  // namespace

Progress::Progress(Console& console, std::string label)
    : console_(console), label_(std::move(label)), start_(Clock::now()) {
  // Work that is over at once says nothing.
  next_ = start_ + (console_.transient_possible() ? Clock::duration(kRedraw) : Clock::duration(kPlainLine));
}

Progress::~Progress() { console_.Transient(""); }

void Progress::Update(double fraction, const std::string& detail) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (console_.quiet() || now < next_) return;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (console_.transient_possible()) {
    console_.Transient(Line(label_, fraction, seconds, detail, TerminalWidth(STDERR_FILENO) >= kWideTerminal ? 30 : 8));
    next_ = now + kRedraw;
  } else {
    console_.Note(Line(label_, fraction, seconds, detail, 0));
    next_ = now + kPlainLine;
  }
}

std::string Progress::Line(const std::string& label, double fraction, double seconds, const std::string& detail,
                           int width) {
  std::string line = label;
  if (fraction >= 0) {
    fraction = std::min(fraction, 1.0);
    if (width > 0) {
      const int full = static_cast<int>(fraction * width);
      absl::StrAppend(&line, " [", std::string(static_cast<size_t>(full), '#'),
                      std::string(static_cast<size_t>(width - full), '-'), "]");
    }
    absl::StrAppend(&line, absl::StrFormat(" %3.0f %%", 100 * fraction));
  }
  absl::StrAppend(&line, absl::StrFormat("  %.1f s", seconds));
  if (!detail.empty()) absl::StrAppend(&line, "  ", detail);
  return line;
}

}  // namespace rewright
