#include "verifier/infer/condition_family.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rewright::verifier {
namespace {

using Form = ConditionAtom::Form;
using Kind = ConditionTerm::Kind;

constexpr size_t kMaxIntegers = 16;
constexpr int kMaxListLength = 4;

ArgExpr TermExpr(const ConditionTerm& term) {
  ArgExpr name;
  const bool plain = term.kind == Kind::kSize || term.kind == Kind::kTensor;
  name.kind = plain ? ArgExpr::Kind::kName : ArgExpr::Kind::kAttr;
  name.name = term.name;
  if (term.kind != Kind::kElement) return name;
  ArgExpr element;
  element.kind = ArgExpr::Kind::kElement;
  element.args = {name, ArgExpr::Int(term.element)};
  return element;
}

// Sizes, attributes, elements; lists; tensors and attributes that may be positive.
struct Terms {
  std::vector<ConditionTerm> integers, lists, reals;
};

Terms TermsOf(const CompiledRule& rule, const StructuralAssignment& structure) {
  using Class = RuleAttr::Class;
  Terms terms;
  for (const std::string& size : rule.sizes()) {
    terms.integers.push_back({.kind = Kind::kSize, .name = size, .min = 1});
  }
  for (size_t a = 0; a < rule.attrs().size(); ++a) {
    const RuleAttr& attr = rule.attrs()[a];
    ConditionTerm term{.kind = Kind::kAttr, .name = attr.name, .attr = static_cast<int>(a), .min = attr.min};
    if (attr.kind == Class::kInt) terms.integers.push_back(term);
    if (attr.kind == Class::kFixedInt) {
      term.flag = attr.spec_kind == AttrKind::kFlag;
      term.axis = attr.spec_kind == AttrKind::kAxis;
      terms.integers.push_back(term);
    }
    if (attr.kind == Class::kReal) {
      term.kind = Kind::kReal;
      terms.reals.push_back(term);
    }
    if (attr.kind != Class::kList || structure.attrs[a].empty()) continue;
    term.kind = Kind::kList;
    term.length = static_cast<int>(structure.attrs[a][0]);
    if (term.length < 1 || term.length > kMaxListLength) continue;
    terms.lists.push_back(term);
    term.kind = Kind::kElement;
    for (term.element = 0; term.element < term.length; ++term.element) terms.integers.push_back(term);
  }
  for (int n = 0; n < rule.num_lhs_nodes(); ++n) {
    const RuleNode& node = rule.nodes()[n];
    if (node.op != nullptr || node.value || !node.floating || node.positive) continue;
    terms.reals.push_back({.kind = Kind::kTensor, .name = node.name});
  }
  if (terms.integers.size() > kMaxIntegers) terms.integers.resize(kMaxIntegers);
  return terms;
}

std::optional<int64_t> ValueAt(const ConditionTerm& term, const ConditionPlace& place) {
  switch (term.kind) {
    case Kind::kSize: return place.symbol(term.name);
    case Kind::kElement: return place.symbol(absl::StrCat("?", term.name, term.element));
    case Kind::kAttr: break;
    default: return std::nullopt;
  }
  const std::vector<int64_t>& fixed = place.structure->attrs[term.attr];
  if (fixed.size() == 1) return fixed[0];
  return place.symbol(absl::StrCat("?", term.name));
}

bool HoldsOf(Form form, int64_t a, int64_t b) {
  switch (form) {
    case Form::kEqualsNumber:
    case Form::kEqual: return a == b;
    case Form::kNotEqual: return a != b;
    case Form::kPositive: return true;
    case Form::kOdd: return a % 2 != 0;
    case Form::kEven: return a % 2 == 0;
    case Form::kDivides: return b > 0 && a % b == 0;
    case Form::kLessEqual: return a <= b;
  }
  return false;
}

}  // namespace

ArgExpr ConditionAtom::ToExpr() const {
  const ArgExpr left = TermExpr(a);
  switch (form) {
    case Form::kEqualsNumber: {
      ArgExpr value = ArgExpr::Int(number);
      if (a.kind == Kind::kList) {
        value = ArgExpr::List(std::vector<ArgExpr>(static_cast<size_t>(a.length), ArgExpr::Int(number)));
      }
      return ArgExpr::Binary(ArgOp::kEqual, left, value);
    }
    case Form::kEqual: return ArgExpr::Binary(ArgOp::kEqual, left, TermExpr(b));
    case Form::kNotEqual: return ArgExpr::Binary(ArgOp::kNotEqual, left, TermExpr(b));
    case Form::kPositive: {
      ArgExpr call;
      call.kind = ArgExpr::Kind::kCall;
      call.fn = ArgFn::kPositive;
      call.args = {left};
      return call;
    }
    case Form::kOdd:
    case Form::kEven:
      return ArgExpr::Binary(ArgOp::kEqual, ArgExpr::Binary(ArgOp::kMod, left, ArgExpr::Int(2)),
                             ArgExpr::Int(form == Form::kOdd));
    case Form::kDivides:
      return ArgExpr::Binary(ArgOp::kEqual, ArgExpr::Binary(ArgOp::kMod, left, TermExpr(b)), ArgExpr::Int(0));
    case Form::kLessEqual: return ArgExpr::Binary(ArgOp::kLessEqual, left, TermExpr(b));
  }
  return left;
}

std::vector<ConditionAtom> ConditionFamily(const CompiledRule& rule, const StructuralAssignment& structure) {
  const Terms terms = TermsOf(rule, structure);
  std::vector<ConditionAtom> atoms;
  const auto structural = [](const ConditionTerm& t) { return t.axis || t.flag; };
  const auto number = [&](const ConditionTerm& t, int64_t value) {
    atoms.push_back({.form = Form::kEqualsNumber, .a = t, .number = value});
  };
  for (const ConditionTerm& list : terms.lists) {
    for (int64_t value : {0, 1}) {
      if (list.min <= value) number(list, value);
    }
  }
  for (const ConditionTerm& t : terms.integers) {
    for (int64_t value : {0, 1}) {
      if (t.flag || (!t.axis && t.min <= value)) number(t, value);
    }
  }
  const auto pairs = [&](const std::vector<ConditionTerm>& of, Form form, bool both_orders, auto&& fits) {
    for (size_t i = 0; i < of.size(); ++i) {
      for (size_t j = both_orders ? 0 : i + 1; j < of.size(); ++j) {
        if (i != j && fits(of[i], of[j])) atoms.push_back({.form = form, .a = of[i], .b = of[j]});
      }
    }
  };
  pairs(terms.lists, Form::kEqual, false, [](const auto& s, const auto& t) { return s.length == t.length; });
  pairs(terms.integers, Form::kEqual, false,
        [](const auto& s, const auto& t) { return s.axis == t.axis && s.flag == t.flag; });
  pairs(terms.integers, Form::kNotEqual, false, [](const auto& s, const auto& t) { return s.axis && t.axis; });
  for (const ConditionTerm& t : terms.reals) atoms.push_back({.form = Form::kPositive, .a = t});
  for (Form form : {Form::kOdd, Form::kEven}) {
    for (const ConditionTerm& t : terms.integers) {
      if (!structural(t)) atoms.push_back({.form = form, .a = t});
    }
  }
  const auto symbols = [&](const auto& s, const auto& t) { return !structural(s) && !structural(t); };
  pairs(terms.integers, Form::kDivides, true,
        [&](const auto& s, const auto& t) { return symbols(s, t) && t.min >= 1; });
  pairs(terms.integers, Form::kLessEqual, true, symbols);
  return atoms;
}

bool HoldsAt(const ConditionAtom& atom, const ConditionPlace& place) {
  if (atom.form == Form::kPositive) return true;
  if (atom.a.kind == Kind::kList) {
    ConditionTerm a = atom.a, b = atom.b;
    a.kind = b.kind = Kind::kElement;
    for (int k = 0; k < atom.a.length; ++k) {
      a.element = b.element = k;
      const std::optional<int64_t> x = ValueAt(a, place);
      const std::optional<int64_t> y = atom.form == Form::kEqual ? ValueAt(b, place) : atom.number;
      if (!x || !y || *x != *y) return false;
    }
    return true;
  }
  const bool single = atom.form == Form::kEqualsNumber || atom.form == Form::kOdd || atom.form == Form::kEven;
  const std::optional<int64_t> x = ValueAt(atom.a, place);
  const std::optional<int64_t> y = single ? atom.number : ValueAt(atom.b, place);
  return x && y && HoldsOf(atom.form, *x, *y);
}

}  // namespace rewright::verifier
