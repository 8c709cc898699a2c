// Ranks that are processes of MPI.
#pragma once

#include "runtime/comm/communicator.h"

namespace rewright {

// The ranks of this process, if mpirun (or srun, or another launcher of MPI's) started it and the program was built
// with MPI; otherwise there is one rank. Joins the others at the first call, and leaves them at the process's end,
// which waits for them: a failure on one rank has to Abort. Only the thread of the first call may use it. An Abort ends
// all processes, with status 2; a process that dies makes mpirun end the others and name it.
Communicator& ProcessRanks();

}  // namespace rewright
