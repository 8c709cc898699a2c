#include "substitutions/rule_printer.h"

#include <cstdio>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/check.h"

namespace rewright {
namespace {

constexpr const char* kOpNames[] = {"+", "-",  "*", "div", "mod", "/",  "-", "==",
                                    "!=", "<", "<=", ">",  ">=",  "and", "or", "not"};

constexpr const char* kFnNames[] = {"min",     "max",  "rank",   "shape", "dim",  "len",      "sum",        "prod",
                                    "compose", "inverse", "iota", "repeat", "take", "drop",  "contains", "count_less",
                                    "positive", "weight", "constant"};

// How strongly an operator binds, from `or` on.
int Precedence(const ArgExpr& expr) {
  if (expr.kind == ArgExpr::Kind::kInt) return expr.integer < 0 ? 6 : 8;
  if (expr.kind == ArgExpr::Kind::kReal) return expr.real < 0 ? 6 : 8;
  if (expr.kind != ArgExpr::Kind::kOp) return 8;
  switch (expr.op) {
    case ArgOp::kOr: return 0;
    case ArgOp::kAnd: return 1;
    case ArgOp::kNot: return 2;
    case ArgOp::kAdd:
    case ArgOp::kSub: return 4;
    case ArgOp::kMul:
    case ArgOp::kDiv:
    case ArgOp::kMod:
    case ArgOp::kQuotient: return 5;
    case ArgOp::kNeg: return 6;
    default: return 3;
  }
}

std::string Parenthesized(const ArgExpr& expr, int least) {
  const std::string text = PrintArg(expr);
  return Precedence(expr) < least ? absl::StrCat("(", text, ")") : text;
}

std::string Items(const std::vector<ArgExpr>& items) {
  return absl::StrJoin(items, ", ", [](std::string* out, const ArgExpr& item) { out->append(PrintArg(item)); });
}

std::string PrintOp(const ArgExpr& expr) {
  const int precedence = Precedence(expr);
  const std::string name = ArgOpName(expr.op);
  if (expr.op == ArgOp::kNeg) return absl::StrCat("-", Parenthesized(expr.args[0], 7));
  if (expr.op == ArgOp::kNot) return absl::StrCat("not ", Parenthesized(expr.args[0], 2));
  // Operators associate to the left; a comparison does not associate.
  return absl::StrCat(Parenthesized(expr.args[0], precedence == 3 ? 4 : precedence), " ", name, " ",
                      Parenthesized(expr.args[1], precedence + 1));
}

std::string PrintShape(const ShapeSpec& shape) {
  return absl::StrCat("[", shape.broadcasts ? "~ " : "", Items(shape.dims), "]");
}

std::string PrintApplication(const TensorTerm& term) {
  std::string text = absl::StrCat(term.name, "(");
  const char* separator = "";
  for (const TensorTerm& operand : term.operands) {
    absl::StrAppend(&text, separator, PrintTerm(operand));
    separator = ", ";
  }
  for (const NamedArg& attr : term.attrs) {
    absl::StrAppend(&text, separator, attr.name, "=", PrintArg(attr.value));
    separator = ", ";
  }
  if (!term.bundle.empty()) absl::StrAppend(&text, separator, "attrs=?", term.bundle);
  return text + ")";
}

std::string PrintSide(const RuleSide& side) {
  std::string text;
  for (const LetTerm& let : side.lets) absl::StrAppend(&text, "let ", let.name, " = ", PrintTerm(let.term), " in\n    ");
  const std::string outputs =
      absl::StrJoin(side.outputs, ", ", [](std::string* out, const TensorTerm& term) { out->append(PrintTerm(term)); });
  return side.outputs.size() == 1 ? text + outputs : absl::StrCat(text, "{ ", outputs, " }");
}

}  // namespace

const char* ArgOpName(ArgOp op) { return kOpNames[static_cast<size_t>(op)]; }
const char* ArgFnName(ArgFn fn) { return kFnNames[static_cast<size_t>(fn)]; }

bool ParseArgFn(const std::string& name, ArgFn* fn) {
  for (size_t i = 0; i < std::size(kFnNames); ++i) {
    if (name != kFnNames[i]) continue;
    *fn = static_cast<ArgFn>(i);
    return true;
  }
  return false;
}

std::string PrintArg(const ArgExpr& expr) {
  switch (expr.kind) {
    case ArgExpr::Kind::kInt: return std::to_string(expr.integer);
    case ArgExpr::Kind::kReal: return AttrString(Attr(expr.real));
    case ArgExpr::Kind::kDType: return DTypeName(expr.dtype);
    case ArgExpr::Kind::kName: return expr.name;
    case ArgExpr::Kind::kAttr: return "?" + expr.name;
    case ArgExpr::Kind::kList: return absl::StrCat("[", Items(expr.args), "]");
    case ArgExpr::Kind::kSplice: return Parenthesized(expr.args[0], 8) + "..";
    case ArgExpr::Kind::kOp: return PrintOp(expr);
    case ArgExpr::Kind::kElement: return absl::StrCat(Parenthesized(expr.args[0], 8), "[", PrintArg(expr.args[1]), "]");
    case ArgExpr::Kind::kCall: return absl::StrCat(ArgFnName(expr.fn), "(", Items(expr.args), ")");
  }
  return "";
}

std::string PrintTerm(const TensorTerm& term) {
  std::string text;
  if (term.kind == TensorTerm::Kind::kApply) {
    text = PrintApplication(term);
  } else if (term.kind == TensorTerm::Kind::kName) {
    text = term.name;
  } else {
    const ArgExpr::Kind kind = term.value.kind;
    const bool plain = kind == ArgExpr::Kind::kInt || kind == ArgExpr::Kind::kReal || kind == ArgExpr::Kind::kAttr;
    text = plain ? PrintArg(term.value) : absl::StrCat("scalar(", PrintArg(term.value), ")");
  }
  if (term.dtype) absl::StrAppend(&text, ": ", PrintArg(*term.dtype));
  if (term.shape) text += PrintShape(*term.shape);
  if (term.all) text += "..";
  if (term.output >= 0) absl::StrAppend(&text, ".", term.output);
  return text;
}

std::string PrintLaw(const Rule& rule) {
  std::string text = absl::StrCat("rule ", rule.name, "\n    ", PrintSide(rule.lhs), "\n    => ", PrintSide(rule.rhs), "\n");
  const char* before = "    when ";
  for (const ArgExpr& condition : rule.conditions) {
    absl::StrAppend(&text, before, Parenthesized(condition, 1), "\n");
    before = "     and ";
  }
  return text;
}

std::string PrintRule(const Rule& rule) {
  std::string text;
  const auto comment = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) absl::StrAppend(&text, "#", line.empty() ? "" : " ", line, "\n");
  };
  for (const std::vector<std::string>& heading : rule.headings) {
    comment(heading);
    text += "\n";
  }
  comment(rule.comment);
  text += PrintLaw(rule);
  if (!rule.expect.empty()) absl::StrAppend(&text, "    expect ", rule.expect, "\n");
  if (!rule.proof) return text;
  const ProofRecord& proof = *rule.proof;
  char spec[17];
  std::snprintf(spec, sizeof spec, "%016llx", static_cast<unsigned long long>(proof.spec_hash));
  absl::StrAppend(&text, "    proved ", RuleClassName(proof.rule_class), " max_rank=", proof.domain.max_rank,
                  " max_perm_rank=", proof.domain.max_perm_rank,
                  " max_broadcast_rank=", proof.domain.max_broadcast_rank, " instances=", proof.instances);
  absl::StrAppend(&text, " prover=", proof.prover, " spec=\"", spec, "\"");
  if (!proof.certificate.empty()) absl::StrAppend(&text, "\n      certificate=\"", proof.certificate, "\"");
  return text + "\n";
}

}  // namespace rewright
