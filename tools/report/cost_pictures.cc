#include "tools/report/cost_pictures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "runtime/memory_plan.h"
#include "tools/program/models.h"
#include "tools/report/plot.h"

namespace rewright {
namespace {

std::string LineText(const GroupLine& line) {
  return absl::StrFormat("%d x %s %s%s: %.4g ms each, %.4g GFLOP/s, %.4g FLOP per byte", line.count, line.operators,
                         line.types, line.law.empty() ? "" : " by the law " + line.law, line.seconds * 1e3,
                         line.flops / line.seconds / 1e9, line.flops / line.bytes);
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

}  // namespace

std::string RooflinePlot(const std::vector<GroupLine>& lines, const Rates& rates) {
  Range intensity, rate;
  for (const GroupLine& line : lines) {
    if (!(line.flops > 0 && line.bytes > 0 && line.seconds > 0)) continue;
    intensity.Add(line.flops / line.bytes);
    rate.Add(line.flops / line.seconds / 1e9);
  }
  if (intensity.high == 0 || rates.memory.empty()) return "";
  const double peak = rates.flops_per_second / 1e9;
  const double fastest = rates.memory.front().bytes_per_second / 1e9, slowest = rates.bytes_per_second() / 1e9;
  intensity.Add(peak / slowest);
  rate.Add(peak);
  const double low = intensity.low / 2, high = intensity.high * 2;
  Plot plot("Roofline: operations a second of each group over its operations per byte, under the machine's limits",
            {"FLOP per byte", low, high, true}, {"GFLOP/s", rate.low / 2, rate.high * 2, true});
  for (const double memory : fastest > slowest ? std::vector<double>{slowest, fastest} : std::vector<double>{slowest}) {
    plot.Line({{low, low * memory}, {peak / memory, peak}, {high, peak}}, 1,
              absl::StrFormat("%.4g GB/s, %.4g GFLOP/s at most", memory, peak));
  }
  for (const GroupLine& line : lines) {
    if (!(line.flops > 0 && line.bytes > 0 && line.seconds > 0)) continue;
    plot.Dot(line.flops / line.bytes, line.flops / line.seconds / 1e9, line.law.empty() ? 0 : 2, LineText(line));
  }
  return plot.Take();
}

std::string SearchPlot(const std::vector<SearchProgress>& progress) {
  if (progress.empty()) return "";
  Plot::Points points;
  Range cost;
  for (const SearchProgress& now : progress) {
    if (points.empty()) points.emplace_back(0, now.first_cost * 1e3);
    if (now.best_cost * 1e3 != points.back().second) points.emplace_back(now.seconds, points.back().second);
    points.emplace_back(now.seconds, now.best_cost * 1e3);
    cost.Add(now.first_cost * 1e3);
    cost.Add(now.best_cost * 1e3);
  }
  Plot plot("Lowest cost over the time of the search", {"seconds of search", 0, progress.back().seconds},
            {"lowest cost, ms", cost.low, cost.high});
  plot.Line(points, 1, absl::StrFormat("%.4g ms to %.4g ms", cost.high, cost.low));
  return plot.Take();
}

absl::StatusOr<std::string> MemoryPlot(const Schedule& schedule) {
  ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(schedule));
  if (plan.arena_bytes == 0) return std::string();
  constexpr double kMiB = 1 << 20;
  Plot plot(absl::StrCat("Memory plan: buffers by the steps that they live, ",
                         BytesText(static_cast<double>(plan.arena_bytes)), " in all"),
            {"step", 0, static_cast<double>(schedule.steps.size())},
            {"place in memory, MiB", 0, static_cast<double>(plan.arena_bytes) / kMiB});
  for (size_t i = 0; i < plan.lifetimes.size(); ++i) {
    const Lifetime& life = plan.lifetimes[i];
    const bool placed = life.bytes > 0 && schedule.buffers[i].kind == Buffer::Kind::kActivation;
    if (!placed) continue;
    const double at = static_cast<double>(plan.offsets[i]) / kMiB;
    plot.Box(life.first, at, life.last + 1, at + static_cast<double>(life.bytes) / kMiB,
             static_cast<int>(i % Plot::kColors),
             absl::StrFormat("%s, from step %d (%s) to %d", BytesText(static_cast<double>(life.bytes)), life.first,
                             schedule.steps[life.first].label, life.last));
  }
  return plot.Take();
}

}  // namespace rewright
