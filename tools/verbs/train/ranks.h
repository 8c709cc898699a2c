// Verbs that several processes work on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/comm/communicator.h"
#include "tools/program/verb.h"

namespace rewright {

// Returns the answer of `work`. If it fails on one of several ranks, that rank prints the error, as one of `verb`, and
// ends all of them; an interruption, which all of them agree about, ends none.
absl::StatusOr<Answer> OnProcessRanks(const std::string& verb, Communicator& ranks, Console& console,
                                      const std::function<absl::StatusOr<Answer>()>& work);

// The graph cut over all of `ranks`, in one form for all: rank 0 calls `cut`, which proves the laws that it needs, the
// others take over what it made, with the values of the states of `graph`.
absl::StatusOr<Graph> CutOnRanks(const Graph& graph, Communicator& ranks,
                                 const std::function<absl::StatusOr<Graph>()>& cut);

// Seconds that the device measures for each node of a graph, by position in Graph::nodes(): those of a group of nodes
// that it runs as one are shared evenly.
absl::StatusOr<std::vector<double>> MeasuredSeconds(const Graph& graph, Device& device);

}  // namespace rewright
