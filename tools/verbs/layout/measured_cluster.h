// The cluster that the processes at hand are, measured.
#pragma once

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/communicator.h"
#include "runtime/distributed/cluster.h"

namespace rewright {

// The links between these ranks, as one level: the seconds of an all-gather of a few bytes, and rates by kind of
// transfer and by bytes, of the very messages that the runtime sends (runtime/comm/collectives.h). They are those of
// the rank that waits the longest, so that all ranks get the same. Called by all ranks, at least two. Errors: those of
// Communicator::Exchange.
absl::StatusOr<distributed::LinkLevel> MeasureLinks(Communicator& ranks);

// Rates that a device reaches in arithmetic and in memory, in f32. Errors: those of Device::Cost.
absl::StatusOr<distributed::ClusterDevice> MeasureDevice(Device& device);

// The processes of this machine, an equal part of its memory for each: MeasureLinks, and the arithmetic of `threads`
// cores of the cluster `many-core`, or MeasureDevice of `device` where there is one. Called by all ranks.
absl::StatusOr<distributed::Cluster> MeasuredCluster(Communicator& ranks, int threads, Device* device = nullptr);

}  // namespace rewright
