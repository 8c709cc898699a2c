// Checks the numbers that an application of a rule computes, judged in its graph, as far as the rule's record leaves
// them open (ProofRecord::new_values).
#pragma once

#include "absl/status/status.h"
#include "core/ir/graph.h"
#include "core/numerics/ranges.h"

namespace rewright {

// By how much computed numbers may exceed what they are over the reals: 16 roundings of f16 for either side of a rule,
// as many as its class there allows.
inline constexpr double kRoundingRoom = 1.0 / 64;

// Checks an application that a right side adds, whose values may be larger than all that the left side has.
// kOutOfRange: a value may overflow where the left side did not, as far as ranges are known; or it is so much smaller
// than its operands that 16 bits lose it. Values that the graph has are taken to be finite; ranges of computed ones get
// room for their roundings. In wider types than f16 only ranges that follow from weights and constants count.
absl::Status CheckOverflow(Numerics& numerics, const Arena& arena, NodeId application);

// Checks that the output `to` of an application fits f16 where the value `from` that it replaces does. Over the reals
// they are equal; rounding may take one of them, or what leads to it, beyond the largest number. kOutOfRange: `from` is
// known to stay within f16 by less than the room for roundings, and of `to` nothing better is known.
absl::Status CheckRoomForRounding(Numerics& numerics, const Arena& arena, Value from, Value to);

// True if each element of the application's only output is the sum or the difference of two that are read.
bool IsSum(const Node& application);

// True if the other terms of `sum`, a sum of the left side, are at most kRoundingRoom of the type's largest number.
// Then the overflow of `part` does not count: |part| <= |sum| + |others|. Sums are taken to be finite, so the part
// exceeds the largest number by that at most: a model whose sums come so near to the end is broken by other inputs.
bool IsBoundedBySum(Numerics& numerics, const Arena& arena, NodeId sum, NodeId part);

// A sum of weights and constants that a rule puts in the place of sums with something else. kOutOfRange: it is far
// smaller than its terms. A term that was added and taken away again rounded the original's value, perhaps on purpose,
// as (x + 1.5 2^23) - 1.5 2^23 rounds x to an integer.
absl::Status CheckCancellation(Numerics& numerics, const Arena& arena, NodeId application);
// The same of a sum of numbers and its largest term.
absl::Status CheckCancellation(double sum, double largest_term);

}  // namespace rewright
