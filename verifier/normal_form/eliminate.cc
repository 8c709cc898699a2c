#include "verifier/normal_form/eliminate.h"

#include <algorithm>

#include "core/index/laws.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {

std::optional<Poly> SolvedFor(const Context& ctx, const Poly& p, Var v) {
  const int64_t factor = p.Coef(v);
  if ((factor != 1 && factor != -1) || !p.IsLinearIn(v)) return std::nullopt;
  const Poly rest = p - Poly::Of(Monomial{v}, factor);
  if (ctx.Mentions(rest, {v})) return std::nullopt;
  return index::Laws<Context>::Solve(factor, rest);
}

void Restated(Context& ctx, Law law, const Term& before, const Term& after) {
  if (ProofObserver* observer = ObserverOf(ctx)) observer->Resummed(ctx, law, before, after, {}, {});
}

namespace {

// Removes the bound variable v, which is `value` wherever the guard holds; `rest` are the guard's other conditions.
void Eliminate(Context& ctx, Var v, const Poly& value, const std::vector<Guard>& rest, Term* t) {
  Term open{t->coef, {}, Guard::And(rest), t->atoms};
  for (Var other : t->bound) {
    if (other != v) open.bound.push_back(other);
  }
  Substitution s;
  s.Set(v, value);
  Term shorter = SubstFree(ctx, open, s);
  if (ProofObserver* observer = ObserverOf(ctx)) observer->Resummed(ctx, Law::kOnePoint, *t, shorter, s, {});
  *t = std::move(shorter);
}

bool EliminateByEquation(Context& ctx, Term* t, bool with_elements) {
  for (const Guard& g : Conjuncts(t->guard)) {
    if (!g.IsEq() || ctx.MentionsElements(g.poly()) != with_elements) continue;
    for (Var v : t->bound) {
      const std::optional<Poly> value = SolvedFor(ctx, g.poly(), v);
      if (!value) continue;
      std::vector<Guard> rest;
      for (const Guard& other : Conjuncts(t->guard)) {
        if (other != g) rest.push_back(other);
      }
      Eliminate(ctx, v, *value, rest, t);
      return true;
    }
  }
  return false;
}

// p = factor * v + b with v in neither, and factor or -factor proved positive.
bool ScaledBy(Context& ctx, const Poly& p, Var v, Poly* factor, Poly* b) {
  if (!p.Decompose(v, factor, b) || factor->IsZero() || ctx.Mentions(*factor, {v}) || ctx.Mentions(*b, {v}))
    return false;
  return ctx.QuickNonneg(*factor - Poly(1)) || ctx.QuickNonneg(-*factor - Poly(1));
}

// d v = e says that d divides e and v = e div d, for d > 0.
bool EliminateByScale(Context& ctx, Term* t, bool with_elements) {
  const std::vector<Guard> parts = Conjuncts(t->guard);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!parts[k].IsEq() || (!with_elements && ctx.MentionsElements(parts[k].poly()))) continue;
    for (Var v : t->bound) {
      Poly factor, b;
      if (!ScaledBy(ctx, parts[k].poly(), v, &factor, &b)) continue;
      const bool positive = ctx.QuickNonneg(factor - Poly(1));
      const Poly d = positive ? factor : -factor, e = positive ? -b : b;
      const auto conclusion = index::Laws<Context>{ctx}.Scale(d, e);
      std::vector<Guard> rest = parts;
      rest[k] = Guard::Eq(conclusion.zero[0]);
      Term open{t->coef, t->bound, Guard::And(rest), t->atoms};
      open.bound.erase(std::find(open.bound.begin(), open.bound.end(), v));
      Term shorter = SubstQuotient(ctx, open, v, d, e, conclusion.value[0]);
      if (ProofObserver* observer = ObserverOf(ctx)) {
        Substitution s;
        s.Set(v, conclusion.value[0]);
        observer->Resummed(ctx, Law::kScale, *t, shorter, s, {});
      }
      *t = std::move(shorter);
      return true;
    }
  }
  return false;
}

}  // namespace

// One-point rule: an equation in the guard that gives a bound variable removes it. Variables outside of elements that
// are indices are solved for first, by division if need be.
bool EliminateByEquation(Context& ctx, Term* t) {
  if (EliminateByEquation(ctx, t, /*with_elements=*/false)) return true;
  const std::vector<Guard> parts = Conjuncts(t->guard);
  const bool elements = std::any_of(parts.begin(), parts.end(),
                                    [&](const Guard& g) { return g.IsEq() && ctx.MentionsElements(g.poly()); });
  return elements && ((ctx.strategy.quotients && EliminateByScale(ctx, t, /*with_elements=*/false)) ||
                      EliminateByEquation(ctx, t, /*with_elements=*/true));
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
        Restated(ctx, Law::kRangeOfOnePoint, *t, restated);
        *t = std::move(open);
        return true;
      }
    }
  }
  return false;
}

namespace {

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
        Eliminate(ctx, v, index::Laws<Context>{ctx}.Range(d, e), rest, t);
        return true;
      }
    }
  }
  return false;
}

// Replaces a div d = e by 0 <= a - d e < d: if digits of a number are given, the variables that it is made of can be
// eliminated.
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
      const Poly e = index::Laws<Context>::Solve(coef, p - Poly::Of(Monomial{q}, coef));
      const auto conclusion = index::Laws<Context>::Opened(info.a, info.b, e);
      parts[k] = Guard::Ge(conclusion.nonnegative[0]);
      parts.push_back(Guard::Ge(conclusion.nonnegative[1]));
      Substitution s;
      s.Set(q, e);
      Term opened = SubstFree(ctx, Term{t->coef, t->bound, Guard::And(parts), t->atoms}, s);
      Restated(ctx, Law::kOpenQuotient, *t, opened);
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
        s.Set(v, index::Laws<Context>::Multiple(e, info.b, Poly::Of(w)) * Poly(sign));
        Term counted = SubstFree(ctx, open, s);
        if (ProofObserver* observer = ObserverOf(ctx)) {
          Substitution back;
          back.Set(w, Poly::Of(q));
          observer->Resummed(ctx, Law::kMultiples, *t, counted, s, back);
        }
        *t = std::move(counted);
        return true;
      }
    }
  }
  return false;
}

// Splits p = a * unit + b for a unit that is a product of parameters, or the divisor of a quotient in p.
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
    const auto [a, b] = p.Divided(unit);
    if (!b.IsZero()) out.push_back({Poly::Of(unit, 1), a, b});
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
      for (const Poly& zero : index::Laws<Context>::Apart(way.a, way.b).zero) others.push_back(Guard::Eq(zero));
      const Term before = *t;
      t->guard = Guard::And(others);
      Restated(ctx, Law::kSplitEquation, before, *t);
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
        for (const Poly& zero : index::Laws<Context>::Within(way.a).zero) others.push_back(Guard::Eq(zero));
        const Term before = *t;
        t->guard = Guard::And(others);
        Restated(ctx, Law::kSplitRange, before, *t);
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool SplitCondition(Context& ctx, Term* t) { return SplitEquation(ctx, t) || SplitRange(ctx, t); }

bool EliminateByDivision(Context& ctx, Term* t) {
  return (ctx.strategy.digits && OpenQuotient(ctx, t)) ||
         (ctx.strategy.quotients &&
          (EliminateByQuotient(ctx, t) || EliminateByScale(ctx, t, /*with_elements=*/true))) ||
         (ctx.strategy.digits && CountMultiples(ctx, t));
}

}  // namespace rewright::verifier
