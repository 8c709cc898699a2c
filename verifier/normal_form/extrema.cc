#include "verifier/normal_form/extrema.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "verifier/integer/give_up.h"
#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/monotone.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/one_term.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/signs.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

constexpr size_t kMostFamilies = 64;

// Flattens nested maxima and splits families whose body is a guarded alternative.
void FlattenFamily(Context& ctx, const std::string& binder, Family b, Families* out) {
  if (out->size() > kMostFamilies) throw GiveUp("a maximum has too many families");
  if (!SimplifyFamily(ctx, &b, /*repeats=*/false)) return;
  if (IsSingleAtom(b.body, AtomNode::Kind::kBinder) && b.body[0].atoms[0]->name == binder) {
    for (const Family& inner : b.body[0].atoms[0]->families) {
      Family renamed = RenameBound(ctx, inner);
      Family joined = b;
      joined.bound.insert(joined.bound.end(), renamed.bound.begin(), renamed.bound.end());
      joined.guard = Guard::And(b.guard, renamed.guard);
      joined.body = renamed.body;
      FlattenFamily(ctx, binder, std::move(joined), out);
    }
    return;
  }
  std::vector<Guard> literals = FreeLiterals(ctx, b.body);
  if (literals.empty()) {
    out->push_back(std::move(b));
    return;
  }
  const Guard yes = literals[0], no = Guard::Not(yes);
  for (const auto& [holds, fails] : {std::make_pair(yes, no), std::make_pair(no, yes)}) {
    Family part{b.bound, Guard::And(b.guard, holds), AssumeForm(ctx, b.body, holds, fails)};
    FlattenFamily(ctx, binder, RenameBound(ctx, part), out);
  }
}

bool FreeOf(const Term& t, const Context& ctx, const std::vector<Var>& bound) {
  return bound.empty() || !Intersects(FreeVars(ctx, t), bound);
}

// True if the families hold a point at all sizes. Asks at most once.
class Nonempty {
 public:
  Nonempty(Context& ctx, const Families& families) : ctx_(ctx), families_(families) {}
  bool operator()() {
    if (!known_)
      known_ = std::any_of(families_.begin(), families_.end(), [this](const Family& b) { return HasPoint(ctx_, b); });
    return *known_;
  }

 private:
  Context& ctx_;
  const Families& families_;
  std::optional<bool> known_;
};

bool HasExtremum(const NormalForm& n);
bool HasExtremum(const Term& t) {
  return std::any_of(t.atoms.begin(), t.atoms.end(), [](const Atom& a) {
    return a->kind == AtomNode::Kind::kBinder ||
           std::any_of(a->args.begin(), a->args.end(), [](const NormalForm& arg) { return HasExtremum(arg); });
  });
}
bool HasExtremum(const NormalForm& n) {
  return std::any_of(n.begin(), n.end(), [](const Term& t) { return HasExtremum(t); });
}

// max(x + c) = max(x) + c: the terms that every family adds. The maximum of nothing is minus infinity and stays that,
// unless c may be the extremum of nothing itself.
NormalForm PullCommonTerms(Context& ctx, Nonempty* nonempty, Families* families) {
  NormalForm common;
  const Family first = (*families)[0];
  for (const Term& t : first.body) {
    if (!FreeOf(t, ctx, first.bound)) continue;
    if (HasExtremum(t) && !(*nonempty)()) continue;
    const std::string key = t.coef.ToString() + TermKey(ctx, t);
    std::vector<size_t> places;
    for (const Family& b : *families) {
      size_t place = 0;
      while (place < b.body.size() && (!FreeOf(b.body[place], ctx, b.bound) ||
                                       b.body[place].coef.ToString() + TermKey(ctx, b.body[place]) != key)) {
        ++place;
      }
      if (place == b.body.size()) break;
      places.push_back(place);
    }
    if (places.size() != families->size()) continue;
    for (size_t i = 0; i < places.size(); ++i) {
      NormalForm& body = (*families)[i].body;
      body.erase(body.begin() + static_cast<int64_t>(places[i]));
    }
    common.push_back(t);
  }
  return common;
}

int64_t Gcd(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 ? -a : a;
}

// A factor that can be taken out of a maximum: an atom, once or as a square.
struct Factor {
  Atom atom;  // null: nothing
  int times = 1;
};

// Finds an atom that is a factor of every term of every family, is > 0 and mentions no variable of the families. The
// atom may be 0 if the families have a point, since minus infinity times 0 is not a number. Other atoms leave the
// maximum as squares, which are >= 0.
Factor CommonFactor(Context& ctx, Nonempty* nonempty, const Families& families) {
  const Term* first = nullptr;
  for (const Family& b : families) {
    if (!b.body.empty() && first == nullptr) first = &b.body[0];
  }
  if (first == nullptr) return {};
  for (const Atom& a : first->atoms) {
    const std::string key = AtomKey(ctx, a);
    int64_t times = 2;
    for (const Family& b : families) {
      for (const Term& t : b.body) {
        times = std::min(times, std::count_if(t.atoms.begin(), t.atoms.end(), [&](const Atom& x) {
                           return x->skeleton == a->skeleton && !Intersects(x->vars, b.bound) &&
                                  !Intersects(x->vars, t.bound) && AtomKey(ctx, x) == key;
                         }));
      }
    }
    if (times == 0) continue;
    if (IsPositiveAtom(ctx, a) || (IsNonnegativeAtom(ctx, a) && (*nonempty)())) return {a, 1};
    if (times == 2 && ctx.strategy.finite_laws && (*nonempty)()) {
      ctx.used_finite_law = true;
      return {a, 2};
    }
  }
  return {};
}

// Keeps only the largest (or smallest) of the constants that take part without a condition. An integer beyond its type
// is another integer there.
void KeepExtremeConstant(const std::string& binder, std::map<std::string, Family>* families) {
  const bool least = binder.starts_with("min");
  Rational value, extreme;
  auto at = families->end();
  for (auto it = families->begin(); it != families->end();) {
    const Family& b = it->second;
    const bool counts = b.bound.empty() && b.guard.IsTrue() && IsConstant(b.body, &value);
    if (!counts || (IsIntegerFunction(binder) && !FitsType(value, binder))) {
      ++it;
    } else if (at == families->end() || (least ? value - extreme : extreme - value).Sign() < 0) {
      if (at != families->end()) families->erase(at);
      extreme = value;
      at = it++;
    } else {
      it = families->erase(it);
    }
  }
}

// Without families whose values are at most the constant that takes part without a condition, and without that constant
// where another family that has a point is at least as large.
void DropDominated(Context& ctx, std::map<std::string, Family>* families) {
  Rational value;
  const auto constant = std::find_if(families->begin(), families->end(), [&](const auto& entry) {
    const Family& b = entry.second;
    return b.bound.empty() && b.guard.IsTrue() && IsConstant(b.body, &value);
  });
  if (constant == families->end() || families->size() == 1) return;
  const auto above = [&](const NormalForm& n, int64_t sign) {
    return IsNonnegative(ctx, value.IsZero() ? Scale(n, sign) : Add(ctx, Scale(n, sign), ConstantForm(value * -sign)));
  };
  bool dominated = false;
  for (auto it = families->begin(); it != families->end();) {
    const bool other = it != constant;
    if (other && above(it->second.body, -1)) {
      it = families->erase(it);
      continue;
    }
    dominated = dominated || (other && above(it->second.body, 1) && HasPoint(ctx, it->second));
    ++it;
  }
  if (dominated) families->erase(constant);
}

}  // namespace

Rational ContentOf(const Families& families) {
  int64_t num = 0, den = 1;
  for (const Family& b : families) {
    for (const Term& t : b.body) {
      num = Gcd(num, t.coef.num());
      den = (Rational(den) * Rational(t.coef.den() / Gcd(den, t.coef.den()))).num();
    }
  }
  return num == 0 ? Rational(1) : Rational(num, den);
}

void RemoveFactor(const Context& ctx, const Atom& factor, NormalForm* n) {
  const std::string key = AtomKey(ctx, factor);
  for (Term& t : *n) {
    auto it = std::find_if(t.atoms.begin(), t.atoms.end(),
                           [&](const Atom& x) { return x->skeleton == factor->skeleton && AtomKey(ctx, x) == key; });
    t.atoms.erase(it);
  }
}

NormalForm MaxOver(Context& ctx, const std::vector<Family>& families) { return ExtremumOver(ctx, "max", families); }

namespace {

NormalForm Extremum(Context& ctx, const std::string& binder, const std::vector<Family>& families) {
  Families flat;
  for (const Family& b : families) FlattenFamily(ctx, binder, b, &flat);
  if (flat.empty()) return AtomForm(MakeBinderAtom(ctx, binder, {}));
  NormalForm common;
  NormalForm factor = ConstantForm(1);
  // Sums and multiples of integers wrap around, so nothing comes out of an extremum of theirs.
  if (!IsIntegerFunction(binder)) {
    Nonempty nonempty(ctx, families);
    common = PullCommonTerms(ctx, &nonempty, &flat);
    Rational content = ContentOf(flat);
    if (!content.IsOne()) {
      for (Family& b : flat) b.body = Scale(b.body, Rational(1) / content);
      factor = Scale(factor, content);
    }
    for (Factor f = CommonFactor(ctx, &nonempty, flat); f.atom != nullptr; f = CommonFactor(ctx, &nonempty, flat)) {
      for (Family& b : flat) {
        for (int i = 0; i < f.times; ++i) RemoveFactor(ctx, f.atom, &b.body);
        b.body = Simplify(ctx, b.body);
      }
      for (int i = 0; i < f.times; ++i) factor = Multiply(ctx, factor, AtomForm(f.atom));
    }
    NormalForm pulled;
    if (PullIncreasing(ctx, &flat, &pulled)) flat = {{{}, Guard::True(), std::move(pulled)}};
  }
  std::map<std::string, Family> distinct;
  for (const Family& b : flat) distinct.emplace(FamilyKey(ctx, b), b);
  KeepExtremeConstant(binder, &distinct);
  if (binder == "max") DropDominated(ctx, &distinct);
  NormalForm result;
  if (distinct.size() == 1 && distinct.begin()->second.bound.empty() && distinct.begin()->second.guard.IsTrue()) {
    result = distinct.begin()->second.body;
  } else {
    Families sorted;
    for (auto& entry : distinct) sorted.push_back(std::move(entry.second));
    result = AtomForm(MakeBinderAtom(ctx, binder, std::move(sorted)));
  }
  Rational one;
  if (!IsConstant(factor, &one) || !one.IsOne()) result = Multiply(ctx, factor, result);
  return common.empty() ? result : Add(ctx, result, common);
}

}  // namespace

NormalForm ExtremumOver(Context& ctx, const std::string& binder, const std::vector<Family>& families) {
  NormalForm out = Extremum(ctx, binder, families);
  if (ProofObserver* observer = ObserverOf(ctx)) {
    observer->Equal(ctx, Law::kExtremum, Guard::True(), AtomForm(MakeBinderAtom(ctx, binder, families)), out);
  }
  return out;
}

}  // namespace rewright::verifier
