// Progress of long work: a bar that is redrawn on a terminal, a plain line now and then elsewhere.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "tools/program/console.h"

namespace rewright {

// Cheap to update as often as one likes. Thread-safe.
class Progress {
 public:
  Progress(Console& console, std::string label);
  ~Progress();  // takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `fraction` of the work that is done, 0..1, or negative where no one knows; `detail` is what stands behind the bar.
  void Update(double fraction, const std::string& detail);

  // "optimize [#####-----]  50 %  12.3 s  cost 3.1 ms"; the width of the bar in characters.
  static std::string Line(const std::string& label, double fraction, double seconds, const std::string& detail,
                          int width);

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  const std::string label_;
  const Clock::time_point start_;
  std::mutex mutex_;
  Clock::time_point next_;
};

}  // namespace rewright
