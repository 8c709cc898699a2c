#include "runtime/timing.h"

#include <chrono>
#include <utility>

#include "core/base/status_macros.h"

namespace rewright {
namespace {

// Runs one executable, keeping its outputs so that nothing is allocated after a first run that is not timed.
class Stopwatch {
 public:
  Stopwatch(Executable& executable, const std::vector<Tensor>& inputs) : executable_(executable), inputs_(inputs) {}

  absl::StatusOr<double> Run() {
    if (outputs_.empty()) {
      RETURN_IF_ERROR(executable_.Run(inputs_, &outputs_));
    }
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = executable_.RunAgain(inputs_, &outputs_);
    const auto end = std::chrono::steady_clock::now();
    if (!status.ok()) return status;
    return std::chrono::duration<double>(end - start).count();
  }

 private:
  Executable& executable_;
  const std::vector<Tensor>& inputs_;
  std::vector<Tensor> outputs_;
};

bool Stopped(const std::function<bool()>& stop) { return stop && stop(); }

}  // namespace

absl::StatusOr<Summary> TimeRuns(Executable& executable, const std::vector<Tensor>& inputs,
                                 const TimingOptions& options) {
  Stopwatch watch(executable, inputs);
  for (int i = 0; i < options.warmup && !Stopped(options.stop); ++i) {
    absl::StatusOr<double> seconds = watch.Run();
    if (!seconds.ok()) return seconds.status();
  }
  std::vector<double> samples;
  double total = 0;
  for (int i = 0; i < options.iterations; ++i) {
    if (i >= options.min_iterations && total > options.max_seconds) break;
    if (i >= 1 && Stopped(options.stop)) break;
    absl::StatusOr<double> seconds = watch.Run();
    if (!seconds.ok()) return seconds.status();
    samples.push_back(*seconds);
    total += *seconds;
  }
  return Summarize(std::move(samples));
}

}  // namespace rewright
