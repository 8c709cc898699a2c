#include "verifier/prove/align.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "core/base/integer.h"
#include "core/index/laws.h"
#include "verifier/normal_form/eliminate.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

constexpr size_t kMaxAlignments = 24;
constexpr int kMaxPermutations = 240;

}  // namespace

// Computes the determinant by fraction-free elimination, in which each number is a minor.
std::optional<int64_t> Determinant(std::vector<std::vector<int64_t>> m) {
  const size_t n = m.size();
  int64_t previous = 1, sign = 1;
  for (size_t k = 0; k + 1 < n; ++k) {
    size_t pivot = k;
    while (pivot < n && m[pivot][k] == 0) ++pivot;
    if (pivot == n) return 0;
    if (pivot != k) {
      std::swap(m[pivot], m[k]);
      sign = -sign;
    }
    for (size_t i = k + 1; i < n; ++i) {
      for (size_t j = k + 1; j < n; ++j) {
        int64_t a, b;
        if (!CheckedMultiply(m[i][j], m[k][k], &a) || !CheckedMultiply(m[i][k], m[k][j], &b) ||
            !CheckedSubtract(a, b, &m[i][j])) {
          return std::nullopt;
        }
        m[i][j] /= previous;
      }
    }
    previous = m[k][k];
  }
  if (n > 0 && !CheckedMultiply(sign, m[n - 1][n - 1], &sign)) return std::nullopt;
  return sign;
}

namespace {

bool IsUnimodular(Context& ctx, const Substitution& s, const std::vector<Var>& from, const std::vector<Var>& to) {
  std::vector<std::vector<int64_t>> matrix;
  for (Var v : from) {
    const Poly* p = s.Find(v);
    if (p == nullptr) return false;
    for (const Poly::Item& item : p->items()) {
      bool alone = item.vars.size() == 1 && Has(to, item.vars[0]);
      if (!alone && ctx.Mentions(Poly::Of(item.vars, 1), to)) return false;
      if (alone && (item.coef > 1000 || item.coef < -1000)) return false;
    }
    std::vector<int64_t> row;
    for (Var u : to) row.push_back(p->Coef(u));
    matrix.push_back(std::move(row));
  }
  const std::optional<int64_t> d = Determinant(std::move(matrix));
  return d == 1 || d == -1;
}

void AddEquations(Context& ctx, const Atom& a, const Atom& b, const Term& t, const Term& anchor,
                  std::vector<Poly>* equations) {
  std::vector<Poly> left, right;
  WalkPolys(a, &left);
  WalkPolys(b, &right);
  if (left.size() != right.size()) return;
  std::vector<Var> inner;
  InnerBound(a, &inner);
  InnerBound(b, &inner);
  for (size_t i = 0; i < left.size(); ++i) {
    if (ctx.Mentions(left[i], inner) || ctx.Mentions(right[i], inner)) continue;
    if (ctx.Mentions(left[i], t.bound) || ctx.Mentions(right[i], anchor.bound)) {
      equations->push_back(left[i] - right[i]);
    }
  }
}

// The unsolved unknowns take the anchor's variables in every order.
void Complete(Context& ctx, const Substitution& solved, const Term& t, const Term& anchor,
              std::vector<Substitution>* out) {
  std::vector<Var> left;
  for (Var v : t.bound) {
    if (solved.Find(v) == nullptr) left.push_back(v);
  }
  std::vector<Var> choice = anchor.bound;
  std::sort(choice.begin(), choice.end());
  int tried = 0;
  std::vector<std::vector<Var>> seen;
  do {
    if (++tried > kMaxPermutations || out->size() >= kMaxAlignments) return;
    std::vector<Var> prefix(choice.begin(), choice.begin() + static_cast<int64_t>(left.size()));
    if (std::find(seen.begin(), seen.end(), prefix) != seen.end()) continue;
    seen.push_back(prefix);
    Substitution free;
    for (size_t i = 0; i < left.size(); ++i) free.Set(left[i], Poly::Of(prefix[i]));
    Substitution full;
    bool closed = true;
    for (const auto& [v, p] : solved.entries()) {
      Poly value = ctx.Subst(p, free);
      closed = closed && !ctx.Mentions(value, t.bound);
      full.Set(v, std::move(value));
    }
    for (const auto& [v, p] : free.entries()) full.Set(v, p);
    if (closed && IsUnimodular(ctx, full, t.bound, anchor.bound)) out->push_back(std::move(full));
  } while (!left.empty() && std::next_permutation(choice.begin(), choice.end()));
}

// Visits the equations of index polynomials for every pairing of atoms of equal skeleton, until `visit` returns false.
void ForEachPairing(Context& ctx, const Term& t, const Term& anchor,
                    const std::function<bool(std::vector<Poly>)>& visit) {
  if (t.bound.size() != anchor.bound.size() || t.atoms.size() != anchor.atoms.size()) return;
  std::map<std::string, std::vector<Atom>> mine, theirs;
  for (const Atom& a : t.atoms) mine[a->skeleton].push_back(a);
  for (const Atom& a : anchor.atoms) theirs[a->skeleton].push_back(a);
  for (const auto& [skeleton, atoms] : mine) {
    if (theirs[skeleton].size() != atoms.size()) return;
  }
  // One permutation per skeleton, advanced like the digits of a counter.
  std::vector<const std::vector<Atom>*> left;
  std::vector<const std::vector<Atom>*> right;
  std::vector<std::vector<size_t>> order;
  for (const auto& [skeleton, atoms] : mine) {
    left.push_back(&atoms);
    right.push_back(&theirs[skeleton]);
    std::vector<size_t> identity(atoms.size());
    for (size_t i = 0; i < identity.size(); ++i) identity[i] = i;
    order.push_back(std::move(identity));
  }
  for (int tried = 0; tried < kMaxPermutations; ++tried) {
    ctx.session->CheckLimit();
    std::vector<Poly> equations;
    for (size_t h = 0; h < left.size(); ++h) {
      for (size_t i = 0; i < left[h]->size(); ++i) {
        AddEquations(ctx, (*left[h])[i], (*right[h])[order[h][i]], t, anchor, &equations);
      }
    }
    if (!visit(std::move(equations))) return;
    size_t digit = 0;
    while (digit < order.size() && !std::next_permutation(order[digit].begin(), order[digit].end())) ++digit;
    if (digit == order.size()) return;
  }
}

// SUM_v t(v) as SUM_u SUM_v [u = image_u(v)] t(v), with the sum over v carried out: each v must be given by an equation
// c v = e with an integer c. False where one is not.
bool TakeVariables(Context& ctx, const Substitution& image, const std::vector<Var>& u, Term* t, Substitution* taken) {
  std::vector<Poly> equations;
  for (Var x : u) {
    const Poly* value = image.Find(x);
    if (value == nullptr || ctx.Mentions(*value, u)) return false;
    equations.push_back(Poly::Of(x) - *value);
  }
  std::vector<Var> left = t->bound;
  while (!left.empty()) {
    const size_t count = left.size();
    for (size_t i = 0; i < equations.size(); ++i) {
      const Poly equation = equations[i];
      const auto given = std::find_if(left.begin(), left.end(), [&](Var v) {
        return equation.Coef(v) != 0 && !ctx.Mentions(equation - Poly::Of(Monomial{v}, equation.Coef(v)), {v});
      });
      if (given == left.end()) continue;
      const Var v = *given;
      left.erase(given);
      equations.erase(equations.begin() + static_cast<int64_t>(i));
      const int64_t coef = equation.Coef(v);
      const Poly times(std::abs(coef));
      // coef v + rest = 0, so times v = multiple.
      const Poly rest = equation - Poly::Of(Monomial{v}, coef);
      const Poly multiple = coef > 0 ? -rest : rest;
      const auto conclusion = index::Laws<Context>{ctx}.Scale(times, multiple);
      const Poly& quotient = conclusion.value[0];
      Substitution s;
      s.Set(v, quotient);
      for (Poly& other : equations) other = ctx.Subst(other, s);
      for (auto& entry : taken->entries()) entry.second = ctx.Subst(entry.second, s);
      taken->Set(v, quotient);
      *t = SubstQuotient(ctx, *t, v, times, multiple, quotient);
      t->guard = Guard::And(t->guard, Guard::Eq(conclusion.zero[0]));
      break;
    }
    if (left.size() == count) return false;
  }
  t->bound = u;
  return equations.empty();
}

}  // namespace

Substitution SolveLinear(Context& ctx, std::vector<Poly> equations, const std::vector<Var>& unknowns) {
  Substitution solution;
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < equations.size() && !again; ++i) {
      const Poly p = ctx.WithoutCommonFactors(equations[i]);
      for (Var x : unknowns) {
        if (solution.Find(x) != nullptr) continue;
        std::optional<Poly> value = SolvedFor(ctx, p, x);
        if (!value) continue;
        equations.erase(equations.begin() + static_cast<int64_t>(i));
        Substitution s;
        s.Set(x, *value);
        for (Poly& q : equations) q = ctx.Subst(q, s);
        for (auto& entry : solution.entries()) entry.second = ctx.Subst(entry.second, s);
        solution.Set(x, *std::move(value));
        again = true;
        break;
      }
    }
  }
  return solution;
}

std::vector<Substitution> Alignments(Context& ctx, const Term& t, const Term& anchor) {
  std::vector<Substitution> out;
  if (t.bound.empty()) {
    ForEachPairing(ctx, t, anchor, [&](const std::vector<Poly>&) {
      out.emplace_back();
      return false;
    });
    return out;
  }
  ForEachPairing(ctx, t, anchor, [&](std::vector<Poly> equations) {
    Complete(ctx, SolveLinear(ctx, std::move(equations), t.bound), t, anchor, &out);
    return out.size() < kMaxAlignments;
  });
  return out;
}

std::vector<StretchedTerm> StretchedAlignments(Context& ctx, const Term& t, const Term& anchor) {
  std::vector<StretchedTerm> out;
  if (t.bound.empty()) return out;
  ForEachPairing(ctx, t, anchor, [&](std::vector<Poly> equations) {
    const Substitution image = SolveLinear(ctx, std::move(equations), anchor.bound);
    StretchedTerm moved{t, {}, image};
    if (TakeVariables(ctx, image, anchor.bound, &moved.term, &moved.forward)) out.push_back(std::move(moved));
    return out.size() < kMaxAlignments;
  });
  return out;
}

Term ApplyAlignment(Context& ctx, const Term& t, const Substitution& s, const Term& anchor) {
  Term out = SubstFree(ctx, t, s);
  out.bound = anchor.bound;
  return out;
}

Term FreeAnchor(Context& ctx, const Term& t) {
  if (t.bound.empty()) return t;
  Substitution s;
  std::vector<Var> fresh;
  for (Var v : t.bound) {
    fresh.push_back(ctx.NewLocal("u"));
    s.Set(v, Poly::Of(fresh.back()));
  }
  Term out = SubstFree(ctx, t, s);
  out.bound = std::move(fresh);
  return out;
}

Family FreeAnchor(Context& ctx, const Family& b) {
  Substitution s;
  Family out = b;
  for (Var& v : out.bound) {
    Var fresh = ctx.NewLocal("u");
    s.Set(v, Poly::Of(fresh));
    v = fresh;
  }
  out.guard = ctx.Subst(b.guard, s);
  out.body = Subst(ctx, b.body, s);
  return out;
}

}  // namespace rewright::verifier
