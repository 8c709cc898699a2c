// Costs of graphs on the devices of a cluster, and the cluster that a machine is by default figures.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/distributed/cluster.h"

namespace rewright {

// The device of a cluster for graphs in f32, at the rates that it reaches. Error: a device that is not described.
absl::StatusOr<std::unique_ptr<Device>> DeviceOfCluster(const distributed::Cluster& cluster);

// The sum of the seconds of a graph's groups.
absl::StatusOr<double> SecondsOf(const Graph& graph, Device& device);

// Seconds of the exchanges of a graph that is cut over the first `degree` devices, with rings.
double ExchangeSeconds(const Graph& cut, const distributed::Cluster& cluster, int degree);

// Processes of this machine, `devices` of them: an equal part of its memory for each, the arithmetic of `threads` cores
// of the cluster `many-core`, and a default figure for their links.
absl::StatusOr<distributed::Cluster> DefaultCluster(int devices, int threads);

}  // namespace rewright
