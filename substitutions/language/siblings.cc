#include "substitutions/language/siblings.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_lexer.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/rule_terms.h"

namespace rewright {
namespace {

// The lists that the right side splices.
struct Lists {
  std::set<std::string> tensors;
  std::string sizes;
};

bool IsSplice(const ArgExpr& expr) {
  return expr.kind == ArgExpr::Kind::kSplice && expr.args[0].kind == ArgExpr::Kind::kName;
}

bool IsListTerm(const TensorTerm& term) { return term.kind == TensorTerm::Kind::kName && term.all; }

void CollectLists(const TensorTerm& term, std::set<std::string>* tensors) {
  if (IsListTerm(term)) tensors->insert(term.name);
  for (const TensorTerm& operand : term.operands) CollectLists(operand, tensors);
}

Lists ListsOf(const Rule& rule) {
  Lists lists;
  if (rule.rhs.outputs.size() != 1) return lists;
  const TensorTerm& split = rule.rhs.outputs[0];
  CollectLists(split, &lists.tensors);
  for (const NamedArg& attr : split.attrs) {
    if (attr.name != "sizes" || attr.value.kind != ArgExpr::Kind::kList || attr.value.args.size() != 1) continue;
    if (IsSplice(attr.value.args[0])) lists.sizes = attr.value.args[0].args[0].name;
  }
  return lists;
}

// ---------------------------------------------------------------- the form

class Form {
 public:
  explicit Form(const Rule& rule) : rule_(rule), lists_(ListsOf(rule)) {}

  absl::Status Check() const {
    const TensorTerm& left = rule_.lhs.outputs[0];
    if (!rule_.lhs.lets.empty() || !rule_.rhs.lets.empty()) {
      return Error(left, "found let, expected none in a rule about siblings");
    }
    if (left.kind != TensorTerm::Kind::kApply || left.output >= 0) {
      return Error(left, "found `..`, expected it behind an application: a sibling");
    }
    RETURN_IF_ERROR(CheckSplit());
    RETURN_IF_ERROR(CheckLeft(left));
    for (const std::string& name : lists_.tensors) {
      if (declared_.count(name) == 0) {
        return Error(left, absl::StrCat("found no shape of ", name, ", expected one with the size ", lists_.sizes));
      }
    }
    for (const ArgExpr& condition : rule_.conditions) RETURN_IF_ERROR(CheckCondition(condition));
    return absl::OkStatus();
  }

 private:
  absl::Status Error(int line, int column, const std::string& message) const {
    return RuleError(rule_.file, line, column, absl::StrCat("rule ", rule_.name, ": ", message));
  }
  absl::Status Error(const TensorTerm& term, const std::string& message) const {
    return Error(term.line, term.column, message);
  }

  bool IsList(const std::string& name) const { return name == lists_.sizes || lists_.tensors.count(name) > 0; }

  // The name of a list in the expression; empty where there is none.
  std::string ListIn(const ArgExpr& expr) const {
    if (expr.kind == ArgExpr::Kind::kName && IsList(expr.name)) return expr.name;
    for (const ArgExpr& arg : expr.args) {
      if (std::string name = ListIn(arg); !name.empty()) return name;
    }
    return "";
  }

  absl::Status CheckAttributes(const TensorTerm& term) const {
    for (const NamedArg& attr : term.attrs) {
      if (const std::string name = ListIn(attr.value); !name.empty()) return Counts(term, name);
    }
    if (term.kind != TensorTerm::Kind::kValue) return absl::OkStatus();
    const std::string name = ListIn(term.value);
    return name.empty() ? absl::OkStatus() : Counts(term, name);
  }

  absl::Status Counts(const TensorTerm& term, const std::string& name) const {
    return Error(term, absl::StrCat("found ", name, ", which differs from sibling to sibling, in ", PrintTerm(term),
                                    ", expected what all have in common"));
  }

  // Lists are shapes of lists, by themselves, and nothing else.
  absl::Status CheckLeft(const TensorTerm& term) const {
    RETURN_IF_ERROR(CheckAttributes(term));
    for (const TensorTerm& operand : term.operands) {
      if (operand.all) return Error(operand, "found `..`, expected it behind the sibling alone");
      RETURN_IF_ERROR(CheckLeft(operand));
    }
    if (!term.shape) return absl::OkStatus();
    const bool list = lists_.tensors.count(term.name) > 0 && term.kind == TensorTerm::Kind::kName;
    int found = 0;
    for (const ArgExpr& dim : term.shape->dims) {
      const std::string name = ListIn(dim);
      if (name.empty()) continue;
      if (!list || dim.kind != ArgExpr::Kind::kName) return Counts(term, name);
      ++found;
    }
    if (!list) return absl::OkStatus();
    if (found != 1 || term.shape->broadcasts) {
      return Error(term, absl::StrCat("found ", PrintTerm(term), ", expected a shape with the size ",
                                      lists_.sizes.empty() ? "that the split names" : lists_.sizes, " once"));
    }
    declared_.insert(term.name);
    return absl::OkStatus();
  }

  absl::Status CheckSplit() const {
    if (rule_.rhs.outputs.size() != 1 || rule_.rhs.outputs[0].name != "split" || lists_.sizes.empty() ||
        rule_.rhs.outputs[0].operands.size() != 1 || rule_.rhs.outputs[0].output >= 0) {
      return Error(rule_.rhs.outputs[0],
                   absl::StrCat("found ", PrintTerm(rule_.rhs.outputs[0]),
                                ", expected split(.., axis=.., sizes=[n..]) for the sizes n of the siblings"));
    }
    const TensorTerm& split = rule_.rhs.outputs[0];
    if (lists_.tensors.empty()) return Error(split, "found no list, expected concat(y.., axis=..) of the siblings' y");
    for (const NamedArg& attr : split.attrs) {
      if (attr.name == "sizes") continue;
      if (const std::string name = ListIn(attr.value); !name.empty()) return Counts(split, name);
    }
    return CheckRight(split.operands[0]);
  }

  // Lists are concatenated, and nothing else.
  absl::Status CheckRight(const TensorTerm& term) const {
    RETURN_IF_ERROR(CheckAttributes(term));
    for (const ArgExpr& dim : term.shape ? term.shape->dims : std::vector<ArgExpr>()) {
      if (const std::string name = ListIn(dim); !name.empty()) return Counts(term, name);
    }
    if (term.kind == TensorTerm::Kind::kName && IsList(term.name)) {
      return Error(term, absl::StrCat("found ", PrintTerm(term), ", expected concat(", term.name, ".., axis=..)"));
    }
    const bool joins = term.name == "concat" && term.operands.size() == 1 && IsListTerm(term.operands[0]);
    if (joins) return absl::OkStatus();
    for (const TensorTerm& operand : term.operands) RETURN_IF_ERROR(CheckRight(operand));
    return absl::OkStatus();
  }

  absl::Status CheckCondition(const ArgExpr& condition) const {
    const std::string name = ListIn(condition);
    const bool directs =
        condition.kind == ArgExpr::Kind::kCall && (condition.fn == ArgFn::kWeight || condition.fn == ArgFn::kConstant);
    if (name.empty() || (directs && lists_.tensors.count(name) > 0)) return absl::OkStatus();
    return Error(condition.line, condition.column,
                 absl::StrCat("found the condition ", PrintArg(condition), " on ", name,
                              ", expected none but weight and constant of what differs from sibling to sibling"));
  }

  const Rule& rule_;
  const Lists lists_;
  mutable std::set<std::string> declared_;
};

// ---------------------------------------------------------------- expansion

class Expansion {
 public:
  Expansion(const Rule& rule, int count) : rule_(rule), count_(count), lists_(ListsOf(rule)) {}

  Rule Run() const {
    Rule rule = rule_;
    rule.proof.reset();
    rule.lhs.outputs.clear();
    for (int i = 1; i <= count_; ++i) {
      TensorTerm sibling = rule_.lhs.outputs[0];
      sibling.all = false;
      Left(i, &sibling);
      rule.lhs.outputs.push_back(std::move(sibling));
    }
    Right(&rule.rhs.outputs[0]);
    rule.conditions.clear();
    for (const ArgExpr& condition : rule_.conditions) {
      const ArgExpr first = Renamed(condition, 1);
      rule.conditions.push_back(first);
      for (int i = 2; i <= count_ && PrintArg(first) != PrintArg(condition); ++i) {
        rule.conditions.push_back(Renamed(condition, i));
      }
    }
    return rule;
  }

 private:
  ArgExpr Renamed(ArgExpr expr, int sibling) const {
    if (expr.kind == ArgExpr::Kind::kName && (expr.name == lists_.sizes || lists_.tensors.count(expr.name) > 0)) {
      expr.name = SiblingName(expr.name, sibling);
    }
    for (ArgExpr& arg : expr.args) arg = Renamed(std::move(arg), sibling);
    return expr;
  }

  // The first sibling declares the shapes of the variables that all siblings share.
  void Left(int sibling, TensorTerm* term) const {
    const bool list = term->kind == TensorTerm::Kind::kName && lists_.tensors.count(term->name) > 0;
    if (list) term->name = SiblingName(term->name, sibling);
    if (term->kind == TensorTerm::Kind::kName && !list && sibling > 1) {
      term->shape.reset();
      term->dtype.reset();
    }
    if (list && term->shape) {
      for (ArgExpr& dim : term->shape->dims) dim = Renamed(std::move(dim), sibling);
    }
    for (TensorTerm& operand : term->operands) Left(sibling, &operand);
  }

  void Right(TensorTerm* term) const {
    std::vector<TensorTerm> operands;
    for (TensorTerm& operand : term->operands) {
      if (!IsListTerm(operand)) {
        Right(&operand);
        operands.push_back(std::move(operand));
        continue;
      }
      for (int i = 1; i <= count_; ++i) {
        TensorTerm element = operand;
        element.all = false;
        element.name = SiblingName(operand.name, i);
        operands.push_back(std::move(element));
      }
    }
    term->operands = std::move(operands);
    for (NamedArg& attr : term->attrs) {
      if (attr.value.kind != ArgExpr::Kind::kList || attr.value.args.size() != 1 || !IsSplice(attr.value.args[0]) ||
          attr.value.args[0].args[0].name != lists_.sizes) {
        continue;
      }
      attr.value.args.clear();
      for (int i = 1; i <= count_; ++i) attr.value.args.push_back(NameArg(SiblingName(lists_.sizes, i)));
    }
  }

  const Rule& rule_;
  const int count_;
  const Lists lists_;
};

}  // namespace

bool IsSiblingRule(const Rule& rule) { return rule.lhs.outputs.size() == 1 && rule.lhs.outputs[0].all; }

absl::Status CheckSiblings(const Rule& rule) { return Form(rule).Check(); }

std::set<std::string> SiblingVariables(const Rule& rule) { return ListsOf(rule).tensors; }

std::string SiblingName(const std::string& variable, int sibling) { return absl::StrCat(variable, "_", sibling); }

Rule ExpandSiblings(const Rule& rule, int count) { return Expansion(rule, count).Run(); }

}  // namespace rewright
