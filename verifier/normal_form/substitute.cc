#include "verifier/normal_form/substitute.h"

#include <algorithm>
#include <utility>

namespace rewright::verifier {
namespace {

// Renames those of `bound` that s replaces or that occur in its values; gives s without the bound variables.
Substitution EnterBinder(Context& ctx, const std::vector<Var>& bound, const Substitution& s, Substitution* renaming) {
  Substitution inner;
  for (const auto& [v, p] : s.entries()) {
    if (!Has(bound, v)) inner.Set(v, p);
  }
  for (Var b : bound) {
    for (const auto& [v, p] : inner.entries()) {
      if (ctx.Mentions(p, {b})) {
        renaming->Set(b, Poly::Of(ctx.FreshCopy(b)));
        break;
      }
    }
  }
  return inner;
}

Var RenamedVar(const Substitution& renaming, Var v) {
  const Poly* p = renaming.Find(v);
  return p == nullptr ? v : p->items()[0].vars[0];
}

template <typename Map>
Atom MapAtom(Context& ctx, const Atom& a, const Map& map) {
  CountSteps(1);
  ctx.session->CheckLimit();  // whatever goes through forms comes here
  switch (a->kind) {
    case AtomNode::Kind::kRead: {
      std::vector<Poly> at;
      for (const Poly& p : a->at) at.push_back(map.OfPoly(p));
      return MakeRead(ctx, Leaf{a->name, a->positive, a->boolean}, std::move(at));
    }
    case AtomNode::Kind::kInt: return MakeIntAtom(ctx, map.OfPoly(a->value));
    case AtomNode::Kind::kFn: {
      std::vector<NormalForm> args;
      for (const NormalForm& n : a->args) args.push_back(map.OfForm(n));
      return MakeFnAtom(ctx, a->name, std::move(args));
    }
    case AtomNode::Kind::kBinder: break;
  }
  std::vector<Family> families;
  for (const Family& b : a->families) families.push_back(map.OfFamily(b));
  return MakeBinderAtom(ctx, a->name, std::move(families));
}

struct SubstMap {
  Context& ctx;
  const Substitution& s;
  Poly OfPoly(const Poly& p) const { return ctx.Subst(p, s); }
  NormalForm OfForm(const NormalForm& n) const { return Subst(ctx, n, s); }
  Family OfFamily(const Family& b) const { return Subst(ctx, b, s); }
};

// v = quotient, where times * v = multiple. Elements that are indices are rewritten inside.
struct QuotientMap {
  Context& ctx;
  Var v;
  const Poly& times;
  const Poly& multiple;
  Substitution s;
  Poly OfPoly(const Poly& original) const {
    const Poly p = WithElements(original);
    Poly factor, rest, exact;
    if (!p.Contains(v) || !p.Decompose(v, &factor, &rest) || !DivideExactly(factor, times, &exact)) {
      return ctx.Subst(p, s);
    }
    return ctx.Subst(rest, s) + ctx.Subst(exact, s) * multiple;
  }
  Poly WithElements(const Poly& p) const {
    Substitution moved;
    for (Var x : p.Vars()) {
      const VarInfo info = ctx.Info(x);
      if (info.kind != VarInfo::Kind::kValue || !ctx.Mentions(Poly::Of(x), {v})) continue;
      moved.Set(x, IndexOfElement(ctx, OfForm(ElementOf(info))));
    }
    return moved.empty() ? p : ctx.Subst(p, moved);
  }
  Guard OfGuard(const Guard& g) const {
    switch (g.kind()) {
      case Guard::Kind::kTrue:
      case Guard::Kind::kFalse: return g;
      case Guard::Kind::kGe: return Guard::Ge(OfPoly(g.poly()));
      case Guard::Kind::kEq: return Guard::Eq(OfPoly(g.poly()));
      case Guard::Kind::kNot: return Guard::Not(OfGuard(g.args()[0]));
      case Guard::Kind::kAnd: break;
    }
    std::vector<Guard> parts;
    for (const Guard& part : g.args()) parts.push_back(OfGuard(part));
    return Guard::And(parts);
  }
  NormalForm OfForm(const NormalForm& n) const {
    NormalForm out;
    for (const Term& t : RenameAll(ctx, n)) out.push_back(OfTerm(t));
    return out;
  }
  Family OfFamily(const Family& b) const {
    Family fresh = RenameBound(ctx, b);
    return {fresh.bound, OfGuard(fresh.guard), OfForm(fresh.body)};
  }
  Term OfTerm(const Term& t) const {
    Term out{t.coef, t.bound, OfGuard(t.guard), {}};
    for (const Atom& a : t.atoms) out.atoms.push_back(MapAtom(ctx, a, *this));
    return out;
  }
};

// Renaming by fresh variables: nothing can be captured, nothing new simplifies.
struct RenameMap {
  Context& ctx;
  Substitution s;
  Poly OfPoly(const Poly& p) const { return ctx.Rename(p, s); }
  NormalForm OfForm(const NormalForm& n) const {
    NormalForm out;
    for (const Term& t : n) out.push_back(RenameMap{ctx, Without(t.bound)}.OfOpened(t));
    return out;
  }
  Family OfFamily(const Family& b) const { return RenameMap{ctx, Without(b.bound)}.OfOpened(b); }
  Substitution Without(const std::vector<Var>& bound) const {
    Substitution inner = s;
    for (Var v : bound) inner.Erase(v);
    return inner;
  }
  // The binder's own variables are renamed as well.
  Term OfOpened(const Term& t) const {
    Term out{t.coef, t.bound, ctx.Rename(t.guard, s), {}};
    for (const Atom& a : t.atoms) out.atoms.push_back(OfAtom(a));
    return out;
  }
  Family OfOpened(const Family& b) const { return Family{b.bound, ctx.Rename(b.guard, s), OfForm(b.body)}; }
  Atom OfAtom(const Atom& a) const {
    for (const auto& entry : s.entries()) {
      if (std::binary_search(a->vars.begin(), a->vars.end(), entry.first)) return MapAtom(ctx, a, *this);
    }
    return a;
  }
};

Substitution FreshNames(Context& ctx, const std::vector<Var>& bound) {
  Substitution s;
  for (Var v : bound) s.Set(v, Poly::Of(ctx.FreshCopy(v)));
  for (const auto& [v, p] : s.entries()) {
    Var fresh = p.items()[0].vars[0];
    if (!ctx.Info(fresh).range.has_value()) continue;
    auto [lo, hi] = *ctx.Info(fresh).range;
    Poly new_lo = ctx.Rename(lo, s), new_hi = ctx.Rename(hi, s);
    ctx.MutableInfo(fresh).range.emplace(new_lo, new_hi);
  }
  return s;
}

// A Term or Family with the names of `renaming` for its own bound variables.
template <typename Binder>
Binder Renamed(Context& ctx, const Binder& binder, const Substitution& renaming) {
  Binder out = RenameMap{ctx, renaming}.OfOpened(binder);
  for (Var& v : out.bound) v = RenamedVar(renaming, v);
  return out;
}

template <typename Binder>
Binder WithFreshNames(Context& ctx, const Binder& binder) {
  return binder.bound.empty() ? binder : Renamed(ctx, binder, FreshNames(ctx, binder.bound));
}

struct RenameAllMap {
  Context& ctx;
  Poly OfPoly(const Poly& p) const { return p; }
  NormalForm OfForm(const NormalForm& n) const { return RenameAll(ctx, n); }
  Family OfFamily(const Family& b) const {
    Family out = RenameBound(ctx, b);
    out.body = RenameAll(ctx, out.body);
    return out;
  }
};

}  // namespace

Atom Subst(Context& ctx, const Atom& a, const Substitution& s) {
  for (const auto& entry : s.entries()) {
    if (std::binary_search(a->vars.begin(), a->vars.end(), entry.first)) return MapAtom(ctx, a, SubstMap{ctx, s});
  }
  return a;
}

Term SubstFree(Context& ctx, const Term& t, const Substitution& s) {
  Term out{t.coef, t.bound, ctx.Subst(t.guard, s), {}};
  out.atoms.reserve(t.atoms.size());
  for (const Atom& a : t.atoms) out.atoms.push_back(Subst(ctx, a, s));
  return out;
}

Term SubstQuotient(Context& ctx, const Term& t, Var v, const Poly& times, const Poly& multiple, const Poly& quotient) {
  Substitution s;
  s.Set(v, quotient);
  return QuotientMap{ctx, v, times, multiple, std::move(s)}.OfTerm(t);
}

NormalForm Subst(Context& ctx, const NormalForm& n, const Substitution& s) {
  if (s.empty()) return n;
  NormalForm out;
  out.reserve(n.size());
  for (const Term& t : n) {
    if (t.bound.empty()) {
      out.push_back(SubstFree(ctx, t, s));
      continue;
    }
    Substitution renaming;
    Substitution inner = EnterBinder(ctx, t.bound, s, &renaming);
    out.push_back(SubstFree(ctx, renaming.empty() ? t : Renamed(ctx, t, renaming), inner));
  }
  return out;
}

Family Subst(Context& ctx, const Family& b, const Substitution& s) {
  Substitution renaming;
  Substitution inner = EnterBinder(ctx, b.bound, s, &renaming);
  Family out = renaming.empty() ? b : Renamed(ctx, b, renaming);
  out.guard = ctx.Subst(out.guard, inner);
  out.body = Subst(ctx, out.body, inner);
  return out;
}

Term RenameBound(Context& ctx, const Term& t) { return WithFreshNames(ctx, t); }
Family RenameBound(Context& ctx, const Family& b) { return WithFreshNames(ctx, b); }

NormalForm RenameAll(Context& ctx, const NormalForm& n) {
  NormalForm out;
  for (const Term& t : n) {
    Term renamed = RenameBound(ctx, t);
    for (Atom& a : renamed.atoms) {
      if (a->has_bound) a = MapAtom(ctx, a, RenameAllMap{ctx});
    }
    out.push_back(std::move(renamed));
  }
  return out;
}

}  // namespace rewright::verifier
