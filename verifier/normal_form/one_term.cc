#include "verifier/normal_form/one_term.h"

#include <algorithm>
#include <map>

#include "verifier/integer/give_up.h"
#include "verifier/normal_form/eliminate.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/product_laws.h"
#include "verifier/normal_form/proof_observer.h"

namespace rewright::verifier {
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
    if (ProofObserver* observer = ObserverOf(ctx)) observer->Counted(ctx, before, *t, v, count);
    return true;
  }
  return false;
}

void ShortenGuard(Context& ctx, Term* t) {
  Guard shorter = SimplifyGuard(ctx, t->guard, t->bound);
  if (ProofObserver* observer = shorter != t->guard ? ObserverOf(ctx) : nullptr) {
    if (shorter.IsFalse()) {
      observer->Vanished(ctx, *t);
    } else {
      Restated(ctx, Law::kGuard, *t, Term{t->coef, t->bound, shorter, t->atoms});
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
    again = SplitCondition(ctx, t) || EliminateByEquation(ctx, t) || EliminateSingleton(ctx, t) ||
            CountUnused(ctx, t) || EliminateByDivision(ctx, t);
    if (again) ShortenGuard(ctx, t);
  }
  while (SimplifyFactors(ctx, t)) {
  }
  if (t->coef.IsZero()) return false;
  std::stable_sort(t->atoms.begin(), t->atoms.end(),
                   [](const Atom& a, const Atom& b) { return a->skeleton < b->skeleton; });
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

bool HasPoint(Context& ctx, const Family& family) {
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

bool SimplifyFamily(Context& ctx, Family* family, bool repeats) {
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
  *family = Family{t.bound, t.guard, t.atoms[0]->args[0]};
  return true;
}

namespace {

// Terms of a normal form, each once. Equal terms have equal skeletons, so that texts are made only of terms whose
// skeleton another one has, too.
class DistinctTerms {
 public:
  explicit DistinctTerms(const Variables& ctx) : ctx_(ctx) {}

  // Adds the term, or its coefficient to that of an equal one; returns its place.
  size_t Add(Term t) {
    const size_t place = PlaceOf(t);
    if (place == terms_.size()) {
      terms_.push_back(std::move(t));
    } else {
      terms_[place].coef = terms_[place].coef + t.coef;
    }
    return place;
  }

  NormalForm& terms() { return terms_; }

 private:
  // The terms of one skeleton: the first one, while it is alone, or the places by text.
  struct Alike {
    size_t first;
    std::map<std::string, size_t> places;
  };

  size_t PlaceOf(const Term& t) {
    const size_t next = terms_.size();
    const auto [it, fresh] = alike_.try_emplace(SkeletonOf(t), Alike{next, {}});
    if (fresh) return next;
    Alike& alike = it->second;
    if (alike.places.empty()) alike.places.emplace(TermKey(ctx_, terms_[alike.first]), alike.first);
    return alike.places.emplace(TermKey(ctx_, t), next).first->second;
  }

  const Variables& ctx_;
  NormalForm terms_;
  std::map<std::string, Alike> alike_;
};

// The terms for which `prepare` says that they are not zero, equal ones as one.
template <typename Prepare>
NormalForm MergedTerms(Context& ctx, const NormalForm& n, Prepare prepare) {
  if (n.size() > MostTerms(ctx)) throw GiveUp("a normal form grew too large");
  ctx.session->CheckLimit();
  NormalForm parts;
  std::vector<size_t> places;
  ProofObserver* const observer = ObserverOf(ctx);
  DistinctTerms distinct(ctx);
  for (const Term& original : n) {
    Term t = original;
    if (!prepare(&t)) continue;
    if (observer != nullptr) parts.push_back(t);
    places.push_back(distinct.Add(std::move(t)));
  }
  NormalForm out = std::move(distinct.terms());
  if (observer != nullptr) observer->Collected(ctx, parts, places, out);
  out.erase(std::remove_if(out.begin(), out.end(), [](const Term& t) { return t.coef.IsZero(); }), out.end());
  return out;
}

}  // namespace

namespace {

// Appends the term, taken apart where one of its factors is an integer that is a sum.
void AppendByCounts(const Context& ctx, const Term& term, NormalForm* out) {
  const auto sum = std::find_if(term.atoms.begin(), term.atoms.end(), [](const Atom& atom) {
    return atom->kind == AtomNode::Kind::kInt && atom->value.items().size() > 1;
  });
  if (sum == term.atoms.end()) {
    out->push_back(term);
    return;
  }
  for (const Poly::Item& item : (*sum)->value.items()) {
    Term part = term;
    part.coef = part.coef * Rational(item.coef);
    const auto place = part.atoms.begin() + (sum - term.atoms.begin());
    if (item.vars.empty()) {
      part.atoms.erase(place);
    } else {
      *place = MakeIntAtom(ctx, Poly::Of(item.vars, 1));
    }
    std::stable_sort(part.atoms.begin(), part.atoms.end(),
                     [](const Atom& a, const Atom& b) { return a->skeleton < b->skeleton; });
    AppendByCounts(ctx, part, out);
  }
}

}  // namespace

NormalForm Simplify(Context& ctx, const NormalForm& n) {
  NormalForm simple = MergedTerms(ctx, n, [&](Term* t) { return SimplifyTerm(ctx, t); });
  if (!ctx.strategy.split_counts) return simple;
  NormalForm parts;
  for (const Term& term : simple) AppendByCounts(ctx, term, &parts);
  if (parts.size() == simple.size()) return simple;
  if (ProofObserver* observer = ObserverOf(ctx))
    observer->Equal(ctx, Law::kSumOfIntegers, Guard::True(), simple, parts);
  return Merged(ctx, parts);
}

NormalForm Merged(Context& ctx, const NormalForm& n) {
  return MergedTerms(ctx, n, [](const Term*) { return true; });
}

}  // namespace rewright::verifier
