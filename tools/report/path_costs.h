// Gains of the rewrites on the way to a result, and the change of the graphs that each belongs to.
#pragma once

#include <vector>

#include "search/cost_model.h"
#include "search/search.h"
#include "tools/report/graph_changes.h"

namespace rewright {

// Seconds of the graph behind each step of a path, by carrying out the steps one by one from `original`. A search
// itself knows the cost of a round, or of the baseline, as a whole. NaN: not known, for a graph that the device cannot
// run, or once `seconds` have passed.
std::vector<double> CostsAlong(const Graph& original, const std::vector<TraceStep>& trace, const std::vector<int>& path,
                               Device& device, double seconds);

// The change of each step of a path: that of its values, by node or by name; else that of a later step which replaces
// what this one made; else that of what it reads. -1: none.
std::vector<int> RegionsAlong(const Arena& arena, const GraphChanges& changes, const std::vector<TraceStep>& trace,
                              const std::vector<int>& path);

}  // namespace rewright
