// Ranks that are processes, where mpirun (or srun, or another launcher of MPI's) started this one and the program was
// built with MPI. Otherwise there is one rank.
#pragma once

#include "runtime/comm/communicator.h"

namespace rewright {

// Of this process. Joins the others at the first call, and leaves them at the process's end, which waits for them: what
// fails on one rank has to Abort. For the thread of the first call. An Abort ends all processes, with status 2; a
// process that dies makes mpirun end the others and name it.
Communicator& ProcessRanks();

}  // namespace rewright
