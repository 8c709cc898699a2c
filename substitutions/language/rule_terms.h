// Constructors for rules built in C++ (generator, sharding laws): terms and attribute expressions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "substitutions/language/rule.h"

namespace rewright {

// op(operands), without attributes. The operator exists.
TensorTerm OperatorTerm(const std::string& op, std::vector<TensorTerm> operands);

ArgExpr NameArg(const std::string& name);
// ?name
ArgExpr AttrArg(const std::string& name);
ArgExpr DTypeArg(DType dtype);
// fn(args)
ArgExpr CallArg(ArgFn fn, std::vector<ArgExpr> args);
// list.., within a list or shape
ArgExpr SpliceArg(ArgExpr list);
// a + b, computed where both are numbers
ArgExpr SumArg(ArgExpr a, int64_t b);
ArgExpr NumbersArg(const std::vector<int64_t>& values);

template <typename Visit>
void ForEachTerm(RuleSide& side, Visit visit) {
  for (LetTerm& let : side.lets) visit(let.term);
  for (TensorTerm& term : side.outputs) visit(term);
}

// Variables with the shapes and element types that a rule declares them with, by name.
using DeclaredVariables = std::map<std::string, TensorTerm>;
void CollectDeclarations(const TensorTerm& term, DeclaredVariables& variables);
// A declaration stands where the variable occurs first. `seen` holds the variables that occurred before.
void PlaceDeclarations(TensorTerm& term, const DeclaredVariables& variables, std::set<std::string>& seen);

}  // namespace rewright
