// Reductions: sums, extrema and products over ranges, as normal forms.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verifier/integer/give_up.h"
#include "verifier/normal_form/extrema.h"
#include "verifier/normal_form/monotone.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/products.h"
#include "verifier/normal_form/substitute.h"
#include "verifier/prove/elements_internal.h"

namespace rewright::verifier {
namespace {

// The parts of a conjunction that depend on indices alone, and the others.
void SplitHolds(const ExprPtr& condition, std::vector<ExprPtr>* indices, std::vector<ExprPtr>* elements) {
  if (condition->kind() != ExprKind::kAnd) {
    (MentionsHolds(condition) ? elements : indices)->push_back(condition);
    return;
  }
  for (const ExprPtr& part : condition->args()) SplitHolds(part, indices, elements);
}

std::vector<Poly> PrimeFactors(int64_t n) {
  constexpr int64_t kGreatest = 64;
  std::vector<Poly> out;
  for (int64_t p = 2; p <= kGreatest && n > 1; ++p) {
    for (; n % p == 0; n /= p) out.emplace_back(p);
  }
  if (n > 1) out.emplace_back(n);
  return out;
}

bool IsProduct(const Poly& p) {
  if (p.items().size() != 1 || p.items()[0].coef < 1) return false;
  return p.items()[0].vars.size() + (p.items()[0].coef > 1 ? 1 : 0) >= 2;
}

// The literal numbers by which divisions in the polynomials cut v: v div 6, (3 v + 1) div 18.
std::set<int64_t> LiteralDivisors(const Context& ctx, const std::vector<Poly>& polys, Var v) {
  std::set<int64_t> found;
  std::set<Var> met;
  std::vector<const Poly*> waiting;
  for (const Poly& p : polys) waiting.push_back(&p);
  while (!waiting.empty()) {
    const Poly& p = *waiting.back();
    waiting.pop_back();
    for (Var q : p.Vars()) {
      const VarInfo& info = ctx.Info(q);
      if (!ctx.IsDefinition(q) || info.value != nullptr || !Has(info.inner, v) || !met.insert(q).second) continue;
      waiting.push_back(&info.a);
      if (info.kind != VarInfo::Kind::kDiv || info.b.items().size() != 1) continue;
      const int64_t divisor = info.b.items()[0].coef, step = info.a.Coef(v);
      found.insert(divisor / std::gcd(divisor, step == 0 ? 1 : step));
    }
  }
  return found;
}

// n as a product such that each divisor is the product of its last factors; nothing where the divisors are no chain.
std::optional<std::vector<Poly>> FactorsBetween(int64_t n, const std::set<int64_t>& divisors) {
  std::vector<Poly> out;
  for (auto divisor = divisors.rbegin(); divisor != divisors.rend(); ++divisor) {
    if (*divisor <= 1 || *divisor >= n) continue;
    if (n % *divisor != 0) return std::nullopt;
    out.emplace_back(n / *divisor);
    n = *divisor;
  }
  if (n > 1) out.emplace_back(n);
  return out;
}

// As SplitProduct does, where the literal factor of `hi` is the product of `literals`. The name is a copy: it may lie
// in the list that grows here.
void SplitBy(Context& ctx, std::string name, const Poly& hi, const std::vector<Poly>& literals,
             std::vector<Var>* digits, Poly* value) {
  std::vector<Var> factors(hi.items()[0].vars.begin(), hi.items()[0].vars.end());
  std::stable_sort(factors.begin(), factors.end(), [&](Var a, Var b) { return ctx.FactorRank(a) < ctx.FactorRank(b); });
  std::vector<Poly> radices;
  for (Var f : factors) radices.push_back(Poly::Of(f));
  radices.insert(ctx.strategy.factor_order == 0 ? radices.end() : radices.begin(), literals.begin(), literals.end());
  *value = Poly();
  for (const Poly& radix : radices) {
    digits->push_back(ctx.NewRanged(name, Poly(), radix));
    *value = *value * radix + Poly::Of(digits->back());
  }
}

}  // namespace

bool SplitProduct(Context& ctx, std::string name, const Poly& hi, std::vector<Var>* digits, Poly* value) {
  if (!IsProduct(hi)) return false;
  ctx.met_product = true;
  SplitBy(ctx, std::move(name), hi, PrimeFactors(hi.items()[0].coef), digits, value);
  return true;
}

// Splits a range where divisions cut it. Its literal factor is cut by the literal numbers among these alone, so that 18
// under a division by 6 is 3 * 6, and 6 k under one by k is 6 * k; or, by the strategy, into primes.
bool Elements::SplitDivided(Var v, const std::vector<Poly>& polys, std::vector<Var>* digits, Poly* value) {
  const std::string name = ctx_.Info(v).name;
  const Poly hi = ctx_.Info(v).range->second;
  if (hi.items().size() != 1 || hi.items()[0].coef < 1) return false;
  const std::set<int64_t> divisors = LiteralDivisors(ctx_, polys, v);
  const std::optional<std::vector<Poly>> factors = FactorsBetween(hi.items()[0].coef, divisors);
  const bool by_divisors = factors && !divisors.empty() && (hi.IsConst() || !ctx_.strategy.split_products);
  if (!by_divisors) return SplitProduct(ctx_, name, hi, digits, value);
  if (factors->size() + hi.items()[0].vars.size() < 2) return false;
  ctx_.met_product = true;
  SplitBy(ctx_, name, hi, *factors, digits, value);
  return true;
}

void Elements::ExpandRanges(std::vector<Var>* bound, const NormalForm& body, Substitution* s,
                            std::vector<Guard>* ranges) {
  std::vector<Poly> polys;
  AllPolys(body, &polys);
  auto divided = [&](Var v) {
    for (const Poly& p : polys) {
      for (Var q : p.Vars()) {
        if (ctx_.IsDefinition(q) && std::binary_search(ctx_.Info(q).inner.begin(), ctx_.Info(q).inner.end(), v)) {
          return true;
        }
      }
    }
    return false;
  };
  std::vector<Var> out;
  for (Var v : *bound) {
    const Poly hi = ctx_.Info(v).range->second;
    std::vector<Var> digits;
    Poly value;
    ctx_.met_product = ctx_.met_product || IsProduct(hi);
    const bool split = divided(v)
                           ? SplitDivided(v, polys, &digits, &value)
                           : ctx_.strategy.split_products && SplitProduct(ctx_, ctx_.Info(v).name, hi, &digits, &value);
    if (split) {
      s->Set(v, value);
      for (Var d : digits) ranges->push_back(Guard::InRange(Poly::Of(d), Poly(), ctx_.Info(d).range->second));
      out.insert(out.end(), digits.begin(), digits.end());
    } else {
      ranges->push_back(Guard::InRange(Poly::Of(v), Poly(), hi));
      out.push_back(v);
    }
  }
  *bound = std::move(out);
}

// SUM over v in [0, 3) of t(v) = t(0) + t(1) + t(2), for each of the bound variables from number `first` on.
NormalForm Elements::Unrolled(const ExprPtr& e, size_t first, Scope& scope, std::vector<bool>* literal) {
  if (first == e->bound().size()) return ReduceOthers(e, scope, *literal);
  const BoundVar& b = e->bound()[first];
  const Poly extent = ToPoly(b.extent, scope);
  if (!extent.IsConst() || extent.Constant() > kMostTerms) return Unrolled(e, first + 1, scope, literal);
  (*literal)[first] = true;
  NormalForm terms;
  for (int64_t value = 0; value < extent.Constant(); ++value) {
    scope.variables[b.id] = Poly(value);
    const NormalForm part = Unrolled(e, first + 1, scope, literal);
    terms.insert(terms.end(), part.begin(), part.end());
  }
  (*literal)[first] = false;
  return Merged(ctx_, terms);
}

// The same for maxima, minima and products over literal ranges alone; nothing where there is another range.
std::optional<NormalForm> Elements::UnrolledOther(const ExprPtr& e, Scope& scope) {
  constexpr int64_t kMost = 64;
  std::vector<int64_t> extents;
  int64_t count = 1;
  for (const BoundVar& b : e->bound()) {
    const Poly extent = ToPoly(b.extent, scope);
    if (!extent.IsConst() || extent.Constant() < 1 || extent.Constant() > kMost / count) return std::nullopt;
    extents.push_back(extent.Constant());
    count *= extents.back();
  }
  const bool least = e->reduction() == ReduceKind::kMin, product = e->reduction() == ReduceKind::kProd;
  const bool turned = least && !IsInteger(e->dtype());  // a minimum of reals is a maximum
  NormalForm out = ConstantForm(1);
  std::vector<Family> families;
  for (int64_t number = 0; number < count; ++number) {
    int64_t rest = number;
    for (size_t k = 0; k < extents.size(); ++k) {
      scope.variables[e->bound()[k].id] = Poly(rest % extents[k]);
      rest /= extents[k];
    }
    const NormalForm part = ReduceOthers(e, scope, std::vector<bool>(extents.size(), true));
    if (product) {
      out = Multiply(ctx_, out, part);
    } else {
      families.push_back({{}, Guard::True(), turned ? Scale(part, -1) : part});
    }
  }
  if (product) return out;
  const NormalForm extremum = ExtremumOver(ctx_, Typed(least && !turned ? "min" : "max", e->dtype()), families);
  return turned ? Scale(extremum, -1) : extremum;
}

NormalForm Elements::ToReduce(const ExprPtr& e, Scope& scope) {
  std::vector<bool> literal(e->bound().size(), false);
  const bool other =
      e->reduction() == ReduceKind::kMax || e->reduction() == ReduceKind::kMin || e->reduction() == ReduceKind::kProd;
  if (ctx_.strategy.unroll && other && scope.reads == nullptr && !e->bound().empty()) {
    if (std::optional<NormalForm> unrolled = UnrolledOther(e, scope)) return *std::move(unrolled);
  }
  if (ctx_.strategy.unroll && e->reduction() == ReduceKind::kSum && scope.reads == nullptr) {
    return Unrolled(e, 0, scope, &literal);
  }
  return ReduceOthers(e, scope, literal);
}

NormalForm Elements::ReduceOthers(const ExprPtr& e, Scope& scope, const std::vector<bool>& literal) {
  std::vector<Var> bound;
  const size_t path_size = scope.path.size();
  for (size_t k = 0; k < literal.size(); ++k) {
    if (literal[k]) continue;
    const BoundVar& b = e->bound()[k];
    Poly extent = ToPoly(b.extent, scope);
    ctx_.met_literal = ctx_.met_literal || extent.IsConst();
    Var v = ctx_.NewRanged(b.name, Poly(), extent);
    bound.push_back(v);
    scope.variables[b.id] = Poly::Of(v);
    scope.path.push_back(Guard::InRange(Poly::Of(v), Poly(), extent));
  }
  std::vector<ExprPtr> indices, elements;
  SplitHolds(e->guard(), &indices, &elements);
  if (!elements.empty() && e->reduction() != ReduceKind::kSum) throw GiveUp("a reduction is guarded by an element");
  // [c and d] x = [c] d x where d is the truth of elements, 0 or 1.
  Cond plain(true);
  for (const ExprPtr& index : indices) plain = plain && Cond(index);
  Guard guard = ToGuard(plain.node(), scope);
  NormalForm body;
  {
    Under under(ctx_, scope, guard);
    body = ToForm(e->body(), scope);
    for (const ExprPtr& element : elements) body = Multiply(ctx_, ToIndicator(element, scope), body);
  }
  scope.path.resize(path_size);
  if (ctx_.strategy.unroll && bound.empty() && guard.IsTrue()) return body;

  Substitution s;
  std::vector<Guard> parts;
  NormalForm guarded = body;
  if (!guard.IsTrue()) {
    Term mark;
    mark.guard = guard;
    guarded.push_back(mark);  // its divisions count as well
  }
  const Poly first = bound.empty() ? Poly() : Poly::Of(bound[0]);
  ExpandRanges(&bound, guarded, &s, &parts);
  const Poly place = ctx_.Subst(first, s);  // of argmax, which binds one variable
  parts.push_back(ctx_.Subst(guard, s));
  guard = Guard::And(parts);
  body = Subst(ctx_, body, s);
  switch (e->reduction()) {
    case ReduceKind::kSum: return SumOver(ctx_, bound, guard, Simplify(ctx_, body));
    case ReduceKind::kMax: return ExtremumOver(ctx_, Typed("max", e->dtype()), {{bound, guard, body}});
    case ReduceKind::kMin:
      if (IsInteger(e->dtype())) return ExtremumOver(ctx_, Typed("min", e->dtype()), {{bound, guard, body}});
      return Scale(MaxOver(ctx_, {{bound, guard, Scale(body, -1)}}), -1);
    case ReduceKind::kProd: return ProdOver(ctx_, {bound, guard, body});
    case ReduceKind::kArgMax:
      if (!IsInteger(e->body()->dtype())) return ArgmaxOver(ctx_, {bound, guard, body}, place);
      return PlaceOver(ctx_, "argmax", {bound, guard, body}, place);
    case ReduceKind::kArgMin:
      if (IsInteger(e->body()->dtype())) return PlaceOver(ctx_, "argmin", {bound, guard, body}, place);
      return ArgmaxOver(ctx_, {bound, guard, Scale(body, -1)}, place);
  }
  throw GiveUp("a reduction of an unknown kind");
}

}  // namespace rewright::verifier
