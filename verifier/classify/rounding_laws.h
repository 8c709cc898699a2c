// Laws of rounding: the consequences of a law of real numbers for floating-point numbers, for tensors of every size.
//
// A rule's two sides are equal over the real numbers. Another law of the same shape says how far the computed numbers
// are from these. It is made of the rule's instance and proved by the same prover (prove_instance.h):
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

#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {

// The law of operations; with `stored`, every value is rounded once more where an application leaves it, as values of
// 16 bits always are.
RuleInstance LawOfOperations(const RuleInstance& instance, bool stored);

RuleInstance LawOfMagnitudes(const RuleInstance& instance);

// The law of ranges of one value of the right side; `value` is of a floating type.
RuleInstance LawOfRanges(const RuleInstance& instance, SymbolicValue value);

// Facts of an instance's rounding, for every size where they are said to be proved.
struct RoundingOfInstance {
  bool same_operations = false;  // proved
  bool same_magnitudes = false;  // proved
  // The largest element of an output under magnitudes, on the right side over that on the left side, and the other way
  // round: the greatest found, at small sizes and at large ones, where leaves, and elements of one leaf, are of very
  // different sizes or 0. Both 1 where same_magnitudes.
  double growth = 1;
  double loss = 1;
};

// The instance is one that is proved: if nothing in it rounds, the law of operations is that proof. `same_bits`:
// whether measurement has found no difference; otherwise the law of operations is not tried. Limits are
// those of `options`; no counterexample is searched for, but nothing is tried that fails at some sizes.
RoundingOfInstance ProveRounding(const RuleInstance& instance, bool same_bits, const ProofOptions& options);

// The same where elements are of 16 bits.
struct RoundingOnHalves {
  bool same_operations = false;  // proved, with every value stored
  // Applications of the right side, ascending, that may have elements larger than all of the left side and of the other
  // applications: the law of ranges is not proved for them, and they do not just choose among elements.
  std::vector<int> new_values;
};

// `same_operations`: those of wider elements; without them the law of operations is not tried.
RoundingOnHalves ProveRoundingOnHalves(const RuleInstance& instance, bool same_operations, const ProofOptions& options);

}  // namespace rewright
