#include "substitutions/sharding/sides.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/index/form_builder.h"

namespace rewright::sharding {

using index::Atom;
using index::Form;

Names::Names(const OpDef& op) {
  for (const char letter : std::string("nmkhwcorsabeghijlptuvyz")) {
    const std::string name(1, letter);
    if (std::find(op.inputs.begin(), op.inputs.end(), name) == op.inputs.end()) letters_.push_back(name);
  }
}

std::string Names::Of(const Atom* leaf) {
  std::string& name = names_[leaf];
  if (name.empty()) {
    const size_t letter = used_ % letters_.size(), round = used_ / letters_.size();
    name = round == 0 ? letters_[letter] : absl::StrCat(letters_[letter], round);
    ++used_;
  }
  return name;
}

std::string Names::Product(const Form::Term& term) {
  std::vector<std::string> factors;
  const int64_t factor = term.factor < 0 ? -term.factor : term.factor;
  if (factor != 1) factors.push_back(absl::StrCat(factor));
  for (const Atom* atom : index::FactorsOf(term.atom)) {
    switch (atom->kind) {
      case Atom::Kind::kFloorDiv:
        factors.push_back(absl::StrCat("((", Text(atom->a), ") div (", Text(atom->b), "))"));
        break;
      case Atom::Kind::kMod:
        factors.push_back(absl::StrCat("((", Text(atom->a), ") mod (", Text(atom->b), "))"));
        break;
      case Atom::Kind::kMin: factors.push_back(absl::StrCat("min(", Text(atom->a), ", ", Text(atom->b), ")")); break;
      case Atom::Kind::kMax: factors.push_back(absl::StrCat("max(", Text(atom->a), ", ", Text(atom->b), ")")); break;
      default: factors.push_back(Of(atom));
    }
  }
  return absl::StrJoin(factors, " * ");
}

std::string Names::Text(const Form& form) {
  std::string text;
  for (const bool negative : {false, true}) {
    for (const Form::Term& term : form.terms()) {
      if ((term.factor < 0) != negative) continue;
      if (negative) {
        absl::StrAppend(&text, text.empty() ? "0 - " : " - ", Product(term));
      } else {
        absl::StrAppend(&text, text.empty() ? "" : " + ", Product(term));
      }
    }
  }
  const int64_t constant = form.constant();
  if (text.empty()) return absl::StrCat(constant);
  if (constant != 0) absl::StrAppend(&text, constant < 0 ? " - " : " + ", constant < 0 ? -constant : constant);
  return text;
}

std::string Names::Comparison(const Form& form, bool strict) {
  Form more = 0, less = 0;
  for (const Form::Term& term : form.terms()) {
    const Form part = Form::OfAtom(term.atom) * term.factor;
    (term.factor > 0 ? more : less) = term.factor > 0 ? more + part : less - part;
  }
  (form.constant() > 0 ? more : less) = form.constant() > 0 ? more + form.constant() : less - form.constant();
  return absl::StrCat(Text(less), strict ? " < " : " <= ", Text(more));
}

std::string OperandName(const OpDef& op, size_t k) {
  const size_t fixed = op.inputs.size() - op.variadic;
  return k < fixed ? op.inputs[k] : absl::StrCat(op.inputs.back(), k - fixed);
}

std::string ShapeText(const std::vector<Form>& shape, Names& names) {
  std::vector<std::string> sizes;
  for (const Form& size : shape) sizes.push_back(names.Text(size));
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

std::string AttrsText(const Symbolic& application, Names& names, const std::function<Form(const Form&)>& value) {
  std::string text;
  for (size_t k = 0; k < application.op->attrs.size(); ++k) {
    const AttrSpec& spec = application.op->attrs[k];
    absl::StrAppend(&text, ", ", spec.name, "=");
    const std::vector<Form>& variables = application.variables[k];
    const Attr& attr = application.attrs.at(spec.name);
    if (spec.kind == AttrKind::kReal) {
      absl::StrAppend(&text, "?", spec.name);
    } else if (spec.structural || (spec.kind != AttrKind::kInt && spec.kind != AttrKind::kInts)) {
      absl::StrAppend(&text, AttrString(attr));
    } else {
      std::vector<Form> values;
      for (const Form& variable : variables) values.push_back(value(variable));
      absl::StrAppend(&text, spec.kind == AttrKind::kInt ? names.Text(values[0]) : ShapeText(values, names));
    }
  }
  return text;
}

}  // namespace rewright::sharding
