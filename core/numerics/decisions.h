// Decisions: roundings to integers and comparisons, at which a small change of a number may change the choice.
#pragma once

#include <vector>

#include "core/ir/op.h"

namespace rewright {

// Decisions that a value reaches through arithmetic and movements of elements.
struct Decisions {
  bool rounding = false;    // a function that jumps: round, floor, ceil, a conversion to integers
  bool comparison = false;  // a comparison, a sign, the position of an extremum, an operator of which nothing is known
  bool Any() const { return rounding || comparison; }
  friend bool operator==(Decisions, Decisions) = default;
  void Add(Decisions other) {
    rounding = rounding || other.rounding;
    comparison = comparison || other.comparison;
  }
};

// How an output of an operator hangs on an operand.
struct Flow {
  Decisions decisions;  // that the operand's elements reach inside of the operator
  bool passes = false;  // they are part of what the output's elements are computed from, not of conditions alone
};

// By output and operand, where operands beyond the end are not read. A choice between two sides that are equal where
// the condition turns is none: a leaky relu bends and does not jump.
std::vector<std::vector<Flow>> FlowsOf(const Meaning& meaning, size_t operands);

}  // namespace rewright
