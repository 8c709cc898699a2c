// Steps that run at the same time.
//
// The steps of a schedule are a list, but a step often needs nothing of the one before it: branches of a module, the
// products of queries, keys and values, a shortcut beside a block. A GPU that one of them does not fill does them
// faster side by side. Consecutive steps become one step, a section, which enqueues them on several lanes, each behind
// those whose results it reads. A section ends before a step that waits for all of it. To the rest of the program a
// section is a step: all its buffers are alive during it, which is what makes the memory plan right for any order
// within.
//
// Whether a section is faster in order or side by side is decided by time (Gpu::Fastest).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/gpu.h"
#include "core/ir/device.h"

namespace rewright::cuda {

// By step: the earlier steps whose results it reads. Every place in memory is written by one step of a schedule, parts
// of a concatenation by one each, so there is nothing else to wait for.
std::vector<std::vector<int>> DependenciesOf(const Schedule& schedule);

// Consecutive steps [begin, end).
struct Section {
  int begin = 0, end = 0;
  std::vector<LaneStep> steps;  // numbered from `begin`
};
// The sections with more than one lane, in order.
std::vector<Section> SectionsOf(const std::vector<std::vector<int>>& dependencies);

// Joins the steps of sections that are faster side by side. Kernels are ready to run. `key_of` tells a step's work from
// all other work.
absl::Status RunSideBySide(Gpu& gpu, const std::function<std::string(const Step&)>& key_of, Schedule* schedule);

}  // namespace rewright::cuda
