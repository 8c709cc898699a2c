// Properties of a plan that need no kernel to run.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

// Runs the lists of all ranks against each other, without data. A plan that passes has these properties:
//
//   matched    the next tensor that a rank receives from another is the next one that this sends to it; the ranks of a
//              group make the same collectives in the same order
//   no deadlock  every list comes to its end, even if no message is buffered (a SEND ends when it is received) and
//              whether a collective goes on beside its rank's work or holds it up
//   data       what an action uses was made on its rank, or its arrival was waited for; all that begins is waited for
//   sums       at an UPDATE its sums have every micro-batch once, in the order of the tree; ranks of a replica
//              together update by every sum once, or all by it where it has no owner
//
// The first fault is told with rank and action: "rank 1, action 4, RECEIVE t2 of 1 from 0: rank 0 sends t2 of 0 before
// (its action 3)". REQUIRES: numbers within their bounds, as ParsePlan and the generators give them.
absl::Status CheckPlan(const Plan& plan);

}  // namespace rewright::distributed
