// Runs graphs by the reference interpreter: the slow engine that every other one is checked against.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/device.h"

namespace rewright {

std::unique_ptr<GraphRunner> MakeReferenceRunner(int threads);

// The largest sum of bytes of intermediate results (no leaves, no outputs of the graph, nothing that depends on
// weights alone) that are needed at one time when the nodes run one by one in the order of Graph::nodes().
int64_t PeakLiveBytes(const Graph& graph);

}  // namespace rewright
