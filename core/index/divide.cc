#include "core/index/divide.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/integer.h"
#include "core/index/form_builder.h"
#include "core/index/laws.h"
#include "core/index/range.h"

namespace rewright::index {
namespace {

using Kind = Atom::Kind;

// Returns rest div by, if it is one number for all values.
bool QuotientIsNumber(const Form& rest, const Form& by, int64_t* number) {
  if (by.IsConstant()) {
    const Interval range = RangeOf(rest);
    if (!range.IsBounded()) return false;
    *number = FloorDivide(range.low, by.constant());
    return *number == FloorDivide(range.high, by.constant());
  }
  *number = 0;
  if (IsWithin(rest, by)) return true;
  *number = -1;
  return IsWithin(rest + by, by);
}

// Reduces the factors of rest to [0, by) and adds the quotients of the factors to the quotient. Factors of unbounded
// atoms stay, so that later numbers fit 64 bits.
void ReduceFactors(int64_t by, Form* quotient, Form* rest) {
  std::vector<Form::Term> whole, left;
  for (const Form::Term& term : rest->terms()) {
    const int64_t times = term.atom->range.IsBounded() ? FloorDivide(term.factor, by) : 0;
    if (times != 0) whole.push_back({term.atom, times});
    left.push_back({term.atom, term.factor - times * by});
  }
  if (whole.empty()) return;
  *quotient = FormBuilder::Combine(*quotient, FormBuilder::Sum(0, std::move(whole)), 1);
  *rest = FormBuilder::Sum(rest->constant(), std::move(left));
}

// Splits rest = common * reduced + left and by = common * reduced_by, with 0 <= left < common.
struct Cancelled {
  Form reduced, by, common = 1, left = 0;
};

}  // namespace

Form CommonFactor(const Form& rest, const Form& by) {
  uint64_t number = AbsoluteValue(by.constant());
  std::vector<const Atom*> shared;
  bool first = true;
  for (const Form* form : {&by, &rest}) {
    for (const Form::Term& term : form->terms()) {
      number = std::gcd(number, AbsoluteValue(term.factor));
      std::vector<const Atom*> kept;
      std::vector<const Atom*> of(FactorsOf(term.atom).begin(), FactorsOf(term.atom).end());
      for (const Atom* atom : first ? of : shared) {
        const auto at = std::find(of.begin(), of.end(), atom);
        if (at == of.end()) continue;
        kept.push_back(atom);
        if (!first) of.erase(at);
      }
      shared = std::move(kept);
      first = false;
    }
  }
  if (by.constant() != 0) shared.clear();
  return FormBuilder::Product(std::move(shared)) * static_cast<int64_t>(number);
}

namespace {

Cancelled Cancel(const Form& rest, const Form& by) {
  Cancelled result{rest, by};
  Form common = CommonFactor(rest, by);
  if (!common.IsConstant() && !(IsPositive(common) && IsWithin(rest.constant(), common))) common = common.Divisor();
  if (common.Is(1)) return result;
  result.common = common;
  result.left = common.IsConstant() ? FloorRemainder(rest.constant(), common.constant()) : rest.constant();
  Form nothing;
  Divide(rest - result.left, common, &result.reduced, &nothing);
  Divide(by, common, &result.by, &nothing);
  return result;
}

// True if a is a multiple of b, by a number or a form.
bool IsMultiple(const Form& a, const Form& b, Form* quotient) {
  Form rest;
  Divide(a, b, quotient, &rest);
  return rest.Is(0);
}

}  // namespace

void Divide(const Form& a, const Form& b, Form* quotient, Form* rest) {
  *quotient = 0;
  *rest = a;
  if (!a.IsKnown() || !b.IsKnown() || b.Is(0)) return;
  if (b.IsConstant()) {
    const int64_t by = b.constant();
    if (by < 1) return;
    std::vector<Form::Term> whole, left;
    for (const Form::Term& term : a.terms()) {
      if (term.factor % by == 0) {
        whole.push_back({term.atom, term.factor / by});
      } else {
        left.push_back(term);
      }
    }
    *quotient = FormBuilder::Sum(FloorDivide(a.constant(), by), std::move(whole));
    *rest = FormBuilder::Sum(FloorRemainder(a.constant(), by), std::move(left));
    return;
  }
  // Divides by the leading term of b, as polynomials are divided.
  const auto leads = [](const Form::Term& x, const Form::Term& y) {
    const size_t p = FactorsOf(x.atom).size(), q = FactorsOf(y.atom).size();
    return p != q ? p < q : Precedes(x.atom, y.atom);
  };
  const Form::Term lead = *std::max_element(b.terms().begin(), b.terms().end(), leads);
  Form work = a;
  *rest = a.constant();
  work = work - a.constant();
  for (int step = 0; !work.terms().empty(); ++step) {
    const Form::Term term = *std::max_element(work.terms().begin(), work.terms().end(), leads);
    Form times;
    const bool divides = term.factor % lead.factor == 0 && DivideMonomial(term.atom, lead.atom, &times);
    if (divides) {
      times = times * (term.factor / lead.factor);
      *quotient = FormBuilder::Combine(*quotient, times, 1);
      work = FormBuilder::Combine(work, times * b, -1);
      *rest = *rest + work.constant();
      work = FormBuilder::Combine(work, work.constant(), -1);
    } else {
      *rest = FormBuilder::Combine(*rest, OfTerm(term), 1);
      work = FormBuilder::Combine(work, OfTerm(term), -1);
    }
    if (step == 1000 || !work.IsKnown() || !quotient->IsKnown() || !rest->IsKnown()) {
      *quotient = 0;
      *rest = a;
      return;
    }
  }
}

Form FloorDiv(const Form& a, const Form& b) {
  if (b.Is(1)) return a;
  if (!a.IsKnown() || !b.IsKnown() || (b.IsConstant() && b.constant() < 1)) return Form::Unknown();
  if (!IsPositive(b)) return FormBuilder::Operation(Kind::kFloorDiv, a, b);
  Form quotient, rest;
  Divide(a, b, &quotient, &rest);
  int64_t number;
  if (QuotientIsNumber(rest, b, &number)) return quotient + number;
  if (b.IsConstant()) {
    ReduceFactors(b.constant(), &quotient, &rest);
    if (QuotientIsNumber(rest, b, &number)) return quotient + number;
  }
  const Cancelled cancelled = Cancel(rest, b);
  const Form& reduced = cancelled.reduced;
  const Form& by = cancelled.by;
  if (by.Is(1)) return quotient + reduced;
  if (reduced.IsConstant() && by.IsConstant()) return quotient + FloorDivide(reduced.constant(), by.constant());
  for (const Form::Term& term : reduced.terms()) {
    const Atom& inner = *term.atom;
    if (term.factor != 1 || inner.kind != Kind::kFloorDiv || !IsPositive(inner.b)) continue;
    const auto [dividend, divisor] = Laws<Forms>::Nested(inner.a, inner.b, reduced - Form::OfAtom(&inner), by);
    if (dividend.IsKnown() && divisor.IsKnown()) return quotient + FloorDiv(dividend, divisor);
  }
  if (const Atom* only = reduced.AsAtom(); only != nullptr && only->kind == Kind::kMod) {
    Forms forms;
    if (Form left; IsMultiple(only->b, by, &left)) return quotient + Laws<Forms>{forms}.Digits(only->a, by, left);
  }
  return quotient + FormBuilder::Operation(Kind::kFloorDiv, reduced, by);
}

Form Mod(const Form& a, const Form& b) {
  if (b.Is(1)) return 0;
  if (!a.IsKnown() || !b.IsKnown() || (b.IsConstant() && b.constant() < 1)) return Form::Unknown();
  if (!IsPositive(b)) return FormBuilder::Operation(Kind::kMod, a, b);
  Form quotient, rest;
  Divide(a, b, &quotient, &rest);
  int64_t number;
  if (QuotientIsNumber(rest, b, &number)) return Laws<Forms>::Rest(rest, b, number);
  if (b.IsConstant()) {
    ReduceFactors(b.constant(), &quotient, &rest);
    if (QuotientIsNumber(rest, b, &number)) return Laws<Forms>::Rest(rest, b, number);
  }
  for (const Form::Term& term : rest.terms()) {
    const Atom& inner = *term.atom;
    if (Form left; inner.kind == Kind::kMod && IsMultiple(inner.b, b, &left)) {
      const Form simpler = rest - OfTerm(term) + inner.a * term.factor;
      if (simpler.IsKnown()) return Mod(simpler, b);
    }
  }
  const Cancelled cancelled = Cancel(rest, b);
  if (!cancelled.common.Is(1)) {
    return Laws<Forms>::Scaled(cancelled.common, Mod(cancelled.reduced, cancelled.by), cancelled.left);
  }
  return FormBuilder::Operation(Kind::kMod, rest, b);
}

}  // namespace rewright::index
