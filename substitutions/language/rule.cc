#include "substitutions/language/rule.h"

#include <iterator>

namespace rewright {
namespace {

constexpr const char* kClassNames[] = {"exact", "reassociating", "numerically-risky", "finite-only"};

}  // namespace

const char* RuleClassName(RuleClass rule_class) { return kClassNames[static_cast<size_t>(rule_class)]; }

bool ParseRuleClass(const std::string& name, RuleClass* rule_class) {
  for (size_t i = 0; i < std::size(kClassNames); ++i) {
    if (name != kClassNames[i]) continue;
    *rule_class = static_cast<RuleClass>(i);
    return true;
  }
  return false;
}

ArgExpr ArgExpr::Int(int64_t value) {
  ArgExpr expr;
  expr.integer = value;
  return expr;
}

ArgExpr ArgExpr::Real(double value) {
  ArgExpr expr;
  expr.kind = Kind::kReal;
  expr.real = value;
  return expr;
}

ArgExpr ArgExpr::Binary(ArgOp op, ArgExpr a, ArgExpr b) {
  ArgExpr expr;
  expr.kind = Kind::kOp;
  expr.op = op;
  expr.args = {std::move(a), std::move(b)};
  return expr;
}

ArgExpr ArgExpr::List(std::vector<ArgExpr> items) {
  ArgExpr expr;
  expr.kind = Kind::kList;
  expr.args = std::move(items);
  return expr;
}

}  // namespace rewright
