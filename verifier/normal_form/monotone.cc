#include "verifier/normal_form/monotone.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "verifier/normal_form/extrema.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/one_term.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/signs.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

using Domain = Increasing::Domain;

constexpr Increasing kIncreasing[] = {
    {"exp", Domain::kReals, true, 0, 1, 1},     {"tanh", Domain::kReals, true, 0, 0, 1},
    {"sigmoid", Domain::kReals, true, 0, 1, 2}, {"erf", Domain::kReals, true, 0, 0, 1},
    {"atan", Domain::kReals, true, 0, 0, 1},    {"sinh", Domain::kReals, true, 0, 0, 1},
    {"asinh", Domain::kReals, true, 0, 0, 1},   {"floor", Domain::kReals, false, 0, 0, 1},
    {"round", Domain::kReals, false, 0, 0, 1},  {"sqrt", Domain::kNonnegative, true, 0, 0, 1},
    {"log", Domain::kPositive, true, 1, 0, 1},  {"any_increasing", Domain::kReals, false, 0, 0, 0},
};

bool DependsOn(const Context& ctx, const NormalForm& n, const std::vector<Var>& bound) {
  return Intersects(FreeVars(ctx, n), bound);
}

// The function f of a body c f(g) that increases where it is applied, or null.
const Increasing* OuterIncreasing(Context& ctx, const NormalForm& body) {
  if (!IsMonomial(body) || body[0].atoms.size() != 1) return nullptr;
  const Atom& atom = body[0].atoms[0];
  if (atom->kind != AtomNode::Kind::kFn || atom->args.size() != 1) return nullptr;
  const Increasing* fn = FindIncreasing(atom->name);
  return fn != nullptr && IsInDomain(ctx, *fn, atom->args[0]) ? fn : nullptr;
}

// Atoms that depend on `bound` and are no function or maximum of others.
void CoresOf(const NormalForm& n, const std::vector<Var>& bound, std::vector<Atom>* out) {
  for (const Term& t : n) {
    for (const Atom& a : t.atoms) {
      if (!Intersects(a->vars, bound)) continue;
      const bool plain_max = a->kind == AtomNode::Kind::kBinder &&
                             std::all_of(a->families.begin(), a->families.end(),
                                         [](const Family& b) { return b.bound.empty() && b.guard.IsTrue(); });
      if (plain_max) {
        for (const Family& b : a->families) CoresOf(b.body, bound, out);
      } else if (a->kind == AtomNode::Kind::kFn && a->args.size() == 1) {
        CoresOf(a->args[0], bound, out);
      } else {
        out->push_back(a);
      }
    }
  }
}

// True if the form does not decrease (sign 1) or does not increase (-1) as the atom whose key is given increases, all
// else being the same. Covers sums, nonnegative multiples, maxima and compositions.
bool GoesWith(Context& ctx, const NormalForm& n, const std::string& key, const std::vector<Var>& bound, int sign) {
  return std::all_of(n.begin(), n.end(), [&](const Term& t) {
    if (!Intersects(FreeVars(ctx, t), bound)) return true;
    if (!t.bound.empty() || !t.guard.IsTrue() || t.atoms.size() != 1) return false;
    const int inner = t.coef.Sign() * sign;
    const Atom& a = t.atoms[0];
    if (AtomKey(ctx, a) == key) return inner > 0;
    if (a->kind == AtomNode::Kind::kBinder) {
      return a->name == "max" && std::all_of(a->families.begin(), a->families.end(), [&](const Family& b) {
               return b.bound.empty() && b.guard.IsTrue() && GoesWith(ctx, b.body, key, bound, inner);
             });
    }
    if (a->kind != AtomNode::Kind::kFn || a->args.size() != 1) return false;
    const Increasing* fn = FindIncreasing(a->name);
    return fn != nullptr && IsInDomain(ctx, *fn, a->args[0]) && GoesWith(ctx, a->args[0], key, bound, inner);
  });
}

NormalForm WithCore(Context& ctx, const NormalForm& n, const std::string& key, const NormalForm& instead);

Family WithCore(Context& ctx, const Family& b, const std::string& key, const NormalForm& instead) {
  return {b.bound, b.guard, WithCore(ctx, b.body, key, instead)};
}

NormalForm WithCore(Context& ctx, const NormalForm& n, const std::string& key, const NormalForm& instead) {
  NormalForm out;
  for (const Term& t : n) {
    NormalForm product = {Term{t.coef, t.bound, t.guard, {}}};
    for (const Atom& a : t.atoms) {
      NormalForm factor = AtomForm(a);
      if (AtomKey(ctx, a) == key) {
        factor = RenameAll(ctx, instead);
      } else if (a->kind == AtomNode::Kind::kFn && a->args.size() == 1) {
        factor = Apply(ctx, a->name, {WithCore(ctx, a->args[0], key, instead)});
      } else if (a->kind == AtomNode::Kind::kBinder) {
        std::vector<Family> families;
        for (const Family& b : a->families) families.push_back(WithCore(ctx, b, key, instead));
        factor = ExtremumOver(ctx, a->name, families);
      }
      product = Multiply(ctx, product, factor);
    }
    out = Add(ctx, out, product);
  }
  return out;
}

// max over a family that has a point of h(r), where h does not decrease with the element r that alone varies, is
// h(max r).
bool PullComposite(Context& ctx, Family* family) {
  if (family->bound.empty() || (IsMonomial(family->body) && family->body[0].atoms.size() == 1 &&
                                family->body[0].atoms[0]->kind == AtomNode::Kind::kRead)) {
    return false;
  }
  std::vector<Atom> cores;
  CoresOf(family->body, family->bound, &cores);
  if (cores.empty()) return false;
  const std::string key = AtomKey(ctx, cores[0]);
  if (!std::all_of(cores.begin(), cores.end(), [&](const Atom& a) { return AtomKey(ctx, a) == key; })) return false;
  const bool rising = GoesWith(ctx, family->body, key, family->bound, 1);
  if (!rising && !GoesWith(ctx, family->body, key, family->bound, -1)) return false;
  const int64_t sign = rising ? 1 : -1;
  // A maximum over plain multiples of the element is the usual form and stays as it is.
  if (family->body.size() == 1 && AtomKey(ctx, family->body[0].atoms[0]) == key) return false;
  if (!HasPoint(ctx, *family)) return false;
  const NormalForm most =
      Scale(MaxOver(ctx, {RenameBound(ctx, {family->bound, family->guard, Scale(AtomForm(cores[0]), sign)})}), sign);
  *family = {{}, Guard::True(), WithCore(ctx, family->body, key, most)};
  return true;
}

}  // namespace

const Increasing* FindIncreasing(const std::string& fn) {
  const auto* const it =
      std::find_if(std::begin(kIncreasing), std::end(kIncreasing), [&](const Increasing& f) { return fn == f.name; });
  return it == std::end(kIncreasing) ? nullptr : it;
}

bool IsInDomain(Context& ctx, const Increasing& fn, const NormalForm& argument) {
  switch (fn.domain) {
    case Domain::kReals: return true;
    case Domain::kNonnegative: return IsNonnegative(ctx, argument);
    case Domain::kPositive: return IsPositive(ctx, argument);
  }
  return false;
}

bool PullIncreasing(Context& ctx, Families* families, NormalForm* maximum) {
  for (Family& family : *families) PullComposite(ctx, &family);
  // max(c f(a), c f(b)) = c f(max(a, b)) for c > 0, and c f(min(a, b)) for c < 0, where there is something.
  const Increasing* fn = OuterIncreasing(ctx, families->front().body);
  if (fn == nullptr) return false;
  const Rational coef = families->front().body[0].coef;
  Families inner;
  for (const Family& family : *families) {
    if (OuterIncreasing(ctx, family.body) != fn || family.body[0].coef != coef) return false;
    inner.push_back({family.bound, family.guard, Scale(family.body[0].atoms[0]->args[0], coef.Sign())});
  }
  if (std::none_of(families->begin(), families->end(), [&](const Family& b) { return HasPoint(ctx, b); })) return false;
  *maximum = Scale(Apply(ctx, fn->name, {Scale(MaxOver(ctx, inner), coef.Sign())}), coef);
  return true;
}

NormalForm PlaceOver(Context& ctx, const std::string& binder, const Family& family, const Poly& place) {
  const bool told = family.bound.size() == 1 && place == Poly::Of(family.bound[0]);
  if (told) return AtomForm(MakeBinderAtom(ctx, binder, {family}));
  Family placed = family;
  placed.body = AtomForm(MakePlaced(ctx, family.body, IndexForm(ctx, place)));
  return AtomForm(MakeBinderAtom(ctx, binder, {placed}));
}

NormalForm ArgmaxOver(Context& ctx, const Family& family, const Poly& place) {
  Family b = family;
  for (bool again = true; again;) {
    again = false;
    // The terms that are not the same everywhere.
    NormalForm varying;
    for (const Term& t : b.body) {
      if (Intersects(FreeVars(ctx, t), b.bound)) varying.push_back(t);
    }
    b.body = Scale(varying, Rational(1) / ContentOf({{b.bound, b.guard, varying}}));
    if (b.body.empty()) break;
    for (const Atom& a : std::vector<Atom>(b.body[0].atoms)) {
      const std::string key = AtomKey(ctx, a);
      const bool common = std::all_of(b.body.begin(), b.body.end(), [&](const Term& t) {
        return std::any_of(t.atoms.begin(), t.atoms.end(), [&](const Atom& x) {
          return x->skeleton == a->skeleton && !Intersects(x->vars, b.bound) && !Intersects(x->vars, t.bound) &&
                 AtomKey(ctx, x) == key;
        });
      });
      if (!common || !IsPositiveAtom(ctx, a)) continue;
      RemoveFactor(ctx, a, &b.body);
      b.body = Simplify(ctx, b.body);
      again = true;
      break;
    }
    if (again) continue;
    const Increasing* fn = OuterIncreasing(ctx, b.body);
    if (fn == nullptr || !fn->strictly || !DependsOn(ctx, b.body, b.bound)) continue;
    b.body = Scale(b.body[0].atoms[0]->args[0], b.body[0].coef.Sign());
    again = true;
  }
  NormalForm out = PlaceOver(ctx, "argmax", b, place);
  if (ProofObserver* observer = ObserverOf(ctx)) {
    observer->Equal(ctx, Law::kArgmax, Guard::True(), PlaceOver(ctx, "argmax", family, place), out);
  }
  return out;
}

}  // namespace rewright::verifier
