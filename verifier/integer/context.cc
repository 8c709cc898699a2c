#include "verifier/integer/context.h"

#include <algorithm>
#include <cctype>

#include "core/base/integer.h"
#include "core/base/stop.h"
#include "verifier/integer/give_up.h"
#include "verifier/integer/index_observer.h"

namespace rewright::verifier {
namespace {

using Laws = index::Laws<Context>;

void SortUnique(std::vector<Var>* vars) {
  std::sort(vars->begin(), vars->end());
  vars->erase(std::unique(vars->begin(), vars->end()), vars->end());
}

// The variables that every monomial has, with repetition.
Monomial SharedFactors(const Poly& p) {
  if (p.IsZero()) return {};
  Monomial shared = p.items()[0].vars;
  for (const Poly::Item& item : p.items()) {
    Monomial both;
    std::set_intersection(shared.begin(), shared.end(), item.vars.begin(), item.vars.end(), std::back_inserter(both));
    shared = both;
  }
  return shared;
}

// Number of monomials, then the sum of their degrees.
std::pair<size_t, size_t> SizeOf(const Poly& p) {
  size_t degrees = 0;
  for (const Poly::Item& item : p.items()) degrees += item.vars.size();
  return {p.items().size(), degrees};
}

}  // namespace

void ProofSession::CheckLimit() const {
  if (RemainingSeconds() <= 0) throw GiveUp(kAtLimit);
  if (StopScope::Stopped()) throw GiveUp("interrupted");
}

Context::Context(ProofSession* session_of_proof, const Strategy& chosen, uint64_t seed)
    : strategy(chosen), session(session_of_proof), rng_(seed) {}

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

Var Context::NewLocal(std::string name) {
  VarInfo info;
  info.name = std::move(name);
  vars_.push_back(std::move(info));
  return static_cast<Var>(vars_.size()) - 1;
}

Var Context::NewRanged(std::string name, Poly lo, Poly hi) {
  Var v = NewLocal(std::move(name));
  vars_[v].range.emplace(std::move(lo), std::move(hi));
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

bool Context::MentionsElements(const Poly& p) const {
  CountSteps(1);
  session->CheckLimit();  // definitions may lie in definitions many times
  const std::vector<Var> vars = p.Vars();
  return std::any_of(vars.begin(), vars.end(), [&](Var v) {
    const VarInfo& info = Info(v);
    if (info.kind == VarInfo::Kind::kValue) return true;
    return IsDefinition(v) && (MentionsElements(info.a) || MentionsElements(info.b));
  });
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

// Divides all by the positive variables that every monomial of all of them shares.
void Context::CancelCommonFactors(std::initializer_list<Poly*> all) const {
  const auto none_left = [&] { return std::any_of(all.begin(), all.end(), [](const Poly* p) { return p->IsZero(); }); };
  for (bool again = !none_left(); again;) {
    again = false;
    const Monomial first = (*all.begin())->items()[0].vars;
    for (Var v : first) {
      const bool shared = std::all_of(all.begin(), all.end(), [v](const Poly* p) {
        return std::all_of(p->items().begin(), p->items().end(), [v](const Poly::Item& item) {
          return std::find(item.vars.begin(), item.vars.end(), v) != item.vars.end();
        });
      });
      if (!shared || !QuickNonneg(Poly::Of(v) - Poly(1))) continue;
      for (Poly* p : all) *p = p->Divided(Monomial{v}).first;
      again = true;
      break;
    }
  }
}

Poly Context::FloorDiv(const Poly& num, const Poly& den) {
  Poly quotient = Divide(num, den);
  if (session->observer != nullptr) session->observer->Divided(*this, num, den, quotient);
  return quotient;
}

Poly Context::Divide(const Poly& num_in, const Poly& den_in) {
  Poly num = num_in, den = den_in;
  if (den == Poly(1)) return num;
  if (num.IsConst() && den.IsConst() && den.Constant() > 0) return FloorDivide(num.Constant(), den.Constant());
  CancelCommonFactors({&den, &num});
  if (den == Poly(1)) return num;
  // Takes the multiples of the denominator that show in the monomials out of the quotient. With several monomials in
  // the denominator a multiple is taken out only if that leaves a simpler numerator: (i n + j) / (n + 1) = i + (j - i)
  // / (n + 1).
  Poly quotient;
  const Poly::Item lead = den.items().back();
  for (bool again = true; again;) {
    again = false;
    for (const Poly::Item& item : num.items()) {
      Monomial rest;
      if (!DivideMonomial(item.vars, lead.vars, &rest)) continue;
      if (!den.IsConst() && item.coef % lead.coef != 0) continue;
      int64_t times = den.IsConst() ? FloorDivide(item.coef, lead.coef) : item.coef / lead.coef;
      if (times == 0) continue;
      Poly t = Poly::Of(rest, times);
      Poly shorter = Laws::Rest(num, den, t);
      if (den.items().size() > 1 && SizeOf(shorter) >= SizeOf(num)) continue;
      quotient = quotient + t;
      num = shorter;
      again = true;
      break;
    }
  }
  if (num.IsZero()) return quotient;
  for (const Poly::Item& item : num.items()) {
    if (item.vars.size() != 1 || item.coef != 1) continue;
    const VarInfo& info = vars_[item.vars[0]];
    if (info.kind != VarInfo::Kind::kDiv) continue;
    const Poly inner_num = info.a, inner_den = info.b;
    const auto [dividend, divisor] = Laws::Nested(inner_num, inner_den, num - Poly::Of(item.vars[0]), den);
    return quotient + FloorDiv(dividend, divisor);
  }
  // The rest below the divisors' common factor d drops out (Laws::Scaled).
  const Monomial shared = SharedFactors(den);
  if (!shared.empty()) {
    const Poly d = Poly::Of(shared, 1);
    const auto [high, low] = num.Divided(shared);
    if (!high.IsZero() && QuickNonneg(low) && QuickNonneg(d - low - Poly(1))) {
      return quotient + FloorDiv(high, den.Divided(shared).first);
    }
  }
  if (ProveNonneg({num, den - num - Poly(1)}, assumptions, {}, Effort::kLinear)) return quotient;
  return quotient + MakeDiv(num, den);
}

Poly Context::MinOf(const Poly& a, const Poly& b) {
  Poly least = Least(a, b);
  if (session->observer != nullptr) session->observer->Least(*this, a, b, least);
  return least;
}

Poly Context::Least(const Poly& a, const Poly& b) {
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

Poly Context::ValueOf(std::shared_ptr<const IndexElement> value, std::vector<Var> inner) {
  auto [it, inserted] = values_.emplace(value->Print(*this, {}), 0);
  if (inserted) {
    VarInfo info;
    info.kind = VarInfo::Kind::kValue;
    info.name = "value";
    info.value = std::move(value);
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
        factor = factor * info.value->Subst(*this, s);
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

}  // namespace rewright::verifier
