// The printed form of a plan.
//
//   mesh dp=2 pp=2 tp=1
//   micro_batches 4
//   alike dp tp                                      ranks along these axes do the same: those at place 0 have lists
//   order pp dp tp                                   the axes as they give devices to ranks, the outermost first
//   update_seconds 0.25                              that an update takes, where it is known
//   x0 f32[6,64]                                     input
//   w1 f32[64,24] cut 0 at 0                         weight: replicas have blocks along axis 0; of rank 0 of a replica
//   t2 f32[6,24]                                     value
//   g3 f32[64,24] of t2 behind s1 cut 0 at 0         sum of the t2 of all micro-batches
//   t4 f32[6,24] sum over tp                         value that ranks along tp complete: sum, blocks or exchange
//   w5 f32[64,24] apart                              weight or sum that every replica has another one of
//   s0 reads x0 w1 makes t2 over tp scratch 64 own 128 seconds 0.5   run by the ranks along tp together
//   rank 0
//     0 ALL_GATHER w1 over dp
//     1 WAIT 0
//     2 RUN s0 of 0                                  for micro-batch 0
//     3 SEND t2 of 0 to 1
//     4 RECEIVE t5 of 0 from 1
//     5 ACCUMULATE g3 g4 of 0
//     6 REDUCE_SCATTER g3 of 0..1 over dp            leaves of micro-batches 0 and 1
//     7 ALL_REDUCE g3..g6 over dp
//     8 REDUCE_SCATTER t4 of 0 over tp               of a value: ALL_REDUCE, ALL_GATHER and ALL_TO_ALL likewise
//     9 OFFLOAD t2 of 0
//    10 FETCH t2 of 0
//    11 UPDATE g3..g6
//
// Tensors have one sequence of numbers, subgraphs another; actions are numbered by rank. Empty lines, and what follows
// a # sign, have no meaning.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

std::string PrintPlan(const Plan& plan);
// One line, without its number: "SEND t2 of 0 to 1".
std::string PrintAction(const Plan& plan, const Action& action);

// The text may come from anywhere. Errors name the line, what was found and what was expected; all numbers of the plan
// are within their bounds. Plans of more than 2^16 ranks, 2^20 micro-batches or 2^24 tensors, subgraphs or actions are
// refused. CheckPlan says whether the plan is sound.
absl::StatusOr<Plan> ParsePlan(const std::string& text);

}  // namespace rewright::distributed
