#include "verifier/algebra.h"

#include <algorithm>
#include <map>

#include "verifier/give_up.h"

namespace rewright::verifier {
namespace {

// More terms than any honest rule makes.
constexpr size_t kMaxTerms = 600;
constexpr int kMaxLift = 12;

// `g` where `literal` holds; uses differences of inequalities as well as equality of literals.
Guard AssumeGuard(Context& ctx, const Guard& g, const Guard& literal, const Guard& negation) {
  if (g == literal) return Guard::True();
  if (g == negation) return Guard::False();
  if (g.IsGe() && literal.IsGe()) {
    if (ctx.TriviallyNonneg(g.poly() - literal.poly())) return Guard::True();
    if (ctx.TriviallyNonneg(-(g.poly() + literal.poly()) - Poly(1))) return Guard::False();
  }
  if (g.kind() == Guard::Kind::kAnd) {
    std::vector<Guard> parts;
    for (const Guard& part : g.args()) parts.push_back(AssumeGuard(ctx, part, literal, negation));
    return Guard::And(parts);
  }
  if (g.kind() == Guard::Kind::kNot) return Guard::Not(AssumeGuard(ctx, g.args()[0], literal, negation));
  return g;
}

NormalForm AssumeForm(Context& ctx, const NormalForm& n, const Guard& literal, const Guard& negation);

Atom AssumeAtom(Context& ctx, const Atom& a, const Guard& literal, const Guard& negation) {
  if (a->kind == AtomNode::Kind::kFn) {
    std::vector<NormalForm> args;
    for (const NormalForm& n : a->args) args.push_back(AssumeForm(ctx, n, literal, negation));
    return MakeFnAtom(ctx, a->name, std::move(args));
  }
  if (a->kind != AtomNode::Kind::kMax) return a;
  std::vector<Branch> branches;
  for (const Branch& b : a->branches) {
    Guard guard = AssumeGuard(ctx, b.guard, literal, negation);
    if (guard.IsFalse()) continue;
    branches.push_back({b.bound, guard, AssumeForm(ctx, b.body, literal, negation)});
  }
  return MakeBinderAtom(ctx, a->name, std::move(branches));
}

NormalForm AssumeForm(Context& ctx, const NormalForm& n, const Guard& literal, const Guard& negation) {
  NormalForm out;
  for (const Term& t : n) {
    Term changed{t.coef, t.bound, AssumeGuard(ctx, t.guard, literal, negation), {}};
    if (changed.guard.IsFalse()) continue;
    for (const Atom& a : t.atoms) changed.atoms.push_back(AssumeAtom(ctx, a, literal, negation));
    out.push_back(std::move(changed));
  }
  return Simplify(ctx, out);
}

// Literals of the terms' guards that mention none of the variables bound by their own term.
std::vector<Guard> FreeLiterals(const Context& ctx, const NormalForm& n) {
  std::vector<Guard> out;
  for (const Term& t : n) {
    std::vector<Guard> literals;
    CollectLiterals(t.guard, &literals);
    for (Guard& g : literals) {
      if (!ctx.Mentions(g, t.bound)) out.push_back(std::move(g));
    }
  }
  return out;
}

// Literals inside an opaque atom that mention no variable bound inside it.
void InnerLiterals(const Context& ctx, const Atom& a, std::vector<Var> bound, std::vector<Guard>* out) {
  auto collect = [&](const Guard& g, const std::vector<Var>& vars) {
    std::vector<Guard> literals;
    CollectLiterals(g, &literals);
    for (Guard& literal : literals) {
      if (!ctx.Mentions(literal, vars)) out->push_back(std::move(literal));
    }
  };
  auto visit = [&](const NormalForm& n, const std::vector<Var>& outer) {
    for (const Term& t : n) {
      std::vector<Var> vars = outer;
      vars.insert(vars.end(), t.bound.begin(), t.bound.end());
      collect(t.guard, vars);
      for (const Atom& x : t.atoms) InnerLiterals(ctx, x, vars, out);
    }
  };
  for (const NormalForm& n : a->args) visit(n, bound);
  for (const Branch& b : a->branches) {
    std::vector<Var> vars = bound;
    vars.insert(vars.end(), b.bound.begin(), b.bound.end());
    collect(b.guard, vars);
    visit(b.body, vars);
  }
}

// ---------------------------------------------------------------- simplifying one term

// One-point rule: an equation in the guard that gives a bound variable removes it.
bool EliminateByEquation(Context& ctx, Term* t) {
  for (const Guard& g : Conjuncts(t->guard)) {
    if (!g.IsEq()) continue;
    for (Var v : t->bound) {
      int64_t coef = g.poly().Coef(v);
      if ((coef != 1 && coef != -1) || !g.poly().IsLinearIn(v)) continue;
      Poly value = Poly::Of(v) - g.poly() * Poly(coef);
      if (ctx.Mentions(value, {v})) continue;
      std::vector<Guard> rest;
      for (const Guard& other : Conjuncts(t->guard)) {
        if (other != g) rest.push_back(other);
      }
      Term open{t->coef, {}, Guard::And(rest), t->atoms};
      for (Var other : t->bound) {
        if (other != v) open.bound.push_back(other);
      }
      Substitution s;
      s.Set(v, value);
      *t = SubstFree(ctx, open, s);
      return true;
    }
  }
  return false;
}

// lo <= v and v <= lo: the same rule for a range of one point.
bool EliminateSingleton(Context& ctx, Term* t) {
  std::vector<Guard> parts = Conjuncts(t->guard);
  for (Var v : t->bound) {
    for (const Guard& lower : parts) {
      if (!lower.IsGe() || lower.poly().Coef(v) != 1 || !lower.poly().IsLinearIn(v)) continue;
      for (const Guard& upper : parts) {
        if (!upper.IsGe() || !(lower.poly() + upper.poly()).IsZero()) continue;
        std::vector<Guard> rest;
        for (const Guard& g : parts) {
          if (g != lower && g != upper) rest.push_back(g);
        }
        rest.insert(rest.begin(), Guard::Eq(lower.poly()));
        Term open = *t;
        open.guard = Guard::And(rest);
        if (!EliminateByEquation(ctx, &open)) continue;
        *t = std::move(open);
        return true;
      }
    }
  }
  return false;
}

bool MentionedByAtoms(const Term& t, Var v) {
  return std::any_of(t.atoms.begin(), t.atoms.end(),
                     [v](const Atom& a) { return std::binary_search(a->vars.begin(), a->vars.end(), v); });
}

// The plain bounds lo <= v < lo + count of a variable that nothing else mentions. `rest` is the guard without them.
bool PlainRange(Context& ctx, const std::vector<Var>& bound, const Guard& guard, Var v, Poly* count, Guard* rest) {
  std::vector<Guard> with, without;
  for (const Guard& g : Conjuncts(guard)) (ctx.Mentions(g, {v}) ? with : without).push_back(g);
  // Bounds that the others imply go first. The variable's recorded range must not be used: these are its guards.
  for (size_t i = 0; with.size() > 2 && i < with.size();) {
    std::vector<Guard> others = without;
    for (size_t j = 0; j < with.size(); ++j) {
      if (j != i) others.push_back(with[j]);
    }
    if (with[i].IsGe() && ctx.ProveNonneg({with[i].poly()}, others, bound)) {
      with.erase(with.begin() + static_cast<int64_t>(i));
    } else {
      ++i;
    }
  }
  if (with.size() != 2 || !with[0].IsGe() || !with[1].IsGe()) return false;
  if (!with[0].poly().IsLinearIn(v) || !with[1].poly().IsLinearIn(v)) return false;
  if (ctx.HasDefinition(with[0].poly()) || ctx.HasDefinition(with[1].poly())) {
    for (const Guard& g : with) {
      if (ctx.Mentions(g.poly() - Poly::Of(Monomial{v}, g.poly().Coef(v)), {v})) return false;
    }
  }
  if (with[0].poly().Coef(v) * with[1].poly().Coef(v) != -1) return false;
  Poly n = with[0].poly() + with[1].poly() + Poly(1);
  if (ctx.Mentions(n, bound)) return false;
  std::vector<Guard> known;
  for (const Guard& g : without) {
    if (!ctx.Mentions(g, bound)) known.push_back(g);
  }
  if (!ctx.ProveNonneg({n}, known)) return false;
  *count = n;
  *rest = Guard::And(without);
  return true;
}

bool CountUnused(Context& ctx, Term* t) {
  for (Var v : t->bound) {
    if (MentionedByAtoms(*t, v)) continue;
    Poly count;
    Guard rest;
    if (!PlainRange(ctx, t->bound, t->guard, v, &count, &rest)) continue;
    t->bound.erase(std::find(t->bound.begin(), t->bound.end(), v));
    t->guard = rest;
    t->atoms.push_back(MakeIntAtom(ctx, count));
    return true;
  }
  return false;
}

bool IsPositiveAtom(Context& ctx, const Atom& a);
bool IsNonnegativeAtom(Context& ctx, const Atom& a);

// Index polynomials that are constants or single products come apart; booleans are idempotent.
bool SplitIndexAtom(Context& ctx, Term* t) {
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom a = t->atoms[i];
    if (a->kind == AtomNode::Kind::kInt && a->value.IsConst()) {
      t->coef = t->coef * Rational(a->value.Constant());
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(i));
      return true;
    }
    if (a->kind == AtomNode::Kind::kInt && a->value.items().size() == 1 &&
        (a->value.items()[0].vars.size() > 1 || a->value.items()[0].coef != 1)) {
      const Poly::Item item = a->value.items()[0];
      t->coef = t->coef * Rational(item.coef);
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(i));
      for (Var v : item.vars) t->atoms.push_back(MakeIntAtom(ctx, Poly::Of(v)));
      return true;
    }
    if (!a->boolean) continue;
    for (size_t j = i + 1; j < t->atoms.size(); ++j) {
      if (t->atoms[j]->head == a->head && AtomKey(ctx, t->atoms[j]) == AtomKey(ctx, a)) {
        t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(j));
        return true;
      }
    }
  }
  return false;
}

// The a of sqrt(a), or null.
const NormalForm* RootOf(const Atom& a) {
  return a->kind == AtomNode::Kind::kFn && a->name == "sqrt" ? &a->args[0] : nullptr;
}

// The a of 1 / sqrt(a), or null.
const NormalForm* ReciprocalRootOf(const Atom& a) {
  if (a->kind != AtomNode::Kind::kFn || a->name != "recip" || !IsSingleAtom(a->args[0], AtomNode::Kind::kFn)) {
    return nullptr;
  }
  return RootOf(a->args[0][0].atoms[0]);
}

// sqrt(a) * sqrt(a) = a and (1 / sqrt(a)) * (1 / sqrt(a)) = 1 / a for a >= 0.
bool SquareRoots(Context& ctx, Term* t) {
  if (!ctx.strategy.finite_laws) return false;
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom a = t->atoms[i];
    const NormalForm* root = RootOf(a);
    const NormalForm* reciprocal = ReciprocalRootOf(a);
    if (root == nullptr && reciprocal == nullptr) continue;
    const NormalForm inner = root != nullptr ? *root : *reciprocal;
    for (size_t j = i + 1; j < t->atoms.size(); ++j) {
      if (t->atoms[j]->head != a->head || AtomKey(ctx, t->atoms[j]) != AtomKey(ctx, a)) continue;
      if (!IsNonnegative(ctx, inner) || (root != nullptr && !IsMonomial(inner))) continue;
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(j));
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(i));
      ctx.used_finite_law = true;
      if (root == nullptr) {
        t->atoms.push_back(MakeFnAtom(ctx, "recip", {inner}));
      } else {
        t->coef = t->coef * inner[0].coef;
        t->atoms.insert(t->atoms.end(), inner[0].atoms.begin(), inner[0].atoms.end());
      }
      return true;
    }
  }
  return false;
}

// a * (1/a) = 1 for a > 0.
bool CancelFactors(Context& ctx, Term* t) {
  for (size_t i = 0; i < t->atoms.size(); ++i) {
    const Atom a = t->atoms[i];
    if (a->kind != AtomNode::Kind::kFn || a->name != "recip") continue;
    const NormalForm& of = a->args[0];
    if (!IsMonomial(of) || of[0].atoms.size() != 1 || !of[0].coef.IsOne()) continue;
    const Atom inner = of[0].atoms[0];
    const bool exact = inner->kind == AtomNode::Kind::kInt;
    if (!exact && !ctx.strategy.finite_laws) continue;
    for (size_t j = 0; j < t->atoms.size(); ++j) {
      if (j == i || t->atoms[j]->head != inner->head || AtomKey(ctx, t->atoms[j]) != AtomKey(ctx, inner)) continue;
      if (!IsPositiveAtom(ctx, inner)) continue;
      if (!exact) ctx.used_finite_law = true;
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(std::max(i, j)));
      t->atoms.erase(t->atoms.begin() + static_cast<int64_t>(std::min(i, j)));
      return true;
    }
  }
  return false;
}

// False when the term is zero.
bool SimplifyTerm(Context& ctx, Term* t) {
  if (t->coef.IsZero() || t->guard.IsFalse()) return false;
  t->guard = SimplifyGuard(ctx, t->guard);
  for (bool again = true; again;) {
    if (t->guard.IsFalse()) return false;
    again = EliminateByEquation(ctx, t) || EliminateSingleton(ctx, t) || CountUnused(ctx, t);
    if (again) t->guard = SimplifyGuard(ctx, t->guard);
  }
  while (SplitIndexAtom(ctx, t) || CancelFactors(ctx, t) || SquareRoots(ctx, t)) {
  }
  if (t->coef.IsZero()) return false;
  std::stable_sort(t->atoms.begin(), t->atoms.end(), [](const Atom& a, const Atom& b) { return a->head < b->head; });
  return true;
}

bool IsPositiveAtom(Context& ctx, const Atom& a) {
  switch (a->kind) {
    case AtomNode::Kind::kRead: return a->positive;
    case AtomNode::Kind::kInt: return ctx.ProvePositive(a->value);
    case AtomNode::Kind::kFn:
      if (a->name == "exp" || a->name == "sigmoid") return true;
      return (a->name == "recip" || a->name == "sqrt") && IsPositive(ctx, a->args[0]);
    case AtomNode::Kind::kMax: break;
  }
  return a->name == "max" && std::any_of(a->branches.begin(), a->branches.end(), [&](const Branch& b) {
           return b.bound.empty() && b.guard.IsTrue() && IsPositive(ctx, b.body);
         });
}

bool IsNonnegativeAtom(Context& ctx, const Atom& a) {
  if (a->boolean || IsPositiveAtom(ctx, a)) return true;
  switch (a->kind) {
    case AtomNode::Kind::kRead: return false;
    case AtomNode::Kind::kInt: return ctx.ProveNonneg({a->value});
    case AtomNode::Kind::kFn:
      return a->name == "sqrt" || (a->name == "recip" && IsNonnegative(ctx, a->args[0]));
    case AtomNode::Kind::kMax: break;
  }
  return a->name == "max" && std::any_of(a->branches.begin(), a->branches.end(), [&](const Branch& b) {
           return b.bound.empty() && b.guard.IsTrue() && IsNonnegative(ctx, b.body);
         });
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

}  // namespace

// ---------------------------------------------------------------- questions

bool IsConstant(const NormalForm& n, Rational* value) {
  if (n.empty()) {
    *value = 0;
    return true;
  }
  if (n.size() != 1 || !n[0].bound.empty() || !n[0].guard.IsTrue() || !n[0].atoms.empty()) return false;
  *value = n[0].coef;
  return true;
}

bool IsMonomial(const NormalForm& n) { return n.size() == 1 && n[0].bound.empty() && n[0].guard.IsTrue(); }

bool IsSingleAtom(const NormalForm& n, AtomNode::Kind kind) {
  return IsMonomial(n) && n[0].coef.IsOne() && n[0].atoms.size() == 1 && n[0].atoms[0]->kind == kind;
}

bool IsNonnegative(Context& ctx, const NormalForm& n) {
  return std::all_of(n.begin(), n.end(), [&](const Term& t) { return IsNonnegativeTerm(ctx, t); });
}

bool IsPositive(Context& ctx, const NormalForm& n) {
  if (!IsNonnegative(ctx, n)) return false;
  return std::any_of(n.begin(), n.end(), [&](const Term& t) {
    return t.bound.empty() && t.guard.IsTrue() &&
           std::all_of(t.atoms.begin(), t.atoms.end(), [&](const Atom& a) { return IsPositiveAtom(ctx, a); });
  });
}

// ---------------------------------------------------------------- sums and products

NormalForm ConstantForm(const Rational& value) {
  if (value.IsZero()) return {};
  Term t;
  t.coef = value;
  return {t};
}

NormalForm AtomForm(const Atom& a) {
  Term t;
  t.atoms = {a};
  return {t};
}

NormalForm IndexForm(Context& ctx, const Poly& value) { return Simplify(ctx, AtomForm(MakeIntAtom(ctx, value))); }

Guard SimplifyGuard(Context& ctx, const Guard& g) {
  std::vector<Guard> parts = Conjuncts(g);
  if (parts.size() < 2) {
    return parts.size() == 1 && parts[0].IsGe() && ctx.TriviallyNonneg(parts[0].poly()) ? Guard::True() : g;
  }
  std::vector<Guard> keep = parts;
  for (const Guard& c : parts) {
    if (!c.IsGe()) continue;
    bool implied = ctx.TriviallyNonneg(c.poly());
    for (const Guard& d : keep) {
      if (implied) break;
      if (!d.IsGe() || d == c) continue;
      if (ctx.TriviallyNonneg(-(c.poly() + d.poly()) - Poly(1))) return Guard::False();
      implied = ctx.TriviallyNonneg(c.poly() - d.poly());
    }
    if (implied) keep.erase(std::find(keep.begin(), keep.end(), c));
  }
  return Guard::And(keep);
}

NormalForm Simplify(Context& ctx, const NormalForm& n) {
  if (n.size() > kMaxTerms) throw GiveUp("a normal form grew too large");
  ctx.record->CheckTime();
  NormalForm out;
  std::map<std::string, size_t> place;
  for (const Term& original : n) {
    Term t = original;
    if (!SimplifyTerm(ctx, &t)) continue;
    auto [it, inserted] = place.emplace(TermKey(ctx, t), out.size());
    if (inserted) {
      out.push_back(std::move(t));
    } else {
      out[it->second].coef = out[it->second].coef + t.coef;
    }
  }
  out.erase(std::remove_if(out.begin(), out.end(), [](const Term& t) { return t.coef.IsZero(); }), out.end());
  return out;
}

NormalForm Add(Context& ctx, const NormalForm& a, const NormalForm& b) {
  NormalForm all = a;
  all.insert(all.end(), b.begin(), b.end());
  return Simplify(ctx, all);
}

NormalForm Scale(const NormalForm& n, const Rational& factor) {
  if (factor.IsZero()) return {};
  NormalForm out = n;
  for (Term& t : out) t.coef = t.coef * factor;
  return out;
}

NormalForm Multiply(Context& ctx, const NormalForm& a, const NormalForm& b) {
  if (a.size() * b.size() > kMaxTerms) throw GiveUp("a normal form grew too large");
  NormalForm out;
  for (const Term& x : a) {
    for (const Term& y : b) {
      Term renamed = RenameBound(ctx, y);
      Term t = x;
      t.coef = x.coef * renamed.coef;
      t.bound.insert(t.bound.end(), renamed.bound.begin(), renamed.bound.end());
      t.guard = Guard::And(x.guard, renamed.guard);
      t.atoms.insert(t.atoms.end(), renamed.atoms.begin(), renamed.atoms.end());
      out.push_back(std::move(t));
    }
  }
  return Simplify(ctx, out);
}

NormalForm Restrict(Context& ctx, const Guard& guard, const NormalForm& n) {
  if (guard.IsTrue()) return n;
  NormalForm out = n;
  for (Term& t : out) t.guard = Guard::And(guard, t.guard);
  return Simplify(ctx, out);
}

NormalForm Choose(Context& ctx, const Guard& guard, const NormalForm& yes, const NormalForm& no) {
  if (guard.IsTrue()) return yes;
  if (guard.IsFalse()) return no;
  return Add(ctx, Restrict(ctx, guard, yes), Restrict(ctx, Guard::Not(guard), no));
}

NormalForm SumOver(Context& ctx, const std::vector<Var>& bound, const Guard& guard, const NormalForm& body) {
  NormalForm out;
  for (const Term& t : body) {
    Term summed = t;
    summed.bound.insert(summed.bound.begin(), bound.begin(), bound.end());
    summed.guard = Guard::And(guard, t.guard);
    out.push_back(RenameBound(ctx, summed));
  }
  return Simplify(ctx, out);
}

// ---------------------------------------------------------------- maxima

namespace {

using Branches = std::vector<Branch>;
constexpr size_t kMaxBranches = 64;

// Applies the rules for sums that keep the set of values: one-point, and dropping a variable over a non-empty range.
bool SimplifyBranch(Context& ctx, Branch* b) {
  Term t;
  t.bound = b->bound;
  t.guard = SimplifyGuard(ctx, b->guard);
  t.atoms = {MakeFnAtom(ctx, "body", {b->body})};
  for (bool again = true; again;) {
    if (t.guard.IsFalse()) return false;
    again = EliminateByEquation(ctx, &t) || EliminateSingleton(ctx, &t);
    for (size_t i = 0; !again && i < t.bound.size(); ++i) {
      Var v = t.bound[i];
      Poly count;
      Guard rest;
      if (MentionedByAtoms(t, v) || !PlainRange(ctx, t.bound, t.guard, v, &count, &rest)) continue;
      if (!ctx.ProvePositive(count)) continue;
      t.bound.erase(t.bound.begin() + static_cast<int64_t>(i));
      t.guard = rest;
      again = true;
    }
    if (again) t.guard = SimplifyGuard(ctx, t.guard);
  }
  *b = Branch{t.bound, t.guard, t.atoms[0]->args[0]};
  return true;
}

// Flattens nested maxima and splits families whose body is a guarded alternative.
void FlattenBranch(Context& ctx, Branch b, Branches* out) {
  if (out->size() > kMaxBranches) throw GiveUp("a maximum has too many families");
  if (!SimplifyBranch(ctx, &b)) return;
  if (IsSingleAtom(b.body, AtomNode::Kind::kMax) && b.body[0].atoms[0]->name == "max") {
    for (const Branch& inner : b.body[0].atoms[0]->branches) {
      Branch renamed = RenameBound(ctx, inner);
      Branch joined = b;
      joined.bound.insert(joined.bound.end(), renamed.bound.begin(), renamed.bound.end());
      joined.guard = Guard::And(b.guard, renamed.guard);
      joined.body = renamed.body;
      FlattenBranch(ctx, std::move(joined), out);
    }
    return;
  }
  std::vector<Guard> literals = FreeLiterals(ctx, b.body);
  if (literals.empty()) {
    out->push_back(std::move(b));
    return;
  }
  const Guard yes = literals[0], no = Guard::Not(yes);
  for (const auto& [holds, fails] : {std::make_pair(yes, no), std::make_pair(no, yes)}) {
    Branch part{b.bound, Guard::And(b.guard, holds), AssumeForm(ctx, b.body, holds, fails)};
    FlattenBranch(ctx, RenameBound(ctx, part), out);
  }
}

bool FreeOf(const Term& t, const Context& ctx, const std::vector<Var>& bound) {
  return bound.empty() || !Intersects(FreeVars(ctx, t), bound);
}

// max(x + c) = max(x) + c: the terms that every family adds.
NormalForm PullCommonTerms(Context& ctx, Branches* branches) {
  NormalForm common;
  const Branch first = (*branches)[0];
  for (const Term& t : first.body) {
    if (!FreeOf(t, ctx, first.bound)) continue;
    const std::string key = t.coef.ToString() + TermKey(ctx, t);
    std::vector<size_t> places;
    for (const Branch& b : *branches) {
      size_t place = 0;
      while (place < b.body.size() &&
             (!FreeOf(b.body[place], ctx, b.bound) ||
              b.body[place].coef.ToString() + TermKey(ctx, b.body[place]) != key)) {
        ++place;
      }
      if (place == b.body.size()) break;
      places.push_back(place);
    }
    if (places.size() != branches->size()) continue;
    for (size_t i = 0; i < places.size(); ++i) {
      NormalForm& body = (*branches)[i].body;
      body.erase(body.begin() + static_cast<int64_t>(places[i]));
    }
    common.push_back(t);
  }
  return common;
}

int64_t Gcd(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 ? -a : a;
}

// The positive rational that makes all coefficients coprime integers when they are divided by it.
Rational ContentOf(const Branches& branches) {
  int64_t num = 0, den = 1;
  for (const Branch& b : branches) {
    for (const Term& t : b.body) {
      num = Gcd(num, t.coef.num());
      den = (Rational(den) * Rational(t.coef.den() / Gcd(den, t.coef.den()))).num();
    }
  }
  return num == 0 ? Rational(1) : Rational(num, den);
}

// An atom that is a factor of every term of every family, is >= 0 and mentions no variable of the families.
Atom CommonFactor(Context& ctx, const Branches& branches) {
  const Term* first = nullptr;
  for (const Branch& b : branches) {
    if (!b.body.empty() && first == nullptr) first = &b.body[0];
  }
  if (first == nullptr) return nullptr;
  for (const Atom& a : first->atoms) {
    const std::string key = AtomKey(ctx, a);
    auto in_branch = [&](const Branch& b) {
      return std::all_of(b.body.begin(), b.body.end(), [&](const Term& t) {
        return std::any_of(t.atoms.begin(), t.atoms.end(), [&](const Atom& x) {
          return x->head == a->head && !Intersects(x->vars, b.bound) && !Intersects(x->vars, t.bound) &&
                 AtomKey(ctx, x) == key;
        });
      });
    };
    if (std::all_of(branches.begin(), branches.end(), in_branch) && IsNonnegativeAtom(ctx, a)) return a;
  }
  return nullptr;
}

void RemoveFactor(const Context& ctx, const Atom& factor, NormalForm* n) {
  const std::string key = AtomKey(ctx, factor);
  for (Term& t : *n) {
    auto it = std::find_if(t.atoms.begin(), t.atoms.end(),
                           [&](const Atom& x) { return x->head == factor->head && AtomKey(ctx, x) == key; });
    t.atoms.erase(it);
  }
}

}  // namespace

NormalForm MaxOver(Context& ctx, const std::vector<Branch>& families) {
  Branches branches;
  for (const Branch& b : families) FlattenBranch(ctx, b, &branches);
  if (branches.empty()) return AtomForm(MakeBinderAtom(ctx, "max", {}));
  NormalForm common = PullCommonTerms(ctx, &branches);
  NormalForm factor = ConstantForm(1);
  Rational content = ContentOf(branches);
  if (!content.IsOne()) {
    for (Branch& b : branches) b.body = Scale(b.body, Rational(1) / content);
    factor = Scale(factor, content);
  }
  for (Atom a = CommonFactor(ctx, branches); a != nullptr; a = CommonFactor(ctx, branches)) {
    for (Branch& b : branches) {
      RemoveFactor(ctx, a, &b.body);
      b.body = Simplify(ctx, b.body);
    }
    factor = Multiply(ctx, factor, AtomForm(a));
  }
  std::map<std::string, Branch> distinct;
  for (const Branch& b : branches) distinct.emplace(BranchKey(ctx, b), b);
  NormalForm result;
  if (distinct.size() == 1 && distinct.begin()->second.bound.empty() && distinct.begin()->second.guard.IsTrue()) {
    result = distinct.begin()->second.body;
  } else {
    Branches sorted;
    for (auto& entry : distinct) sorted.push_back(std::move(entry.second));
    result = AtomForm(MakeBinderAtom(ctx, "max", std::move(sorted)));
  }
  Rational one;
  if (!IsConstant(factor, &one) || !one.IsOne()) result = Multiply(ctx, factor, result);
  return common.empty() ? result : Add(ctx, result, common);
}

// ---------------------------------------------------------------- functions

namespace {

NormalForm Opaque(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args) {
  return AtomForm(MakeFnAtom(ctx, fn, args));
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
  return Opaque(ctx, "exp", {x});
}

// 1 / (c * a * b * SUM ...): factors come out one by one.
NormalForm ReciprocalOfTerm(Context& ctx, const Term& t) {
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

NormalForm ApplyReciprocal(Context& ctx, const NormalForm& x) {
  if (x.size() == 1) return ReciprocalOfTerm(ctx, x[0]);
  if (x.empty() || !ctx.strategy.finite_laws) return Opaque(ctx, "recip", {x});
  // 1 / (a b + a c) = (1/a) * 1 / (b + c)
  for (const Atom& a : x[0].atoms) {
    if (Intersects(a->vars, x[0].bound)) continue;
    const std::string key = AtomKey(ctx, a);
    bool shared = std::all_of(x.begin(), x.end(), [&](const Term& t) {
      return std::any_of(t.atoms.begin(), t.atoms.end(), [&](const Atom& y) {
        return y->head == a->head && !Intersects(y->vars, t.bound) && AtomKey(ctx, y) == key;
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

// The sign that the canonical one of x and -x has: 0 when heads alone do not tell them apart.
int CanonicalSign(const NormalForm& x) {
  std::map<std::string, int> signs;
  for (const Term& t : x) {
    auto [it, inserted] = signs.emplace(TermHead(t), t.coef.Sign());
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
  if (fn == "erf" || fn == "tanh") {
    if (x.empty()) return {};
    if (CanonicalSign(x) < 0) return Scale(Opaque(ctx, fn, {Scale(x, -1)}), -1);
  }
  if (fn == "sigmoid" && CanonicalSign(x) < 0) {
    return Add(ctx, ConstantForm(1), Scale(Opaque(ctx, fn, {Scale(x, -1)}), -1));
  }
  if (fn == "sqrt" && IsConstant(x, &value) && (value.IsZero() || value.IsOne())) return x;
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
      if (factors.size() + (sum ? 1 : 0) > 1 && IsNonnegativeTerm(ctx, rest) &&
          std::all_of(factors.begin(), factors.end(), [&](const Atom& a) { return IsNonnegativeAtom(ctx, a); })) {
        ctx.used_finite_law = true;
        NormalForm out = sum ? Opaque(ctx, "log", {{rest}}) : NormalForm();
        for (const Atom& a : factors) out = Add(ctx, out, ApplyOne(ctx, "log", AtomForm(a)));
        return out;
      }
    }
    if (ctx.strategy.finite_laws && IsSingleAtom(x, AtomNode::Kind::kFn) && x[0].atoms[0]->name == "recip") {
      ctx.used_finite_law = true;
      return Scale(ApplyOne(ctx, "log", RenameAll(ctx, x[0].atoms[0]->args[0])), -1);
    }
  }
  if (fn == "pos" || fn == "zero") {
    if (IsConstant(x, &value)) return ConstantForm((fn == "pos" ? value.Sign() > 0 : value.IsZero()) ? 1 : 0);
    Branches whole = {{{}, Guard::True(), x}};
    NormalForm scaled = Scale(x, Rational(1) / ContentOf(whole));
    return Opaque(ctx, fn, {fn == "zero" && CanonicalSign(scaled) < 0 ? Scale(scaled, -1) : scaled});
  }
  return Opaque(ctx, fn, {x});
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
  if (fn == "max") {
    Branches branches;
    for (const NormalForm& n : args) branches.push_back({{}, Guard::True(), n});
    return MaxOver(ctx, branches);
  }
  if (fn == "min") {
    Branches branches;
    for (const NormalForm& n : args) branches.push_back({{}, Guard::True(), Scale(n, -1)});
    return Scale(MaxOver(ctx, branches), -1);
  }
  if (fn == "pow") return ApplyPow(ctx, args[0], args[1]);
  if (args.size() == 1) return ApplyOne(ctx, fn, args[0]);
  return Opaque(ctx, fn, args);
}

}  // namespace

NormalForm Apply(Context& ctx, const std::string& fn, const std::vector<NormalForm>& args) {
  return ApplyAt(ctx, fn, args, 0);
}

NormalForm LiftConditions(Context& ctx, const NormalForm& n) {
  NormalForm current = n;
  for (int round = 0; round < kMaxLift; ++round) {
    bool again = false;
    NormalForm out;
    for (const Term& t : current) {
      std::vector<Guard> literals;
      for (const Atom& a : t.atoms) {
        if (a->has_bound) InnerLiterals(ctx, a, {}, &literals);
      }
      if (literals.empty()) {
        out.push_back(t);
        continue;
      }
      again = true;
      const Guard yes = literals[0], no = Guard::Not(yes);
      std::vector<Guard> known = Conjuncts(t.guard);
      for (const auto& [holds, fails] : {std::make_pair(yes, no), std::make_pair(no, yes)}) {
        if (std::find(known.begin(), known.end(), fails) != known.end()) continue;
        Term part{t.coef, t.bound, Guard::And(t.guard, holds), {}};
        for (const Atom& a : t.atoms) part.atoms.push_back(AssumeAtom(ctx, a, holds, fails));
        out.push_back(std::move(part));
      }
    }
    current = Simplify(ctx, out);
    if (!again) break;
  }
  return current;
}

}  // namespace rewright::verifier
