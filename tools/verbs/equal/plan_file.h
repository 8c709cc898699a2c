// Reads a plan from elsewhere: a file PLAN.json and the graphs of its ranks, as python/rewright/ranks.py writes them.
//
//   {"mesh": [{"axis": "tp", "size": 2}], "ranks": ["rank0.onnx", "rank1.onnx"],
//    "inputs": {"x": {}, "w": {"tp": 1}}, "outputs": {"y": {"tp": "sum"}}}
//
// Paths lead into the file's folder. A placement names axes of the mesh: a number is the axis of the tensor that
// is cut, "sum" and "mean" mean shares; an axis without an entry has all of it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/program/console.h"
#include "verifier/ranks/rank_plan.h"

namespace rewright {

// Errors name the file and the key, what was found and what was expected; those of the graphs' files.
absl::StatusOr<RankPlan> LoadRankPlan(const std::string& path, Console& console);

}  // namespace rewright
