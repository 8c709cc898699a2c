#include "runtime/timing.h"

#include <chrono>

namespace rewright {
namespace {

// Runs one executable, keeping its outputs so that nothing is allocated after the first run.
class Stopwatch {
 public:
  Stopwatch(Executable& executable, const std::vector<Tensor>& inputs) : executable_(executable), inputs_(inputs) {}

  absl::StatusOr<double> Run() {
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = executable_.Run(inputs_, &outputs_);
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

absl::StatusOr<Comparison> CompareInterleaved(Executable& baseline, Executable& candidate,
                                              const std::vector<Tensor>& inputs, const ComparisonOptions& options) {
  Stopwatch watches[] = {Stopwatch(baseline, inputs), Stopwatch(candidate, inputs)};
  for (int i = 0; i < options.warmup; ++i) {
    for (Stopwatch& watch : watches) {
      absl::StatusOr<double> seconds = watch.Run();
      if (!seconds.ok()) return seconds.status();
    }
  }
  Comparison comparison;
  std::vector<double> samples[2];
  std::vector<double> ratios;
  double total = 0;
  for (int pair = 0; pair < options.pairs; ++pair) {
    if (pair >= options.min_pairs && total > options.max_seconds) break;
    if (pair >= 1 && Stopped(options.stop)) break;
    double seconds[2];
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (pair + turn) % 2;
      absl::StatusOr<double> run = watches[which].Run();
      if (!run.ok()) return run.status();
      seconds[which] = *run;
    }
    for (int which = 0; which < 2; ++which) samples[which].push_back(seconds[which]);
    total += seconds[0] + seconds[1];
    ratios.push_back(seconds[1] / seconds[0]);
    comparison.wins += seconds[1] < seconds[0];
    comparison.losses += seconds[1] > seconds[0];
    ++comparison.pairs;
  }
  comparison.baseline = Summarize(std::move(samples[0]));
  comparison.candidate = Summarize(std::move(samples[1]));
  comparison.ratio = Quantile(std::move(ratios), 0.5);
  comparison.p_value = SignTest(comparison.wins, comparison.losses);
  return comparison;
}

}  // namespace rewright
