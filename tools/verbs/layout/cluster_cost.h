// Costs of graphs on the devices of a cluster, and the cluster that the processes at hand are.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/comm/communicator.h"
#include "runtime/distributed/cluster.h"

namespace rewright {

// The device of a cluster for graphs in f32, at the rates that it reaches. Error: a device that is not described.
absl::StatusOr<std::unique_ptr<Device>> DeviceOfCluster(const distributed::Cluster& cluster);

// The sum of the seconds of a graph's groups.
absl::StatusOr<double> SecondsOf(const Graph& graph, Device& device);

// Seconds of the exchanges of a graph that is cut over the first `degree` devices, with rings.
double ExchangeSeconds(const Graph& cut, const distributed::Cluster& cluster, int degree);

// The processes of this machine: an equal part of its memory for each, the arithmetic of `threads` cores of the cluster
// `many-core`, and the link between the first and the last of these ranks, measured. Called by all ranks.
absl::StatusOr<distributed::Cluster> MeasuredCluster(Communicator& ranks, int threads);
// The same for so many devices, with a default figure for their links.
absl::StatusOr<distributed::Cluster> DefaultCluster(int devices, int threads);

}  // namespace rewright
