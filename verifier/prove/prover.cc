#include "verifier/prove/prover.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "verifier/integer/give_up.h"
#include "verifier/integer/inverse.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/substitute.h"
#include "verifier/prove/align.h"

namespace rewright::verifier {
namespace {

constexpr int kMaxJointAttempts = 48;
constexpr size_t kMaxWitnesses = 32;
constexpr int kMaxClosureDepth = 3;

std::vector<std::string> SortedAtomKeys(const Context& ctx, const Term& t) {
  std::vector<std::string> keys;
  for (const Atom& a : t.atoms) keys.push_back(AtomKey(ctx, a));
  std::sort(keys.begin(), keys.end());
  return keys;
}

// The product of the greatest factors that the term's variables have in its index polynomials.
int64_t Stretch(const Term& t) {
  std::vector<Poly> polys;
  for (const Atom& a : t.atoms) WalkPolys(a, &polys);
  int64_t product = 1;
  for (Var v : t.bound) {
    int64_t greatest = 1;
    for (const Poly& p : polys) greatest = std::max(greatest, std::abs(p.Coef(v)));
    product *= std::min<int64_t>(greatest, 1000);
  }
  return product;
}

NormalForm Difference(Context& ctx, const NormalForm& a, const NormalForm& b) {
  NormalForm all = a;
  for (const Term& t : b) {
    Term negated = RenameBound(ctx, t);
    negated.coef = -negated.coef;
    all.push_back(std::move(negated));
  }
  return Simplify(ctx, all);
}

}  // namespace

Prover::Prover(Context& ctx, Solver& solver, std::vector<Guard> facts, int depth)
    : ctx_(ctx), solver_(solver), facts_(std::move(facts)), depth_(depth) {
  if (depth_ >= kMaxClosureDepth) return;
  closures_ = [this](const std::string& kind, const std::vector<Family>& a, const std::vector<Family>& b,
                     const Guard& path) { return EqualClosures(kind, a, b, path); };
}

void Prover::Trace(const char* what, const Substitution& s) {
  if (!ctx_.session->certify) return;
  std::string text = what;
  for (const auto& [v, p] : s.entries()) text += " " + ctx_.Print(Poly::Of(v)) + ":=" + ctx_.Print(p);
  ctx_.session->steps.push_back(std::move(text));
}

Substitution Prover::TraceChange(const char* what, const Substitution& s, const Term& t, const Term& anchor) {
  if (s.empty()) return {};
  std::optional<Substitution> inverse = Inverse(ctx_, s, t.bound, anchor.bound);
  if (!inverse) throw GiveUp("a change of variables has no inverse");
  Trace(what, s);
  Trace("its inverse:", *inverse);
  return *std::move(inverse);
}

bool Prover::Holds(const Guard& goal, const char* tag) {
  if (goal.IsTrue()) return true;
  for (const Guard& part : Conjuncts(goal)) {
    if (std::find(facts_.begin(), facts_.end(), part) != facts_.end()) continue;
    if (part.IsGe() && ctx_.QuickNonneg(part.poly())) continue;
    if (part.IsGe() && std::any_of(facts_.begin(), facts_.end(), [&](const Guard& f) {
          return f.IsGe() && ctx_.TriviallyNonneg(part.poly() - f.poly());
        })) {
      continue;
    }
    if (!solver_.Implies(facts_, part, {}, tag)) return false;
  }
  return true;
}

bool Prover::IsZero(const NormalForm& difference, std::vector<std::vector<MovedTerm>>* classes) {
  // Inverses are needed only for a caller that wants the classes, or for a certificate.
  const bool told = classes != nullptr || ctx_.session->certify;
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < difference.size(); ++i) groups[SkeletonOf(difference[i])].push_back(i);
  NormalForm open;
  for (auto& [skeleton, places] : groups) {
    // Others are carried to the densest: x[2 v] to x[v], never back.
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return Stretch(difference[a]) < Stretch(difference[b]); });
    // Classes of terms that are equal products after a change of variables: only their guards are left.
    std::vector<std::vector<MovedTerm>> own;
    std::vector<std::vector<std::string>> keys;
    for (size_t place : places) {
      const Term& t = difference[place];
      bool placed = false;
      for (size_t c = 0; c < own.size() && !placed; ++c) {
        const Term& anchor = own[c][0].moved;
        for (const Substitution& s : Alignments(ctx_, t, anchor)) {
          Term moved = ApplyAlignment(ctx_, t, s, anchor);
          if (SortedAtomKeys(ctx_, moved) != keys[c]) continue;
          Substitution inverse = told ? TraceChange("change of variables:", s, t, anchor) : Substitution();
          own[c].push_back({place, std::move(moved), s, std::move(inverse)});
          placed = true;
          break;
        }
      }
      for (size_t c = 0; c < own.size() && !placed; ++c) {
        for (const StretchedTerm& stretched : StretchedAlignments(ctx_, t, own[c][0].moved)) {
          if (SortedAtomKeys(ctx_, stretched.term) != keys[c]) continue;
          if (ctx_.session->certify) {
            ctx_.session->steps.push_back("summed over another's variables: " + TermKey(ctx_, t) + " as " +
                                          TermKey(ctx_, stretched.term));
          }
          own[c].push_back({place, stretched.term, stretched.forward, stretched.backward});
          placed = true;
          break;
        }
      }
      if (placed) continue;
      MovedTerm anchor{place, FreeAnchor(ctx_, t), {}, {}};
      for (size_t i = 0; i < t.bound.size(); ++i) {
        anchor.forward.Set(t.bound[i], Poly::Of(anchor.moved.bound[i]));
        anchor.backward.Set(anchor.moved.bound[i], Poly::Of(t.bound[i]));
      }
      keys.push_back(SortedAtomKeys(ctx_, anchor.moved));
      own.push_back({std::move(anchor)});
    }
    for (std::vector<MovedTerm>& terms : own) {
      NormalForm members;
      for (const MovedTerm& t : terms) members.push_back(t.moved);
      if (!solver_.CoefficientsCancel(facts_, members)) {
        open.insert(open.end(), members.begin(), members.end());
      } else if (classes != nullptr) {
        classes->push_back(std::move(terms));
      }
    }
  }
  if (open.empty()) return true;
  std::map<size_t, NormalForm> by_arity;
  for (const Term& t : open) by_arity[t.bound.size()].push_back(t);
  for (const auto& [arity, terms] : by_arity) {
    if (!JointlyZero(terms)) return by_arity.size() > 1 && solver_.IsZero(facts_, open, closures_);
  }
  return true;
}

bool Prover::JointlyZero(const NormalForm& terms) {
  if (terms[0].bound.empty()) return solver_.IsZero(facts_, terms, closures_);
  const Term anchor = FreeAnchor(ctx_, terms[0]);
  std::vector<std::vector<Substitution>> options;
  for (size_t i = 1; i < terms.size(); ++i) {
    options.push_back(Alignments(ctx_, terms[i], anchor));
    if (options.back().empty()) return solver_.IsZero(facts_, terms, closures_);
  }
  std::vector<size_t> choice(options.size(), 0);
  for (int attempt = 0; terms.size() > 1 && attempt < kMaxJointAttempts; ++attempt) {
    NormalForm aligned = {anchor};
    for (size_t i = 0; i < options.size(); ++i) {
      aligned.push_back(ApplyAlignment(ctx_, terms[i + 1], options[i][choice[i]], anchor));
    }
    for (Term& t : aligned) t.bound.clear();
    if (solver_.IsZero(facts_, aligned, closures_)) {
      for (size_t i = 0; ctx_.session->certify && i < options.size(); ++i) {
        TraceChange("joint change of variables:", options[i][choice[i]], terms[i + 1], anchor);
      }
      return true;
    }
    size_t digit = 0;
    while (digit < choice.size() && ++choice[digit] == options[digit].size()) choice[digit++] = 0;
    if (digit == choice.size()) break;
  }
  return solver_.IsZero(facts_, terms, closures_);
}

bool Prover::EqualMaxima(const std::vector<Family>& a, const std::vector<Family>& b) {
  return Covers(a, b) && Covers(b, a);
}

// Substitutions of the family's variables that may give the point's value; undetermined ones take their lower bounds.
void Prover::Candidates(const Family& point, const Family& family, std::vector<std::pair<Guard, NormalForm>>* out) {
  std::vector<Poly> equations;
  if (SkeletonOf(point.body) == SkeletonOf(family.body)) {
    std::vector<Poly> left, right;
    WalkPolys(family.body, &left);
    WalkPolys(point.body, &right);
    std::vector<Var> inner;
    for (const NormalForm* n : {&point.body, &family.body}) {
      for (const Term& t : *n) {
        inner.insert(inner.end(), t.bound.begin(), t.bound.end());
        for (const Atom& a : t.atoms) InnerBound(a, &inner);
      }
    }
    for (size_t i = 0; i < left.size() && left.size() == right.size(); ++i) {
      if (!ctx_.Mentions(left[i], inner) && !ctx_.Mentions(right[i], inner)) equations.push_back(left[i] - right[i]);
    }
  } else if (!family.bound.empty()) {
    return;
  }
  Substitution solved = SolveLinear(ctx_, equations, family.bound);
  std::vector<Var> left;
  std::vector<std::vector<Poly>> witnesses;
  for (Var v : family.bound) {
    if (solved.Find(v) != nullptr) continue;
    left.push_back(v);
    witnesses.emplace_back();
    for (const Guard& g : Conjuncts(ctx_.Subst(family.guard, solved))) {
      // scale * v + rest >= 0: v is at least -rest / scale, rounded up.
      Poly scale, rest;
      if (!g.IsGe() || !g.poly().Decompose(v, &scale, &rest) || scale.IsZero() || ctx_.Mentions(rest, {v})) continue;
      if (!ctx_.QuickNonneg(scale - Poly(1))) continue;
      witnesses.back().push_back(ctx_.FloorDiv(scale - rest - Poly(1), scale));
    }
    if (witnesses.back().empty()) witnesses.back().push_back(Poly());
  }
  std::vector<size_t> choice(left.size(), 0);
  for (size_t attempt = 0; attempt < kMaxWitnesses; ++attempt) {
    Substitution chosen, full;
    for (size_t i = 0; i < left.size(); ++i) chosen.Set(left[i], witnesses[i][choice[i]]);
    for (size_t i = 0; i < left.size(); ++i) chosen.Set(left[i], ctx_.Subst(*chosen.Find(left[i]), chosen));
    bool closed = true;
    for (const auto& [v, p] : solved.entries()) full.Set(v, ctx_.Subst(p, chosen));
    for (const auto& [v, p] : chosen.entries()) full.Set(v, p);
    for (const auto& [v, p] : full.entries()) closed = closed && !ctx_.Mentions(p, family.bound);
    if (closed) {
      if (!full.empty()) Trace("witness:", full);
      out->emplace_back(ctx_.Subst(family.guard, full), Subst(ctx_, family.body, full));
    }
    size_t digit = 0;
    while (digit < choice.size() && ++choice[digit] == witnesses[digit].size()) choice[digit++] = 0;
    if (digit == choice.size()) break;
  }
}

// Every point of a has a point of b with the same value: max a <= max b.
bool Prover::Covers(const std::vector<Family>& a, const std::vector<Family>& b) {
  for (const Family& family : a) {
    Family point = FreeAnchor(ctx_, family);
    std::vector<std::pair<Guard, NormalForm>> candidates;
    for (const Family& family : b) Candidates(point, family, &candidates);
    if (candidates.empty() && !point.guard.IsTrue()) {
      // An empty family needs no cover.
      if (solver_.Implies(facts_, Guard::Not(point.guard), {}, "empty")) continue;
    }
    if (candidates.empty()) return false;
    Prover inner(ctx_, solver_, facts_, depth_ + 1);
    if (!solver_.IsCovered(facts_, point.guard, point.body, candidates, inner.closures_)) return false;
  }
  return true;
}

bool Prover::EqualClosures(const std::string& kind, const std::vector<Family>& a, const std::vector<Family>& b,
                           const Guard& path) {
  std::string key = kind;
  for (const std::vector<Family>* side : {&a, &b}) {
    for (const Family& family : *side) key += "|" + FamilyKey(ctx_, family);
    key += "=";
  }
  key += ctx_.Print(path);
  // The facts are part of the key: an equality under these facts need not hold under others.
  for (const Guard& fact : facts_) key += "&" + ctx_.Print(fact);
  auto it = ctx_.lemmas.find(key);
  if (it != ctx_.lemmas.end()) return it->second;
  ctx_.lemmas[key] = false;  // while it is being proved
  std::vector<Guard> facts = facts_;
  facts.push_back(path);
  Prover inner(ctx_, solver_, std::move(facts), depth_ + 1);
  bool equal = false;
  if (kind == "sum") {
    auto form = [](const Family& s) {
      NormalForm out = s.body;
      for (Term& t : out) {
        t.bound.insert(t.bound.begin(), s.bound.begin(), s.bound.end());
        t.guard = Guard::And(s.guard, t.guard);
      }
      return out;
    };
    equal = inner.IsZero(Difference(ctx_, form(a[0]), form(b[0])));
  } else if (IsExtremum(kind)) {
    equal = inner.EqualMaxima(a, b);
  } else if (kind == "prod" && a.size() == 1 && b.size() == 1) {
    // The same elements as often, in any order: then sums of every function of them are equal.
    const auto sum = [&](const Family& p) { return SumOver(ctx_, p.bound, p.guard, Apply(ctx_, "element", {p.body})); };
    equal = inner.IsZero(Difference(ctx_, sum(a[0]), sum(b[0])));
  } else if (a.size() == 1 && b.size() == 1 && a[0].bound.size() == b[0].bound.size()) {
    // Other binders: the same points in the same order with the same values.
    Family left = FreeAnchor(ctx_, a[0]);
    Substitution s;
    for (size_t i = 0; i < left.bound.size(); ++i) s.Set(b[0].bound[i], Poly::Of(left.bound[i]));
    Guard guard = ctx_.Subst(b[0].guard, s);
    NormalForm body = Subst(ctx_, b[0].body, s);
    Guard same = Guard::And(Guard::Or(Guard::Not(left.guard), guard), Guard::Or(Guard::Not(guard), left.guard));
    std::vector<Guard> under = inner.facts_;
    under.push_back(left.guard);
    equal = solver_.Implies(inner.facts_, same, {}, "binder") &&
            Prover(ctx_, solver_, under, depth_ + 1).IsZero(Difference(ctx_, left.body, body));
  }
  ctx_.lemmas[key] = equal;
  if (equal && ctx_.session->certify) ctx_.session->steps.push_back("equal closures: " + key);
  return equal;
}

}  // namespace rewright::verifier
