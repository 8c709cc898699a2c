#include "core/index/print.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/integer.h"
#include "core/index/form_builder.h"
#include "core/index/range.h"

namespace rewright::index {
namespace {

using Kind = Atom::Kind;

// Prints an operand of an operator that binds tighter than a sum.
std::string Operand(const Form& form) {
  const bool atomic = form.IsConstant() ? form.constant() >= 0 : form.AsAtom() != nullptr && form.AsAtom()->IsLeaf();
  return atomic ? Text(form) : absl::StrCat("(", Text(form), ")");
}

std::string AtomText(const Atom& atom) {
  switch (atom.kind) {
    case Kind::kSymbol:
    case Kind::kVariable: return atom.name;
    case Kind::kFloorDiv: return absl::StrCat(Operand(atom.a), " div ", Operand(atom.b));
    case Kind::kMod: return absl::StrCat(Operand(atom.a), " mod ", Operand(atom.b));
    case Kind::kMin: return absl::StrCat("min(", Text(atom.a), ", ", Text(atom.b), ")");
    case Kind::kMax: return absl::StrCat("max(", Text(atom.a), ", ", Text(atom.b), ")");
    case Kind::kProduct: break;
  }
  std::string text;
  for (const Atom* factor : atom.factors) {
    absl::StrAppend(&text, text.empty() ? "" : "*", Operand(Form::OfAtom(factor)));
  }
  return text;
}

std::string CAtomText(const Atom& atom) {
  const auto division = [&](const char* sign, const char* function) {
    const std::string a = CText(atom.a), b = CText(atom.b);
    return RangeOf(atom.a).low >= 0 ? absl::StrCat("(", a, sign, b, ")") : absl::StrCat(function, "(", a, ",", b, ")");
  };
  switch (atom.kind) {
    case Kind::kSymbol:
    case Kind::kVariable: return atom.name;
    case Kind::kFloorDiv: return division("/", "floor_div");
    case Kind::kMod: return division("%", "floor_mod");
    case Kind::kMin: return absl::StrCat("index_min(", CText(atom.a), ",", CText(atom.b), ")");
    case Kind::kMax: return absl::StrCat("index_max(", CText(atom.a), ",", CText(atom.b), ")");
    case Kind::kProduct: break;
  }
  std::string text;
  for (const Atom* factor : atom.factors) absl::StrAppend(&text, text.empty() ? "(" : "*", CAtomText(*factor));
  return text + ")";
}

}  // namespace

std::string Text(const Form& form) {
  if (!form.IsKnown()) return "unknown";
  std::string text;
  for (const Form::Term& term : form.terms()) {
    const bool alone = AbsoluteValue(term.factor) == 1;
    const char* sign = term.factor < 0 ? (text.empty() ? "-" : " - ") : text.empty() ? "" : " + ";
    const bool wrapped =
        (!alone || term.factor < 0) && (term.atom->kind == Kind::kFloorDiv || term.atom->kind == Kind::kMod);
    const std::string atom = AtomText(*term.atom);
    absl::StrAppend(&text, sign, alone ? "" : absl::StrCat(AbsoluteValue(term.factor), "*"),
                    wrapped ? absl::StrCat("(", atom, ")") : atom);
  }
  if (text.empty()) return absl::StrCat(form.constant());
  if (form.constant() != 0) absl::StrAppend(&text, form.constant() < 0 ? " - " : " + ", AbsoluteValue(form.constant()));
  return text;
}

std::string CText(const Form& form) {
  if (form.IsConstant()) {
    return form.constant() < 0 ? absl::StrCat("(", form.constant(), ")") : absl::StrCat(form.constant());
  }
  if (const Atom* atom = form.AsAtom(); atom != nullptr) return CAtomText(*atom);
  std::string text;
  for (const Form::Term& term : form.terms()) {
    const char* sign = term.factor < 0 ? "-" : text.empty() ? "" : "+";
    absl::StrAppend(&text, sign, AbsoluteValue(term.factor) == 1 ? "" : absl::StrCat(AbsoluteValue(term.factor), "*"),
                    CAtomText(*term.atom));
  }
  if (form.constant() != 0) absl::StrAppend(&text, form.constant() > 0 ? "+" : "", form.constant());
  return absl::StrCat("(", text, ")");
}

}  // namespace rewright::index
