#include "substitutions/language/rule_expressions.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_printer.h"

namespace rewright {
namespace {

constexpr int kMaxExprDepth = 384;

}  // namespace

absl::Status RuleExprParser::Found(const std::string& expected) const {
  const RuleToken& token = Peek();
  const std::string found = token.kind == Kind::kEnd ? "the end of the text" : absl::StrCat("`", token.text, "`");
  return Error(absl::StrCat("found ", found, ", expected ", expected));
}

absl::Status RuleExprParser::Name(std::string& name, const char* what) {
  static const std::set<std::string>* const kReserved =
      new std::set<std::string>{"rule", "when", "expect", "proved", "let", "in", "and", "or", "not", "div", "mod"};
  if (Peek().kind != Kind::kName || kReserved->count(Peek().text)) return Found(what);
  name = Peek().text;
  ++at_;
  return absl::OkStatus();
}

absl::Status RuleExprParser::BinaryLevel(ArgExpr& expr, int level) {
  Nesting nesting(depth_);
  if (depth_ > kMaxExprDepth) return Error("the expression is nested too deeply");
  if (level == 2) return NotLevel(expr);
  if (level == 6) return Unary(expr);
  RETURN_IF_ERROR(BinaryLevel(expr, level + 1));
  size_t count = 0;
  ArgOp op;
  while (BinaryOp(level, &op)) {
    if (++count > kMaxItems) return Error("the expression is too long");
    ArgExpr joined = At();
    ++at_;
    joined.kind = ArgExpr::Kind::kOp;
    joined.op = op;
    joined.args.push_back(std::move(expr));
    RETURN_IF_ERROR(BinaryLevel(joined.args.emplace_back(), level + 1));
    expr = std::move(joined);
    if (level == 3) break;
  }
  return absl::OkStatus();
}

bool RuleExprParser::BinaryOp(int level, ArgOp* op) const {
  static constexpr std::pair<const char*, ArgOp> kLevels[][6] = {
      {{"or", ArgOp::kOr}},
      {{"and", ArgOp::kAnd}},
      {},
      {{"==", ArgOp::kEqual},
       {"!=", ArgOp::kNotEqual},
       {"<", ArgOp::kLess},
       {"<=", ArgOp::kLessEqual},
       {">", ArgOp::kGreater},
       {">=", ArgOp::kGreaterEqual}},
      {{"+", ArgOp::kAdd}, {"-", ArgOp::kSub}},
      {{"*", ArgOp::kMul}, {"/", ArgOp::kQuotient}, {"div", ArgOp::kDiv}, {"mod", ArgOp::kMod}},
  };
  if (Peek().kind != Kind::kName && Peek().kind != Kind::kSign) return false;
  for (const auto& [text, value] : kLevels[level]) {
    if (text == nullptr || Peek().text != text) continue;
    *op = value;
    return true;
  }
  return false;
}

absl::Status RuleExprParser::NotLevel(ArgExpr& expr) {
  if (!IsWord("not")) return BinaryLevel(expr, 3);
  expr = At();
  ++at_;
  expr.kind = ArgExpr::Kind::kOp;
  expr.op = ArgOp::kNot;
  return BinaryLevel(expr.args.emplace_back(), 2);
}

absl::Status RuleExprParser::Unary(ArgExpr& expr) {
  Nesting nesting(depth_);
  if (depth_ > kMaxExprDepth) return Error("the expression is nested too deeply");
  if (!IsSign("-")) return Postfix(expr);
  const ArgExpr at = At();
  ++at_;
  if (Peek().only_negated) {
    expr = at;
    expr.integer = Peek().integer;
    ++at_;
    return absl::OkStatus();
  }
  ArgExpr operand;
  RETURN_IF_ERROR(Unary(operand));
  expr = at;
  if (operand.kind == ArgExpr::Kind::kInt) {
    if (operand.integer == INT64_MIN) return RuleError(file_, at.line, at.column, "found 2^63, expected 64 bits");
    expr.kind = ArgExpr::Kind::kInt;
    expr.integer = -operand.integer;
  } else if (operand.kind == ArgExpr::Kind::kReal) {
    expr.kind = ArgExpr::Kind::kReal;
    expr.real = -operand.real;
  } else {
    expr.kind = ArgExpr::Kind::kOp;
    expr.op = ArgOp::kNeg;
    expr.args.push_back(std::move(operand));
  }
  return absl::OkStatus();
}

absl::Status RuleExprParser::Postfix(ArgExpr& expr) {
  RETURN_IF_ERROR(Primary(expr));
  // In a term, `?e[n]` is a constant with a shape; only expressions take elements of attributes.
  while (IsSign("[") && !term_value_) {
    ArgExpr element = At();
    ++at_;
    element.kind = ArgExpr::Kind::kElement;
    element.args.push_back(std::move(expr));
    RETURN_IF_ERROR(Arg(element.args.emplace_back()));
    RETURN_IF_ERROR(Expect("]"));
    expr = std::move(element);
  }
  return absl::OkStatus();
}

absl::Status RuleExprParser::Primary(ArgExpr& expr) {
  expr = At();
  const RuleToken token = Peek();
  if (token.kind == Kind::kInt) {
    if (token.only_negated) return Found("an integer of 64 bits");
    ++at_;
    expr.integer = token.integer;
    return absl::OkStatus();
  }
  if (token.kind == Kind::kReal) {
    ++at_;
    expr.kind = ArgExpr::Kind::kReal;
    expr.real = token.real;
    return absl::OkStatus();
  }
  if (Accept("?")) {
    expr.kind = ArgExpr::Kind::kAttr;
    RETURN_IF_ERROR(Name(expr.name, "the name of an attribute"));
    if (!IsSign(".") || Peek(1).kind != Kind::kName) return absl::OkStatus();
    ++at_;  // ?c.strides: one attribute of a bundle
    std::string part;
    RETURN_IF_ERROR(Name(part, "the name of an attribute"));
    expr.name += "." + part;
    return absl::OkStatus();
  }
  if (Accept("[")) {
    expr.kind = ArgExpr::Kind::kList;
    return Items("]", expr.args);
  }
  if (Accept("(")) {
    RETURN_IF_ERROR(Arg(expr));
    return Expect(")");
  }
  if (token.kind == Kind::kName && ParseDType(token.text, &expr.dtype)) {
    ++at_;
    expr.kind = ArgExpr::Kind::kDType;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Name(expr.name, "an expression"));
  expr.kind = ArgExpr::Kind::kName;
  if (!IsSign("(")) return absl::OkStatus();
  if (!ParseArgFn(expr.name, &expr.fn)) {
    Complain(expr.line, expr.column, absl::StrCat("found `", expr.name, "`, expected a function"));
  }
  ++at_;
  expr.kind = ArgExpr::Kind::kCall;
  expr.name.clear();
  return Items(")", expr.args);
}

absl::Status RuleExprParser::Items(const char* close, std::vector<ArgExpr>& items) {
  if (Accept(close)) return absl::OkStatus();
  do {
    if (items.size() >= kMaxItems) return Error("the list is too long");
    ArgExpr item;
    RETURN_IF_ERROR(Arg(item));
    if (IsSign("..")) {
      ArgExpr splice = At();
      ++at_;
      splice.kind = ArgExpr::Kind::kSplice;
      splice.args.push_back(std::move(item));
      item = std::move(splice);
    }
    items.push_back(std::move(item));
  } while (Accept(","));
  return Expect(close);
}

ArgExpr RuleExprParser::At() const {
  ArgExpr expr;
  expr.line = Peek().line;
  expr.column = Peek().column;
  return expr;
}

}  // namespace rewright
