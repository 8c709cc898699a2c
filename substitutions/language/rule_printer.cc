#include "substitutions/language/rule_printer.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/text_hash.h"
#include "core/ops/ops.h"
#include "substitutions/language/operator_variables.h"

namespace rewright {
namespace {

constexpr const char* kOpNames[] = {
    "+", "-", "*", "div", "mod", "/", "-", "==", "!=", "<", "<=", ">", ">=", "and", "or", "not"};

constexpr const char* kFnNames[] = {"min",    "max",    "rank",     "shape",      "dim",        "len",
                                    "sum",    "prod",   "compose",  "inverse",    "iota",       "repeat",
                                    "take",   "drop",   "replace",  "contains",   "count_less", "positive",
                                    "finite", "weight", "constant", "increasing", "odd",        "keeps_zero"};

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

std::string Attributes(const TensorTerm& term) {
  std::vector<std::string> attrs;
  for (const NamedArg& attr : term.attrs) attrs.push_back(absl::StrCat(attr.name, "=", PrintArg(attr.value)));
  if (!term.bundle.empty()) attrs.push_back("attrs=?" + term.bundle);
  return absl::StrJoin(attrs, ", ");
}

std::string Suffix(const TensorTerm& term) {
  std::string text;
  if (term.dtype) absl::StrAppend(&text, ": ", PrintArg(*term.dtype));
  if (term.shape) text += PrintShape(*term.shape);
  if (term.all) text += "..";
  if (term.output >= 0) absl::StrAppend(&text, ".", term.output);
  return text;
}

// The name of the operator that is applied, whatever text it was read from.
const std::string& OperatorName(const TensorTerm& term) {
  return term.op == nullptr || IsOperatorVariable(term) ? term.name : term.op->name;
}

// The term is an application of concat to at least one operand, without any other attribute.
bool JoinsAlong(const TensorTerm& term, int64_t axis) {
  return term.kind == TensorTerm::Kind::kApply && OperatorName(term) == "concat" && !term.operands.empty() &&
         term.attrs.size() == 1 && term.attrs[0].value.kind == ArgExpr::Kind::kInt &&
         term.attrs[0].value.integer == axis && term.bundle.empty() && !term.all && term.output < 0;
}

bool IsUnit(const ArgExpr& size) { return size.kind == ArgExpr::Kind::kInt && size.integer == 1; }

// A number, or an expression, of shape [1, 1].
bool IsEntry(const TensorTerm& term) {
  return term.kind == TensorTerm::Kind::kValue && !term.dtype && term.shape && !term.shape->broadcasts &&
         term.shape->dims.size() == 2 && IsUnit(term.shape->dims[0]) && IsUnit(term.shape->dims[1]) && !term.all &&
         term.output < 0 && term.value.kind != ArgExpr::Kind::kAttr;
}

// True if the parser reads the term from a matrix [[a, b], [c, d]].
bool IsMatrix(const TensorTerm& term) {
  return JoinsAlong(term, 0) && std::all_of(term.operands.begin(), term.operands.end(), [&](const TensorTerm& row) {
           return JoinsAlong(row, 1) && row.operands.size() == term.operands[0].operands.size() &&
                  std::all_of(row.operands.begin(), row.operands.end(), IsEntry);
         });
}

std::string MatrixRow(const TensorTerm& row) {
  const auto print = [](std::string* out, const TensorTerm& entry) { out->append(PrintArg(entry.value)); };
  return absl::StrCat("[", absl::StrJoin(row.operands, ", ", print), "]");
}

std::string Matrix(const TensorTerm& term, const std::string& separator) {
  const auto print = [](std::string* out, const TensorTerm& row) { out->append(MatrixRow(row)); };
  return absl::StrCat("[", absl::StrJoin(term.operands, separator, print), "]");
}

constexpr size_t kWidth = 118;

// The term, begun at column `indent`; an application that is too long for a line has its operands below one another.
// `extra` characters follow on the last line.
std::string Laid(const TensorTerm& term, size_t indent, size_t extra) {
  const std::string flat = PrintTerm(term);
  if (indent + flat.size() + extra <= kWidth || term.kind != TensorTerm::Kind::kApply) return flat;
  if (IsMatrix(term)) return Matrix(term, ",\n" + std::string(indent + 1, ' '));
  const std::string& name = OperatorName(term);
  const size_t inner = indent + name.size() + 1;
  const std::string separator = ",\n" + std::string(inner, ' ');
  std::vector<std::string> lines;
  for (const TensorTerm& operand : term.operands) lines.push_back(Laid(operand, inner, 1));
  const std::string attrs = Attributes(term);
  if (!attrs.empty()) lines.push_back(attrs);
  return absl::StrCat(name, "(", absl::StrJoin(lines, separator), ")", Suffix(term));
}

std::string PrintSide(const RuleSide& side, size_t indent) {
  std::string text;
  const std::string margin(indent, ' ');
  for (const LetTerm& let : side.lets) {
    const std::string head = absl::StrCat("let ", let.name, " = ");
    absl::StrAppend(&text, head, Laid(let.term, indent + head.size(), 3), " in\n", margin);
  }
  if (side.outputs.size() == 1 && !side.outputs[0].all) return text + Laid(side.outputs[0], indent, 0);
  const auto flat = [](std::string* out, const TensorTerm& term) { out->append(PrintTerm(term)); };
  const std::string line = absl::StrCat("{ ", absl::StrJoin(side.outputs, ", ", flat), " }");
  if (indent + line.size() <= kWidth) return text + line;
  const auto laid = [&](std::string* out, const TensorTerm& term) { out->append(Laid(term, indent + 2, 2)); };
  return absl::StrCat(text, "{ ", absl::StrJoin(side.outputs, ",\n  " + margin, laid), " }");
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
  if (term.kind == TensorTerm::Kind::kName) return term.name + Suffix(term);
  if (term.kind == TensorTerm::Kind::kValue) {
    const ArgExpr::Kind kind = term.value.kind;
    const bool plain = kind == ArgExpr::Kind::kInt || kind == ArgExpr::Kind::kReal || kind == ArgExpr::Kind::kAttr;
    const std::string value = PrintArg(term.value);
    return (plain ? value : absl::StrCat("scalar(", value, ")")) + Suffix(term);
  }
  if (IsMatrix(term)) return Matrix(term, ", ");
  const auto print = [](std::string* out, const TensorTerm& operand) { out->append(PrintTerm(operand)); };
  const std::string operands = absl::StrJoin(term.operands, ", ", print);
  const std::string attrs = Attributes(term);
  const char* separator = operands.empty() || attrs.empty() ? "" : ", ";
  return absl::StrCat(OperatorName(term), "(", operands, separator, attrs, ")", Suffix(term));
}

std::string PrintLaw(const Rule& rule) {
  std::string text = absl::StrCat("rule ", rule.name, "\n  ", PrintSide(rule.lhs, 2));
  const std::string right = PrintSide(rule.rhs, 5);
  const bool one_line = text.find('\n', text.find('\n') + 1) == std::string::npos &&
                        text.size() - text.rfind('\n') + 4 + right.size() <= kWidth &&
                        right.find('\n') == std::string::npos && rule.lhs.outputs.size() == 1 &&
                        !rule.lhs.outputs[0].all;
  absl::StrAppend(&text, one_line ? " => " : "\n  => ", right, "\n");
  const char* before = "  when ";
  size_t column = 0;
  for (const ArgExpr& condition : rule.conditions) {
    const std::string line = Parenthesized(condition, 1);
    const bool fits = column > 0 && column + line.size() + 5 <= kWidth;
    absl::StrAppend(&text, fits ? " and " : before, line);
    column = fits ? column + line.size() + 5 : line.size() + 7;
    before = "\n   and ";
  }
  return column > 0 ? text + "\n" : text;
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
  if (!rule.expect.empty()) absl::StrAppend(&text, "  expect ", rule.expect, "\n");
  if (!rule.proof) return text;
  const ProofRecord& proof = *rule.proof;
  absl::StrAppend(&text, "  proved ", RuleClassName(proof.rule_class));
  if (proof.halves) absl::StrAppend(&text, " halves=", RuleClassName(*proof.halves));
  if (!proof.new_values.empty()) absl::StrAppend(&text, " new=\"", absl::StrJoin(proof.new_values, " "), "\"");
  absl::StrAppend(&text, " max_rank=", proof.domain.max_rank, " max_perm_rank=", proof.domain.max_perm_rank,
                  " max_broadcast_rank=", proof.domain.max_broadcast_rank, " instances=", proof.instances);
  if (!proof.operators.empty()) {
    absl::StrAppend(&text, "\n    operators=\"", absl::StrJoin(proof.operators, " "), "\"\n   ");
    if (!proof.exact.empty()) absl::StrAppend(&text, " exact=\"", absl::StrJoin(proof.exact, " "), "\"\n   ");
  }
  absl::StrAppend(&text, " prover=\"", TextHash::Hex(proof.prover), "\" spec=\"", TextHash::Hex(proof.spec_hash), "\"");
  if (!proof.certificate.empty()) absl::StrAppend(&text, "\n    certificate=\"", proof.certificate, "\"");
  return text + "\n";
}

std::string PrintRules(const std::vector<std::string>& header, const std::vector<Rule>& rules) {
  std::string text;
  for (const std::string& line : header) absl::StrAppend(&text, "#", line.empty() ? "" : " ", line, "\n");
  for (size_t i = 0; i < rules.size(); ++i) {
    Rule rule = rules[i];
    if (i == 0 && !header.empty()) rule.headings.clear();
    absl::StrAppend(&text, text.empty() ? "" : "\n", PrintRule(rule));
  }
  return text;
}

}  // namespace rewright
