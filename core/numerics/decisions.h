// Decisions: roundings to integers and comparisons, at which a small change of a number may change the choice.
#pragma once

#include <vector>

#include "core/ir/op.h"

namespace rewright {

// Kinds of decisions that a value reaches through arithmetic and movements of elements.
struct Decisions {
  bool rounding = false;    // a function that jumps: round, floor, ceil, a conversion to integers
  bool comparison = false;  // a comparison, a sign, the position of an extremum, an unknown operator
  bool Any() const { return rounding || comparison; }
  friend bool operator==(Decisions, Decisions) = default;
  void Add(Decisions other) {
    rounding = rounding || other.rounding;
    comparison = comparison || other.comparison;
  }
};

// The dependence of an output of an operator on an operand.
struct Flow {
  Decisions decisions;  // decisions inside the operator that the operand's elements reach
  bool passes = false;  // the output's elements are computed from them, and do not only depend on them by conditions
};

// Returns the flows by output and operand; operands beyond the end are not read. A choice between two sides that are
// equal at the boundary of the condition is no decision: a leaky relu has a kink and no jump.
std::vector<std::vector<Flow>> FlowsOf(const Meaning& meaning, size_t operands);

}  // namespace rewright
