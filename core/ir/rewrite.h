// Walks and rewrites of expressions. Expressions share what occurs in them several times: every function here takes
// time by the number of *distinct* nodes.
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

// The variables that occur free, ascending.
std::vector<int> FreeVariables(const ExprPtr& expr);

// The parts of nested `and`s, in the order of their evaluation.
std::vector<ExprPtr> Conjuncts(const ExprPtr& condition);

// Replaces nodes from the leaves up: `replace` gets each distinct node once, with its children replaced already, and
// gives what stands for it. Bound variables stay what they are: to replace variables use Substitute.
ExprPtr RewriteExpr(const ExprPtr& expr, absl::FunctionRef<ExprPtr(const ExprPtr&)> replace);

// Gives a variable of its own, by number, to a bound variable that must be renamed: its name.
using FreshVariable = absl::FunctionRef<int(const std::string& name)>;

// `expr` with every free variable v replaced by variables[v], and parameter p by params[p], where these exist and are
// not null. Nothing is captured: a bound variable that a replacement mentions is renamed first, to what `fresh` gives
// (without it: to a number above all that occur). Literals fold; what does not change is shared.
ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params);
ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params,
                   FreshVariable fresh);

// An element as a function of a position, to be read by another expression: what an operator computes, in its own
// numbering of variables, parameters and operands.
struct ElementFunction {
  ExprPtr element;
  std::vector<int> position;  // variables of `element` that a read's indices take the place of
  // By number in `element`: what its other variables and its parameters are where it is read; null: bound variables.
  std::vector<ExprPtr> variables;
  std::vector<ExprPtr> params;
  std::vector<int> operands;  // by number in `element`: the number where it is read
};

// Composition: `expr` with every read of operand `operand` at indices i replaced by producer(i). Guards and selections
// stay around what they guarded. Opaque elements read whole operands: none may occur in `expr`. Every variable that
// `producer.element` binds gets one number of its own from `fresh`.
ExprPtr Inline(const ExprPtr& expr, int operand, const ElementFunction& producer, FreshVariable fresh);

}  // namespace rewright
