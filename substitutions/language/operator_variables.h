// Operator variables: one rule for every elementwise operator.
//
//   rule elementwise-of-transpose
//     ?f(transpose(x, perm=?p)) => transpose(?f(x), perm=?p)
//
// `?f` stands for one operator throughout the rule. It may be any operator that has the same number of operands, has no
// attributes, and declares each element of its result as a function of the elements of its operands at its place
// (ElementwiseOps, stand_ins.h). A property that `when` asks for, increasing(?f), odd(?f) or keeps_zero(?f), narrows
// them down to the operators for which it is proved: it is a law itself (PropertyLaws).
//
// A rule with an operator variable is compiled for a stand-in: an operator about which only the property is known. A
// proof for the stand-in holds for all of them. Wherever elements are computed or graphs are matched each operator
// stands in its own rule (PutOperator); a record names the operators (docs/decisions/075).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "substitutions/language/rule.h"

namespace rewright {

bool IsOperatorVariable(const TensorTerm& term);
bool HasOperatorVariable(const Rule& rule);
// The property of ?f that the conditions ask for, by name; empty where they ask for none.
std::string OperatorProperty(const Rule& rule);
bool IsOperatorProperty(const ArgExpr& condition);

// Gives every occurrence its stand-in. Errors name the place: two variables, another number of operands, attributes, a
// property of something else, several properties.
absl::Status ResolveOperatorVariable(Rule& rule);

// The number of operands of the rule's ?f.
int OperandsOfVariable(const Rule& rule);

// The rule with the operator in the place of ?f, named NAME:OPERATOR; its record has the classes of that operator.
Rule PutOperator(const Rule& rule, const OpDef& op);
// The name of the rule with the variable; of any other rule its own.
std::string RuleOfOperator(const std::string& name);
// The rule itself, or, where it has an operator variable, its rules for the operators that its record names; without a
// record, those for all that it may be about. At most `most` of them, spread over the list.
std::vector<Rule> OperatorRules(const Rule& rule, size_t most = SIZE_MAX);
// The laws that say that the operator has the property that the rule asks for (PropertyLaws).
std::vector<Rule> PropertyRules(const Rule& rule, const OpDef& op);

}  // namespace rewright
