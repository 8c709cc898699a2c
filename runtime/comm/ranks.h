// Where ranks come from: processes of MPI, or threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"

namespace rewright {

// The ranks of this process, if mpirun (or srun, or another launcher of MPI's) started it and the program was built
// with MPI; otherwise there is one rank. Joins the others at the first call, and leaves them at the process's end,
// which waits for them: a failure on one rank has to Abort. Only the thread of the first call may use it. An Abort ends
// all processes, with status 2; a process that dies makes mpirun end the others and name it.
Communicator& ProcessRanks();

// The ends of `size` ranks that are threads of this process, in their order, each for a thread of its own: for tests,
// and for the one rank of a job that has no others. A rank ends when its end is destroyed.
std::vector<std::unique_ptr<Communicator>> InProcessRanks(int size);

// Calls work(communicator) for `size` ranks, each on a thread of its own, and returns their results in the order of
// ranks. An error of one aborts the others; an exception of one is its error.
std::vector<absl::Status> OnRanks(int size, const std::function<absl::Status(Communicator&)>& work);

}  // namespace rewright
