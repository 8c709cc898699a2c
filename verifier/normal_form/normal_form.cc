#include "verifier/normal_form/normal_form.h"

#include <algorithm>

#include "verifier/integer/give_up.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {

// ---------------------------------------------------------------- questions

bool IsConstant(const NormalForm& n, Rational* value) {
  if (n.empty()) {
    *value = 0;
    return true;
  }
  if (n.size() != 1 || !n[0].bound.empty() || !n[0].guard.IsTrue() || !n[0].atoms.empty()) return false;
  *value = n[0].coef;
  return true;
}

bool IsMonomial(const NormalForm& n) { return n.size() == 1 && n[0].bound.empty() && n[0].guard.IsTrue(); }

bool IsIndex(const NormalForm& n, Poly* value) {
  *value = Poly();
  for (const Term& t : n) {
    if (!t.bound.empty() || !t.guard.IsTrue() || t.coef.den() != 1) return false;
    Poly product(t.coef.num());
    for (const Atom& a : t.atoms) {
      if (a->kind != AtomNode::Kind::kInt) return false;
      product = product * a->value;
    }
    *value = *value + product;
  }
  return true;
}

bool IsSingleAtom(const NormalForm& n, AtomNode::Kind kind) {
  return IsMonomial(n) && n[0].coef.IsOne() && n[0].atoms.size() == 1 && n[0].atoms[0]->kind == kind;
}

// ---------------------------------------------------------------- sums and products

NormalForm ConstantForm(const Rational& value) {
  if (value.IsZero()) return {};
  Term t;
  t.coef = value;
  return {t};
}

NormalForm AtomForm(const Atom& a) {
  Term t;
  t.atoms = {a};
  return {t};
}

NormalForm IndexForm(Context& ctx, const Poly& value) { return Simplify(ctx, AtomForm(MakeIntAtom(ctx, value))); }

NormalForm Add(Context& ctx, const NormalForm& a, const NormalForm& b) {
  NormalForm all = a;
  all.insert(all.end(), b.begin(), b.end());
  return Simplify(ctx, all);
}

NormalForm Scale(const NormalForm& n, const Rational& factor) {
  if (factor.IsZero()) return {};
  NormalForm out = n;
  for (Term& t : out) t.coef = t.coef * factor;
  return out;
}

NormalForm Multiply(Context& ctx, const NormalForm& a, const NormalForm& b) {
  if (a.size() * b.size() > MostTerms(ctx)) throw GiveUp("a normal form grew too large");
  Rational factor;
  if (ctx.strategy.unroll && IsConstant(a, &factor)) return Scale(b, factor);
  NormalForm out;
  for (const Term& x : a) {
    for (const Term& y : b) {
      Term renamed = RenameBound(ctx, y);
      Term t = x;
      t.coef = x.coef * renamed.coef;
      t.bound.insert(t.bound.end(), renamed.bound.begin(), renamed.bound.end());
      t.guard = Guard::And(x.guard, renamed.guard);
      t.atoms.insert(t.atoms.end(), renamed.atoms.begin(), renamed.atoms.end());
      out.push_back(std::move(t));
    }
  }
  return Simplify(ctx, out);
}

NormalForm Restrict(Context& ctx, const Guard& guard, const NormalForm& n) {
  if (guard.IsTrue()) return n;
  NormalForm out = n;
  for (Term& t : out) t.guard = Guard::And(guard, t.guard);
  return Simplify(ctx, out);
}

NormalForm Choose(Context& ctx, const Guard& guard, const NormalForm& yes, const NormalForm& no) {
  if (guard.IsTrue()) return yes;
  if (guard.IsFalse()) return no;
  return Add(ctx, Restrict(ctx, guard, yes), Restrict(ctx, Guard::Not(guard), no));
}

NormalForm SumOver(Context& ctx, const std::vector<Var>& bound, const Guard& guard, const NormalForm& body) {
  NormalForm out;
  for (const Term& t : body) {
    Term summed = t;
    summed.bound.insert(summed.bound.begin(), bound.begin(), bound.end());
    summed.guard = Guard::And(guard, t.guard);
    out.push_back(RenameBound(ctx, summed));
  }
  return Simplify(ctx, out);
}

}  // namespace rewright::verifier
