#include "core/index/form.h"

#include <algorithm>
#include <numeric>

#include "absl/hash/hash.h"
#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/index/divide.h"
#include "core/index/form_builder.h"
#include "core/index/range.h"

namespace rewright::index {
namespace {

// The greatest number of terms of a form; the index of any operator has fewer.
constexpr size_t kMaxTerms = 4000;

using Kind = Atom::Kind;

Space* SpaceOf(const Form& a, const Form& b) { return (a.terms().empty() ? b : a).terms().front().atom->space; }

// Applies these laws wherever such a sum occurs, with a factor r:
//   r*(d*(a div d) + a mod d) = r*a
//   r*(d*((a div d) mod c) + a mod d) = r*(a mod (c*d))
Form Recombine(Form sum) {
  for (const Form::Term& term : sum.terms()) {
    if (!term.atom->recombines) continue;
    for (const Atom* mod : FactorsOf(term.atom)) {
      if (mod->kind != Kind::kMod || mod->quotient.IsConstant()) continue;
      Form times;
      DivideMonomial(term.atom, mod, &times);
      times = times * term.factor;
      const Form scale = times * mod->b;
      const Form multiple = scale * mod->quotient;
      const auto without = [&](const Form& part) {
        return FormBuilder::Combine(FormBuilder::Combine(sum, part, -1), OfTerm(term), -1);
      };
      const auto is_there = [&](const Form::Term& part) { return sum.FactorOf(part.atom) == part.factor; };
      if (multiple.IsKnown() && std::all_of(multiple.terms().begin(), multiple.terms().end(), is_there)) {
        return without(multiple) + times * mod->a;
      }
      if (!scale.IsConstant()) continue;
      for (const Form::Term& other : sum.terms()) {
        if (other.factor != scale.constant() || other.atom->kind != Kind::kMod || other.atom->a != mod->quotient)
          continue;
        return without(OfTerm(other)) + times * Mod(mod->a, mod->b * other.atom->b);
      }
    }
  }
  return sum;
}

}  // namespace

// ---------------------------------------------------------------- forms

Form Form::OfAtom(const Atom* atom) {
  Form form;
  form.terms_.push_back({atom, 1});
  return form;
}

Form Form::Unknown() {
  Form form;
  form.known_ = false;
  return form;
}

int64_t Form::FactorOf(const Atom* atom) const {
  for (const Term& term : terms_) {
    if (term.atom == atom) return term.factor;
  }
  return 0;
}

int64_t Form::Divisor() const {
  uint64_t divisor = AbsoluteValue(constant_);
  for (const Term& term : terms_) divisor = std::gcd(divisor, AbsoluteValue(term.factor));
  return static_cast<int64_t>(divisor);
}

const Atom* Form::AsAtom() const {
  return known_ && constant_ == 0 && terms_.size() == 1 && terms_[0].factor == 1 ? terms_[0].atom : nullptr;
}

bool Precedes(const Atom* a, const Atom* b) {
  if (a->kind != Kind::kProduct && b->kind != Kind::kProduct) return a->id < b->id;
  const auto x = FactorsOf(a), y = FactorsOf(b);
  return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(),
                                      [](const Atom* p, const Atom* q) { return p->id < q->id; });
}

Form FormBuilder::Combine(const Form& a, const Form& b, int64_t factor) {
  Form sum;
  int64_t product;
  if (!a.known_ || !b.known_ || !CheckedMultiply(b.constant_, factor, &product) ||
      !CheckedAdd(a.constant_, product, &sum.constant_)) {
    return Form::Unknown();
  }
  if (b.terms_.empty()) {
    sum.terms_ = a.terms_;
    return sum;
  }
  sum.terms_.reserve(a.terms_.size() + b.terms_.size());
  auto i = a.terms_.begin(), j = b.terms_.begin();
  while (i != a.terms_.end() || j != b.terms_.end()) {
    if (j == b.terms_.end() || (i != a.terms_.end() && i->atom != j->atom && Precedes(i->atom, j->atom))) {
      sum.terms_.push_back(*i++);
      continue;
    }
    Form::Term term{j->atom, 0};
    if (!CheckedMultiply(j->factor, factor, &term.factor)) return Form::Unknown();
    if (i != a.terms_.end() && i->atom == j->atom && !CheckedAdd(term.factor, i++->factor, &term.factor)) {
      return Form::Unknown();
    }
    ++j;
    if (term.factor != 0) sum.terms_.push_back(term);
  }
  return sum;
}

Form FormBuilder::Sum(int64_t constant, std::vector<Form::Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Form::Term& a, const Form::Term& b) { return Precedes(a.atom, b.atom); });
  Form sum(constant);
  for (const Form::Term& term : terms) {
    if (sum.terms_.empty() || sum.terms_.back().atom != term.atom) {
      sum.terms_.push_back({term.atom, 0});
    }
    int64_t* factor = &sum.terms_.back().factor;
    if (!CheckedAdd(*factor, term.factor, factor)) return Form::Unknown();
    if (*factor == 0) sum.terms_.pop_back();
  }
  return sum;
}

Form operator+(const Form& a, const Form& b) { return Recombine(FormBuilder::Combine(a, b, 1)); }
Form operator-(const Form& a, const Form& b) { return Recombine(FormBuilder::Combine(a, b, -1)); }

Form operator*(const Form& a, const Form& b) {
  if (a.IsConstant()) return FormBuilder::Combine(Form(), b, a.constant());
  if (b.IsConstant()) return FormBuilder::Combine(Form(), a, b.constant());
  if (!a.IsKnown() || !b.IsKnown() || a.terms().size() * b.terms().size() > kMaxTerms) return Form::Unknown();
  Form product = FormBuilder::Combine(Form(), a, b.constant());
  product = FormBuilder::Combine(product, b - b.constant(), a.constant());
  std::vector<Form::Term> terms;
  for (const Form::Term& x : a.terms()) {
    for (const Form::Term& y : b.terms()) {
      std::vector<const Atom*> factors(FactorsOf(x.atom).begin(), FactorsOf(x.atom).end());
      factors.insert(factors.end(), FactorsOf(y.atom).begin(), FactorsOf(y.atom).end());
      Form::Term term{FormBuilder::Product(std::move(factors)).AsAtom(), 0};
      if (!CheckedMultiply(x.factor, y.factor, &term.factor)) return Form::Unknown();
      terms.push_back(term);
    }
  }
  return product + FormBuilder::Sum(0, std::move(terms));
}

Form CeilDiv(const Form& a, const Form& b) { return FloorDiv(a + b - 1, b); }

Form Min(const Form& a, const Form& b) {
  if (IsNonNegative(b - a)) return a;
  if (IsNonNegative(a - b)) return b;
  if (!a.IsKnown() || !b.IsKnown()) return Form::Unknown();
  return FormBuilder::Operation(Kind::kMin, a, b);
}

Form Max(const Form& a, const Form& b) {
  if (IsNonNegative(a - b)) return a;
  if (IsNonNegative(b - a)) return b;
  if (!a.IsKnown() || !b.IsKnown()) return Form::Unknown();
  return FormBuilder::Operation(Kind::kMax, a, b);
}

Form Apply(ExprKind kind, const Form& a, const Form& b) {
  switch (kind) {
    case ExprKind::kIndexAdd: return a + b;
    case ExprKind::kIndexSub: return a - b;
    case ExprKind::kIndexMul: return a * b;
    case ExprKind::kFloorDiv: return FloorDiv(a, b);
    case ExprKind::kMod: return Mod(a, b);
    case ExprKind::kIndexMin: return Min(a, b);
    case ExprKind::kIndexMax: return Max(a, b);
    default: CHECK(false) << "not an operation on indices"; return Form::Unknown();
  }
}

// ---------------------------------------------------------------- atoms

size_t Space::Hash::operator()(const Atom* atom) const {
  return absl::HashOf(atom->kind, atom->name, atom->tag, atom->a, atom->b, atom->factors);
}

bool Space::Equal::operator()(const Atom* a, const Atom* b) const {
  return a->kind == b->kind && a->tag == b->tag && a->a == b->a && a->b == b->b && a->factors == b->factors &&
         a->name == b->name && (!a->IsLeaf() || (a->range == b->range && a->extent == b->extent));
}

Form Space::Symbol(const std::string& name, int64_t low, int64_t high, int tag) {
  Atom atom;
  atom.kind = Kind::kSymbol;
  atom.name = name;
  atom.tag = tag;
  atom.range = {low, high};
  return Form::OfAtom(Intern(std::move(atom)));
}

Form Space::Variable(const std::string& name, Interval range, int tag) {
  if (range.low == range.high) return range.low;
  Atom atom;
  atom.name = name;
  atom.tag = tag;
  atom.range = range;
  return Form::OfAtom(Intern(std::move(atom)));
}

Form Space::Variable(const std::string& name, const Form& extent, int tag) {
  if (extent.IsConstant()) return Variable(name, Interval{0, extent.constant() - 1}, tag);
  Atom atom;
  atom.name = name;
  atom.tag = tag;
  atom.extent = extent;
  const int64_t high = RangeOf(extent).high;
  atom.range = {0, high == kInfinity ? high : high - 1};
  return Form::OfAtom(Intern(std::move(atom)));
}

Form FormBuilder::Operation(Kind kind, const Form& a, const Form& b) {
  Atom atom;
  atom.kind = kind;
  atom.a = a;
  atom.b = b;
  return Form::OfAtom(SpaceOf(a, b)->Intern(std::move(atom)));
}

Form FormBuilder::Product(std::vector<const Atom*> factors) {
  if (factors.empty()) return 1;
  if (factors.size() == 1) return Form::OfAtom(factors[0]);
  std::sort(factors.begin(), factors.end(), [](const Atom* a, const Atom* b) { return a->id < b->id; });
  Atom atom;
  atom.kind = Kind::kProduct;
  atom.factors = std::move(factors);
  Space* space = atom.factors[0]->space;
  return Form::OfAtom(space->Intern(std::move(atom)));
}

bool DivideMonomial(const Atom* atom, const Atom* by, Form* quotient) {
  const auto all = FactorsOf(atom), part = FactorsOf(by);
  std::vector<const Atom*> left;
  size_t next = 0;
  for (const Atom* factor : all) {
    if (next < part.size() && part[next] == factor) {
      ++next;
    } else {
      left.push_back(factor);
    }
  }
  if (next < part.size()) return false;
  *quotient = FormBuilder::Product(std::move(left));
  return true;
}

}  // namespace rewright::index
