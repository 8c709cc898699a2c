// Which pairs of a class of equal graphs follow from pairs of smaller graphs.
//
// Two graphs of a class are linked where their equality follows:
//   congruent   an output is the same operator of equal operands on both sides;
//   separate    no two outputs share work on either side: each is a pair by itself;
//   instance    parts that both have are equal to each other, and with inputs in their place the graphs are equal, too,
//               and graphs of the space: a pair of smaller graphs says more.
// Links are put together, so that one pair is left for every group of linked graphs but the first.
#pragma once

#include <cstdint>
#include <vector>

#include "substitutions/generate/enumerate/fingerprint.h"

namespace rewright::generate {

enum class Redundancy : uint8_t { kNone, kCongruent, kSeparate, kInstance, kConstant };

// The redundancy of each graph of a class, from simple to complicated: the pair that it follows from; kNone if it makes
// a pair with the first. kConstant for all if no input occurs. Adds to `terms`.
std::vector<Redundancy> RedundanciesOf(Terms& terms, const std::vector<SmallGraph>& graphs);

// True if two outputs of different applications are computed from one that is no constant.
bool SharesWork(const Space& space, const SmallGraph& graph);

}  // namespace rewright::generate
