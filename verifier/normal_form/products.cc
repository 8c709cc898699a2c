#include "verifier/normal_form/products.h"

#include <algorithm>

#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/one_term.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

bool IsBooleanMonomial(const NormalForm& n) {
  return IsMonomial(n) && n[0].coef.IsOne() &&
         std::all_of(n[0].atoms.begin(), n[0].atoms.end(), [](const Atom& a) { return a->boolean; });
}

// A product of truth values, or one minus it.
bool IsTruth(Context& ctx, const NormalForm& n) {
  return IsBooleanMonomial(n) || IsBooleanMonomial(Add(ctx, ConstantForm(1), Scale(n, -1)));
}

NormalForm Product(Context& ctx, const Family& family) {
  Family b = family;
  // Powers of truth values are themselves.
  if (!SimplifyFamily(ctx, &b, /*repeats=*/!IsTruth(ctx, b.body))) return ConstantForm(1);
  std::vector<Guard> inside, outside;
  for (const Guard& g : Conjuncts(b.guard)) (ctx.Mentions(g, b.bound) ? inside : outside).push_back(g);
  if (!outside.empty()) {
    const Family rest{b.bound, Guard::And(inside), b.body};
    const NormalForm product = b.bound.empty() ? b.body : ProdOver(ctx, rest);
    return Choose(ctx, Guard::And(outside), product, ConstantForm(1));
  }
  if (b.bound.empty()) return b.body;
  if (const std::vector<Guard> literals = FreeLiterals(ctx, b.body); !literals.empty()) {
    const Guard yes = literals[0], no = Guard::Not(yes);
    const Family holds{b.bound, Guard::And(b.guard, yes), AssumeForm(ctx, b.body, yes, no)};
    const Family fails{b.bound, Guard::And(b.guard, no), AssumeForm(ctx, b.body, no, yes)};
    return Multiply(ctx, ProdOver(ctx, holds), ProdOver(ctx, RenameBound(ctx, fails)));
  }
  Rational value;
  if (IsConstant(b.body, &value) && value.IsOne()) return ConstantForm(1);
  if (IsSingleAtom(b.body, AtomNode::Kind::kBinder)) {
    const Atom& inner = b.body[0].atoms[0];
    if (inner->name == "prod" && inner->families.size() == 1) {
      Family joined = RenameBound(ctx, inner->families[0]);
      joined.bound.insert(joined.bound.begin(), b.bound.begin(), b.bound.end());
      joined.guard = Guard::And(b.guard, joined.guard);
      return ProdOver(ctx, joined);
    }
  }
  if (IsMonomial(b.body) && b.body[0].coef.IsOne() && b.body[0].atoms.size() > 1) {
    const bool exact = IsBooleanMonomial(b.body);  // else infinity and zero may meet on one side alone
    if (exact || ctx.strategy.finite_laws) {
      if (!exact) ctx.used_finite_law = true;
      NormalForm out = ConstantForm(1);
      for (const Atom& a : b.body[0].atoms) {
        out = Multiply(ctx, out, ProdOver(ctx, RenameBound(ctx, Family{b.bound, b.guard, AtomForm(a)})));
      }
      return out;
    }
  }
  return AtomForm(MakeBinderAtom(ctx, "prod", {b}));
}

}  // namespace

NormalForm ProdOver(Context& ctx, const Family& family) {
  NormalForm out = Product(ctx, family);
  if (ProofObserver* observer = ObserverOf(ctx)) {
    observer->Equal(ctx, Law::kProduct, Guard::True(), AtomForm(MakeBinderAtom(ctx, "prod", {family})), out);
  }
  return out;
}

}  // namespace rewright::verifier
