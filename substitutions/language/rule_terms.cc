#include "substitutions/language/rule_terms.h"

#include <utility>

#include "core/base/check.h"
#include "core/ops/ops.h"

namespace rewright {

TensorTerm OperatorTerm(const std::string& op, std::vector<TensorTerm> operands) {
  TensorTerm term;
  term.kind = TensorTerm::Kind::kApply;
  term.name = op;
  term.op = FindOp(op);
  CHECK(term.op != nullptr) << op;
  term.operands = std::move(operands);
  return term;
}

ArgExpr NameArg(const std::string& name) {
  ArgExpr expr;
  expr.kind = ArgExpr::Kind::kName;
  expr.name = name;
  return expr;
}

ArgExpr AttrArg(const std::string& name) {
  ArgExpr expr;
  expr.kind = ArgExpr::Kind::kAttr;
  expr.name = name;
  return expr;
}

ArgExpr DTypeArg(DType dtype) {
  ArgExpr expr;
  expr.kind = ArgExpr::Kind::kDType;
  expr.dtype = dtype;
  return expr;
}

ArgExpr CallArg(ArgFn fn, std::vector<ArgExpr> args) {
  ArgExpr expr;
  expr.kind = ArgExpr::Kind::kCall;
  expr.fn = fn;
  expr.args = std::move(args);
  return expr;
}

ArgExpr SpliceArg(ArgExpr list) {
  ArgExpr expr;
  expr.kind = ArgExpr::Kind::kSplice;
  expr.args = {std::move(list)};
  return expr;
}

ArgExpr SumArg(ArgExpr a, int64_t b) {
  if (a.kind == ArgExpr::Kind::kInt) return ArgExpr::Int(a.integer + b);
  return b == 0 ? a : ArgExpr::Binary(ArgOp::kAdd, std::move(a), ArgExpr::Int(b));
}

ArgExpr NumbersArg(const std::vector<int64_t>& values) {
  std::vector<ArgExpr> items;
  for (int64_t value : values) items.push_back(ArgExpr::Int(value));
  return ArgExpr::List(std::move(items));
}

void CollectDeclarations(const TensorTerm& term, DeclaredVariables& variables) {
  if (term.kind == TensorTerm::Kind::kName && (term.shape || term.dtype)) variables[term.name] = term;
  for (const TensorTerm& operand : term.operands) CollectDeclarations(operand, variables);
}

void PlaceDeclarations(TensorTerm& term, const DeclaredVariables& variables, std::set<std::string>& seen) {
  if (term.kind == TensorTerm::Kind::kName) {
    const auto found = variables.find(term.name);
    term.shape.reset();
    term.dtype.reset();
    if (seen.insert(term.name).second && found != variables.end()) {
      term.shape = found->second.shape;
      term.dtype = found->second.dtype;
    }
  }
  for (TensorTerm& operand : term.operands) PlaceDeclarations(operand, variables, seen);
}

}  // namespace rewright
