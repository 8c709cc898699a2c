// Laws of rounding: the consequences of a law of real numbers for floating-point numbers, for tensors of every size.
//
// A rule's two sides are equal over the real numbers. Another law of the same shape says how far the computed numbers
// are from these. It is made of the rule's instance, and proved by the same prover (prove_rounding.h):
//
//   operations   Both sides with any function in the place of every operation that rounds, and any odd function of the
//                real result in the place of those that round correctly; sums keep the order of their terms. If this is
//                proved, both sides do the same operations on the same numbers: they have the same bits.
//   magnitudes   Both sides with all leaves positive, every subtraction an addition, every constant without its sign.
//                To first order the rounding of a side is at most some multiple of the unit roundoff, which depends on
//                the lengths of its sums, times its value under magnitudes (Higham, Accuracy and Stability of Numerical
//                Algorithms, 2nd edition, sections 3.1 and 4.2). If this is proved, neither side cancels what the
//                other does not.
//   ranges       The elements of a value of the right side are elements of values of the left side, up to sign, or 0 or
//                1. If this is proved, the value overflows only where the left side does.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "substitutions/instance/instance.h"

namespace rewright {

// The law of operations; with `stored`, every value is rounded once more where an application leaves it, as values of
// 16 bits always are.
RuleInstance LawOfOperations(const RuleInstance& instance, bool stored);

// Numbers that are made of an index: with their absolute values, or with any function in the place of these. A law with
// any function implies the other one, and the prover does not ask for the signs.
enum class Counts : uint8_t { kAbsolute, kAny };
RuleInstance LawOfMagnitudes(const RuleInstance& instance, Counts counts = Counts::kAbsolute);

// The law of ranges of one value of the right side; `value` is of a floating type.
RuleInstance LawOfRanges(const RuleInstance& instance, SymbolicValue value);

// Applications that the outputs depend on.
std::set<int> Used(const RuleInstance& instance, const std::vector<SymbolicValue>& outputs);

}  // namespace rewright
