// Ranks that are threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"

namespace rewright {

// The ends of `size` ranks that are threads of this process, in their order, each for a thread of its own: for tests,
// and for the one rank of a job that has no others. A rank ends when its end is destroyed.
std::vector<std::unique_ptr<Communicator>> InProcessRanks(int size);

// Calls work(communicator) for `size` ranks, each on a thread of its own, and returns their results in the order of
// ranks. An error of one aborts the others; an exception of one is its error.
std::vector<absl::Status> OnRanks(int size, const std::function<absl::Status(Communicator&)>& work);

}  // namespace rewright
