// Plots of what a graph costs: a roofline of its groups, the cost over the time of a search, memory over the steps.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/measure/machine_rates.h"
#include "search/search.h"
#include "tools/verbs/compare/groups.h"

namespace rewright {

// A dot for each line that computes anything, under the limits of the machine (Williams, Waterman, Patterson, CACM
// 2009). Lines that a law computes by other operators have another color: no limit holds for them. Empty without such
// lines.
std::string RooflinePlot(const std::vector<GroupLine>& lines, const Rates& rates);

// The lowest cost over the seconds of the search. Empty without points.
std::string SearchPlot(const std::vector<SearchProgress>& progress);

// Buffers of the arena: the steps from the first to the last use, and where they lie. Empty where there are none.
// Errors: those of PlanMemory.
absl::StatusOr<std::string> MemoryPlot(const Schedule& schedule);

}  // namespace rewright
