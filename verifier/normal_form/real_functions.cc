#include "verifier/normal_form/real_functions.h"

#include <algorithm>
#include <map>
#include <optional>

#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/signs.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

// The exact root, where it is a quotient of small integers.
std::optional<Rational> RootOf(const Rational& value) {
  constexpr int64_t kMost = 1 << 15;
  const auto root = [](int64_t n) -> std::optional<int64_t> {
    for (int64_t r = 0; r <= kMost && r * r <= n; ++r) {
      if (r * r == n) return r;
    }
    return std::nullopt;
  };
  const auto num = root(value.num()), den = root(value.den());
  if (!num || !den) return std::nullopt;
  return Rational(*num, *den);
}

bool IsIntegerAtom(const Atom& a) {
  if (a->boolean || a->kind == AtomNode::Kind::kInt) return true;
  return a->kind == AtomNode::Kind::kFn && (a->name == "floor" || a->name == "round" || a->name.starts_with("float."));
}

bool IsIntegerTerm(const Term& t) {
  return t.bound.empty() && t.coef.den() == 1 && std::all_of(t.atoms.begin(), t.atoms.end(), IsIntegerAtom);
}

}  // namespace

// floor(x + n) = floor(x) + n for an integer n, and the floor of an integer is it.
NormalForm ApplyFloor(Context& ctx, const NormalForm& x) {
  NormalForm integers, rest;
  for (const Term& t : x) (IsIntegerTerm(t) ? integers : rest).push_back(t);
  if (rest.empty()) return integers;
  Rational value;
  if (IsConstant(rest, &value)) {
    const int64_t down = value.num() / value.den() - (value.Sign() < 0 ? 1 : 0);
    return Add(ctx, integers, ConstantForm(down));
  }
  return Add(ctx, integers, AtomForm(MakeFnAtom(ctx, "floor", {rest})));
}

NormalForm ApplyRound(Context& ctx, const NormalForm& x) {
  if (std::all_of(x.begin(), x.end(), IsIntegerTerm)) return x;
  return AtomForm(MakeFnAtom(ctx, "round", {x}));
}

// sqrt(a a b) = |a| sqrt(b), sqrt(a b) = sqrt(a) sqrt(b) for a, b >= 0, sqrt(1 / a) = 1 / sqrt(a) for a > 0.
NormalForm ApplySqrt(Context& ctx, const NormalForm& x) {
  const NormalForm opaque = AtomForm(MakeFnAtom(ctx, "sqrt", {x}));
  Rational value;
  if (IsConstant(x, &value)) {
    const std::optional<Rational> root = value.Sign() < 0 ? std::nullopt : RootOf(value);
    return root ? ConstantForm(*root) : opaque;
  }
  if (!ctx.strategy.finite_laws || !IsMonomial(x)) return opaque;
  const std::optional<Rational> root = x[0].coef.Sign() > 0 ? RootOf(x[0].coef) : std::nullopt;
  if (!root) return opaque;
  std::vector<Atom> single;  // those that have no equal one
  NormalForm out = ConstantForm(*root);
  for (const Atom& a : x[0].atoms) {
    const std::string key = AtomKey(ctx, a);
    const auto twin = std::find_if(single.begin(), single.end(), [&](const Atom& s) { return AtomKey(ctx, s) == key; });
    if (twin == single.end()) {
      single.push_back(a);
      continue;
    }
    single.erase(twin);
    out = Multiply(ctx, out, IsNonnegativeAtom(ctx, a) ? AtomForm(a) : Apply(ctx, "abs", {AtomForm(a)}));
  }
  const bool apart =
      std::all_of(single.begin(), single.end(), [&](const Atom& a) { return IsNonnegativeAtom(ctx, a); });
  if (single.size() == x[0].atoms.size() && root->IsOne() && (!apart || single.size() == 1)) {
    const Atom& a = single[0];
    if (single.size() > 1 || a->kind != AtomNode::Kind::kFn || a->name != "recip" || !IsPositiveAtom(ctx, a)) {
      return opaque;
    }
    ctx.used_finite_law = true;
    return Apply(ctx, "recip", {Apply(ctx, "sqrt", {RenameAll(ctx, a->args[0])})});
  }
  ctx.used_finite_law = true;
  if (single.empty()) return out;
  if (!apart) {
    return Multiply(ctx, out, AtomForm(MakeFnAtom(ctx, "sqrt", {{Term{1, {}, Guard::True(), single}}})));
  }
  for (const Atom& a : single) out = Multiply(ctx, out, Apply(ctx, "sqrt", {AtomForm(a)}));
  return out;
}

// exp(c log a) = a^c for a > 0 and a small integer or a half c; nothing where it is none.
std::optional<NormalForm> PowerOfLog(Context& ctx, const Term& t) {
  constexpr int64_t kMost = 4;
  if (!ctx.strategy.finite_laws || !t.bound.empty() || !t.guard.IsTrue() || t.atoms.size() != 1) return std::nullopt;
  const Atom& log = t.atoms[0];
  if (log->kind != AtomNode::Kind::kFn || log->name != "log" || !IsPositive(ctx, log->args[0])) return std::nullopt;
  const bool half = t.coef == Rational(1, 2);
  if (!half && (t.coef.den() != 1 || t.coef.Sign() <= 0 || t.coef.num() > kMost)) return std::nullopt;
  ctx.used_finite_law = true;
  const NormalForm base = RenameAll(ctx, log->args[0]);
  if (half) return Apply(ctx, "sqrt", {base});
  NormalForm out = base;
  for (int64_t i = 1; i < t.coef.num(); ++i) out = Multiply(ctx, out, RenameAll(ctx, base));
  return out;
}

// The truth of x > 0 or x = 0, where x is a polynomial of few truth values: the sum over the cases in which it holds.
std::optional<NormalForm> TruthByCases(Context& ctx, const NormalForm& x, bool zero) {
  constexpr size_t kMost = 4;
  constexpr int64_t kMostSum = 1 << 30;  // integers that add up to less have not wrapped around
  std::map<std::string, size_t> number;
  std::vector<Atom> truths;
  Rational sum = 0;
  for (const Term& t : x) {
    if (!t.bound.empty() || !t.guard.IsTrue()) return std::nullopt;
    sum = sum + (t.coef.Sign() < 0 ? -t.coef : t.coef);
    if ((sum - Rational(kMostSum)).Sign() >= 0) return std::nullopt;
    for (const Atom& a : t.atoms) {
      if (!a->boolean) return std::nullopt;
      if (number.emplace(AtomKey(ctx, a), truths.size()).second) truths.push_back(a);
    }
  }
  if (truths.empty() || truths.size() > kMost) return std::nullopt;
  NormalForm out;
  for (size_t chosen = 0; chosen < size_t{1} << truths.size(); ++chosen) {
    Rational value = 0;
    for (const Term& t : x) {
      const bool counts = std::all_of(t.atoms.begin(), t.atoms.end(),
                                      [&](const Atom& a) { return (chosen >> number.at(AtomKey(ctx, a)) & 1) != 0; });
      if (counts) value = value + t.coef;
    }
    if (!(zero ? value.IsZero() : value.Sign() > 0)) continue;
    NormalForm here = ConstantForm(1);
    for (size_t i = 0; i < truths.size(); ++i) {
      const NormalForm truth = AtomForm(truths[i]);
      here = Multiply(ctx, here, (chosen >> i & 1) != 0 ? truth : Add(ctx, ConstantForm(1), Scale(truth, -1)));
    }
    out = Add(ctx, out, here);
  }
  return out;
}

}  // namespace rewright::verifier
