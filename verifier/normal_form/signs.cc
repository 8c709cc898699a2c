#include "verifier/normal_form/signs.h"

#include <algorithm>
#include <map>

#include "core/ir/functions.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/one_term.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {

bool IsPositiveAtom(Context& ctx, const Atom& a) {
  switch (a->kind) {
    case AtomNode::Kind::kRead: return a->positive;
    case AtomNode::Kind::kInt: return ctx.ProvePositive(a->value);
    case AtomNode::Kind::kFn:
      if (const FnInfo* fn = FindFn(a->name); fn != nullptr && FnHas(fn->fn, FnTrait::kPositive)) return true;
      return (a->name == "recip" || a->name == "sqrt") && IsPositive(ctx, a->args[0]);
    case AtomNode::Kind::kBinder: break;
  }
  return a->name == "max" && std::any_of(a->families.begin(), a->families.end(),
                                         [&](const Family& b) { return IsPositive(ctx, b.body) && HasPoint(ctx, b); });
}

bool IsNonnegativeAtom(Context& ctx, const Atom& a) {
  if (a->boolean || IsPositiveAtom(ctx, a)) return true;
  switch (a->kind) {
    case AtomNode::Kind::kRead: return false;
    case AtomNode::Kind::kInt: return ctx.ProveNonneg({a->value});
    case AtomNode::Kind::kFn: return a->name == "sqrt" || (a->name == "recip" && IsNonnegative(ctx, a->args[0]));
    case AtomNode::Kind::kBinder: break;
  }
  if (a->name != "max") return false;
  // If the sum of two values is 0, one of them is not negative.
  const auto plain = [](const Family& b) { return b.bound.empty() && b.guard.IsTrue(); };
  if (a->families.size() == 2 && plain(a->families[0]) && plain(a->families[1]) &&
      Add(ctx, a->families[0].body, RenameAll(ctx, a->families[1].body)).empty()) {
    return true;
  }
  return std::any_of(a->families.begin(), a->families.end(),
                     [&](const Family& b) { return IsNonnegative(ctx, b.body) && HasPoint(ctx, b); });
}

// The product of the atoms is >= 0: factors that are not come in equal pairs.
bool IsNonnegativeTerm(Context& ctx, const Term& t) {
  if (t.coef.Sign() < 0) return false;
  std::map<std::string, int> odd;
  for (const Atom& a : t.atoms) {
    if (!IsNonnegativeAtom(ctx, a)) ++odd[AtomKey(ctx, a)];
  }
  return std::all_of(odd.begin(), odd.end(), [](const auto& entry) { return entry.second % 2 == 0; });
}

bool IsNonnegative(Context& ctx, const NormalForm& n) {
  return std::all_of(n.begin(), n.end(), [&](const Term& t) { return IsNonnegativeTerm(ctx, t); });
}

bool IsPositive(Context& ctx, const NormalForm& n) {
  if (!IsNonnegative(ctx, n)) return false;
  return std::any_of(n.begin(), n.end(), [&](const Term& t) {
    return ((t.bound.empty() && t.guard.IsTrue()) || HasPoint(ctx, {t.bound, t.guard, {}})) &&
           std::all_of(t.atoms.begin(), t.atoms.end(), [&](const Atom& a) { return IsPositiveAtom(ctx, a); });
  });
}

}  // namespace rewright::verifier
