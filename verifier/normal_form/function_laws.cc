#include "verifier/normal_form/function_laws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "core/ir/functions.h"
#include "substitutions/language/stand_ins.h"
#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/extrema.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/product_laws.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/real_functions.h"
#include "verifier/normal_form/signs.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

NormalForm Opaque(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args) {
  return AtomForm(MakeFnAtom(ctx, fn, args));
}

bool IsWide(const std::string& fn) { return fn.ends_with(".i64"); }

double MostBits(const Context& ctx, const Poly& p);

// The same for p = others + times (x - y q) with q = x div y, by x - y q < y; nothing if p has no such q.
std::optional<double> MostBitsByRemainder(const Context& ctx, const Poly& p) {
  for (Var q : p.Vars()) {
    const VarInfo& info = ctx.Info(q);
    Poly factor, rest, times;
    if (info.kind != VarInfo::Kind::kDiv || info.b.items().size() != 1 || !p.Decompose(q, &factor, &rest) ||
        !DivideExactly(-factor, info.b, &times)) {
      continue;
    }
    const Poly others = rest - times * info.a;
    return std::log2(std::exp2(MostBits(ctx, others)) + std::exp2(MostBits(ctx, times) + MostBits(ctx, info.b)));
  }
  return std::nullopt;
}

// A bound b with |p| < 2^b, given that sizes, attributes and positions are below 2^31 (kMostSize). Elements have none,
// but their remainders have.
double MostBits(const Context& ctx, const Poly& p) {
  constexpr double kSizeBits = 31;
  if (ctx.MentionsElements(p)) {
    if (const std::optional<double> most = MostBitsByRemainder(ctx, p)) return *most;
  }
  double most = 0;
  for (const Poly::Item& item : p.items()) {
    double bits = std::log2(std::abs(static_cast<double>(item.coef)));
    for (Var v : item.vars) {
      const VarInfo& info = ctx.Info(v);
      if (info.kind == VarInfo::Kind::kValue) return std::numeric_limits<double>::infinity();
      const bool quotient = info.kind == VarInfo::Kind::kDiv;
      if (quotient) {
        bits += MostBits(ctx, info.a);
      } else {
        bits += ctx.IsDefinition(v) ? std::max(MostBits(ctx, info.a), MostBits(ctx, info.b)) : kSizeBits;
      }
    }
    most += std::exp2(bits);
  }
  return std::log2(std::max(1.0, most));
}

NormalForm ApplyExp(Context& ctx, const NormalForm& x) {
  if (x.empty()) return ConstantForm(1);
  if (!ctx.strategy.finite_laws) return Opaque(ctx, "exp", {x});
  if (x.size() > 1) {
    ctx.used_finite_law = true;
    NormalForm out = ConstantForm(1);
    for (const Term& t : x) out = Multiply(ctx, out, ApplyExp(ctx, {t}));
    return out;
  }
  if (x[0].coef.Sign() < 0) {
    ctx.used_finite_law = true;
    return Apply(ctx, "recip", {ApplyExp(ctx, Scale(x, -1))});
  }
  if (std::optional<NormalForm> power = PowerOfLog(ctx, x[0])) return *std::move(power);
  return Opaque(ctx, "exp", {x});
}

// 1 / (c * a * b * SUM ...): factors come out one by one.
NormalForm ReciprocalOfTerm(Context& ctx, const Term& t) {
  // A condition that was not split off makes the term zero elsewhere.
  if (t.bound.empty() && !t.guard.IsTrue()) return Opaque(ctx, "recip", {{t}});
  NormalForm out = ConstantForm(Rational(1) / t.coef);
  std::vector<Atom> dependent, independent;
  for (const Atom& a : t.atoms) (Intersects(a->vars, t.bound) ? dependent : independent).push_back(a);
  if (!ctx.strategy.finite_laws && independent.size() + (t.bound.empty() ? 0 : 1) > 1) {
    // Only integers, which are finite and here positive, may come out.
    std::vector<Atom> kept;
    for (const Atom& a : independent) {
      if (a->kind == AtomNode::Kind::kInt && ctx.ProvePositive(a->value)) {
        out = Multiply(ctx, out, Opaque(ctx, "recip", {AtomForm(a)}));
      } else {
        kept.push_back(a);
      }
    }
    kept.insert(kept.end(), dependent.begin(), dependent.end());
    if (kept.empty() && t.bound.empty()) return out;
    return Multiply(ctx, out, Opaque(ctx, "recip", {{Term{1, t.bound, t.guard, kept}}}));
  }
  if (independent.size() + (t.bound.empty() ? 0 : 1) > 1) ctx.used_finite_law = true;
  for (const Atom& a : independent) {
    if (a->kind == AtomNode::Kind::kFn && a->name == "recip" && ctx.strategy.finite_laws) {
      ctx.used_finite_law = true;
      out = Multiply(ctx, out, RenameAll(ctx, a->args[0]));
    } else {
      out = Multiply(ctx, out, Opaque(ctx, "recip", {AtomForm(a)}));
    }
  }
  if (t.bound.empty()) return out;
  return Multiply(ctx, out, Opaque(ctx, "recip", {{Term{1, t.bound, t.guard, dependent}}}));
}

// 1 / (1 + exp(a)) = sigmoid(-a); with finite laws exp(-a) stands as 1 / exp(a).
bool ReciprocalAsSigmoid(Context& ctx, const NormalForm& x, NormalForm* out) {
  Rational one;
  for (size_t i = 0; x.size() == 2 && i < 2; ++i) {
    const NormalForm rest = {x[1 - i]};
    if (!IsConstant({x[i]}, &one) || !one.IsOne() || !IsSingleAtom(rest, AtomNode::Kind::kFn)) continue;
    const AtomNode* fn = rest[0].atoms[0].get();
    int64_t sign = -1;
    if (fn->name == "recip" && IsSingleAtom(fn->args[0], AtomNode::Kind::kFn)) {
      fn = fn->args[0][0].atoms[0].get();
      sign = 1;
    }
    if (fn->name != "exp") continue;
    *out = Apply(ctx, "sigmoid", {Scale(RenameAll(ctx, fn->args[0]), sign)});
    return true;
  }
  return false;
}

NormalForm ApplyReciprocal(Context& ctx, const NormalForm& x) {
  NormalForm sigmoid;
  if (ctx.strategy.unfold && ReciprocalAsSigmoid(ctx, x, &sigmoid)) return sigmoid;
  if (x.size() == 1) return ReciprocalOfTerm(ctx, x[0]);
  if (x.empty() || !ctx.strategy.finite_laws) return Opaque(ctx, "recip", {x});
  // 1 / (a b + a c) = (1/a) * 1 / (b + c)
  for (const Atom& a : x[0].atoms) {
    if (Intersects(a->vars, x[0].bound)) continue;
    const std::string key = AtomKey(ctx, a);
    bool shared = std::all_of(x.begin(), x.end(), [&](const Term& t) {
      return std::any_of(t.atoms.begin(), t.atoms.end(), [&](const Atom& y) {
        return y->skeleton == a->skeleton && !Intersects(y->vars, t.bound) && AtomKey(ctx, y) == key;
      });
    });
    if (!shared) continue;
    NormalForm rest = x;
    RemoveFactor(ctx, a, &rest);
    ctx.used_finite_law = true;
    return Multiply(ctx, ReciprocalOfTerm(ctx, Term{1, {}, Guard::True(), {a}}),
                    ApplyReciprocal(ctx, Simplify(ctx, rest)));
  }
  return Opaque(ctx, "recip", {x});
}

NormalForm ApplyPow(Context& ctx, const NormalForm& x, const NormalForm& y) {
  Rational exponent;
  if (!IsConstant(y, &exponent)) return Opaque(ctx, "pow", {x, y});
  if (exponent == Rational(1, 2)) return Apply(ctx, "sqrt", {x});
  if (exponent.den() != 1 || exponent.num() > 4 || exponent.num() < -2) return Opaque(ctx, "pow", {x, y});
  NormalForm out = ConstantForm(1);
  for (int64_t i = 0; i < std::abs(exponent.num()); ++i) out = Multiply(ctx, out, RenameAll(ctx, x));
  return exponent.num() < 0 ? Apply(ctx, "recip", {out}) : out;
}

// x / y of integers, rounded toward zero.
NormalForm ApplyQuotient(Context& ctx, const std::string& fn, const NormalForm& x, const NormalForm& y) {
  Rational divisor;
  if (IsConstant(y, &divisor) && (divisor.IsOne() || divisor == Rational(-1))) return Scale(x, divisor);
  Poly num, den;
  const bool wide = IsWide(fn);
  if (IsBoundedIndex(ctx, x, wide, &num) && IsBoundedIndex(ctx, y, wide, &den) &&
      ctx.ProveNonneg({num, den - Poly(1)}, ctx.assumptions)) {
    return IndexForm(ctx, ctx.FloorDiv(num, den));
  }
  // A remainder a - y (a / y) is less than y.
  const std::string key = NormalFormKey(ctx, y);
  for (const Term& t : x) {
    if (!t.bound.empty()) continue;
    for (const Atom& a : t.atoms) {
      if (a->kind != AtomNode::Kind::kFn || a->name != fn || NormalFormKey(ctx, a->args[1]) != key) continue;
      const NormalForm multiple = Multiply(ctx, y, AtomForm(a));
      const NormalForm remainder = Add(ctx, RenameAll(ctx, a->args[0]), Scale(multiple, -1));
      if (Add(ctx, x, Scale(remainder, -1)).empty()) return {};
    }
  }
  return Opaque(ctx, fn, {x, y});
}

// The sign that the canonical one of x and -x has: 0 when skeletons alone do not tell them apart.
int CanonicalSign(const NormalForm& x) {
  std::map<std::string, int> signs;
  for (const Term& t : x) {
    auto [it, inserted] = signs.emplace(SkeletonOf(t), t.coef.Sign());
    if (!inserted && it->second != t.coef.Sign()) it->second = 0;
  }
  for (const auto& entry : signs) {
    if (entry.second != 0) return entry.second;
  }
  return 0;
}

NormalForm ApplyOne(Context& ctx, const std::string& fn, const NormalForm& x) {
  Rational value;
  if (fn == "exp") return ApplyExp(ctx, x);
  if (fn == "recip") return ApplyReciprocal(ctx, x);
  if (fn == "abs") return MaxOver(ctx, {{{}, Guard::True(), x}, {{}, Guard::True(), Scale(x, -1)}});
  if (fn == "tanh" && ctx.strategy.unfold) {
    return Add(ctx, Scale(ApplyOne(ctx, "sigmoid", Scale(x, 2)), 2), ConstantForm(-1));
  }
  const FnInfo* known = FindFn(fn);
  const std::string assumed = StandInProperty(fn);
  if (assumed == "keeps_zero" && x.empty()) return {};
  if (assumed == "odd" || (known != nullptr && FnHas(known->fn, FnTrait::kOdd) && fn != "sign" && fn != "round")) {
    if (x.empty()) return {};
    if (CanonicalSign(x) < 0) return Scale(Opaque(ctx, fn, {Scale(x, -1)}), -1);
  }
  if (known != nullptr && FnHas(known->fn, FnTrait::kEven) && CanonicalSign(x) < 0) {
    return Opaque(ctx, fn, {Scale(x, -1)});
  }
  if (fn == "sigmoid" && CanonicalSign(x) < 0) {
    return Add(ctx, ConstantForm(1), Scale(Opaque(ctx, fn, {Scale(x, -1)}), -1));
  }
  if (fn == "sqrt") return ApplySqrt(ctx, x);
  if (fn == "floor") return ApplyFloor(ctx, x);
  if (fn == "ceil") return Scale(ApplyFloor(ctx, Scale(x, -1)), -1);
  if (fn == "round") return ApplyRound(ctx, x);
  if (fn == "sign") return Add(ctx, ApplyOne(ctx, "pos", x), Scale(ApplyOne(ctx, "pos", Scale(x, -1)), -1));
  if (fn == "wrap_i32" && IsSingleAtom(x, AtomNode::Kind::kFn) && x[0].atoms[0]->name == "widen.i32") {
    return RenameAll(ctx, x[0].atoms[0]->args[0]);
  }
  if (fn == "log") {
    if (IsConstant(x, &value) && value.IsOne()) return {};
    if (ctx.strategy.finite_laws && IsSingleAtom(x, AtomNode::Kind::kFn) && x[0].atoms[0]->name == "exp") {
      ctx.used_finite_law = true;
      return RenameAll(ctx, x[0].atoms[0]->args[0]);
    }
    // log(a b) = log(a) + log(b) for a, b > 0, also where b is a sum.
    if (ctx.strategy.finite_laws && x.size() == 1 && x[0].coef.IsOne()) {
      Term rest = x[0];
      std::vector<Atom> factors;
      rest.atoms.clear();
      for (const Atom& a : x[0].atoms) (Intersects(a->vars, x[0].bound) ? rest.atoms : factors).push_back(a);
      const bool sum = !rest.bound.empty();
      // If there is no sum, no term is left for a condition.
      const bool conditional = !sum && !rest.guard.IsTrue();
      if (!conditional && factors.size() + (sum ? 1 : 0) > 1 && IsNonnegativeTerm(ctx, rest) &&
          std::all_of(factors.begin(), factors.end(), [&](const Atom& a) { return IsNonnegativeAtom(ctx, a); })) {
        ctx.used_finite_law = true;
        NormalForm out = sum ? Opaque(ctx, "log", {{rest}}) : NormalForm();
        for (const Atom& a : factors) out = Add(ctx, out, ApplyOne(ctx, "log", AtomForm(a)));
        return out;
      }
    }
    if (ctx.strategy.finite_laws && IsSingleAtom(x, AtomNode::Kind::kFn) && x[0].atoms[0]->name == "sqrt") {
      ctx.used_finite_law = true;
      return Scale(ApplyOne(ctx, "log", RenameAll(ctx, x[0].atoms[0]->args[0])), Rational(1, 2));
    }
    if (ctx.strategy.finite_laws && IsSingleAtom(x, AtomNode::Kind::kFn) && x[0].atoms[0]->name == "recip") {
      ctx.used_finite_law = true;
      return Scale(ApplyOne(ctx, "log", RenameAll(ctx, x[0].atoms[0]->args[0])), -1);
    }
  }
  if (fn == "pos" || fn == "zero") {
    if (IsConstant(x, &value)) return ConstantForm((fn == "pos" ? value.Sign() > 0 : value.IsZero()) ? 1 : 0);
    if (std::optional<NormalForm> truth = TruthByCases(ctx, x, fn == "zero")) return *std::move(truth);
    Families whole = {{{}, Guard::True(), x}};
    NormalForm scaled = Scale(x, Rational(1) / ContentOf(whole));
    // max{a, 0} is positive where a is.
    if (fn == "pos" && IsSingleAtom(scaled, AtomNode::Kind::kBinder)) {
      const Atom largest = scaled[0].atoms[0];
      if (const NormalForm* part = PositivePartOf(largest)) return ApplyOne(ctx, fn, RenameAll(ctx, *part));
    }
    Poly index;
    if (IsIndex(scaled, &index)) {
      return Restrict(ctx, fn == "pos" ? Guard::Ge(index - Poly(1)) : Guard::Eq(index), ConstantForm(1));
    }
    return Opaque(ctx, fn, {fn == "zero" && CanonicalSign(scaled) < 0 ? Scale(scaled, -1) : scaled});
  }
  return Opaque(ctx, fn, {x});
}

NormalForm ApplyAt(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args, int depth);

// A function of integers, which wrap around, except where the arguments are known not to have.
NormalForm ApplyInteger(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args, int depth) {
  const std::string plain = fn.substr(0, fn.find('.'));
  if (plain == "quotient") return ApplyQuotient(ctx, fn, args[0], args[1]);
  if (plain == FnName(Fn::kRandomBits)) return Opaque(ctx, fn, args);  // of each type another function
  const bool bounded = std::all_of(args.begin(), args.end(), [&](const NormalForm& arg) {
    Poly value;
    return IsBoundedIndex(ctx, arg, IsWide(fn), &value);
  });
  if (plain == "float" || plain == "widen") return bounded ? args[0] : Opaque(ctx, fn, args);
  if (plain == "less") {
    const NormalForm difference = Add(ctx, args[1], Scale(RenameAll(ctx, args[0]), -1));
    if (difference.empty()) return {};
    return bounded ? ApplyAt(ctx, "pos", {difference}, depth) : Opaque(ctx, fn, args);
  }
  if (plain == "zero") {
    if (bounded) return ApplyAt(ctx, plain, args, depth);
    if (std::optional<NormalForm> truth = TruthByCases(ctx, args[0], /*zero=*/true)) return *std::move(truth);
    return Opaque(ctx, fn, {CanonicalSign(args[0]) < 0 ? Scale(args[0], -1) : args[0]});
  }
  if (bounded) return ApplyAt(ctx, plain, args, depth);
  if (!IsExtremum(fn)) return Opaque(ctx, fn, args);
  Families families;
  for (const NormalForm& n : args) families.push_back({{}, Guard::True(), n});
  return ExtremumOver(ctx, fn, families);
}

NormalForm ApplyAt(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args, int depth) {
  for (size_t i = 0; depth < 8 && i < args.size(); ++i) {
    std::vector<Guard> literals = FreeLiterals(ctx, args[i]);
    if (literals.empty()) continue;
    const Guard yes = literals[0], no = Guard::Not(yes);
    NormalForm out;
    for (const auto& [holds, fails] : {std::make_pair(yes, no), std::make_pair(no, yes)}) {
      std::vector<NormalForm> assumed;
      for (const NormalForm& n : args) assumed.push_back(AssumeForm(ctx, n, holds, fails));
      for (Term t : ApplyAt(ctx, fn, assumed, depth + 1)) {
        t.guard = Guard::And(holds, t.guard);
        out.push_back(std::move(t));
      }
    }
    return Simplify(ctx, out);
  }
  if (IsIntegerFunction(fn)) return ApplyInteger(ctx, fn, args, depth);
  if (fn == "max") {
    Families families;
    for (const NormalForm& n : args) families.push_back({{}, Guard::True(), n});
    return MaxOver(ctx, families);
  }
  if (fn == "min") {
    Families families;
    for (const NormalForm& n : args) families.push_back({{}, Guard::True(), Scale(n, -1)});
    return Scale(MaxOver(ctx, families), -1);
  }
  if (fn == "pow") return ApplyPow(ctx, args[0], args[1]);
  if (args.size() == 1) return ApplyOne(ctx, fn, args[0]);
  return Opaque(ctx, fn, args);
}

}  // namespace

bool IsIntegerFunction(const std::string& name) { return name.find('.') != std::string::npos; }

bool IsExtremum(const std::string& binder) {
  return binder == "max" || binder.starts_with("max.") || binder.starts_with("min.");
}

bool FitsType(const Rational& value, const std::string& name) {
  const int64_t limit = IsWide(name) ? int64_t{1} << 62 : int64_t{1} << 31;
  return value.den() == 1 && value.num() >= -limit && value.num() < limit;
}

bool IsBoundedIndex(Context& ctx, const NormalForm& n, bool wide, Poly* value) {
  if (!IsIndex(n, value)) return false;
  if (value->IsConst()) return FitsType(value->Constant(), wide ? ".i64" : ".i32");
  ctx.used_bounds = true;
  if (wide) return MostBits(ctx, *value) < 63;
  return (value->items().size() == 1 && value->items()[0].vars.size() == 1 && value->items()[0].coef == 1 &&
          !ctx.IsDefinition(value->items()[0].vars[0]));
}

NormalForm Apply(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args) {
  NormalForm out = ApplyAt(ctx, fn, args, 0);
  if (ProofObserver* observer = ObserverOf(ctx)) {
    observer->Equal(ctx, Law::kFunction, Guard::True(), AtomForm(MakeFnAtom(ctx, fn, args)), out);
  }
  return out;
}

}  // namespace rewright::verifier
