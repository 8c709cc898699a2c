#include "substitutions/language/operator_variables.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_lexer.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/stand_ins.h"

namespace rewright {
namespace {

template <typename Term, typename Visit>
void VisitTerms(Term& term, const Visit& visit) {
  visit(term);
  for (auto& operand : term.operands) VisitTerms(operand, visit);
}

template <typename Side, typename Visit>
void VisitTermsOfSide(Side& side, const Visit& visit) {
  for (auto& let : side.lets) VisitTerms(let.term, visit);
  for (auto& output : side.outputs) VisitTerms(output, visit);
}

template <typename AnyRule, typename Visit>
void VisitTermsOf(AnyRule& rule, const Visit& visit) {
  VisitTermsOfSide(rule.lhs, visit);
  VisitTermsOfSide(rule.rhs, visit);
}

bool MentionsProperty(const ArgExpr& expr) {
  return IsOperatorProperty(expr) || std::any_of(expr.args.begin(), expr.args.end(), MentionsProperty);
}

}  // namespace

bool IsOperatorVariable(const TensorTerm& term) {
  return term.kind == TensorTerm::Kind::kApply && term.name.starts_with('?');
}

int OperandsOfVariable(const Rule& rule) {
  int operands = 0;
  VisitTermsOf(rule, [&](const TensorTerm& term) {
    if (IsOperatorVariable(term)) operands = static_cast<int>(term.operands.size());
  });
  return operands;
}

bool HasOperatorVariable(const Rule& rule) { return OperandsOfVariable(rule) > 0; }

bool IsOperatorProperty(const ArgExpr& condition) {
  return condition.kind == ArgExpr::Kind::kCall &&
         (condition.fn == ArgFn::kIncreasing || condition.fn == ArgFn::kOdd || condition.fn == ArgFn::kKeepsZero);
}

std::string OperatorProperty(const Rule& rule) {
  const auto found = std::find_if(rule.conditions.begin(), rule.conditions.end(), IsOperatorProperty);
  return found == rule.conditions.end() ? "" : ArgFnName(found->fn);
}

absl::Status ResolveOperatorVariable(Rule& rule) {
  const auto error = [&](int line, int column, const std::string& message) {
    return RuleError(rule.file, line, column, absl::StrCat("rule ", rule.name, ": ", message));
  };
  const TensorTerm* first = nullptr;
  absl::Status status;
  VisitTermsOf(rule, [&](const TensorTerm& term) {
    if (!IsOperatorVariable(term) || !status.ok()) return;
    if (first == nullptr) first = &term;
    const auto refuse = [&](const std::string& message) { status = error(term.line, term.column, message); };
    if (term.name != first->name) {
      refuse(absl::StrCat("found ", term.name, " beside ", first->name, ", expected one operator variable"));
    } else if (!term.attrs.empty() || !term.bundle.empty()) {
      refuse(absl::StrCat("found an attribute of ", term.name, ", expected none of an operator variable"));
    } else if (term.operands.empty() || term.operands.size() > 2 || term.operands.size() != first->operands.size()) {
      refuse(absl::StrCat("found ", term.operands.size(), " operands of ", term.name, ", expected ",
                          first->operands.size() == 1 || first->operands.size() == 2
                              ? absl::StrCat(first->operands.size(), " as where it occurs first")
                              : "1 or 2"));
    } else if (std::any_of(term.operands.begin(), term.operands.end(), [](const TensorTerm& t) { return t.all; })) {
      refuse(absl::StrCat("found `..` as an operand of ", term.name, ", expected operands one by one"));
    }
  });
  RETURN_IF_ERROR(status);
  int properties = 0;
  for (const ArgExpr& condition : rule.conditions) {
    if (!MentionsProperty(condition)) continue;
    if (!IsOperatorProperty(condition) || ++properties > 1) {
      return error(condition.line, condition.column,
                   "found a property within another condition or beside another property, expected one by itself");
    }
    if (first == nullptr || condition.args.size() != 1 || condition.args[0].kind != ArgExpr::Kind::kAttr ||
        "?" + condition.args[0].name != first->name) {
      return error(condition.line, condition.column,
                   absl::StrCat("found a property of something else, expected it of ",
                                first == nullptr ? "an operator variable ?f" : first->name));
    }
  }
  if (first == nullptr) return absl::OkStatus();
  bool bound = false;
  VisitTermsOfSide(rule.lhs, [&](const TensorTerm& term) { bound |= IsOperatorVariable(term); });
  if (!bound) {
    return error(first->line, first->column,
                 absl::StrCat("found ", first->name, ", expected an operator variable that the left side binds"));
  }
  const auto operands = static_cast<int>(first->operands.size());
  const std::string property = OperatorProperty(rule);
  if (!property.empty() && operands != 1) {
    return error(first->line, first->column, "found a property of an operator with 2 operands, expected one with 1");
  }
  VisitTermsOf(rule, [&](TensorTerm& term) {
    if (IsOperatorVariable(term)) term.op = StandIn(property, operands);
  });
  return absl::OkStatus();
}

Rule PutOperator(const Rule& rule, const OpDef& op) {
  Rule put = rule;
  put.name = absl::StrCat(rule.name, ":", op.name);
  VisitTermsOf(put, [&](TensorTerm& term) {
    if (!IsOperatorVariable(term)) return;
    term.name = op.name;
    term.op = &op;
  });
  put.conditions.erase(std::remove_if(put.conditions.begin(), put.conditions.end(), IsOperatorProperty),
                       put.conditions.end());
  if (!put.proof) return put;
  const std::vector<std::string>& exact = put.proof->exact;
  if (std::find(exact.begin(), exact.end(), op.name) != exact.end()) {
    put.proof->rule_class = RuleClass::kExact;
    if (put.proof->halves) put.proof->halves = RuleClass::kExact;
  }
  put.proof->operators.clear();
  put.proof->exact.clear();
  return put;
}

std::string RuleOfOperator(const std::string& name) { return name.substr(0, name.find(':')); }

std::vector<Rule> OperatorRules(const Rule& rule, size_t most) {
  if (!HasOperatorVariable(rule)) return {rule};
  std::vector<const OpDef*> ops;
  for (const OpDef* op : ElementwiseOps(OperandsOfVariable(rule))) {
    const auto& names = rule.proof ? rule.proof->operators : std::vector<std::string>();
    if (!rule.proof || std::binary_search(names.begin(), names.end(), op->name)) ops.push_back(op);
  }
  std::vector<Rule> rules;
  const size_t count = std::min(most, ops.size());
  for (size_t k = 0; k < count; ++k) rules.push_back(PutOperator(rule, *ops[k * ops.size() / count]));
  return rules;
}

std::vector<Rule> PropertyRules(const Rule& rule, const OpDef& op) {
  std::vector<Rule> rules;
  for (const std::string& law : PropertyLaws(OperatorProperty(rule), op)) {
    absl::StatusOr<std::vector<Rule>> parsed = ParseRules(law, op.name);
    CHECK(parsed.ok()) << parsed.status();
    rules.push_back(std::move(parsed->front()));
  }
  return rules;
}

}  // namespace rewright
