// Stand-ins: operators whose function is unknown except for at most one property, and the operators that each of them
// stands for. A proof about a stand-in holds for all of these (operator_variables.h).
//
// A property has the name by which rules ask for it: increasing, odd or keeps_zero. The empty name asks for none.
#pragma once

#include <string>
#include <vector>

#include "core/ir/op.h"

namespace rewright {

// Null: there is no such property, or an operator has another number of operands than one or two.
const OpDef* StandIn(const std::string& property, int operands);
bool IsStandIn(const OpDef* op);

// The operators that a rule with this number of operands of ?f may be about, properties aside; ascending by name.
const std::vector<const OpDef*>& ElementwiseOps(int operands);

// The laws, as text, that say that the operator has the property: f(max(x, y)) = max(f(x), f(y)); f(-x) = -f(x) and
// f(0) = 0, which does not follow for 1 / x; f(0) = 0.
std::vector<std::string> PropertyLaws(const std::string& property, const OpDef& op);

// The property of the function that a stand-in's declaration calls by this name (ExprKind::kOpaque).
std::string StandInProperty(const std::string& function);
// A function where numbers are to be had of it: one that has the property and no other. `arguments` are one or two.
double StandInValue(const std::string& function, const std::vector<double>& arguments);

}  // namespace rewright
