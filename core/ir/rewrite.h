// Walks and rewrites of expressions. Expressions share repeated parts: every function here takes time by the number of
// *distinct* nodes.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/ir/expr.h"

namespace rewright {

// Calls `visit` once for every distinct node of `expr`: arguments and extents before the node that has them.
void Visit(const ExprPtr& expr, absl::FunctionRef<void(const ExprPtr&)> visit);

// True if some node of `expr` satisfies the predicate; the order of the calls is unspecified.
bool AnyOf(const ExprPtr& expr, absl::FunctionRef<bool(const ExprNode&)> predicate);

// Returns the variables that occur free, ascending.
std::vector<int> FreeVariables(const ExprPtr& expr);

// Returns the parts of nested `and`s, in the order of their evaluation.
std::vector<ExprPtr> Conjuncts(const ExprPtr& condition);

// Replaces nodes from the leaves up: `replace` gets each distinct node once, with its children replaced already, and
// returns its replacement. Bound variables stay unchanged; Substitute replaces variables.
ExprPtr RewriteExpr(const ExprPtr& expr, absl::FunctionRef<ExprPtr(const ExprPtr&)> replace);

// Gives the number of a new variable for a bound variable that must be renamed, from its name.
using FreshVariable = absl::FunctionRef<int(const std::string& name)>;

// Replaces every free variable v of `expr` by variables[v], and parameter p by params[p], if these exist and are not
// null. Nothing is captured: a bound variable that a replacement mentions is renamed first, to the result of `fresh`
// (without it: to a number above all that occur). Literals fold; unchanged parts are shared.
ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params);
ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params,
                   FreshVariable fresh);

// An element as a function of a position, to be substituted for reads in another expression. It has its own numbering
// of variables, parameters and operands.
struct ElementFunction {
  ExprPtr element;
  std::vector<int> position;  // variables of `element` that a read's indices replace
  // The replacements of its other variables and of its parameters, by number in `element`; null: bound variables.
  std::vector<ExprPtr> variables;
  std::vector<ExprPtr> params;
  std::vector<int> operands;  // by number in `element`: the operand's number in the reading expression
};

// Composes expressions: replaces in `expr` every read of operand `operand` at indices i by producer(i). Guards and
// selections stay around their contents. Opaque elements read whole operands: none may occur in `expr`. Every variable
// that `producer.element` binds gets one new number from `fresh`.
ExprPtr Inline(const ExprPtr& expr, int operand, const ElementFunction& producer, FreshVariable fresh);

}  // namespace rewright
