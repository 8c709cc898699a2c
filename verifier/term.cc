#include "verifier/term.h"

#include <algorithm>
#include <utility>

namespace rewright::verifier {
namespace {

constexpr char kWholeValue[] = "value";

void SortUnique(std::vector<Var>* vars) {
  std::sort(vars->begin(), vars->end());
  vars->erase(std::unique(vars->begin(), vars->end()), vars->end());
}

void Append(std::vector<Var>* out, const std::vector<Var>& more) { out->insert(out->end(), more.begin(), more.end()); }

void Remove(std::vector<Var>* vars, const std::vector<Var>& gone) {
  vars->erase(std::remove_if(vars->begin(), vars->end(),
                             [&](Var v) { return std::find(gone.begin(), gone.end(), v) != gone.end(); }),
              vars->end());
}

bool HasBound(const NormalForm& n) {
  return std::any_of(n.begin(), n.end(), [](const Term& t) {
    return !t.bound.empty() || std::any_of(t.atoms.begin(), t.atoms.end(), [](const Atom& a) { return a->has_bound; });
  });
}

std::vector<Atom> SortedByHead(std::vector<Atom> atoms) {
  std::stable_sort(atoms.begin(), atoms.end(), [](const Atom& a, const Atom& b) { return a->head < b->head; });
  return atoms;
}

// Names for bound variables that do not depend on how they are numbered: by first occurrence in the atoms, and within
// one polynomial by the coefficients they carry.
Context::Names CanonicalNames(const Context& ctx, const std::vector<Var>& bound, const std::vector<Atom>& atoms,
                              const Context::Names& outer) {
  if (bound.empty()) return outer;
  Context::Names masked = outer;
  for (Var v : bound) masked[v] = "*";
  std::vector<Var> order;
  for (const Atom& a : SortedByHead(atoms)) {
    std::vector<Poly> polys;
    WalkPolys(a, &polys);
    for (const Poly& p : polys) {
      std::vector<std::pair<std::string, Var>> found;
      for (Var v : ctx.BaseVars(p)) {
        if (std::find(bound.begin(), bound.end(), v) == bound.end()) continue;
        if (std::find(order.begin(), order.end(), v) != order.end()) continue;
        std::vector<Poly::Item> with;
        for (const Poly::Item& item : p.items()) {
          if (ctx.Mentions(Poly::Of(item.vars, 1), {v})) with.push_back(item);
        }
        found.emplace_back(ctx.Print(Poly::FromItems(with), masked), v);
      }
      std::sort(found.begin(), found.end());
      for (const auto& [text, v] : found) order.push_back(v);
    }
  }
  for (Var v : bound) {
    if (std::find(order.begin(), order.end(), v) == order.end()) order.push_back(v);
  }
  Context::Names names = outer;
  for (Var v : order) names[v] = "$" + std::to_string(names.size());
  return names;
}

std::string JoinSorted(std::vector<std::string> parts, const char* separator) {
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : separator) + part;
  return out;
}

std::vector<Term> SortedTerms(const NormalForm& n) {
  std::vector<std::pair<std::string, const Term*>> order;
  for (const Term& t : n) order.emplace_back(TermHead(t), &t);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Term> out;
  for (const auto& entry : order) out.push_back(*entry.second);
  return out;
}

// Renames those of `bound` that s replaces or that occur in what s brings in; gives s without the bound variables.
Substitution EnterBinder(Context& ctx, const std::vector<Var>& bound, const Substitution& s, Substitution* renaming) {
  Substitution inner;
  for (const auto& [v, p] : s.entries()) {
    if (std::find(bound.begin(), bound.end(), v) == bound.end()) inner.Set(v, p);
  }
  for (Var b : bound) {
    for (const auto& [v, p] : inner.entries()) {
      if (ctx.Mentions(p, {b})) {
        renaming->Set(b, Poly::Of(ctx.FreshCopy(b)));
        break;
      }
    }
  }
  return inner;
}

Var RenamedVar(const Substitution& renaming, Var v) {
  const Poly* p = renaming.Find(v);
  return p == nullptr ? v : p->items()[0].vars[0];
}

template <typename Map>
Atom MapAtom(Context& ctx, const Atom& a, const Map& map) {
  switch (a->kind) {
    case AtomNode::Kind::kRead: {
      std::vector<Poly> at;
      for (const Poly& p : a->at) at.push_back(map.OfPoly(p));
      return MakeRead(ctx, Leaf{a->name, a->positive, a->boolean}, std::move(at));
    }
    case AtomNode::Kind::kInt: return MakeIntAtom(ctx, map.OfPoly(a->value));
    case AtomNode::Kind::kFn: {
      std::vector<NormalForm> args;
      for (const NormalForm& n : a->args) args.push_back(map.OfForm(n));
      return MakeFnAtom(ctx, a->name, std::move(args));
    }
    case AtomNode::Kind::kMax: break;
  }
  std::vector<Branch> branches;
  for (const Branch& b : a->branches) branches.push_back(map.OfBranch(b));
  return MakeBinderAtom(ctx, a->name, std::move(branches));
}

struct SubstMap {
  Context& ctx;
  const Substitution& s;
  Poly OfPoly(const Poly& p) const { return ctx.Subst(p, s); }
  NormalForm OfForm(const NormalForm& n) const { return Subst(ctx, n, s); }
  Branch OfBranch(const Branch& b) const { return Subst(ctx, b, s); }
};

// v = quotient, where times * v = multiple. Elements that are indices are rewritten inside.
struct QuotientMap {
  Context& ctx;
  Var v;
  const Poly& times;
  const Poly& multiple;
  Substitution s;
  Poly OfPoly(const Poly& original) const {
    const Poly p = WithElements(original);
    Poly factor, rest, exact;
    if (!p.Contains(v) || !p.Decompose(v, &factor, &rest) || !DivideExactly(factor, times, &exact)) {
      return ctx.Subst(p, s);
    }
    return ctx.Subst(rest, s) + ctx.Subst(exact, s) * multiple;
  }
  Poly WithElements(const Poly& p) const {
    Substitution moved;
    for (Var x : p.Vars()) {
      const VarInfo info = ctx.Info(x);
      if (info.kind != VarInfo::Kind::kValue || !ctx.Mentions(Poly::Of(x), {v})) continue;
      const NormalForm value = OfForm(*info.value);
      moved.Set(x, ctx.ValueOf(value, NormalFormKey(ctx, value), FreeVars(ctx, value)));
    }
    return moved.empty() ? p : ctx.Subst(p, moved);
  }
  Guard OfGuard(const Guard& g) const {
    switch (g.kind()) {
      case Guard::Kind::kTrue:
      case Guard::Kind::kFalse: return g;
      case Guard::Kind::kGe: return Guard::Ge(OfPoly(g.poly()));
      case Guard::Kind::kEq: return Guard::Eq(OfPoly(g.poly()));
      case Guard::Kind::kNot: return Guard::Not(OfGuard(g.args()[0]));
      case Guard::Kind::kAnd: break;
    }
    std::vector<Guard> parts;
    for (const Guard& part : g.args()) parts.push_back(OfGuard(part));
    return Guard::And(parts);
  }
  NormalForm OfForm(const NormalForm& n) const {
    NormalForm out;
    for (const Term& t : RenameAll(ctx, n)) out.push_back(OfTerm(t));
    return out;
  }
  Branch OfBranch(const Branch& b) const {
    Branch fresh = RenameBound(ctx, b);
    return {fresh.bound, OfGuard(fresh.guard), OfForm(fresh.body)};
  }
  Term OfTerm(const Term& t) const {
    Term out{t.coef, t.bound, OfGuard(t.guard), {}};
    for (const Atom& a : t.atoms) out.atoms.push_back(MapAtom(ctx, a, *this));
    return out;
  }
};

// Renaming by fresh variables: nothing can be captured, nothing new simplifies.
struct RenameMap {
  Context& ctx;
  Substitution s;
  Poly OfPoly(const Poly& p) const { return ctx.Rename(p, s); }
  NormalForm OfForm(const NormalForm& n) const {
    NormalForm out;
    for (const Term& t : n) out.push_back(RenameMap{ctx, Without(t.bound)}.OfOpened(t));
    return out;
  }
  Branch OfBranch(const Branch& b) const { return RenameMap{ctx, Without(b.bound)}.OfOpened(b); }
  Substitution Without(const std::vector<Var>& bound) const {
    Substitution inner = s;
    for (Var v : bound) inner.Erase(v);
    return inner;
  }
  // The binder's own variables are renamed as well.
  Term OfOpened(const Term& t) const {
    Term out{t.coef, t.bound, ctx.Rename(t.guard, s), {}};
    for (const Atom& a : t.atoms) out.atoms.push_back(OfAtom(a));
    return out;
  }
  Branch OfOpened(const Branch& b) const { return Branch{b.bound, ctx.Rename(b.guard, s), OfForm(b.body)}; }
  Atom OfAtom(const Atom& a) const {
    for (const auto& entry : s.entries()) {
      if (std::binary_search(a->vars.begin(), a->vars.end(), entry.first)) return MapAtom(ctx, a, *this);
    }
    return a;
  }
};

Substitution FreshNames(Context& ctx, const std::vector<Var>& bound) {
  Substitution s;
  for (Var v : bound) s.Set(v, Poly::Of(ctx.FreshCopy(v)));
  for (const auto& [v, p] : s.entries()) {
    Var fresh = p.items()[0].vars[0];
    if (!ctx.Info(fresh).range.has_value()) continue;
    auto [lo, hi] = *ctx.Info(fresh).range;
    Poly new_lo = ctx.Rename(lo, s), new_hi = ctx.Rename(hi, s);
    ctx.MutableInfo(fresh).range.emplace(new_lo, new_hi);
  }
  return s;
}

// A Term or Branch with the names of `renaming` for its own bound variables.
template <typename Binder>
Binder Renamed(Context& ctx, const Binder& binder, const Substitution& renaming) {
  Binder out = RenameMap{ctx, renaming}.OfOpened(binder);
  for (Var& v : out.bound) v = RenamedVar(renaming, v);
  return out;
}

template <typename Binder>
Binder WithFreshNames(Context& ctx, const Binder& binder) {
  return binder.bound.empty() ? binder : Renamed(ctx, binder, FreshNames(ctx, binder.bound));
}

struct RenameAllMap {
  Context& ctx;
  Poly OfPoly(const Poly& p) const { return p; }
  NormalForm OfForm(const NormalForm& n) const { return RenameAll(ctx, n); }
  Branch OfBranch(const Branch& b) const {
    Branch out = RenameBound(ctx, b);
    out.body = RenameAll(ctx, out.body);
    return out;
  }
};

}  // namespace

// ---------------------------------------------------------------- making atoms

Atom MakeRead(const Context& ctx, const Leaf& leaf, std::vector<Poly> at) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kRead;
  node->name = leaf.name;
  node->positive = leaf.positive;
  node->boolean = leaf.boolean;
  for (const Poly& p : at) Append(&node->vars, ctx.BaseVars(p));
  SortUnique(&node->vars);
  node->at = std::move(at);
  node->head = "r" + leaf.name;
  return node;
}

Atom MakeIntAtom(const Context& ctx, const Poly& value) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kInt;
  node->value = value;
  node->vars = ctx.BaseVars(value);
  node->head = "i";
  return node;
}

Atom MakeFnAtom(const Context& ctx, const std::string& fn, std::vector<NormalForm> args) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kFn;
  node->name = fn;
  node->boolean = fn == "pos" || fn == "zero" || fn.starts_with("less.") || fn.starts_with("zero.");
  node->head = "f" + fn + "(";
  for (const NormalForm& n : args) {
    Append(&node->vars, FreeVars(ctx, n));
    node->head += NormalFormHead(n) + ",";
    node->has_bound = node->has_bound || HasBound(n);
  }
  node->head += ")";
  SortUnique(&node->vars);
  node->args = std::move(args);
  return node;
}

Atom MakeBinderAtom(const Context& ctx, const std::string& binder, std::vector<Branch> branches) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kMax;
  node->name = binder;
  std::vector<std::string> heads;
  for (const Branch& b : branches) {
    std::vector<Var> vars = ctx.BaseVars(b.guard);
    Append(&vars, FreeVars(ctx, b.body));
    Remove(&vars, b.bound);
    Append(&node->vars, vars);
    heads.push_back(NormalFormHead(b.body));
    node->has_bound = node->has_bound || !b.bound.empty() || HasBound(b.body);
  }
  node->head = binder + "{" + JoinSorted(std::move(heads), ",") + "}";
  SortUnique(&node->vars);
  node->branches = std::move(branches);
  return node;
}

Atom MakeWholeValue(const Context& ctx, std::vector<Branch> positions) {
  return MakeBinderAtom(ctx, kWholeValue, std::move(positions));
}

bool IsWholeValue(const AtomNode& atom) { return atom.kind == AtomNode::Kind::kMax && atom.name == kWholeValue; }

// ---------------------------------------------------------------- variables and substitution

std::vector<Var> FreeVars(const Context& ctx, const Term& t) {
  std::vector<Var> out = ctx.BaseVars(t.guard);
  for (const Atom& a : t.atoms) Append(&out, a->vars);
  SortUnique(&out);
  Remove(&out, t.bound);
  return out;
}

std::vector<Var> FreeVars(const Context& ctx, const NormalForm& n) {
  std::vector<Var> out;
  for (const Term& t : n) Append(&out, FreeVars(ctx, t));
  SortUnique(&out);
  return out;
}

bool Intersects(const std::vector<Var>& sorted, const std::vector<Var>& vars) {
  return std::any_of(vars.begin(), vars.end(),
                     [&](Var v) { return std::binary_search(sorted.begin(), sorted.end(), v); });
}

Atom Subst(Context& ctx, const Atom& a, const Substitution& s) {
  for (const auto& entry : s.entries()) {
    if (std::binary_search(a->vars.begin(), a->vars.end(), entry.first)) return MapAtom(ctx, a, SubstMap{ctx, s});
  }
  return a;
}

Term SubstFree(Context& ctx, const Term& t, const Substitution& s) {
  Term out{t.coef, t.bound, ctx.Subst(t.guard, s), {}};
  out.atoms.reserve(t.atoms.size());
  for (const Atom& a : t.atoms) out.atoms.push_back(Subst(ctx, a, s));
  return out;
}

Term SubstQuotient(Context& ctx, const Term& t, Var v, const Poly& times, const Poly& multiple, const Poly& quotient) {
  Substitution s;
  s.Set(v, quotient);
  return QuotientMap{ctx, v, times, multiple, std::move(s)}.OfTerm(t);
}

NormalForm Subst(Context& ctx, const NormalForm& n, const Substitution& s) {
  if (s.empty()) return n;
  NormalForm out;
  out.reserve(n.size());
  for (const Term& t : n) {
    if (t.bound.empty()) {
      out.push_back(SubstFree(ctx, t, s));
      continue;
    }
    Substitution renaming;
    Substitution inner = EnterBinder(ctx, t.bound, s, &renaming);
    out.push_back(SubstFree(ctx, renaming.empty() ? t : Renamed(ctx, t, renaming), inner));
  }
  return out;
}

Branch Subst(Context& ctx, const Branch& b, const Substitution& s) {
  Substitution renaming;
  Substitution inner = EnterBinder(ctx, b.bound, s, &renaming);
  Branch out = renaming.empty() ? b : Renamed(ctx, b, renaming);
  out.guard = ctx.Subst(out.guard, inner);
  out.body = Subst(ctx, out.body, inner);
  return out;
}

Term RenameBound(Context& ctx, const Term& t) { return WithFreshNames(ctx, t); }
Branch RenameBound(Context& ctx, const Branch& b) { return WithFreshNames(ctx, b); }

NormalForm RenameAll(Context& ctx, const NormalForm& n) {
  NormalForm out;
  for (const Term& t : n) {
    Term renamed = RenameBound(ctx, t);
    for (Atom& a : renamed.atoms) {
      if (a->has_bound) a = MapAtom(ctx, a, RenameAllMap{ctx});
    }
    out.push_back(std::move(renamed));
  }
  return out;
}

// ---------------------------------------------------------------- canonical texts

std::vector<Atom> AtomsOf(const NormalForm& n) {
  std::vector<Atom> out;
  for (const Term& t : n) out.insert(out.end(), t.atoms.begin(), t.atoms.end());
  return out;
}

std::string TermHead(const Term& t) {
  std::vector<std::string> heads;
  for (const Atom& a : t.atoms) heads.push_back(a->head);
  return std::to_string(t.bound.size()) + JoinSorted(std::move(heads), "*");
}

std::string NormalFormHead(const NormalForm& n) {
  std::vector<std::string> heads;
  for (const Term& t : n) heads.push_back(TermHead(t));
  return JoinSorted(std::move(heads), "+");
}

std::string AtomKey(const Context& ctx, const Atom& a, const Context::Names& names) {
  std::string out;
  switch (a->kind) {
    case AtomNode::Kind::kRead:
      out = a->name + "[";
      for (const Poly& p : a->at) out += ctx.Print(p, names) + ",";
      return out + "]";
    case AtomNode::Kind::kInt: return "int(" + ctx.Print(a->value, names) + ")";
    case AtomNode::Kind::kFn:
      out = a->name + "(";
      for (const NormalForm& n : a->args) out += NormalFormKey(ctx, n, names) + ";";
      return out + ")";
    case AtomNode::Kind::kMax: break;
  }
  std::vector<std::string> parts;
  for (const Branch& b : a->branches) parts.push_back(BranchKey(ctx, b, names));
  return a->name + "{" + JoinSorted(std::move(parts), "|") + "}";
}

std::string TermKey(const Context& ctx, const Term& t, const Context::Names& outer) {
  Context::Names names = CanonicalNames(ctx, t.bound, t.atoms, outer);
  std::vector<std::string> parts;
  for (const Atom& a : t.atoms) parts.push_back(AtomKey(ctx, a, names));
  return "S" + std::to_string(t.bound.size()) + "[" + ctx.Print(t.guard, names) + "]" +
         JoinSorted(std::move(parts), ".");
}

std::string BranchKey(const Context& ctx, const Branch& b, const Context::Names& outer) {
  Context::Names names = CanonicalNames(ctx, b.bound, AtomsOf(b.body), outer);
  return std::to_string(b.bound.size()) + "[" + ctx.Print(b.guard, names) + "]" + NormalFormKey(ctx, b.body, names);
}

std::string NormalFormKey(const Context& ctx, const NormalForm& n, const Context::Names& names) {
  std::vector<std::string> parts;
  for (const Term& t : n) parts.push_back(t.coef.ToString() + TermKey(ctx, t, names));
  return JoinSorted(std::move(parts), "+");
}

// ---------------------------------------------------------------- polynomials inside

void WalkPolys(const NormalForm& n, std::vector<Poly>* out) {
  for (const Term& t : SortedTerms(n)) {
    for (const Atom& a : SortedByHead(t.atoms)) WalkPolys(a, out);
  }
}

void WalkPolys(const Atom& a, std::vector<Poly>* out) {
  switch (a->kind) {
    case AtomNode::Kind::kRead: out->insert(out->end(), a->at.begin(), a->at.end()); return;
    case AtomNode::Kind::kInt: out->push_back(a->value); return;
    case AtomNode::Kind::kFn:
      for (const NormalForm& n : a->args) WalkPolys(n, out);
      return;
    case AtomNode::Kind::kMax: break;
  }
  std::vector<std::pair<std::string, const Branch*>> order;
  for (const Branch& b : a->branches) order.emplace_back(NormalFormHead(b.body), &b);
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const auto& entry : order) WalkPolys(entry.second->body, out);
}

void AllPolys(const NormalForm& n, std::vector<Poly>* out) {
  for (const Term& t : n) {
    CollectPolys(t.guard, out);
    for (const Atom& a : t.atoms) AllPolys(a, out);
  }
}

void AllPolys(const Atom& a, std::vector<Poly>* out) {
  out->insert(out->end(), a->at.begin(), a->at.end());
  if (a->kind == AtomNode::Kind::kInt) out->push_back(a->value);
  for (const NormalForm& n : a->args) AllPolys(n, out);
  for (const Branch& b : a->branches) {
    CollectPolys(b.guard, out);
    AllPolys(b.body, out);
  }
}

void InnerBound(const Atom& a, std::vector<Var>* out) {
  auto of_form = [out](const NormalForm& n) {
    for (const Term& t : n) {
      Append(out, t.bound);
      for (const Atom& x : t.atoms) InnerBound(x, out);
    }
  };
  for (const NormalForm& n : a->args) of_form(n);
  for (const Branch& b : a->branches) {
    Append(out, b.bound);
    of_form(b.body);
  }
}

}  // namespace rewright::verifier
