#include "core/index/range.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/integer.h"
#include "core/index/compose.h"
#include "core/index/divide.h"
#include "core/index/form_builder.h"

namespace rewright::index {
namespace {

using Kind = Atom::Kind;

int64_t Clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -static_cast<__int128>(kInfinity), kInfinity));
}

// An open end times a number other than 0 is at least as large; it stays open.
Interval Product(const Interval& a, const Interval& b) {
  const __int128 corners[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                              static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {Clamp(*std::min_element(corners, corners + 4)), Clamp(*std::max_element(corners, corners + 4))};
}

Interval Quotient(const Interval& a, const Interval& by) {
  Interval result;
  if (by.low < 1) return result;
  if (a.low > -kInfinity) result.low = FloorDivide(a.low, a.low < 0 ? by.low : by.high);
  if (a.high < kInfinity) result.high = FloorDivide(a.high, a.high < 0 ? by.high : by.low);
  return result;
}

Interval Remainder(const Interval& a, const Interval& by) {
  if (by.low < 1) return {};
  if (a.low >= 0 && a.high < by.low) return a;
  const int64_t high = by.high == kInfinity ? kInfinity : by.high - 1;
  return {0, a.low >= 0 ? std::min(a.high, high) : high};
}

Interval OperationRange(const Atom& atom) {
  if (atom.kind == Kind::kProduct) {
    Interval range = {1, 1};
    for (const Atom* factor : atom.factors) range = Product(range, factor->range);
    return range;
  }
  const Interval a = RangeOf(atom.a), b = RangeOf(atom.b);
  switch (atom.kind) {
    case Kind::kFloorDiv: {
      Interval range = RangeOf(ExprKind::kFloorDiv, a, b);
      // Symbols may show a sign that the ranges of numbers do not.
      if (range.low < 0 && atom.symbolic && IsPositive(atom.b) && IsNonNegative(atom.a)) range.low = 0;
      return range;
    }
    case Kind::kMod: {
      Interval range = RangeOf(ExprKind::kMod, a, b);
      if (range.low < 0 && atom.symbolic && IsPositive(atom.b)) range.low = 0;
      return range;
    }
    default: return RangeOf(atom.kind == Kind::kMin ? ExprKind::kIndexMin : ExprKind::kIndexMax, a, b);
  }
}

void AddLeaves(const std::vector<const Atom*>& more, std::vector<const Atom*>* leaves) {
  std::vector<const Atom*> both;
  std::set_union(leaves->begin(), leaves->end(), more.begin(), more.end(), std::back_inserter(both),
                 [](const Atom* a, const Atom* b) { return a->id < b->id; });
  *leaves = std::move(both);
}

int64_t Largest(const Interval& range) { return std::max(std::abs(range.low), std::abs(range.high)); }

// ---- polynomials of symbols

// Bounds an atom that is no product.
Form BoundOfAtom(const Atom& atom, bool upper) {
  const int64_t end = upper ? atom.range.high : atom.range.low;
  const Form number = std::abs(end) == kInfinity ? Form::Unknown() : Form(end);
  switch (atom.kind) {
    case Kind::kSymbol: return Form::OfAtom(&atom);
    case Kind::kVariable: return upper && atom.extent.terms().size() > 0 ? atom.extent - 1 : number;
    case Kind::kMod:
      if (!upper || !atom.symbolic || !IsPositive(atom.b)) return number;
      return BoundOf(atom.b, true) - 1;
    case Kind::kFloorDiv: {
      const auto is_symbol = [](const Atom* leaf) { return leaf->kind == Kind::kSymbol; };
      const std::vector<const Atom*> leaves = LeavesOf(atom.b);
      if (!atom.symbolic || !std::all_of(leaves.begin(), leaves.end(), is_symbol) || !IsPositive(atom.b)) return number;
      return FloorDiv(BoundOf(atom.a, upper), atom.b);
    }
    case Kind::kMin:
    case Kind::kMax: {
      const Form a = BoundOf(atom.a, upper), b = BoundOf(atom.b, upper);
      // A bound of one operand suffices on that side.
      if (upper == (atom.kind == Kind::kMin) && !(a.IsKnown() && b.IsKnown())) return a.IsKnown() ? a : b;
      return atom.kind == Kind::kMin ? Min(a, b) : Max(a, b);
    }
    default: return number;
  }
}

// True if no term is negative after every symbol s is replaced by (its least value) + t for a new t >= 0.
bool IsNonNegativePolynomial(const Form& form) {
  Substitution shift;
  for (const Atom* leaf : LeavesOf(form)) {
    if (leaf->kind != Kind::kSymbol || leaf->range.low == -kInfinity) return false;
    if (leaf->range.low == 0) continue;
    shift[leaf].value = leaf->space->Symbol(leaf->name + "'", 0, kInfinity, leaf->tag) + leaf->range.low;
  }
  const Form shifted = Compose(form, shift);
  const auto is_non_negative = [](const Form::Term& term) { return term.factor > 0 && term.atom->range.low >= 0; };
  return shifted.IsKnown() && shifted.constant() >= 0 &&
         std::all_of(shifted.terms().begin(), shifted.terms().end(), is_non_negative);
}

}  // namespace

Form BoundOf(const Form& form, bool upper) {
  Form bound = form.IsKnown() ? Form(form.constant()) : form;
  for (const Form::Term& term : form.terms()) {
    const bool up = (term.factor > 0) == upper;
    const auto factors = FactorsOf(term.atom);
    Form product = 1;
    for (const Atom* factor : factors) {
      // Bounds of a product are products of bounds if no factor is negative.
      if (factors.size() > 1 && factor->range.low < 0) return Form::Unknown();
      product = product * BoundOfAtom(*factor, up);
    }
    bound = bound + product * term.factor;
  }
  return bound;
}

const Atom* Space::Intern(Atom atom) {
  if (const auto found = interned_.find(&atom); found != interned_.end()) return *found;
  atoms_.push_back(std::move(atom));
  Atom& made = atoms_.back();
  made.space = this;
  made.id = static_cast<int>(atoms_.size()) - 1;
  if (made.IsLeaf()) {
    made.leaves = {&made};
    made.symbolic = made.kind == Kind::kSymbol || !made.extent.terms().empty();
    made.magnitude = Largest(made.range);
  } else {
    for (const Form* form : {&made.a, &made.b}) {
      AddLeaves(LeavesOf(*form), &made.leaves);
      made.magnitude = std::max(made.magnitude, Magnitude(*form));
    }
    for (const Atom* factor : made.factors) {
      AddLeaves(factor->leaves, &made.leaves);
      made.magnitude = std::max(made.magnitude, factor->magnitude);
    }
    for (const Atom* leaf : made.leaves) made.symbolic |= leaf->symbolic;
    made.range = OperationRange(made);
    if (made.kind == Kind::kMod) made.quotient = FloorDiv(made.a, made.b);
    made.recombines = made.kind == Kind::kMod && !made.quotient.IsConstant();
    for (const Atom* factor : made.factors) made.recombines |= factor->recombines;
  }
  interned_.insert(&made);
  return &made;
}

Interval RangeOf(ExprKind operation, const Interval& a, const Interval& b) {
  using Wide = __int128;
  switch (operation) {
    case ExprKind::kIndexAdd: return {Clamp(Wide{a.low} + b.low), Clamp(Wide{a.high} + b.high)};
    case ExprKind::kIndexSub: return {Clamp(Wide{a.low} - b.high), Clamp(Wide{a.high} - b.low)};
    case ExprKind::kIndexMul: return Product(a, b);
    case ExprKind::kFloorDiv: return Quotient(a, b);
    case ExprKind::kMod: return Remainder(a, b);
    case ExprKind::kIndexMin: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case ExprKind::kIndexMax: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default: return {};
  }
}

Interval RangeOf(const Form& form) {
  if (!form.IsKnown()) return {};
  __int128 low = form.constant(), high = form.constant();
  bool open_below = false, open_above = false;
  for (const Form::Term& term : form.terms()) {
    Interval range = term.atom->range;
    if (term.factor < 0) std::swap(range.low, range.high);
    low += static_cast<__int128>(term.factor) * range.low;
    high += static_cast<__int128>(term.factor) * range.high;
    open_below |= std::abs(range.low) == kInfinity;
    open_above |= std::abs(range.high) == kInfinity;
  }
  return {open_below ? -kInfinity : Clamp(low), open_above ? kInfinity : Clamp(high)};
}

bool IsNonNegative(const Form& form) {
  if (!form.IsKnown()) return false;
  if (RangeOf(form).low >= 0) return true;
  const auto is_symbolic = [](const Form::Term& term) { return term.atom->symbolic; };
  if (std::none_of(form.terms().begin(), form.terms().end(), is_symbolic)) return false;
  Space& space = *form.terms().front().atom->space;
  if (const auto known = space.non_negative_.find(form); known != space.non_negative_.end()) return known->second;
  const bool answer = IsNonNegativePolynomial(BoundOf(form, /*upper=*/false));
  return space.non_negative_[form] = answer;
}

int64_t Magnitude(const Form& form) {
  __int128 sum = AbsoluteValue(form.constant());
  int64_t inside = 0;
  for (const Form::Term& term : form.terms()) {
    sum += static_cast<__int128>(Largest(term.atom->range)) * AbsoluteValue(term.factor);
    inside = std::max(inside, term.atom->magnitude);
  }
  return std::max(Clamp(sum), inside);
}

std::vector<const Atom*> LeavesOf(const Form& form) {
  std::vector<const Atom*> leaves;
  for (const Form::Term& term : form.terms()) AddLeaves(term.atom->leaves, &leaves);
  return leaves;
}

bool Contains(const Form& form, const Atom* leaf) {
  return std::any_of(form.terms().begin(), form.terms().end(), [&](const Form::Term& term) {
    return std::find(term.atom->leaves.begin(), term.atom->leaves.end(), leaf) != term.atom->leaves.end();
  });
}

Form ExtentOf(const Atom* variable) {
  if (!variable->extent.terms().empty()) return variable->extent;
  if (variable->range.high == kInfinity) return Form::Unknown();
  return variable->range.high + 1;
}

}  // namespace rewright::index
