#include "runtime/distributed/described/layout_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

namespace rewright::distributed {
namespace {

std::vector<int> DivisorsOf(int64_t number) {
  std::vector<int> divisors;
  for (int64_t k = 1; k <= number; ++k) {
    if (number % k == 0) divisors.push_back(static_cast<int>(k));
  }
  return divisors;
}

// Schedules and chunks of a pipeline; without one there is one choice.
std::vector<std::pair<PipelineSchedule, int>> SchedulesOf(int64_t layers, int pp) {
  std::vector<std::pair<PipelineSchedule, int>> schedules = {{PipelineSchedule::k1F1B, 1}};
  if (pp == 1) return schedules;
  schedules.emplace_back(PipelineSchedule::kZeroBubble, 1);
  for (int chunks = 2; int64_t{pp} * chunks <= layers; chunks *= 2) {
    schedules.emplace_back(PipelineSchedule::kInterleaved, chunks);
  }
  return schedules;
}

// Times as many layouts are simulated where none fits yet.
constexpr int64_t kMoreForMemory = 20;

struct Candidate {
  DescribedLayout layout;
  DescribedBounds bounds;
  bool plain = false;  // data parallel alone
  bool simulated = false;
};

}  // namespace

std::vector<DescribedLayout> ListLayouts(const DescribedModel& model, const Cluster& cluster, int devices,
                                         bool overlap) {
  std::vector<DescribedLayout> layouts;
  for (int tp : DivisorsOf(devices)) {
    if (model.heads % tp != 0 || model.hidden % tp != 0) continue;
    for (int pp : DivisorsOf(devices / tp)) {
      const int dp = devices / tp / pp;
      if (pp > model.layers || model.batch % dp != 0) continue;
      Plan places{Mesh({{"dp", dp}, {"pp", pp}, {"tp", tp}})};
      places.alike = {0, 2};
      const bool fits = FitsEvenly(places, cluster);
      places.order = {1, 0, 2};
      const bool fits_inside = FitsEvenly(places, cluster);
      const bool experts = model.experts > 0 && dp > 1 && model.experts % dp == 0;
      const bool has_host = cluster.device && cluster.device->host_bytes_per_second > 0;
      for (int64_t samples = 1; model.batch / dp % samples == 0; samples *= 2) {
        for (const auto& [schedule, chunks] : SchedulesOf(model.layers, pp)) {
          for (int zero = 0; zero <= (dp > 1 ? 3 : 0); ++zero) {
            for (int choice = 0; choice < (experts ? 8 : 4); ++choice) {
              const bool recompute = choice % 2 == 1, offload = choice / 2 % 2 == 1;
              const bool shared = choice >= 4;  // replicas that share experts are neighbours
              if ((offload && !has_host) || (shared ? !fits_inside : !fits)) continue;
              layouts.push_back({{.dp = dp,
                                  .tp = tp,
                                  .pp = pp,
                                  .zero = zero,
                                  .micro = model.batch / samples,
                                  .schedule = schedule,
                                  .chunks = chunks},
                                 recompute,
                                 offload,
                                 overlap && tp > 1,
                                 shared && pp > 1,
                                 shared});
            }
          }
        }
      }
    }
  }
  return layouts;
}

absl::StatusOr<LayoutSearch> SearchLayouts(const DescribedModel& model, const Cluster& cluster,
                                           const LayoutSearchOptions& options) {
  LayoutSearch search;
  std::vector<Candidate> candidates;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const DescribedLayout& layout : ListLayouts(model, cluster, options.devices, options.overlap)) {
    ++search.layouts;
    ASSIGN_OR_RETURN(const DescribedBounds bounds, BoundsOf(model, layout, cluster, options.simulation));
    if (bounds.bytes > cluster.memory_bytes) {
      least = std::min(least, bounds.bytes);
      continue;
    }
    const bool plain = layout.ranks.dp == options.devices && layout.ranks.zero == 0 && !layout.expert_parallel;
    candidates.push_back({layout, bounds, plain});
  }
  search.fitting = static_cast<int64_t>(candidates.size());
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bounds.seconds < b.bounds.seconds; });
  double best = std::numeric_limits<double>::infinity();
  const auto simulate = [&](Candidate& candidate) -> absl::Status {
    ASSIGN_OR_RETURN(DescribedTime time, TimeDescribed(model, candidate.layout, cluster, options.simulation));
    candidate.simulated = true;
    ++search.simulated;
    least = std::min(least, time.memory_bytes);
    if (time.memory_bytes > cluster.memory_bytes) return absl::OkStatus();
    best = std::min(best, time.step.seconds);
    search.found.push_back({candidate.layout, std::move(time)});
    return absl::OkStatus();
  };
  search.complete = true;
  int64_t most = options.most_simulated;
  const auto is_over = [&] { return options.most_simulated > 0 && search.simulated >= most; };
  for (Candidate& candidate : candidates) {
    const bool may_be_shorter = candidate.bounds.seconds < best;
    if (may_be_shorter && is_over() && !candidate.plain) search.complete = false;
    if (candidate.plain || (may_be_shorter && !is_over())) RETURN_IF_ERROR(simulate(candidate));
  }
  if (search.found.empty()) {  // the shortest ones do not fit: those that take the least memory, until one does
    most *= kMoreForMemory;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bounds.bytes < b.bounds.bytes; });
    for (Candidate& candidate : candidates) {
      const bool may_be_shorter = !candidate.simulated && candidate.bounds.seconds < best;
      if (may_be_shorter && !is_over()) RETURN_IF_ERROR(simulate(candidate));
      if (!search.found.empty()) most = std::min(most, search.simulated + options.most_simulated);
    }
  }
  std::stable_sort(search.found.begin(), search.found.end(), [](const FoundLayout& a, const FoundLayout& b) {
    return a.time.step.seconds < b.time.step.seconds;
  });
  if (!search.found.empty()) return search;
  if (search.layouts == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--layout auto: found no layout of ", options.devices, " devices that divides batch and heads"));
  }
  if (!search.complete) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("--layout auto: none of the %d layouts that were simulated fits, of %d that may fit: the least "
                        "needs %.1f GB, a device of %s has %.1f GB (--most-simulated 0 simulates all)",
                        search.simulated, search.fitting, static_cast<double>(least) / 1e9, cluster.name,
                        static_cast<double>(cluster.memory_bytes) / 1e9));
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "--layout auto: none of %d layouts on %d devices fits: the least needs %.1f GB, a device of %s has %.1f GB",
      search.layouts, options.devices, static_cast<double>(least) / 1e9, cluster.name,
      static_cast<double>(cluster.memory_bytes) / 1e9));
}

}  // namespace rewright::distributed
