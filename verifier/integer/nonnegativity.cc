// Deciding inequalities of index polynomials: by extremes of ranges, by facts and the solver, against samples.
#include <algorithm>
#include <optional>

#include "core/base/integer.h"
#include "verifier/integer/context.h"
#include "verifier/integer/index_observer.h"

namespace rewright::verifier {
namespace {

constexpr int kAttemptsPerSample = 6;

// Gives a polynomial without the quotient q that is >= 0 iff a q + b is: q + b >= 0 iff num >= -b * den, and b - q >= 0
// iff num < (b + 1) * den. Nothing for other a.
std::optional<Poly> WithoutQuotient(const VarInfo& q, const Poly& a, const Poly& b) {
  if (a == Poly(1)) return q.a + q.b * b;
  if (a == Poly(-1)) return q.b * (b + Poly(1)) - q.a - Poly(1);
  return std::nullopt;
}

}  // namespace

// p over parameters alone: with x = min + x', every coefficient must be >= 0.
bool Context::NonnegParams(const Poly& p) const {
  bool negative = false;
  for (const Poly::Item& item : p.items()) {
    negative = negative || item.coef < 0;
    for (Var v : item.vars) {
      if (vars_[v].kind != VarInfo::Kind::kParam || !vars_[v].min.has_value()) return false;
    }
  }
  // Every monomial with a negative coefficient must be paid for by one that it divides.
  for (const Poly::Item& item : p.items()) {
    if (item.coef > 0) continue;
    bool payable = std::any_of(p.items().begin(), p.items().end(), [&](const Poly::Item& other) {
      Monomial rest;
      return other.coef > 0 && DivideMonomial(other.vars, item.vars, &rest);
    });
    if (!payable) return false;
  }
  Poly shifted = p;
  for (Var v : p.Vars()) {
    const VarInfo& info = vars_[v];
    if (*info.min == 0) continue;
    if (*info.min > 0 && !negative) continue;
    // Written out by hand: Subst may add variables, and this is const.
    std::vector<Poly::Item> kept;
    Poly expanded;
    for (const Poly::Item& item : shifted.items()) {
      Monomial rest;
      Poly factor(item.coef);
      bool changed = false;
      for (Var x : item.vars) {
        if (x == v) {
          factor = factor * (Poly::Of(v) + Poly(*info.min));
          changed = true;
        } else {
          rest.push_back(x);
        }
      }
      if (changed) {
        expanded = expanded + factor * Poly::Of(rest, 1);
      } else {
        kept.push_back(item);
      }
    }
    shifted = expanded + Poly::FromItems(std::move(kept));
  }
  return std::all_of(shifted.items().begin(), shifted.items().end(), [](const Poly::Item& i) { return i.coef >= 0; });
}

bool Context::NonnegDefinitions(const Poly& p, Var q, const std::vector<Var>& hidden, int depth) const {
  const VarInfo& info = vars_[q];
  Poly a, b;
  if (!p.Decompose(q, &a, &b) || info.kind == VarInfo::Kind::kValue) return false;
  if (info.kind == VarInfo::Kind::kMin) {
    if (NonnegRec(a, hidden, depth + 1)) {
      return NonnegRec(a * info.a + b, hidden, depth + 1) && NonnegRec(a * info.b + b, hidden, depth + 1);
    }
    return NonnegRec(-a, hidden, depth + 1) &&
           (NonnegRec(a * info.a + b, hidden, depth + 1) || NonnegRec(a * info.b + b, hidden, depth + 1));
  }
  const std::optional<Poly> same = WithoutQuotient(info, a, b);
  if (same && NonnegRec(*same, hidden, depth + 1)) return true;
  // den * q <= num < den * q + den. Exact where the cofactor is a multiple of the denominator.
  Poly cofactor;
  const bool multiple = info.b.items()[0].coef > 0 && DivideExactly(a, info.b, &cofactor);
  if (NonnegRec(a, hidden, depth + 1)) {
    if (multiple && NonnegRec(cofactor * (info.a - info.b + Poly(1)) + b, hidden, depth + 1)) return true;
    return NonnegRec(info.a, hidden, depth + 1) && NonnegRec(b, hidden, depth + 1);
  }
  if (!NonnegRec(-a, hidden, depth + 1)) return false;
  if (multiple && NonnegRec(cofactor * info.a + b, hidden, depth + 1)) return true;
  // num < m * den gives q <= m - 1.
  Poly most, m;
  if (UpperBound(info.a, hidden, &most) && DivideExactly(most + Poly(1), info.b, &m) &&
      NonnegRec(a * (m - Poly(1)) + b, hidden, depth + 1)) {
    return true;
  }
  return NonnegRec(info.a, hidden, depth + 1) && NonnegRec(a * info.a + b, hidden, depth + 1);
}

// p <= bound, a polynomial over parameters, by putting ranged variables at their extremes.
bool Context::UpperBound(const Poly& p, const std::vector<Var>& hidden, Poly* bound) const {
  *bound = p;
  for (;;) {
    Var last = -1;
    for (Var v : bound->Vars()) {
      if (IsDefinition(v)) return false;
      if (!IsParam(v)) last = std::max(last, v);
    }
    if (last < 0) return true;
    Poly a, b;
    if (!vars_[last].range.has_value() || Has(hidden, last) || !bound->Decompose(last, &a, &b)) return false;
    if (NonnegRec(a, hidden, 1)) {
      *bound = a * (vars_[last].range->second - Poly(1)) + b;
    } else if (NonnegRec(-a, hidden, 1)) {
      *bound = a * vars_[last].range->first + b;
    } else {
      return false;
    }
  }
}

// floor(n / d) lies between m q and m q + m - 1 for q = floor(n / (d m)): p with its extreme in place of the former.
bool Context::WithoutFineQuotient(const Poly& p, const std::vector<Var>& hidden, int depth, Poly* lower) const {
  const std::vector<Var> vars = p.Vars();
  for (Var fine : vars) {
    if (vars_[fine].kind != VarInfo::Kind::kDiv) continue;
    for (Var coarse : vars) {
      Poly m, a, b;
      if (coarse == fine || vars_[coarse].kind != VarInfo::Kind::kDiv || vars_[coarse].a != vars_[fine].a) continue;
      if (!DivideExactly(vars_[coarse].b, vars_[fine].b, &m) || m.IsConst() || !p.Decompose(fine, &a, &b)) continue;
      if (!NonnegRec(m - Poly(1), hidden, depth + 1)) continue;
      if (NonnegRec(a, hidden, depth + 1)) {
        *lower = a * m * Poly::Of(coarse) + b;
        return true;
      }
      if (NonnegRec(-a, hidden, depth + 1)) {
        *lower = a * (m * Poly::Of(coarse) + m - Poly(1)) + b;
        return true;
      }
    }
  }
  return false;
}

bool Context::NonnegRec(const Poly& p, const std::vector<Var>& hidden, int depth) const {
  if (p.IsConst()) return p.Constant() >= 0;
  if (depth > 12) return false;
  session->CheckLimit();  // each step may branch several times
  Poly lower;
  if (WithoutFineQuotient(p, hidden, depth, &lower) && NonnegRec(lower, hidden, depth + 1)) return true;
  // The variable made last goes first: ranges and definitions mention only older ones.
  std::vector<Var> vars = p.Vars();
  Var last = -1;
  for (Var v : vars) {
    if (vars_[v].kind != VarInfo::Kind::kParam) last = std::max(last, v);
  }
  if (last < 0) return NonnegParams(p);
  if (IsDefinition(last)) return NonnegDefinitions(p, last, hidden, depth);
  Poly a, b;
  if (!vars_[last].range.has_value() || Has(hidden, last) || !p.Decompose(last, &a, &b)) return false;
  const auto& [lo, hi] = *vars_[last].range;
  if (NonnegRec(a, hidden, depth + 1)) return NonnegRec(a * lo + b, hidden, depth + 1);
  if (NonnegRec(-a, hidden, depth + 1)) return NonnegRec(a * (hi - Poly(1)) + b, hidden, depth + 1);
  return false;
}

bool Context::QuickNonnegByEquation(const std::vector<Guard>& facts, const Poly& p,
                                    const std::vector<Var>& hidden) const {
  const bool found = std::any_of(facts.begin(), facts.end(), [&](const Guard& fact) {
    if (!fact.IsEq()) return false;
    return QuickNonneg(p - fact.poly(), hidden) || QuickNonneg(p + fact.poly(), hidden);
  });
  if (found || p.IsConst()) return found;
  // Equations of sizes have whole products, which stand in the numerator and the denominator of a quotient.
  const std::vector<Var> vars = p.Vars();
  const Var last = *std::max_element(vars.begin(), vars.end());
  Poly a, b;
  if (vars_[last].kind != VarInfo::Kind::kDiv || !p.Decompose(last, &a, &b)) return false;
  const std::optional<Poly> same = WithoutQuotient(vars_[last], a, b);
  return same && QuickNonnegByEquation(facts, *same, hidden);
}

bool Context::QuickNonneg(const Poly& p, const std::vector<Var>& hidden) const { return NonnegRec(p, hidden, 0); }

bool Context::ProveNonneg(const std::vector<Poly>& goals, const std::vector<Guard>& extra,
                          const std::vector<Var>& hidden, Effort effort) {
  const bool proved = DecideNonneg(goals, extra, hidden, effort);
  if (proved && session->observer != nullptr) {
    std::vector<Guard> told;
    for (const Poly& goal : goals) told.push_back(Guard::Ge(goal));
    session->observer->Decided(*this, Law::kIndex, extra, told, hidden);
  }
  return proved;
}

bool Context::DecideNonneg(const std::vector<Poly>& goals, const std::vector<Guard>& extra,
                           const std::vector<Var>& hidden, Effort effort) {
  auto is_quick = [&](const Poly& goal) {
    if (QuickNonneg(goal, hidden) || QuickNonnegByEquation(facts_, goal, hidden)) return true;
    const auto pays = [&](const Guard& g) { return g.IsGe() && QuickNonneg(goal - g.poly(), hidden); };
    return std::any_of(extra.begin(), extra.end(), pays) || std::any_of(facts_.begin(), facts_.end(), pays);
  };
  if (std::all_of(goals.begin(), goals.end(), is_quick)) return true;
  for (const Poly& goal : goals) {
    if (goal.IsConst() && goal.Constant() < 0) return false;
  }
  std::string key = effort == Effort::kFull ? "full " : "linear ";
  for (const Poly& goal : goals) key += Print(goal) + ";";
  key += "|";
  for (const Guard& fact : extra) key += Print(fact) + ";";
  key += "|";
  for (Var v : hidden) key += std::to_string(v) + ",";
  auto it = proved_.find(key);
  if (it != proved_.end()) return it->second;
  bool proved = false;
  if (!RefutedBySample(goals, extra, hidden) && oracle != nullptr) {
    std::vector<Guard> parts;
    for (const Poly& goal : goals) parts.push_back(Guard::Ge(goal));
    std::vector<Guard> all = facts_;
    all.insert(all.end(), extra.begin(), extra.end());
    proved = oracle->Implies(all, Guard::And(parts), hidden, effort == Effort::kFull ? "index" : "simplify");
  }
  proved_[key] = proved;
  return proved;
}

bool Context::RefutedBySample(const std::vector<Poly>& goals, const std::vector<Guard>& extra,
                              const std::vector<Var>& hidden) {
  for (const Assignment& sample : samples) {
    for (int attempt = 0; attempt < kAttemptsPerSample; ++attempt) {
      Assignment values = sample;
      bool usable = true;
      // Values of hidden variables in and around their ranges: most guards hold there, and single ones fail.
      for (Var v : hidden) {
        int64_t lo = -2, hi = 5;
        if (vars_[v].range.has_value()) {
          usable =
              usable && Evaluate(vars_[v].range->first, &values, &lo) && Evaluate(vars_[v].range->second, &values, &hi);
        }
        int64_t count;
        usable = usable && CheckedSubtract(hi, lo, &count) && count < INT64_MAX - 2 && lo > INT64_MIN;
        if (usable) values[v] = lo - 1 + Below(std::max<int64_t>(count + 2, 1));
      }
      for (const Guard& fact : extra) {
        bool holds = false;
        usable = usable && Evaluate(fact, &values, &holds) && holds;
      }
      if (!usable) continue;
      for (const Poly& goal : goals) {
        int64_t value;
        if (Evaluate(goal, &values, &value) && value < 0) return true;
      }
    }
  }
  return false;
}

bool Context::EvaluateVar(Var v, Assignment* values, int64_t* result) const {
  auto it = values->find(v);
  if (it != values->end()) {
    *result = it->second;
    return true;
  }
  const VarInfo& info = vars_[v];
  int64_t x, y;
  if (info.kind == VarInfo::Kind::kDiv) {
    if (!Evaluate(info.a, values, &x) || !Evaluate(info.b, values, &y) || y <= 0) return false;
    *result = FloorDivide(x, y);
    return true;
  }
  if (info.kind == VarInfo::Kind::kMin) {
    if (!Evaluate(info.a, values, &x) || !Evaluate(info.b, values, &y)) return false;
    *result = std::min(x, y);
    return true;
  }
  if (info.defined.has_value()) {
    if (!Evaluate(info.defined->first, values, &x) || !Evaluate(info.defined->second, values, &y) || y <= 0) {
      return false;
    }
    *result = FloorDivide(x, y);
    return true;
  }
  if (!info.range.has_value()) return false;
  if (!Evaluate(info.range->first, values, &x) || !Evaluate(info.range->second, values, &y) || x >= y) return false;
  uint64_t choice = rng_() % 4;
  int64_t count;
  if (!CheckedSubtract(y, x, &count)) return false;
  *result = choice == 0 ? x : choice == 1 ? y - 1 : x + Below(count);
  (*values)[v] = *result;
  return true;
}

bool Context::Evaluate(const Poly& p, Assignment* values, int64_t* result) const {
  __int128 total = 0;
  for (const Poly::Item& item : p.items()) {
    __int128 product = item.coef;
    for (Var v : item.vars) {
      int64_t x;
      if (!EvaluateVar(v, values, &x)) return false;
      product *= x;
      if (product > INT64_MAX || product < INT64_MIN) return false;
    }
    total += product;
  }
  if (total > INT64_MAX || total < INT64_MIN) return false;
  *result = static_cast<int64_t>(total);
  return true;
}

bool Context::Evaluate(const Guard& g, Assignment* values, bool* result) const {
  int64_t x;
  switch (g.kind()) {
    case Guard::Kind::kTrue: *result = true; return true;
    case Guard::Kind::kFalse: *result = false; return true;
    case Guard::Kind::kGe:
    case Guard::Kind::kEq:
      if (!Evaluate(g.poly(), values, &x)) return false;
      *result = g.IsGe() ? x >= 0 : x == 0;
      return true;
    case Guard::Kind::kNot:
      if (!Evaluate(g.args()[0], values, result)) return false;
      *result = !*result;
      return true;
    case Guard::Kind::kAnd: break;
  }
  for (const Guard& part : g.args()) {
    if (!Evaluate(part, values, result)) return false;
    if (!*result) return true;
  }
  *result = true;
  return true;
}

}  // namespace rewright::verifier
