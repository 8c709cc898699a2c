#include "verifier/smt/encode.h"

#include <algorithm>

#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/monotone.h"
#include "verifier/normal_form/normal_form.h"

namespace rewright::verifier {
namespace {

constexpr size_t kMaxLemmas = 800;

// Replaces free local variables in a closure's body by numbered parameters, so that closures that differ only there
// become one function applied to different arguments.
class Abstraction {
 public:
  explicit Abstraction(Context& ctx) : ctx_(ctx) {}

  std::vector<Poly> params;
  Context::Names names;

  Poly Of(const Poly& p, const std::vector<Var>& bound) {
    std::vector<Poly::Item> outside, inside;
    for (const Poly::Item& item : p.items()) {
      (ctx_.Mentions(Poly::Of(item.vars, 1), bound) ? inside : outside).push_back(item);
    }
    Poly open = Poly::FromItems(outside);
    if (!IsLocal(open)) return p;
    Poly rest = Poly::FromItems(inside);
    for (size_t i = 0; i < params.size(); ++i) {
      if (!IsLocal(open - params[i])) return rest + Poly::Of(holes_[i]) + (open - params[i]);
      if (!IsLocal(open + params[i])) return rest - Poly::Of(holes_[i]) + (open + params[i]);
    }
    holes_.push_back(ctx_.NewLocal("p"));
    names[holes_.back()] = "$p" + std::to_string(params.size());
    params.push_back(open);
    return rest + Poly::Of(holes_.back());
  }

  Guard Of(const Guard& g, const std::vector<Var>& bound) {
    switch (g.kind()) {
      case Guard::Kind::kTrue:
      case Guard::Kind::kFalse: return g;
      case Guard::Kind::kGe: return Guard::Ge(Of(g.poly(), bound));
      case Guard::Kind::kEq: return Guard::Eq(Of(g.poly(), bound));
      case Guard::Kind::kNot: return Guard::Not(Of(g.args()[0], bound));
      case Guard::Kind::kAnd: break;
    }
    std::vector<Guard> parts;
    for (const Guard& part : g.args()) parts.push_back(Of(part, bound));
    return Guard::And(parts);
  }

  Atom Of(const Atom& a, const std::vector<Var>& bound) {
    switch (a->kind) {
      case AtomNode::Kind::kRead: {
        std::vector<Poly> at;
        for (const Poly& p : a->at) at.push_back(Of(p, bound));
        return MakeRead(ctx_, Leaf{a->name, a->positive, a->boolean}, std::move(at));
      }
      case AtomNode::Kind::kInt: return MakeIntAtom(ctx_, Of(a->value, bound));
      case AtomNode::Kind::kFn: {
        std::vector<NormalForm> args;
        for (const NormalForm& n : a->args) args.push_back(Of(n, bound));
        return MakeFnAtom(ctx_, a->name, std::move(args));
      }
      case AtomNode::Kind::kBinder: break;
    }
    return MakeBinderAtom(ctx_, a->name, Of(a->families, bound));
  }

  NormalForm Of(const NormalForm& n, const std::vector<Var>& bound) {
    std::vector<std::pair<std::string, const Term*>> order;
    for (const Term& t : n) order.emplace_back(SkeletonOf(t), &t);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    NormalForm out;
    for (const auto& entry : order) {
      const Term& t = *entry.second;
      std::vector<Var> all = bound;
      all.insert(all.end(), t.bound.begin(), t.bound.end());
      Term changed{t.coef, t.bound, Guard::True(), {}};
      for (const Atom& a : t.atoms) changed.atoms.push_back(Of(a, all));
      changed.guard = Of(t.guard, all);
      out.push_back(std::move(changed));
    }
    return out;
  }

  std::vector<Family> Of(const std::vector<Family>& families, const std::vector<Var>& bound) {
    std::vector<std::pair<std::string, const Family*>> order;
    for (const Family& b : families) order.emplace_back(SkeletonOf(b.body), &b);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Family> out;
    for (const auto& entry : order) {
      std::vector<Var> all = bound;
      all.insert(all.end(), entry.second->bound.begin(), entry.second->bound.end());
      NormalForm body = Of(entry.second->body, all);
      out.push_back({entry.second->bound, Of(entry.second->guard, all), std::move(body)});
    }
    return out;
  }

 private:
  bool IsLocal(const Poly& p) const {
    for (Var v : ctx_.BaseVars(p)) {
      if (!ctx_.IsParam(v)) return true;
    }
    return false;
  }

  Context& ctx_;
  std::vector<Var> holes_;
};

constexpr size_t kMostPairs = 12;  // applications of one function that are compared with a further one

}  // namespace

// ---------------------------------------------------------------- integers

z3::expr Encoder::OfVar(Var v) {
  auto it = vars_.find(v);
  if (it != vars_.end()) return it->second;
  const VarInfo info = ctx_.Info(v);
  const std::string name = info.name + "#" + std::to_string(v);
  z3::expr x = z3_.int_const(name.c_str());
  if (info.kind == VarInfo::Kind::kValue && IsSingleAtom(ElementOf(info), AtomNode::Kind::kRead)) {
    const Atom& read = ElementOf(info)[0].atoms[0];
    std::vector<z3::expr> args;
    for (const Poly& p : read->at) args.push_back(OfPoly(p));
    x = Uninterpreted("index of " + read->name, args, z3_.int_sort());
  }
  vars_.emplace(v, x);
  if (info.kind == VarInfo::Kind::kDiv) {
    z3::expr num = OfPoly(info.a), den = OfPoly(info.b), below = OfPoly(Poly::Of(v) * info.b);
    side_.push_back(z3::implies(den > 0, below <= num && num < below + den));
  } else if (info.kind == VarInfo::Kind::kMin) {
    z3::expr a = OfPoly(info.a), b = OfPoly(info.b);
    side_.push_back(x <= a && x <= b && (x == a || x == b));
  }
  return x;
}

z3::expr Encoder::OfMonomial(const Monomial& m) {
  if (m.size() == 1) return OfVar(m[0]);
  if (!linear_) {
    nonlinear_ = true;
    z3::expr x = OfVar(m[0]);
    for (size_t i = 1; i < m.size(); ++i) x = x * OfVar(m[i]);
    return x;
  }
  auto it = products_.find(m);
  if (it != products_.end()) return it->second;
  std::string name;
  for (Var v : m) {
    OfVar(v);
    name += (name.empty() ? "" : "*") + std::to_string(v);
  }
  return products_.emplace(m, z3_.int_const(name.c_str())).first->second;
}

z3::expr Encoder::OfPoly(const Poly& p) {
  z3::expr_vector parts(z3_);
  for (const Poly::Item& item : p.items()) {
    if (item.vars.empty()) {
      parts.push_back(z3_.int_val(item.coef));
    } else {
      z3::expr x = OfMonomial(item.vars);
      parts.push_back(item.coef == 1 ? x : z3_.int_val(item.coef) * x);
    }
  }
  if (parts.empty()) return z3_.int_val(0);
  return parts.size() == 1 ? parts[0] : z3::sum(parts);
}

z3::expr Encoder::OfGuard(const Guard& g) {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return z3_.bool_val(true);
    case Guard::Kind::kFalse: return z3_.bool_val(false);
    case Guard::Kind::kGe: return OfPoly(g.poly()) >= 0;
    case Guard::Kind::kEq: return OfPoly(g.poly()) == 0;
    case Guard::Kind::kNot: return !OfGuard(g.args()[0]);
    case Guard::Kind::kAnd: break;
  }
  z3::expr_vector parts(z3_);
  for (const Guard& part : g.args()) parts.push_back(OfGuard(part));
  return z3::mk_and(parts);
}

std::vector<z3::expr> Encoder::VariableFacts(const std::vector<Var>& hidden) {
  std::vector<z3::expr> out;
  std::set<Var> done;
  for (bool again = true; again;) {
    again = false;
    std::vector<Var> todo;
    for (const auto& entry : vars_) {
      if (done.insert(entry.first).second) todo.push_back(entry.first);
    }
    for (Var v : todo) {
      again = true;
      const VarInfo info = ctx_.Info(v);
      z3::expr x = OfVar(v);
      if (info.kind == VarInfo::Kind::kParam && info.min.has_value()) out.push_back(x >= z3_.int_val(*info.min));
      if (!info.range.has_value() || Has(hidden, v)) continue;
      out.push_back(OfPoly(info.range->first) <= x && x < OfPoly(info.range->second));
    }
  }
  return out;
}

std::vector<z3::expr> Encoder::Lemmas(const std::vector<Poly>& bounds) {
  std::vector<z3::expr> out;
  if (!linear_ || products_.empty()) return out;
  std::vector<Monomial> known;
  for (const auto& entry : products_) known.push_back(entry.first);
  auto is_known = [&](const Monomial& m) { return std::binary_search(known.begin(), known.end(), m); };
  auto value = [&](const Monomial& m) { return m.empty() ? z3_.int_val(1) : OfMonomial(m); };
  auto nonneg = [&](const Monomial& m) {
    z3::expr_vector parts(z3_);
    for (Var v : m) parts.push_back(OfVar(v) >= 0);
    return z3::mk_and(parts);
  };
  std::map<Monomial, std::set<Var>> cofactors;
  for (const Monomial& m : known) {
    out.push_back(z3::implies(nonneg(m), value(m) >= 0));
    z3::expr_vector positive(z3_), larger(z3_);
    for (size_t i = 0; i < m.size(); ++i) {
      positive.push_back(OfVar(m[i]) >= 1);
      larger.push_back(value(m) >= OfVar(m[i]));
      Monomial rest = m;
      rest.erase(rest.begin() + static_cast<int64_t>(i));
      cofactors[rest].insert(m[i]);
    }
    out.push_back(z3::implies(z3::mk_and(positive), z3::mk_and(larger)));
  }
  for (const auto& [c, xs] : cofactors) {
    for (Var x : xs) {
      for (Var y : xs) {
        if (x == y || out.size() > kMaxLemmas) continue;
        z3::expr a = value(MultiplyMonomials(c, {x})), b = value(MultiplyMonomials(c, {y}));
        out.push_back(z3::implies(nonneg(c) && OfVar(x) <= OfVar(y), a <= b));
        out.push_back(z3::implies(nonneg(c) && OfVar(x) + 1 <= OfVar(y), a + value(c) <= b));
      }
    }
    for (const Poly& q : bounds) {
      if (out.size() > kMaxLemmas) break;
      Poly product = q * Poly::Of(c, 1);
      bool all_known = true, some_known = false, small = true;
      for (const Poly::Item& item : product.items()) {
        bool here = is_known(item.vars);
        all_known = all_known && (item.vars.size() <= 1 || here);
        some_known = some_known || here;
        small = small && item.vars.size() <= 3;
      }
      if (!all_known && !(some_known && small && out.size() < kMaxLemmas / 2)) continue;
      z3::expr p = OfPoly(product), s = OfPoly(q);
      out.push_back(z3::implies(nonneg(c) && s >= 0, p >= 0));
      out.push_back(z3::implies(nonneg(c) && s <= 0, p <= 0));
    }
  }
  AddQuotientLemmas(bounds, &out);
  return out;
}

// For d >= 1: 0 <= d a + n says 0 <= a + n div d, and n < d a says n div d < a.
void Encoder::AddQuotientLemmas(const std::vector<Poly>& bounds, std::vector<z3::expr>* out) {
  std::vector<Var> quotients;
  for (const auto& entry : vars_) {
    if (ctx_.Info(entry.first).kind == VarInfo::Kind::kDiv) quotients.push_back(entry.first);
  }
  for (const Var q : quotients) {
    const Poly n = ctx_.Info(q).a, d = ctx_.Info(q).b;
    if (d.IsConst()) continue;  // linear already
    const auto say = [&](const Poly& bound, const Poly& multiple, const Poly& quotient) {
      Poly a;
      if (!DivideExactly(multiple, d, &a) || a.IsConst()) return;
      out->push_back(z3::implies(OfPoly(d) >= 1, (OfPoly(bound) >= 0) == (OfPoly(a + quotient) >= 0)));
    };
    for (const Poly& bound : bounds) {
      if (out->size() > kMaxLemmas) return;
      say(bound, bound - n, Poly::Of(q));
      say(bound, bound + n + Poly(1), -Poly::Of(q) - Poly(1));
    }
  }
}

// ---------------------------------------------------------------- elements

z3::expr Encoder::RealOf(const Rational& r) { return z3_.real_val(r.ToString().c_str()); }

z3::expr Encoder::Uninterpreted(const std::string& name, const std::vector<z3::expr>& args, const z3::sort& range) {
  if (args.empty()) return z3_.constant(name.c_str(), range);
  z3::sort_vector domain(z3_);
  z3::expr_vector values(z3_);
  for (const z3::expr& arg : args) {
    domain.push_back(arg.get_sort());
    values.push_back(arg);
  }
  return z3_.function((name + "/" + std::to_string(args.size())).c_str(), domain, range)(values);
}

z3::expr Encoder::OfForm(const NormalForm& n, const Guard& path) {
  z3::expr_vector parts(z3_);
  for (const Term& t : n) parts.push_back(OfTerm(t, path));
  if (parts.empty()) return z3_.real_val(0);
  return parts.size() == 1 ? parts[0] : z3::sum(parts);
}

z3::expr Encoder::OfTerm(const Term& t, const Guard& path) {
  std::vector<Atom> inside, outside;
  std::vector<Guard> guards_inside, guards_outside;
  for (const Atom& a : t.atoms) (Intersects(a->vars, t.bound) ? inside : outside).push_back(a);
  for (const Guard& g : Conjuncts(t.guard)) {
    (ctx_.Mentions(g, t.bound) ? guards_inside : guards_outside).push_back(g);
  }
  const Guard here = Guard::And(guards_outside);
  const Guard inner = Guard::And(path, here);
  z3::expr value = z3_.real_val(1);
  if (!t.bound.empty()) {
    Family summed{t.bound, Guard::And(guards_inside), {Term{1, {}, Guard::True(), inside}}};
    z3::expr sum = Closure("sum", {summed}, inner);
    value = Product(outside, &sum, inner);
  } else if (!t.atoms.empty()) {
    value = Product(t.atoms, nullptr, inner);
  }
  if (!t.coef.IsOne()) value = RealOf(t.coef) * value;
  return here.IsTrue() ? value : z3::ite(OfGuard(here), value, z3_.real_val(0));
}

// A truth value times x is x or nothing. Other products are uninterpreted, their factors in the order of skeletons;
// equal skeletons get instances of commutativity.
z3::expr Encoder::Product(const std::vector<Atom>& atoms, const z3::expr* extra, const Guard& path) {
  std::vector<Atom> sorted = atoms;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Atom& a, const Atom& b) { return a->skeleton < b->skeleton; });
  const auto truths = std::stable_partition(sorted.begin(), sorted.end(), [](const Atom& a) { return !a->boolean; });
  std::vector<z3::expr> factors;
  z3::expr_vector holds(z3_);
  for (auto it = truths; it != sorted.end(); ++it) holds.push_back(OfAtom(*it, path) != 0);
  sorted.erase(truths, sorted.end());
  for (const Atom& a : sorted) factors.push_back(OfAtom(a, path));
  if (extra != nullptr) factors.push_back(*extra);
  if (!holds.empty()) {
    cases_ = true;
    const z3::expr rest = factors.empty() ? z3_.real_val(1) : ProductOf(sorted, factors);
    return z3::ite(z3::mk_and(holds), rest, z3_.real_val(0));
  }
  return ProductOf(sorted, factors);
}

// `factors` are those of the atoms, and perhaps one more.
z3::expr Encoder::ProductOf(const std::vector<Atom>& sorted, const std::vector<z3::expr>& factors) {
  if (factors.size() == 1) return factors[0];
  element_products_ = true;
  if (!linear_) {
    z3::expr product = factors[0];
    for (size_t i = 1; i < factors.size(); ++i) product = product * factors[i];
    return product;
  }
  z3::expr product = Uninterpreted("mul", factors, z3_.real_sort());
  for (size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i]->skeleton != sorted[i + 1]->skeleton) continue;
    std::vector<z3::expr> swapped = factors;
    std::swap(swapped[i], swapped[i + 1]);
    side_.push_back(Uninterpreted("mul", swapped, z3_.real_sort()) == product);
  }
  return product;
}

z3::expr Encoder::OfMaxWithoutBound(const Atom& a, const Guard& path) {
  std::vector<Family> families = a->families;
  std::stable_sort(families.begin(), families.end(),
                   [](const Family& x, const Family& y) { return x.guard.IsTrue() > y.guard.IsTrue(); });
  z3::expr result = z3_.real_const("the maximum of nothing");
  z3::expr some = z3_.bool_val(false);
  bool certain = false;
  for (size_t i = 0; i < families.size(); ++i) {
    z3::expr value = OfForm(families[i].body, Guard::And(path, families[i].guard));
    if (i == 0 && families[i].guard.IsTrue()) {
      result = value;
      certain = true;
      continue;
    }
    z3::expr holds = OfGuard(families[i].guard);
    cases_ = true;
    result = z3::ite(certain ? holds && value >= result : holds && (!some || value >= result), value, result);
    if (!certain) some = some || holds;
  }
  return result;
}

z3::expr Encoder::OfAtom(const Atom& a, const Guard& path) {
  switch (a->kind) {
    case AtomNode::Kind::kRead: {
      std::vector<z3::expr> args;
      for (const Poly& p : a->at) args.push_back(OfPoly(p));
      z3::expr value = Uninterpreted("leaf " + a->name, args, z3_.real_sort());
      if (a->positive) side_.push_back(value > 0);
      if (a->boolean) side_.push_back(value == 0 || value == 1);
      return value;
    }
    case AtomNode::Kind::kInt: return z3::to_real(OfPoly(a->value));
    case AtomNode::Kind::kFn: return OfFunction(a, path);
    case AtomNode::Kind::kBinder: break;
  }
  bool bound = std::any_of(a->families.begin(), a->families.end(), [](const Family& b) { return !b.bound.empty(); });
  if (a->name == "max" && !bound) return OfMaxWithoutBound(a, path);
  return Closure(a->name, a->families, path);
}

z3::expr Encoder::Closure(const std::string& kind, const std::vector<Family>& families, const Guard& path) {
  Abstraction abstraction(ctx_);
  std::vector<Family> abstracted = abstraction.Of(families, {});
  std::vector<std::string> keys, skeletons;
  for (const Family& b : abstracted) {
    keys.push_back(FamilyKey(ctx_, b, abstraction.names));
    skeletons.push_back(SkeletonOf(b.body));
  }
  std::sort(keys.begin(), keys.end());
  std::sort(skeletons.begin(), skeletons.end());
  std::string key = kind, skeleton;
  for (const std::string& k : keys) key += "|" + k;
  for (const std::string& h : skeletons) skeleton += "|" + h;
  const std::string name =
      closure_names_.emplace(key, kind + " " + std::to_string(closure_names_.size())).first->second;
  std::vector<z3::expr> args;
  for (const Poly& p : abstraction.params) args.push_back(OfPoly(p));
  z3::expr value = Uninterpreted(name, args, z3_.real_sort());

  const size_t count = instances_.size();
  for (size_t i = 0; i < count; ++i) {
    const Instance other = instances_[i];
    if (other.kind != kind || (other.name == name && other.params == abstraction.params)) continue;
    if (!equal_closures_) continue;
    if (!IsExtremum(kind) && other.skeleton != skeleton) continue;
    if (other.name == name) continue;  // congruence of the function decides
    const Guard both = Guard::And(other.path, path);
    if (equal_closures_(kind, other.families, families, both)) {
      side_.push_back(z3::implies(OfGuard(both), value == other.value));
    }
  }
  bool known = std::any_of(instances_.begin(), instances_.end(),
                           [&](const Instance& i) { return i.name == name && i.params == abstraction.params; });
  if (known) return value;
  // Tries to show that the sum's guard never holds here: for example, a sum over the kernels of other groups.
  if (kind == "sum" && !families[0].guard.IsTrue() && !path.IsTrue() && equal_closures_ &&
      equal_closures_(kind, families, {Family{{}, Guard::True(), {}}}, path)) {
    side_.push_back(z3::implies(OfGuard(path), value == 0));
  }
  instances_.push_back({name, kind, abstraction.params, families, skeleton, path, value});
  return value;
}

// ---------------------------------------------------------------- functions: roundings are integers next to their
// argument, increasing functions keep the order of their arguments

z3::expr Encoder::OfFunction(const Atom& a, const Guard& path) {
  std::vector<z3::expr> args;
  for (const NormalForm& n : a->args) args.push_back(OfForm(n, path));
  const auto truth = [&](const z3::expr& holds) { return z3::ite(holds, z3_.real_val(1), z3_.real_val(0)); };
  if (a->name == "pos") return cases_ = true, truth(args[0] > 0);
  if (a->name == "zero") return cases_ = true, truth(args[0] == 0);
  if (a->name == "floor" || a->name == "round") return Rounded(a->name, args[0]);
  if (a->name.starts_with("float.")) {
    return z3::to_real(Uninterpreted("fn " + a->name, args, z3_.int_sort()));
  }
  z3::expr image = Uninterpreted("fn " + a->name, args, z3_.real_sort());
  if (a->name == "exp" || a->name == "sigmoid") side_.push_back(image > 0);
  if (a->boolean) side_.push_back(image == 0 || image == 1);
  if (const Increasing* fn = FindIncreasing(a->name)) Increase(*fn, args[0], image);
  return image;
}

// floor(x) is the integer n with n <= x < n + 1, round(x) one with |n - x| <= 1/2.
z3::expr Encoder::Rounded(const std::string& name, const z3::expr& x) {
  z3::expr value = z3::to_real(Uninterpreted("fn " + name, {x}, z3_.int_sort()));
  if (name == "floor") {
    side_.push_back(value <= x && x < value + 1);
  } else {
    side_.push_back(2 * value <= 2 * x + 1 && 2 * x <= 2 * value + 1);
  }
  return value;
}

void Encoder::Increase(const Increasing& fn, const z3::expr& x, const z3::expr& value) {
  using Domain = Increasing::Domain;
  const auto inside = [&](const z3::expr& at) {
    switch (fn.domain) {
      case Domain::kReals: return z3_.bool_val(true);
      case Domain::kNonnegative: return at >= 0;
      case Domain::kPositive: return at > 0;
    }
    return z3_.bool_val(false);
  };
  std::vector<std::pair<z3::expr, z3::expr>>& known = applications_[fn.name];
  if (known.empty() && fn.den != 0) known.emplace_back(RealOf(fn.anchor), RealOf(Rational(fn.num, fn.den)));
  for (size_t i = 0; i < std::min(known.size(), kMostPairs); ++i) {
    const auto& [other, other_value] = known[i];
    if (!fn.strictly) {
      side_.push_back(z3::implies(inside(x) && inside(other) && x <= other, value <= other_value));
      side_.push_back(z3::implies(inside(x) && inside(other) && x >= other, value >= other_value));
      continue;
    }
    side_.push_back(z3::implies(inside(x) && inside(other), (x < other) == (value < other_value)));
    side_.push_back(z3::implies(inside(x) && inside(other), (x > other) == (value > other_value)));
  }
  known.emplace_back(x, value);
}

}  // namespace rewright::verifier
