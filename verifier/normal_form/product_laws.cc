#include "verifier/normal_form/product_laws.h"

#include <algorithm>

#include "verifier/normal_form/extrema.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/one_term.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/signs.h"

namespace rewright::verifier {

const NormalForm* PositivePartOf(const Atom& a) {
  if (a->kind != AtomNode::Kind::kBinder || a->name != "max" || a->families.size() != 2) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Family &zero = a->families[i], &rest = a->families[1 - i];
    const bool plain = rest.bound.empty() && rest.guard.IsTrue() && zero.bound.empty() && zero.guard.IsTrue();
    if (plain && zero.body.empty()) return &rest.body;
  }
  return nullptr;
}

namespace {

// Index polynomials that are constants or single products come apart; booleans are idempotent.
bool SplitIndexAtom(Context& ctx, Term* t) {
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom a = t->atoms[i];
    if (a->kind == AtomNode::Kind::kInt && a->value.IsConst()) {
      t->coef = t->coef * Rational(a->value.Constant());
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(i));
      return true;
    }
    if (a->kind == AtomNode::Kind::kInt && a->value.items().size() == 1 &&
        (a->value.items()[0].vars.size() > 1 || a->value.items()[0].coef != 1)) {
      const Poly::Item item = a->value.items()[0];
      t->coef = t->coef * Rational(item.coef);
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(i));
      for (Var v : item.vars) t->atoms.push_back(MakeIntAtom(ctx, Poly::Of(v)));
      return true;
    }
    if (!a->boolean) continue;
    for (size_t j = i + 1; j < t->atoms.size(); ++j) {
      if (t->atoms[j]->skeleton == a->skeleton && AtomKey(ctx, t->atoms[j]) == AtomKey(ctx, a)) {
        t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(j));
        return true;
      }
    }
  }
  return false;
}

// The a of sqrt(a), or null.
const NormalForm* RootOf(const Atom& a) {
  return a->kind == AtomNode::Kind::kFn && a->name == "sqrt" ? &a->args[0] : nullptr;
}

// The a of 1 / sqrt(a), or null.
const NormalForm* ReciprocalRootOf(const Atom& a) {
  if (a->kind != AtomNode::Kind::kFn || a->name != "recip" || !IsSingleAtom(a->args[0], AtomNode::Kind::kFn)) {
    return nullptr;
  }
  return RootOf(a->args[0][0].atoms[0]);
}

// sqrt(a) * sqrt(a) = a and (1 / sqrt(a)) * (1 / sqrt(a)) = 1 / a for a >= 0.
bool SquareRoots(Context& ctx, Term* t) {
  if (!ctx.strategy.finite_laws) return false;
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom a = t->atoms[i];
    const NormalForm* root = RootOf(a);
    const NormalForm* reciprocal = ReciprocalRootOf(a);
    if (root == nullptr && reciprocal == nullptr) continue;
    const NormalForm inner = root != nullptr ? *root : *reciprocal;
    for (size_t j = i + 1; j < t->atoms.size(); ++j) {
      if (t->atoms[j]->skeleton != a->skeleton || AtomKey(ctx, t->atoms[j]) != AtomKey(ctx, a)) continue;
      if (!IsNonnegative(ctx, inner) || (root != nullptr && !IsMonomial(inner))) continue;
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(j));
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(i));
      ctx.used_finite_law = true;
      if (root == nullptr) {
        t->atoms.push_back(MakeFnAtom(ctx, "recip", {inner}));
      } else {
        t->coef = t->coef * inner[0].coef;
        t->atoms.insert(t->atoms.end(), inner[0].atoms.begin(), inner[0].atoms.end());
      }
      return true;
    }
  }
  return false;
}

// a * (1/a) = 1 for a > 0.
bool CancelFactors(Context& ctx, Term* t) {
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom a = t->atoms[i];
    if (a->kind != AtomNode::Kind::kFn || a->name != "recip") continue;
    const NormalForm& of = a->args[0];
    if (!IsMonomial(of) || of[0].atoms.size() != 1 || !of[0].coef.IsOne()) continue;
    const Atom inner = of[0].atoms[0];
    const bool exact = inner->kind == AtomNode::Kind::kInt;
    if (!exact && !ctx.strategy.finite_laws) continue;
    for (size_t j = 0; j < t->atoms.size(); ++j) {
      if (j == i || t->atoms[j]->skeleton != inner->skeleton || AtomKey(ctx, t->atoms[j]) != AtomKey(ctx, inner))
        continue;
      if (!IsPositiveAtom(ctx, inner)) continue;
      if (!exact) ctx.used_finite_law = true;
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(std::max(i, j)));
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(std::min(i, j)));
      return true;
    }
  }
  return false;
}

// a max{a, 0} = max{a, 0}^2 for a product a, of either sign.
bool PositiveParts(Context& ctx, Term* t) {
  if (!ctx.strategy.finite_laws || t->atoms.size() < 2) return false;
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom part = t->atoms[i];
    const NormalForm* inner = PositivePartOf(part);
    if (inner == nullptr || !IsMonomial(*inner) || (*inner)[0].atoms.empty()) continue;
    std::vector<Atom> rest = t->atoms;
    bool all = true;
    for (const Atom& factor : (*inner)[0].atoms) {
      const std::string key = AtomKey(ctx, factor);
      const auto it = std::find_if(rest.begin(), rest.end(), [&](const Atom& x) {
        return x != part && x->skeleton == factor->skeleton && AtomKey(ctx, x) == key;
      });
      all = all && it != rest.end();
      if (!all) break;
      rest.erase(it);
    }
    if (!all) continue;
    ctx.used_finite_law = true;
    rest.push_back(part);
    t->atoms = std::move(rest);
    t->coef = t->coef / (*inner)[0].coef;
    return true;
  }
  return false;
}

// [a > 0] a = max{a, 0} for a product a.
bool TruthTimesOperand(Context& ctx, Term* t) {
  if (t->atoms.size() < 2) return false;
  for (const Atom& truth : t->atoms) {
    if (truth->kind != AtomNode::Kind::kFn || truth->name != "pos" || !IsMonomial(truth->args[0])) continue;
    const Term operand = truth->args[0][0];
    std::vector<Atom> rest;
    for (const Atom& a : t->atoms) {
      if (a != truth) rest.push_back(a);
    }
    bool all = !operand.atoms.empty();
    for (const Atom& factor : operand.atoms) {
      const std::string key = AtomKey(ctx, factor);
      const auto it = std::find_if(rest.begin(), rest.end(), [&](const Atom& x) {
        return x->skeleton == factor->skeleton && AtomKey(ctx, x) == key;
      });
      all = all && it != rest.end();
      if (!all) break;
      rest.erase(it);
    }
    if (!all) continue;
    const NormalForm part = MaxOver(ctx, {{{}, Guard::True(), truth->args[0]}, {{}, Guard::True(), {}}});
    if (!IsMonomial(part)) continue;
    rest.insert(rest.end(), part[0].atoms.begin(), part[0].atoms.end());
    t->atoms = std::move(rest);
    t->coef = t->coef * part[0].coef / operand.coef;
    return true;
  }
  return false;
}

// (SUM t) * 1 / (SUM t) = 1 where the sum is positive; factors that do not vary stand outside of it.
bool CancelSums(Context& ctx, Term* t) {
  if (!ctx.strategy.finite_laws || t->bound.empty()) return false;
  for (const Atom& divisor : t->atoms) {
    if (divisor->kind != AtomNode::Kind::kFn || divisor->name != "recip" || Intersects(divisor->vars, t->bound))
      continue;
    const NormalForm& sum = divisor->args[0];
    if (sum.size() != 1 || sum[0].bound.empty()) continue;
    std::vector<Atom> varying, fixed;
    for (const Atom& a : t->atoms) {
      if (a != divisor) (Intersects(a->vars, t->bound) ? varying : fixed).push_back(a);
    }
    if (TermKey(ctx, Term{1, t->bound, t->guard, varying}) !=
        TermKey(ctx, Term{1, sum[0].bound, sum[0].guard, sum[0].atoms})) {
      continue;
    }
    const bool positive =
        sum[0].coef.Sign() > 0 && HasPoint(ctx, {sum[0].bound, sum[0].guard, {}}) &&
        std::all_of(sum[0].atoms.begin(), sum[0].atoms.end(), [&](const Atom& a) { return IsPositiveAtom(ctx, a); });
    if (!positive) continue;
    ctx.used_finite_law = true;
    *t = Term{t->coef / sum[0].coef, {}, Guard::True(), fixed};
    return true;
  }
  return false;
}

}  // namespace

bool SimplifyFactors(Context& ctx, Term* t) {
  ProofObserver* const observer = ObserverOf(ctx);
  const NormalForm before = observer == nullptr ? NormalForm() : NormalForm{*t};
  const bool changed = SplitIndexAtom(ctx, t) || CancelFactors(ctx, t) || SquareRoots(ctx, t) ||
                       PositiveParts(ctx, t) || TruthTimesOperand(ctx, t) || CancelSums(ctx, t);
  if (changed && observer != nullptr) observer->Equal(ctx, Law::kFactors, Guard::True(), before, {*t});
  return changed;
}

}  // namespace rewright::verifier
