// The laws of one term, and the merging of equal terms.
#include <algorithm>
#include <map>

#include "verifier/algebra.h"
#include "verifier/algebra_internal.h"
#include "verifier/give_up.h"
#include "verifier/step_listener.h"

namespace rewright::verifier {
namespace {

// t without the bound variable v, which is `value` wherever the guard holds; `rest` is what the guard says besides.
void Eliminate(Context& ctx, Var v, const Poly& value, const std::vector<Guard>& rest, Term* t) {
  Term open{t->coef, {}, Guard::And(rest), t->atoms};
  for (Var other : t->bound) {
    if (other != v) open.bound.push_back(other);
  }
  Substitution s;
  s.Set(v, value);
  Term shorter = SubstFree(ctx, open, s);
  if (ctx.record->listener != nullptr) ctx.record->listener->Resummed(ctx, "one point", *t, shorter, s, {});
  *t = std::move(shorter);
}

// The same sum under a guard, or with indices, that are the same where the guard holds.
void Restated(Context& ctx, const char* law, const Term& before, const Term& after) {
  if (ctx.record->listener != nullptr) ctx.record->listener->Resummed(ctx, law, before, after, {}, {});
}

}  // namespace

// One-point rule: an equation in the guard that gives a bound variable removes it.
bool EliminateByEquation(Context& ctx, Term* t) {
  for (const Guard& g : Conjuncts(t->guard)) {
    if (!g.IsEq()) continue;
    for (Var v : t->bound) {
      int64_t coef = g.poly().Coef(v);
      if ((coef != 1 && coef != -1) || !g.poly().IsLinearIn(v)) continue;
      Poly value = Poly::Of(v) - g.poly() * Poly(coef);
      if (ctx.Mentions(value, {v})) continue;
      std::vector<Guard> rest;
      for (const Guard& other : Conjuncts(t->guard)) {
        if (other != g) rest.push_back(other);
      }
      Eliminate(ctx, v, value, rest, t);
      return true;
    }
  }
  return false;
}

// lo <= v and v <= lo: the same rule for a range of one point.
bool EliminateSingleton(Context& ctx, Term* t) {
  std::vector<Guard> parts = Conjuncts(t->guard);
  for (Var v : t->bound) {
    for (const Guard& lower : parts) {
      if (!lower.IsGe() || lower.poly().Coef(v) != 1 || !lower.poly().IsLinearIn(v)) continue;
      for (const Guard& upper : parts) {
        if (!upper.IsGe() || !(lower.poly() + upper.poly()).IsZero()) continue;
        std::vector<Guard> rest;
        for (const Guard& g : parts) {
          if (g != lower && g != upper) rest.push_back(g);
        }
        rest.insert(rest.begin(), Guard::Eq(lower.poly()));
        Term open = *t;
        open.guard = Guard::And(rest);
        const Term restated = open;
        if (!EliminateByEquation(ctx, &open)) continue;
        Restated(ctx, "range of one point", *t, restated);
        *t = std::move(open);
        return true;
      }
    }
  }
  return false;
}

namespace {

// p = factor * v + b with v in neither, and factor or -factor proved positive.
bool ScaledBy(Context& ctx, const Poly& p, Var v, Poly* factor, Poly* b) {
  if (!p.Decompose(v, factor, b) || factor->IsZero() || ctx.Mentions(*factor, {v}) || ctx.Mentions(*b, {v}))
    return false;
  return ctx.QuickNonneg(*factor - Poly(1)) || ctx.QuickNonneg(-*factor - Poly(1));
}

// d v = e says that d divides e and v = e div d, for d > 0.
bool EliminateByScale(Context& ctx, Term* t) {
  const std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].IsEq()) continue;
    for (Var v : t->bound) {
      Poly factor, b;
      if (!ScaledBy(ctx, parts[k].poly(), v, &factor, &b)) continue;
      const bool positive = ctx.QuickNonneg(factor - Poly(1));
      const Poly d = positive ? factor : -factor, e = positive ? -b : b;
      const Poly quotient = ctx.FloorDiv(e, d);
      std::vector<Guard> rest = parts;
      rest[k] = Guard::Eq(e - d * quotient);
      Eliminate(ctx, v, quotient, rest, t);
      return true;
    }
  }
  return false;
}

// 0 <= e - d v < d says v = e div d.
bool EliminateByQuotient(Context& ctx, Term* t) {
  const std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].IsGe()) continue;
    for (Var v : t->bound) {
      Poly factor, e;
      if (!ScaledBy(ctx, parts[k].poly(), v, &factor, &e) || !ctx.QuickNonneg(-factor - Poly(1))) continue;
      const Poly d = -factor;
      for (size_t l = 0; l < parts.size(); ++l) {
        if (l == k || !parts[l].IsGe() || parts[k].poly() + parts[l].poly() != d - Poly(1)) continue;
        std::vector<Guard> rest;
        for (size_t m = 0; m < parts.size(); ++m) {
          if (m != k && m != l) rest.push_back(parts[m]);
        }
        Eliminate(ctx, v, ctx.FloorDiv(e, d), rest, t);
        return true;
      }
    }
  }
  return false;
}

// a div d = e says 0 <= a - d e < d: where digits of a number are given, what the number is made of can be eliminated.
bool OpenQuotient(Context& ctx, Term* t) {
  std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].IsEq()) continue;
    const Poly p = parts[k].poly();
    for (Var q : p.Vars()) {
      const VarInfo info = ctx.Info(q);
      const int64_t coef = p.Coef(q);
      if (info.kind != VarInfo::Kind::kDiv || (coef != 1 && coef != -1) || !p.IsLinearIn(q)) continue;
      if (!ctx.Mentions(info.a, t->bound)) continue;
      const Poly e = Poly::Of(q) - p * Poly(coef), rest = info.a - info.b * e;
      parts[k] = Guard::Ge(rest);
      parts.push_back(Guard::Ge(info.b - Poly(1) - rest));
      Substitution s;
      s.Set(q, e);
      Term opened = SubstFree(ctx, Term{t->coef, t->bound, Guard::And(parts), t->atoms}, s);
      Restated(ctx, "open quotient", *t, opened);
      *t = std::move(opened);
      return true;
    }
  }
  return false;
}

// The v at which d divides v + e are the d w - e, one for each w; likewise for e - v.
bool CountMultiples(Context& ctx, Term* t) {
  std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].IsEq()) continue;
    const Poly p = parts[k].poly();
    for (Var q : p.Vars()) {
      const VarInfo info = ctx.Info(q);
      if (info.kind != VarInfo::Kind::kDiv ||
          (p != info.a - info.b * Poly::Of(q) && p != info.b * Poly::Of(q) - info.a))
        continue;
      for (Var v : t->bound) {
        const int64_t sign = info.a.Coef(v);
        const Poly e = info.a - Poly::Of(v) * Poly(sign);
        if ((sign != 1 && sign != -1) || ctx.Mentions(e, {v}) || ctx.Mentions(info.b, {v})) continue;
        parts.erase(parts.begin() + static_cast<int64_t>(k));
        const Var w = ctx.NewLocal(ctx.Info(v).name);
        Term open{t->coef, t->bound, Guard::And(parts), t->atoms};
        std::replace(open.bound.begin(), open.bound.end(), v, w);
        Substitution s;
        s.Set(v, (info.b * Poly::Of(w) - e) * Poly(sign));
        Term counted = SubstFree(ctx, open, s);
        if (ctx.record->listener != nullptr) {
          Substitution back;
          back.Set(w, Poly::Of(q));
          ctx.record->listener->Resummed(ctx, "multiples", *t, counted, s, back);
        }
        *t = std::move(counted);
        return true;
      }
    }
  }
  return false;
}

// Where p = a * unit + b for a unit that is a product of parameters, or the divisor of a quotient in p.
struct Scaled {
  Poly unit, a, b;
  bool never_positive = false;  // -p is the remainder of that quotient
};

std::vector<Scaled> ScaledParts(const Context& ctx, const Poly& p) {
  std::vector<Scaled> out;
  for (Var q : p.Vars()) {
    Poly a, b;
    if (ctx.Info(q).kind != VarInfo::Kind::kDiv || !p.Decompose(q, &a, &b)) continue;
    if (a == ctx.Info(q).b) out.push_back({a, Poly::Of(q), b, b == -ctx.Info(q).a});
    if (a == -ctx.Info(q).b) out.push_back({-a, -Poly::Of(q), b});
  }
  for (const Poly::Item& item : p.items()) {
    Monomial unit;
    for (Var v : item.vars) {
      if (ctx.IsParam(v)) unit.push_back(v);
    }
    if (unit.empty() || unit.size() == item.vars.size()) continue;
    std::vector<Poly::Item> a, b;
    for (const Poly::Item& other : p.items()) {
      Monomial rest;
      if (DivideMonomial(other.vars, unit, &rest)) {
        a.push_back({rest, other.coef});
      } else {
        b.push_back(other);
      }
    }
    if (!b.empty()) out.push_back({Poly::Of(unit, 1), Poly::FromItems(a), Poly::FromItems(b)});
  }
  return out;
}

// a * unit + b = 0 with |b| < unit says a = 0 and b = 0: digits of equal numbers are equal, and a small number that is
// a multiple is zero. The bounds must follow from the other conditions.
bool SplitEquation(Context& ctx, Term* t) {
  const std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].IsGe() && !parts[k].IsEq()) continue;
    std::vector<Guard> others = parts;
    others.erase(others.begin() + static_cast<int64_t>(k));
    for (const Scaled& way : ScaledParts(ctx, parts[k].poly())) {
      // A remainder is never negative: it is at most zero where it is zero.
      if (parts[k].IsGe() && !way.never_positive) continue;
      const std::vector<Poly> bounds = {way.unit - Poly(1), way.unit - Poly(1) - way.b, way.unit - Poly(1) + way.b};
      if (!ctx.ProveNonneg(bounds, others, t->bound, Context::Effort::kLinear)) continue;
      others.push_back(Guard::Eq(way.a));
      others.push_back(Guard::Eq(way.b));
      const Term before = *t;
      t->guard = Guard::And(others);
      Restated(ctx, "split equation", before, *t);
      return true;
    }
  }
  return false;
}

// 0 <= a * unit + b < unit with 0 <= b < unit says a = 0.
bool SplitRange(Context& ctx, Term* t) {
  const std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    for (size_t l = 0; l < parts.size(); ++l) {
      if (l == k || !parts[k].IsGe() || !parts[l].IsGe()) continue;
      const Poly width = parts[k].poly() + parts[l].poly() + Poly(1);
      for (const Scaled& way : ScaledParts(ctx, parts[k].poly())) {
        if (way.unit != width || way.a.IsConst()) continue;
        std::vector<Guard> others;
        for (size_t m = 0; m < parts.size(); ++m) {
          if (m != k && m != l) others.push_back(parts[m]);
        }
        if (!ctx.ProveNonneg({width - Poly(1), way.b, width - Poly(1) - way.b}, others, t->bound,
                             Context::Effort::kLinear))
          continue;
        others.push_back(Guard::Eq(way.a));
        const Term before = *t;
        t->guard = Guard::And(others);
        Restated(ctx, "split range", before, *t);
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool MentionedByAtoms(const Term& t, Var v) {
  return std::any_of(t.atoms.begin(), t.atoms.end(),
                     [v](const Atom& a) { return std::binary_search(a->vars.begin(), a->vars.end(), v); });
}

// The plain bounds lo <= v < lo + count of a variable that nothing else mentions. `rest` is the guard without them.
bool PlainRange(Context& ctx, const std::vector<Var>& bound, const Guard& guard, Var v, Poly* count, Guard* rest) {
  std::vector<Guard> with, without;
  for (const Guard& g : Conjuncts(guard)) (ctx.Mentions(g, {v}) ? with : without).push_back(g);
  // Bounds that the others imply go first. The variable's recorded range must not be used: these are its guards.
  for (size_t i = 0; with.size() > 2 && i < with.size();) {
    std::vector<Guard> others = without;
    for (size_t j = 0; j < with.size(); ++j) {
      if (j != i) others.push_back(with[j]);
    }
    if (with[i].IsGe() && ctx.ProveNonneg({with[i].poly()}, others, bound)) {
      with.erase(with.begin() + static_cast<int64_t>(i));
    } else {
      ++i;
    }
  }
  if (with.size() != 2 || !with[0].IsGe() || !with[1].IsGe()) return false;
  if (!with[0].poly().IsLinearIn(v) || !with[1].poly().IsLinearIn(v)) return false;
  if (ctx.HasDefinition(with[0].poly()) || ctx.HasDefinition(with[1].poly())) {
    for (const Guard& g : with) {
      if (ctx.Mentions(g.poly() - Poly::Of(Monomial{v}, g.poly().Coef(v)), {v})) return false;
    }
  }
  if (with[0].poly().Coef(v) * with[1].poly().Coef(v) != -1) return false;
  Poly n = with[0].poly() + with[1].poly() + Poly(1);
  if (ctx.Mentions(n, bound)) return false;
  std::vector<Guard> known;
  for (const Guard& g : without) {
    if (!ctx.Mentions(g, bound)) known.push_back(g);
  }
  if (!ctx.ProveNonneg({n}, known)) return false;
  *count = n;
  *rest = Guard::And(without);
  return true;
}

namespace {

bool CountUnused(Context& ctx, Term* t) {
  for (Var v : t->bound) {
    if (MentionedByAtoms(*t, v)) continue;
    Poly count;
    Guard rest;
    if (!PlainRange(ctx, t->bound, t->guard, v, &count, &rest)) continue;
    const Term before = *t;
    t->bound.erase(std::find(t->bound.begin(), t->bound.end(), v));
    t->guard = rest;
    t->atoms.push_back(MakeIntAtom(ctx, count));
    if (ctx.record->listener != nullptr) ctx.record->listener->Counted(ctx, before, *t, v, count);
    return true;
  }
  return false;
}

void ShortenGuard(Context& ctx, Term* t) {
  Guard shorter = SimplifyGuard(ctx, t->guard, t->bound);
  if (ctx.record->listener != nullptr && shorter != t->guard) {
    if (shorter.IsFalse()) {
      ctx.record->listener->Vanished(ctx, *t);
    } else {
      Restated(ctx, "guard", *t, Term{t->coef, t->bound, shorter, t->atoms});
    }
  }
  t->guard = std::move(shorter);
}

// False when the term is zero.
bool SimplifyTerm(Context& ctx, Term* t) {
  if (t->coef.IsZero() || t->guard.IsFalse()) return false;
  ShortenGuard(ctx, t);
  for (bool again = true; again;) {
    if (t->guard.IsFalse()) return false;
    again = SplitEquation(ctx, t) || SplitRange(ctx, t) || EliminateByEquation(ctx, t) || EliminateSingleton(ctx, t) ||
            CountUnused(ctx, t) || (ctx.strategy.digits && OpenQuotient(ctx, t)) ||
            (ctx.strategy.quotients && (EliminateByQuotient(ctx, t) || EliminateByScale(ctx, t))) ||
            (ctx.strategy.digits && CountMultiples(ctx, t));
    if (again) ShortenGuard(ctx, t);
  }
  while (SimplifyFactors(ctx, t)) {
  }
  if (t->coef.IsZero()) return false;
  std::stable_sort(t->atoms.begin(), t->atoms.end(), [](const Atom& a, const Atom& b) { return a->head < b->head; });
  return true;
}

}  // namespace

namespace {

// The bound variables whose recorded range is not stated by conditions other than `apart`.
std::vector<Var> Unguarded(const Context& ctx, const std::vector<Guard>& parts, const Guard& apart,
                           const std::vector<Var>& bound) {
  auto stated = [&](const Poly& p) {
    const Guard g = Guard::Ge(p);
    return g.IsTrue() || (g != apart && std::find(parts.begin(), parts.end(), g) != parts.end());
  };
  std::vector<Var> out;
  for (Var v : bound) {
    const auto& range = ctx.Info(v).range;
    const bool guarded =
        range.has_value() && stated(Poly::Of(v) - range->first) && stated(range->second - Poly::Of(v) - Poly(1));
    if (!guarded) out.push_back(v);
  }
  return out;
}

}  // namespace

Guard SimplifyGuard(Context& ctx, const Guard& g, const std::vector<Var>& bound) {
  std::vector<Guard> parts = Conjuncts(g);
  if (parts.size() < 2) {
    return parts.size() == 1 && parts[0].IsGe() && ctx.TriviallyNonneg(parts[0].poly()) ? Guard::True() : g;
  }
  std::vector<Guard> keep = parts;
  for (const Guard& c : parts) {
    if (!c.IsGe()) continue;
    bool implied = ctx.TriviallyNonneg(c.poly());
    for (const Guard& d : keep) {
      if (implied) break;
      if (!d.IsGe() || d == c) continue;
      if (ctx.TriviallyNonneg(-(c.poly() + d.poly()) - Poly(1))) return Guard::False();
      implied = ctx.TriviallyNonneg(c.poly() - d.poly());
    }
    if (implied) keep.erase(std::find(keep.begin(), keep.end(), c));
  }
  for (size_t i = 0; i < keep.size();) {
    const Guard c = keep[i];
    if (c.IsGe() && ctx.QuickNonneg(c.poly(), Unguarded(ctx, keep, c, bound))) {
      keep.erase(keep.begin() + static_cast<int64_t>(i));
    } else {
      ++i;
    }
  }
  return Guard::And(keep);
}

bool Project(const Context& ctx, const Guard& guard, Var v, std::vector<Poly>* conditions, Guard* rest) {
  constexpr size_t kMaxBounds = 12;
  struct Bound {
    Poly scale, other;  // scale * v + other >= 0 or -scale * v + other >= 0, scale >= 1
  };
  std::vector<Bound> lower, upper;
  std::vector<Guard> without;
  for (const Guard& g : Conjuncts(guard)) {
    if (!ctx.Mentions(g, {v})) {
      without.push_back(g);
      continue;
    }
    Poly scale, other;
    if (!g.IsGe() || !g.poly().Decompose(v, &scale, &other) || ctx.Mentions(other, {v})) return false;
    const std::vector<Var> factors = scale.Vars();
    if (!std::all_of(factors.begin(), factors.end(), [&](Var x) { return ctx.IsParam(x); })) return false;
    if (ctx.QuickNonneg(scale - Poly(1))) {
      lower.push_back({scale, other});
    } else if (ctx.QuickNonneg(-scale - Poly(1))) {
      upper.push_back({-scale, other});
    } else {
      return false;
    }
  }
  if (lower.size() + upper.size() > kMaxBounds) return false;
  for (const Bound& low : lower) {
    for (const Bound& high : upper) {
      conditions->push_back(low.scale == high.scale ? low.other + high.other - low.scale + Poly(1)
                                                    : low.scale * high.other + high.scale * low.other -
                                                          (low.scale - Poly(1)) * (high.scale - Poly(1)));
    }
  }
  *rest = Guard::And(without);
  return true;
}

bool HasPoint(Context& ctx, const Branch& family) {
  Guard guard = family.guard;
  for (Var v : family.bound) {
    std::vector<Poly> conditions;
    Guard rest;
    if (!Project(ctx, guard, v, &conditions, &rest)) return false;
    std::vector<Guard> parts = {rest};
    for (const Poly& p : conditions) parts.push_back(Guard::Ge(p));
    guard = Guard::And(parts);
  }
  std::vector<Poly> goals;
  for (const Guard& g : Conjuncts(guard)) {
    if (!g.IsGe()) return false;
    goals.push_back(g.poly());
  }
  return ctx.ProveNonneg(goals, ctx.assumptions);
}

bool SimplifyFamily(Context& ctx, Branch* family, bool repeats) {
  Term t{1, family->bound, family->guard, {MakeFnAtom(ctx, "body", {family->body})}};
  ShortenGuard(ctx, &t);
  for (bool again = true; again;) {
    if (t.guard.IsFalse()) return false;
    again = EliminateByEquation(ctx, &t) || EliminateSingleton(ctx, &t);
    for (size_t i = 0; !repeats && !again && i < t.bound.size(); ++i) {
      std::vector<Poly> conditions;
      Guard rest;
      if (MentionedByAtoms(t, t.bound[i]) || !Project(ctx, t.guard, t.bound[i], &conditions, &rest)) continue;
      if (!ctx.ProveNonneg(conditions, Conjuncts(rest), t.bound)) continue;
      t.bound.erase(t.bound.begin() + static_cast<int64_t>(i));
      t.guard = rest;
      again = true;
    }
    if (again) ShortenGuard(ctx, &t);
  }
  *family = Branch{t.bound, t.guard, t.atoms[0]->args[0]};
  return true;
}

namespace {

// The terms for which `prepare` says that they are not zero, equal ones as one.
template <typename Prepare>
NormalForm MergedTerms(Context& ctx, const NormalForm& n, Prepare prepare) {
  if (n.size() > MostTerms(ctx)) throw GiveUp("a normal form grew too large");
  ctx.record->CheckTime();
  NormalForm out, parts;
  std::vector<size_t> places;
  const bool told = ctx.record->listener != nullptr;
  std::map<std::string, size_t> place;
  for (const Term& original : n) {
    Term t = original;
    if (!prepare(&t)) continue;
    auto [it, inserted] = place.emplace(TermKey(ctx, t), out.size());
    if (told) {
      parts.push_back(t);
      places.push_back(it->second);
    }
    if (inserted) {
      out.push_back(std::move(t));
    } else {
      out[it->second].coef = out[it->second].coef + t.coef;
    }
  }
  if (told) ctx.record->listener->Collected(ctx, parts, places, out);
  out.erase(std::remove_if(out.begin(), out.end(), [](const Term& t) { return t.coef.IsZero(); }), out.end());
  return out;
}

}  // namespace

NormalForm Simplify(Context& ctx, const NormalForm& n) {
  return MergedTerms(ctx, n, [&](Term* t) { return SimplifyTerm(ctx, t); });
}

NormalForm Merged(Context& ctx, const NormalForm& n) {
  return MergedTerms(ctx, n, [](const Term*) { return true; });
}

}  // namespace rewright::verifier
