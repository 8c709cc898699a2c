#include "verifier/context.h"

#include <ctime>

#include <algorithm>
#include <cctype>

#include "verifier/give_up.h"
#include "verifier/solver.h"
#include "verifier/term.h"

namespace rewright::verifier {
namespace {

void SortUnique(std::vector<Var>* vars) {
  std::sort(vars->begin(), vars->end());
  vars->erase(std::unique(vars->begin(), vars->end()), vars->end());
}

constexpr int kAttemptsPerSample = 6;

bool Has(const std::vector<Var>& vars, Var v) { return std::find(vars.begin(), vars.end(), v) != vars.end(); }

}  // namespace

double ThreadCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double ProofSession::RemainingSeconds() const { return cpu_limit_s - (ThreadCpuSeconds() - cpu_start_s); }

void ProofSession::CheckTime() const {
  if (RemainingSeconds() <= 0) throw GiveUp("time limit");
}

Context::Context(ProofSession* proof_record, const Strategy& chosen, uint64_t seed)
    : strategy(chosen), record(proof_record), solver_(std::make_unique<Solver>(this)), rng_(seed) {}

Context::~Context() = default;

// ---------------------------------------------------------------- variables

Var Context::NewParam(const std::string& name, std::optional<int64_t> min) {
  VarInfo info;
  info.kind = VarInfo::Kind::kParam;
  info.name = name.empty() ? "s" : name;
  for (char& c : info.name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("_.?()").find(c) == std::string::npos) c = '~';
  }
  while (!param_names_.insert(info.name).second) info.name += "'";
  info.min = min;
  vars_.push_back(std::move(info));
  return static_cast<Var>(vars_.size()) - 1;
}

Var Context::NewLocal(const std::string& name) {
  VarInfo info;
  info.name = name;
  vars_.push_back(std::move(info));
  return static_cast<Var>(vars_.size()) - 1;
}

Var Context::NewRanged(const std::string& name, const Poly& lo, const Poly& hi) {
  Var v = NewLocal(name);
  vars_[v].range.emplace(lo, hi);
  return v;
}

Var Context::FreshCopy(Var v) {
  Var fresh = NewLocal(vars_[v].name);
  vars_[fresh].range = vars_[v].range;
  return fresh;
}

void Context::SetFacts(std::vector<Guard> facts) {
  facts_ = std::move(facts);
  proved_.clear();
}

int Context::FactorRank(Var v) const {
  auto it = std::find(factor_order.begin(), factor_order.end(), v);
  return static_cast<int>(it - factor_order.begin());
}

// ---------------------------------------------------------------- index arithmetic

Poly Context::MakeDiv(const Poly& num, const Poly& den) {
  auto [it, inserted] = divs_.emplace(std::make_pair(num, den), 0);
  if (inserted) {
    VarInfo info;
    info.kind = VarInfo::Kind::kDiv;
    info.name = "div";
    info.a = num;
    info.b = den;
    info.inner = BaseVars(num);
    for (Var v : BaseVars(den)) info.inner.push_back(v);
    SortUnique(&info.inner);
    vars_.push_back(std::move(info));
    it->second = static_cast<Var>(vars_.size()) - 1;
  }
  return Poly::Of(it->second);
}

// Divides both by the positive variables that every monomial of both shares.
void Context::CancelCommonFactor(Poly* num, Poly* den) const {
  for (bool again = true; again && !num->IsZero();) {
    again = false;
    for (Var v : den->items()[0].vars) {
      auto in_all = [v](const Poly& p) {
        return std::all_of(p.items().begin(), p.items().end(), [v](const Poly::Item& i) {
          return std::find(i.vars.begin(), i.vars.end(), v) != i.vars.end();
        });
      };
      if (!in_all(*den) || !in_all(*num) || !QuickNonneg(Poly::Of(v) - Poly(1))) continue;
      for (Poly* p : {num, den}) {
        std::vector<Poly::Item> items;
        for (const Poly::Item& item : p->items()) {
          Monomial rest;
          DivideMonomial(item.vars, Monomial{v}, &rest);
          items.push_back({rest, item.coef});
        }
        *p = Poly::FromItems(std::move(items));
      }
      again = true;
      break;
    }
  }
}

Poly Context::WithoutCommonFactors(Poly p) const {
  for (bool again = !p.IsZero(); again;) {
    again = false;
    const Monomial first = p.items()[0].vars;
    for (Var v : first) {
      bool shared = std::all_of(p.items().begin(), p.items().end(), [v](const Poly::Item& item) {
        return std::find(item.vars.begin(), item.vars.end(), v) != item.vars.end();
      });
      if (!shared || !QuickNonneg(Poly::Of(v) - Poly(1))) continue;
      std::vector<Poly::Item> items;
      for (const Poly::Item& item : p.items()) {
        Monomial rest;
        DivideMonomial(item.vars, Monomial{v}, &rest);
        items.push_back({rest, item.coef});
      }
      p = Poly::FromItems(std::move(items));
      again = true;
      break;
    }
  }
  return p;
}

Poly Context::FloorDiv(const Poly& num_in, const Poly& den_in) {
  Poly num = num_in, den = den_in;
  if (den == Poly(1)) return num;
  if (num.IsConst() && den.IsConst() && den.Constant() > 0) return FloorDivInt(num.Constant(), den.Constant());
  CancelCommonFactor(&num, &den);
  if (den == Poly(1)) return num;
  // The multiples of the denominator that are plain to see come out. With several monomials in the denominator a
  // multiple is taken out only when that shortens the numerator.
  Poly quotient;
  const Poly::Item lead = den.items().back();
  for (bool again = true; again;) {
    again = false;
    for (const Poly::Item& item : num.items()) {
      Monomial rest;
      if (!DivideMonomial(item.vars, lead.vars, &rest)) continue;
      if (!den.IsConst() && item.coef % lead.coef != 0) continue;
      int64_t times = den.IsConst() ? FloorDivInt(item.coef, lead.coef) : item.coef / lead.coef;
      if (times == 0) continue;
      Poly t = Poly::Of(rest, times);
      Poly shorter = num - t * den;
      if (den.items().size() > 1 && shorter.items().size() >= num.items().size()) continue;
      quotient = quotient + t;
      num = shorter;
      again = true;
      break;
    }
  }
  if (num.IsZero()) return quotient;
  // floor((floor(n / d) + r) / e) = floor((n + d * r) / (d * e))
  for (const Poly::Item& item : num.items()) {
    if (item.vars.size() != 1 || item.coef != 1) continue;
    const VarInfo& info = vars_[item.vars[0]];
    if (info.kind != VarInfo::Kind::kDiv) continue;
    Poly inner_num = info.a, inner_den = info.b;
    return quotient + FloorDiv(inner_num + inner_den * (num - Poly::Of(item.vars[0])), inner_den * den);
  }
  if (ProveNonneg({num, den - num - Poly(1)}, assumptions, {}, Effort::kLinear)) return quotient;
  return quotient + MakeDiv(num, den);
}

Poly Context::MinOf(const Poly& a, const Poly& b) {
  if (ProveNonneg({b - a}, assumptions, {}, Effort::kLinear)) return a;
  if (ProveNonneg({a - b}, assumptions, {}, Effort::kLinear)) return b;
  auto key = a < b ? std::make_pair(a, b) : std::make_pair(b, a);
  auto [it, inserted] = mins_.emplace(key, 0);
  if (inserted) {
    VarInfo info;
    info.kind = VarInfo::Kind::kMin;
    info.name = "min";
    info.a = key.first;
    info.b = key.second;
    info.inner = BaseVars(a);
    for (Var v : BaseVars(b)) info.inner.push_back(v);
    SortUnique(&info.inner);
    vars_.push_back(std::move(info));
    it->second = static_cast<Var>(vars_.size()) - 1;
  }
  return Poly::Of(it->second);
}

Poly Context::ValueOf(const std::vector<Term>& value, const std::string& key, std::vector<Var> inner) {
  auto [it, inserted] = values_.emplace(key, 0);
  if (inserted) {
    VarInfo info;
    info.kind = VarInfo::Kind::kValue;
    info.name = "value";
    info.value = std::make_shared<const std::vector<Term>>(value);
    SortUnique(&inner);
    info.inner = std::move(inner);
    vars_.push_back(std::move(info));
    it->second = static_cast<Var>(vars_.size()) - 1;
  }
  return Poly::Of(it->second);
}

Poly Context::SubstImpl(const Poly& p, const Substitution& s, bool rename) {
  auto affected = [&](Var v) {
    if (s.Find(v) != nullptr) return true;
    for (Var inner : vars_[v].inner) {
      if (s.Find(inner) != nullptr) return true;
    }
    return false;
  };
  bool any = false;
  for (Var v : p.Vars()) any = any || affected(v);
  if (!any) return p;
  Poly out;
  std::vector<Poly::Item> kept;
  for (const Poly::Item& item : p.items()) {
    Monomial rest;
    Poly factor(item.coef);
    bool changed = false;
    for (Var v : item.vars) {
      if (!affected(v)) {
        rest.push_back(v);
        continue;
      }
      changed = true;
      const Poly* direct = s.Find(v);
      if (direct != nullptr) {
        factor = factor * *direct;
        continue;
      }
      VarInfo info = vars_[v];  // a copy: the table may grow
      if (info.kind == VarInfo::Kind::kValue) {
        factor = factor * substitute_value(v, s, rename);
        continue;
      }
      Poly a = SubstImpl(info.a, s, rename), b = SubstImpl(info.b, s, rename);
      if (info.kind == VarInfo::Kind::kDiv) {
        factor = factor * (rename ? MakeDiv(a, b) : FloorDiv(a, b));
      } else {
        factor = factor * MinOf(a, b);
      }
    }
    if (!changed) {
      kept.push_back(item);
    } else {
      out = out + factor * Poly::Of(rest, 1);
    }
  }
  return out + Poly::FromItems(std::move(kept));
}

Guard Context::SubstImpl(const Guard& g, const Substitution& s, bool rename) {
  switch (g.kind()) {
    case Guard::Kind::kTrue:
    case Guard::Kind::kFalse: return g;
    case Guard::Kind::kGe: return Guard::Ge(SubstImpl(g.poly(), s, rename));
    case Guard::Kind::kEq: return Guard::Eq(SubstImpl(g.poly(), s, rename));
    case Guard::Kind::kNot: return Guard::Not(SubstImpl(g.args()[0], s, rename));
    case Guard::Kind::kAnd: break;
  }
  std::vector<Guard> parts;
  for (const Guard& part : g.args()) parts.push_back(SubstImpl(part, s, rename));
  return Guard::And(parts);
}

Poly Context::Subst(const Poly& p, const Substitution& s) { return s.empty() ? p : SubstImpl(p, s, false); }
Guard Context::Subst(const Guard& g, const Substitution& s) { return s.empty() ? g : SubstImpl(g, s, false); }
Poly Context::Rename(const Poly& p, const Substitution& s) { return s.empty() ? p : SubstImpl(p, s, true); }
Guard Context::Rename(const Guard& g, const Substitution& s) { return s.empty() ? g : SubstImpl(g, s, true); }

std::vector<Var> Context::BaseVars(const Poly& p) const {
  std::vector<Var> out;
  for (const Poly::Item& item : p.items()) {
    for (Var v : item.vars) {
      if (IsDefinition(v)) {
        out.insert(out.end(), vars_[v].inner.begin(), vars_[v].inner.end());
      } else {
        out.push_back(v);
      }
    }
  }
  SortUnique(&out);
  return out;
}

std::vector<Var> Context::BaseVars(const Guard& g) const {
  std::vector<Poly> polys;
  CollectPolys(g, &polys);
  std::vector<Var> out;
  for (const Poly& p : polys) {
    for (Var v : BaseVars(p)) out.push_back(v);
  }
  SortUnique(&out);
  return out;
}

bool Context::Mentions(const Poly& p, const std::vector<Var>& vars) const {
  if (vars.empty()) return false;
  for (Var v : BaseVars(p)) {
    if (Has(vars, v)) return true;
  }
  return false;
}

bool Context::Mentions(const Guard& g, const std::vector<Var>& vars) const {
  if (vars.empty()) return false;
  for (Var v : BaseVars(g)) {
    if (Has(vars, v)) return true;
  }
  return false;
}

bool Context::HasDefinition(const Poly& p) const {
  for (Var v : p.Vars()) {
    if (IsDefinition(v)) return true;
  }
  return false;
}

// ---------------------------------------------------------------- deciding

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
  // q + b >= 0 iff num >= -b * den, and b - q >= 0 iff num < (b + 1) * den.
  if (a == Poly(1) && NonnegRec(info.a + info.b * b, hidden, depth + 1)) return true;
  if (a == Poly(-1) && NonnegRec(info.b * (b + Poly(1)) - info.a - Poly(1), hidden, depth + 1)) return true;
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

// p = quotient * divisor, for a divisor of one monomial.
bool Context::DivideExactly(const Poly& p, const Poly& divisor, Poly* quotient) {
  if (divisor.items().size() != 1) return false;
  std::vector<Poly::Item> items;
  for (const Poly::Item& item : p.items()) {
    Monomial rest;
    if (item.coef % divisor.items()[0].coef != 0 || !DivideMonomial(item.vars, divisor.items()[0].vars, &rest)) {
      return false;
    }
    items.push_back({rest, item.coef / divisor.items()[0].coef});
  }
  *quotient = Poly::FromItems(std::move(items));
  return true;
}

bool Context::NonnegRec(const Poly& p, const std::vector<Var>& hidden, int depth) const {
  if (p.IsConst()) return p.Constant() >= 0;
  if (depth > 12) return false;
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

bool Context::QuickNonneg(const Poly& p, const std::vector<Var>& hidden) const { return NonnegRec(p, hidden, 0); }

bool Context::ProveNonneg(const std::vector<Poly>& goals, const std::vector<Guard>& extra,
                          const std::vector<Var>& hidden, Effort effort) {
  auto is_quick = [&](const Poly& goal) {
    if (QuickNonneg(goal, hidden)) return true;
    return std::any_of(extra.begin(), extra.end(),
                       [&](const Guard& g) { return g.IsGe() && QuickNonneg(goal - g.poly(), hidden); });
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
  if (!RefutedBySample(goals, extra, hidden)) {
    std::vector<Guard> parts;
    for (const Poly& goal : goals) parts.push_back(Guard::Ge(goal));
    std::vector<Guard> all = facts_;
    all.insert(all.end(), extra.begin(), extra.end());
    proved = solver_->Implies(all, Guard::And(parts), hidden, effort == Effort::kFull ? "index" : "simplify");
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
          usable = usable && Evaluate(vars_[v].range->first, &values, &lo) &&
                   Evaluate(vars_[v].range->second, &values, &hi);
        }
        const auto count = static_cast<uint64_t>(std::max<int64_t>(hi - lo + 2, 1));
        if (usable) values[v] = lo - 1 + static_cast<int64_t>(rng_() % count);
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
    *result = FloorDivInt(x, y);
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
    *result = FloorDivInt(x, y);
    return true;
  }
  if (!info.range.has_value()) return false;
  if (!Evaluate(info.range->first, values, &x) || !Evaluate(info.range->second, values, &y) || x >= y) return false;
  uint64_t choice = rng_() % 4;
  *result = choice == 0 ? x : choice == 1 ? y - 1 : x + static_cast<int64_t>(rng_() % static_cast<uint64_t>(y - x));
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

// ---------------------------------------------------------------- printing

std::string Context::Print(const Poly& p, const Names& names) const {
  std::vector<std::string> parts;
  for (const Poly::Item& item : p.items()) {
    std::vector<std::string> factors;
    for (Var v : item.vars) {
      const VarInfo& info = vars_[v];
      auto it = names.find(v);
      if (it != names.end()) {
        factors.push_back(it->second);
      } else if (info.kind == VarInfo::Kind::kDiv) {
        factors.push_back("(" + Print(info.a, names) + ")/(" + Print(info.b, names) + ")");
      } else if (info.kind == VarInfo::Kind::kMin) {
        factors.push_back("min(" + Print(info.a, names) + "," + Print(info.b, names) + ")");
      } else if (info.kind == VarInfo::Kind::kValue) {
        factors.push_back("value(" + NormalFormKey(*this, *info.value, names) + ")");
      } else {
        factors.push_back(info.kind == VarInfo::Kind::kParam ? info.name : info.name + "#" + std::to_string(v));
      }
    }
    std::sort(factors.begin(), factors.end());
    std::string text;
    if (item.coef != 1 || factors.empty()) text = std::to_string(item.coef);
    for (const std::string& factor : factors) text += (text.empty() ? "" : "*") + factor;
    parts.push_back(std::move(text));
  }
  if (parts.empty()) return "0";
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) out += (out.empty() || part[0] == '-' ? "" : "+") + part;
  return out;
}

std::string Context::Print(const Guard& g, const Names& names) const {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return "true";
    case Guard::Kind::kFalse: return "false";
    case Guard::Kind::kGe: return Print(g.poly(), names) + ">=0";
    case Guard::Kind::kEq: {
      // The sign of an equation depends on the numbering of its variables; its text must not.
      std::string a = Print(g.poly(), names), b = Print(-g.poly(), names);
      return std::min(a, b) + "==0";
    }
    case Guard::Kind::kNot: return "not(" + Print(g.args()[0], names) + ")";
    case Guard::Kind::kAnd: break;
  }
  std::vector<std::string> parts;
  for (const Guard& part : g.args()) parts.push_back(Print(part, names));
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : " & ") + part;
  return out;
}

}  // namespace rewright::verifier
