#include "runtime/measure/timing.h"

#include <chrono>
#include <utility>

#include "core/base/status_macros.h"

namespace rewright {
namespace {

bool Stopped(const std::function<bool()>& stop) { return stop && stop(); }

}  // namespace

absl::StatusOr<Summary> TimeRuns(Executable& executable, const std::vector<Tensor>& inputs,
                                 const TimingOptions& options) {
  std::vector<Tensor> outputs;  // kept, so that nothing is allocated after a first run that is not timed
  const auto timed = [&]() -> absl::StatusOr<double> {
    if (outputs.empty()) RETURN_IF_ERROR(executable.Run(inputs, &outputs));
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(executable.RunAgain(inputs, &outputs));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int i = 0; i < options.warmup && !Stopped(options.stop); ++i) RETURN_IF_ERROR(timed().status());
  std::vector<double> samples;
  double total = 0;
  for (int i = 0; i < options.iterations; ++i) {
    if (i >= options.min_iterations && total > options.max_seconds) break;
    if (i >= 1 && Stopped(options.stop)) break;
    ASSIGN_OR_RETURN(samples.emplace_back(), timed());
    total += samples.back();
  }
  if (options.samples != nullptr) *options.samples = samples;
  return Summarize(std::move(samples));
}

}  // namespace rewright
