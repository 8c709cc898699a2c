#include "verifier/normal_form/cases.h"

#include <algorithm>

#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/proof_observer.h"

namespace rewright::verifier {
namespace {

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

}  // namespace

Atom AssumeAtom(Context& ctx, const Atom& a, const Guard& literal, const Guard& negation) {
  if (a->kind == AtomNode::Kind::kFn) {
    std::vector<NormalForm> args;
    for (const NormalForm& n : a->args) args.push_back(AssumeForm(ctx, n, literal, negation));
    return MakeFnAtom(ctx, a->name, std::move(args));
  }
  if (a->kind != AtomNode::Kind::kBinder) return a;
  std::vector<Family> families;
  for (const Family& b : a->families) {
    Guard guard = AssumeGuard(ctx, b.guard, literal, negation);
    if (guard.IsFalse()) continue;
    families.push_back({b.bound, guard, AssumeForm(ctx, b.body, literal, negation)});
  }
  return MakeBinderAtom(ctx, a->name, std::move(families));
}

NormalForm AssumeForm(Context& ctx, const NormalForm& n, const Guard& literal, const Guard& negation) {
  NormalForm out;
  for (const Term& t : n) {
    Term changed{t.coef, t.bound, AssumeGuard(ctx, t.guard, literal, negation), {}};
    if (changed.guard.IsFalse()) continue;
    for (const Atom& a : t.atoms) changed.atoms.push_back(AssumeAtom(ctx, a, literal, negation));
    out.push_back(std::move(changed));
  }
  if (ProofObserver* observer = ObserverOf(ctx)) observer->Equal(ctx, Law::kAssumed, literal, n, out);
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

std::optional<Guard> LiteralOfValues(const Context& ctx, const Poly& p) {
  CountSteps(1);
  ctx.session->CheckLimit();  // definitions may lie in definitions many times
  for (Var v : p.Vars()) {
    const VarInfo& info = ctx.Info(v);
    std::optional<Guard> found;
    if (info.kind == VarInfo::Kind::kValue) {
      const std::vector<Guard> literals = FreeLiterals(ctx, ElementOf(info));
      if (!literals.empty()) found = literals[0];
    } else if (ctx.IsDefinition(v)) {
      found = LiteralOfValues(ctx, info.a);
      if (!found) found = LiteralOfValues(ctx, info.b);
    }
    if (found) return found;
  }
  return std::nullopt;
}

namespace {

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
  for (const Family& b : a->families) {
    std::vector<Var> vars = bound;
    vars.insert(vars.end(), b.bound.begin(), b.bound.end());
    collect(b.guard, vars);
    visit(b.body, vars);
  }
}

}  // namespace

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
    if (ProofObserver* observer = again ? ObserverOf(ctx) : nullptr) {
      observer->Equal(ctx, Law::kCases, Guard::True(), current, out);
    }
    current = Simplify(ctx, out);
    if (!again) break;
  }
  return current;
}

}  // namespace rewright::verifier
