#include "runtime/measure/interleaved.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "absl/strings/str_format.h"
#include "core/base/stats.h"
#include "core/base/status_macros.h"
#include "runtime/measure/timing_policy.h"

namespace rewright {
namespace {

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The least number of wins in `pairs` pairs that is no accident; more than `pairs` if there are too few of them.
int WinsWanted(int pairs, double significance) {
  int wins = pairs;
  while (wins > 0 && SignTest(wins, pairs - wins) <= significance) --wins;
  return wins + 1;
}

// An upper bound of the median of the distribution that the ratios are a sample of (David, Nagaraja, Order Statistics,
// 7.1).
double AtMost(std::vector<double> ratios) {
  const size_t rank = static_cast<size_t>(WinsWanted(static_cast<int>(ratios.size()), 0.025));
  if (rank > ratios.size()) return std::numeric_limits<double>::infinity();
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<ptrdiff_t>(rank) - 1, ratios.end());
  return ratios[rank - 1];
}

class Contestant {
 public:
  Contestant(Executable& executable, const std::vector<Tensor>& inputs, std::function<double()> clock)
      : executable_(executable), inputs_(inputs), clock_(std::move(clock)) {}

  // The first run allocates the outputs as well; those of both contestants are the same.
  absl::StatusOr<double> Run() {
    const double start = clock_();
    RETURN_IF_ERROR(outputs_.empty() ? executable_.Run(inputs_, &outputs_) : executable_.RunAgain(inputs_, &outputs_));
    return clock_() - start;
  }

 private:
  Executable& executable_;
  const std::vector<Tensor>& inputs_;
  const std::function<double()> clock_;
  std::vector<Tensor> outputs_;  // kept, so that later runs allocate nothing
};

}  // namespace

absl::StatusOr<Measurement> MeasureInterleaved(Executable& original, Executable& candidate,
                                               const std::vector<Tensor>& inputs, const MeasureOptions& options) {
  const std::function<double()> clock = options.clock ? options.clock : SteadySeconds;
  Contestant contestants[] = {{original, inputs, clock}, {candidate, inputs, clock}};
  std::vector<double> samples[2];
  std::vector<double> ratios;
  Measurement result;
  double total = 0, warming = 0;
  std::optional<int> wanted;
  if (options.significance > 0 && options.seconds == 0) wanted = WinsWanted(options.pairs, options.significance);
  const auto is_decided = [&] {
    if (!wanted) return false;
    const bool gains_little =
        ratios.size() >= timing::kFewPairs && result.wins <= result.losses && AtMost(ratios) <= timing::kGainThatCounts;
    return result.wins >= *wanted || result.losses > options.pairs - *wanted || gains_little;
  };
  const auto goes_on = [&](int pair) {
    return pair < options.pairs || (total < options.seconds && pair < timing::kMostTimesPairs * options.pairs);
  };
  for (int pair = -options.warmup; goes_on(pair); ++pair) {
    double seconds[2];
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (pair + turn) & 1;
      const absl::StatusOr<double> run = contestants[which].Run();
      if (!run.ok()) return run.status();
      seconds[which] = *run;
    }
    if (pair < 0) {
      warming += seconds[0] + seconds[1];
      if (warming > timing::kWarmupSeconds) pair = -1;
      continue;
    }
    total += seconds[0] + seconds[1];
    for (int which = 0; which < 2; ++which) samples[which].push_back(seconds[which]);
    ratios.push_back(seconds[0] / seconds[1]);
    result.wins += seconds[1] < seconds[0];
    result.losses += seconds[1] > seconds[0];
    if (is_decided()) break;
    result.stopped = options.stop && total >= options.least_seconds && options.stop();
    if (result.stopped) break;
  }
  result.original_seconds = Summarize(std::move(samples[0])).median;
  result.candidate_seconds = Summarize(std::move(samples[1])).median;
  result.ratio_at_most = AtMost(ratios);
  result.ratio = Quantile(std::move(ratios), 0.5);
  result.p_value = SignTest(result.wins, result.losses);
  return result;
}

std::string Describe(const Measurement& measured) {
  return absl::StrFormat("%.4g ms against %.4g ms, %d of %d pairs faster", 1e3 * measured.candidate_seconds,
                         1e3 * measured.original_seconds, measured.wins, measured.wins + measured.losses);
}

bool IsFaster(const Measurement& measured, double significance, size_t times) {
  return measured.ratio > 1 && measured.p_value <= significance / static_cast<double>(times);
}

}  // namespace rewright
