#include "verifier/normal_form/term.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "verifier/integer/context.h"
#include "verifier/normal_form/substitute.h"

namespace rewright::verifier {
namespace {

constexpr char kWholeValue[] = "value";
constexpr char kPlaced[] = "placed";

void SortUnique(std::vector<Var>* vars) {
  std::sort(vars->begin(), vars->end());
  vars->erase(std::unique(vars->begin(), vars->end()), vars->end());
}

void Append(std::vector<Var>* out, const std::vector<Var>& more) { out->insert(out->end(), more.begin(), more.end()); }

void Remove(std::vector<Var>* vars, const std::vector<Var>& gone) {
  vars->erase(std::remove_if(vars->begin(), vars->end(), [&](Var v) { return Has(gone, v); }), vars->end());
}

bool HasBound(const NormalForm& n) {
  return std::any_of(n.begin(), n.end(), [](const Term& t) {
    return !t.bound.empty() || std::any_of(t.atoms.begin(), t.atoms.end(), [](const Atom& a) { return a->has_bound; });
  });
}

std::string JoinSorted(std::vector<std::string> parts, std::string_view separator) {
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

// The parts in the order of their skeletons.
template <typename Part>
std::vector<const Part*> BySkeleton(const std::vector<Part>& parts, absl::FunctionRef<std::string(const Part&)> of) {
  std::vector<const Part*> out;
  if (parts.size() == 1) return {&parts[0]};
  std::vector<std::pair<std::string, const Part*>> order;
  for (const Part& part : parts) order.emplace_back(of(part), &part);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [skeleton, part] : order) out.push_back(part);
  return out;
}

void VisitPolys(const AtomNode& a, absl::FunctionRef<void(const Poly&)> visit);

void VisitPolys(const std::vector<Atom>& atoms, absl::FunctionRef<void(const Poly&)> visit) {
  std::vector<const AtomNode*> order;
  for (const Atom& a : atoms) order.push_back(a.get());
  std::stable_sort(order.begin(), order.end(),
                   [](const AtomNode* a, const AtomNode* b) { return a->skeleton < b->skeleton; });
  for (const AtomNode* a : order) VisitPolys(*a, visit);
}

void VisitPolys(const NormalForm& n, absl::FunctionRef<void(const Poly&)> visit) {
  for (const Term* t : BySkeleton<Term>(n, [](const Term& t) { return SkeletonOf(t); })) VisitPolys(t->atoms, visit);
}

// As WalkPolys (term.h).
void VisitPolys(const AtomNode& a, absl::FunctionRef<void(const Poly&)> visit) {
  switch (a.kind) {
    case AtomNode::Kind::kRead:
      for (const Poly& p : a.at) visit(p);
      return;
    case AtomNode::Kind::kInt: visit(a.value); return;
    case AtomNode::Kind::kFn:
      for (const NormalForm& n : a.args) VisitPolys(n, visit);
      return;
    case AtomNode::Kind::kBinder: break;
  }
  for (const Family* b : BySkeleton<Family>(a.families, [](const Family& b) { return SkeletonOf(b.body); })) {
    VisitPolys(b->body, visit);
  }
}

// Names for bound variables that do not depend on how they are numbered: by first occurrence in the atoms, and within
// one polynomial by the coefficients they carry.
Variables::Names CanonicalNames(const Variables& ctx, const std::vector<Var>& bound, const std::vector<Atom>& atoms,
                                const Variables::Names& outer) {
  std::vector<Var> order;
  VisitPolys(atoms, [&](const Poly& p) {
    if (order.size() == bound.size()) return;
    std::vector<Var> fresh;
    for (Var v : ctx.BaseVars(p)) {
      if (Has(bound, v) && !Has(order, v)) fresh.push_back(v);
    }
    if (fresh.size() == 1) order.push_back(fresh[0]);
    if (fresh.size() <= 1) return;
    Variables::Names masked = outer;
    for (Var v : bound) masked[v] = "*";
    std::vector<std::pair<std::string, Var>> found;
    for (Var v : fresh) {
      std::vector<Poly::Item> with;
      for (const Poly::Item& item : p.items()) {
        if (ctx.Mentions(Poly::Of(item.vars, 1), {v})) with.push_back(item);
      }
      found.emplace_back(ctx.Print(Poly::FromItems(with), masked), v);
    }
    std::sort(found.begin(), found.end());
    for (const auto& [text, v] : found) order.push_back(v);
  });
  for (Var v : bound) {
    if (!Has(order, v)) order.push_back(v);
  }
  Variables::Names names = outer;
  for (Var v : order) names[v] = "$" + std::to_string(names.size());
  return names;
}

class ElementAsIndex final : public IndexElement {
 public:
  explicit ElementAsIndex(NormalForm element) : form(std::move(element)) {}
  std::string Print(const Variables& ctx, const VarNames& names) const override {
    return NormalFormKey(ctx, form, names);
  }
  Poly Subst(Context& ctx, const Substitution& s) const override {
    return IndexOfElement(ctx, verifier::Subst(ctx, form, s));
  }

  const NormalForm form;
};

}  // namespace

std::shared_ptr<const IndexElement> AsIndex(NormalForm element) {
  return std::make_shared<const ElementAsIndex>(std::move(element));
}

Poly IndexOfElement(Context& ctx, const NormalForm& element) {
  return ctx.ValueOf(AsIndex(element), FreeVars(ctx, element));
}

const NormalForm& ElementOf(const VarInfo& info) { return static_cast<const ElementAsIndex&>(*info.value).form; }

// ---------------------------------------------------------------- making atoms

Atom MakeRead(const Variables& ctx, const Leaf& leaf, std::vector<Poly> at) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kRead;
  node->name = leaf.name;
  node->positive = leaf.positive;
  node->boolean = leaf.boolean;
  for (const Poly& p : at) Append(&node->vars, ctx.BaseVars(p));
  SortUnique(&node->vars);
  node->at = std::move(at);
  node->skeleton = "r" + leaf.name;
  return node;
}

Atom MakeIntAtom(const Variables& ctx, const Poly& value) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kInt;
  node->value = value;
  node->vars = ctx.BaseVars(value);
  node->skeleton = "i";
  return node;
}

Atom MakeIntAtom(Context& ctx, const Poly& value) {
  ctx.met_count = ctx.met_count || value.items().size() > 1;
  return MakeIntAtom(static_cast<const Variables&>(ctx), value);
}

Atom MakeFnAtom(const Variables& ctx, const std::string& fn, std::vector<NormalForm> args) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kFn;
  node->name = fn;
  node->boolean = fn == "pos" || fn == "zero" || fn.starts_with("less.") || fn.starts_with("zero.");
  node->skeleton = "f" + fn + "(";
  for (const NormalForm& n : args) {
    Append(&node->vars, FreeVars(ctx, n));
    node->skeleton += SkeletonOf(n) + ",";
    node->has_bound = node->has_bound || HasBound(n);
  }
  node->skeleton += ")";
  SortUnique(&node->vars);
  node->args = std::move(args);
  return node;
}

Atom MakeBinderAtom(const Variables& ctx, const std::string& binder, std::vector<Family> families) {
  auto node = std::make_shared<AtomNode>();
  node->kind = AtomNode::Kind::kBinder;
  node->name = binder;
  std::vector<std::string> skeletons;
  for (const Family& b : families) {
    std::vector<Var> vars = ctx.BaseVars(b.guard);
    Append(&vars, FreeVars(ctx, b.body));
    Remove(&vars, b.bound);
    Append(&node->vars, vars);
    skeletons.push_back(SkeletonOf(b.body));
    node->has_bound = node->has_bound || !b.bound.empty() || HasBound(b.body);
  }
  node->skeleton = binder + "{" + JoinSorted(std::move(skeletons), ",") + "}";
  SortUnique(&node->vars);
  node->families = std::move(families);
  return node;
}

Atom MakeWholeValue(const Variables& ctx, std::vector<Family> positions) {
  return MakeBinderAtom(ctx, kWholeValue, std::move(positions));
}

bool IsWholeValue(const AtomNode& atom) { return atom.kind == AtomNode::Kind::kBinder && atom.name == kWholeValue; }

Atom MakePlaced(const Variables& ctx, NormalForm element, NormalForm place) {
  return MakeFnAtom(ctx, kPlaced, {std::move(element), std::move(place)});
}

const std::vector<NormalForm>* PartsOfPlaced(const NormalForm& body) {
  if (body.size() != 1 || body[0].coef != 1 || !body[0].bound.empty() || !body[0].guard.IsTrue()) return nullptr;
  if (body[0].atoms.size() != 1) return nullptr;
  const AtomNode& atom = *body[0].atoms[0];
  return atom.kind == AtomNode::Kind::kFn && atom.name == kPlaced && atom.args.size() == 2 ? &atom.args : nullptr;
}

// ---------------------------------------------------------------- variables

std::vector<Var> FreeVars(const Variables& ctx, const Term& t) {
  std::vector<Var> out = ctx.BaseVars(t.guard);
  for (const Atom& a : t.atoms) Append(&out, a->vars);
  SortUnique(&out);
  Remove(&out, t.bound);
  return out;
}

std::vector<Var> FreeVars(const Variables& ctx, const NormalForm& n) {
  std::vector<Var> out;
  for (const Term& t : n) Append(&out, FreeVars(ctx, t));
  SortUnique(&out);
  return out;
}

bool Intersects(const std::vector<Var>& sorted, const std::vector<Var>& vars) {
  return std::any_of(vars.begin(), vars.end(),
                     [&](Var v) { return std::binary_search(sorted.begin(), sorted.end(), v); });
}

// ---------------------------------------------------------------- canonical texts

std::vector<Atom> AtomsOf(const NormalForm& n) {
  std::vector<Atom> out;
  for (const Term& t : n) out.insert(out.end(), t.atoms.begin(), t.atoms.end());
  return out;
}

std::string SkeletonOf(const Term& t) {
  CountSteps(1 + static_cast<int64_t>(t.atoms.size()));
  std::vector<std::string> skeletons;
  for (const Atom& a : t.atoms) skeletons.push_back(a->skeleton);
  return std::to_string(t.bound.size()) + JoinSorted(std::move(skeletons), "*");
}

std::string SkeletonOf(const NormalForm& n) {
  std::vector<std::string> skeletons;
  for (const Term& t : n) skeletons.push_back(SkeletonOf(t));
  return JoinSorted(std::move(skeletons), "+");
}

std::string AtomKey(const Variables& ctx, const Atom& a, const Variables::Names& names) {
  CountSteps(1);
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
    case AtomNode::Kind::kBinder: break;
  }
  std::vector<std::string> parts;
  for (const Family& b : a->families) parts.push_back(FamilyKey(ctx, b, names));
  return a->name + "{" + JoinSorted(std::move(parts), "|") + "}";
}

std::string TermKey(const Variables& ctx, const Term& t, const Variables::Names& outer) {
  const bool binds = !t.bound.empty();
  const Variables::Names own = binds ? CanonicalNames(ctx, t.bound, t.atoms, outer) : Variables::Names();
  const Variables::Names& names = binds ? own : outer;
  std::vector<std::string> parts;
  for (const Atom& a : t.atoms) parts.push_back(AtomKey(ctx, a, names));
  return "S" + std::to_string(t.bound.size()) + "[" + ctx.Print(t.guard, names) + "]" +
         JoinSorted(std::move(parts), ".");
}

std::string FamilyKey(const Variables& ctx, const Family& b, const Variables::Names& outer) {
  if (b.bound.empty()) return "0[" + ctx.Print(b.guard, outer) + "]" + NormalFormKey(ctx, b.body, outer);
  const Variables::Names names = CanonicalNames(ctx, b.bound, AtomsOf(b.body), outer);
  return std::to_string(b.bound.size()) + "[" + ctx.Print(b.guard, names) + "]" + NormalFormKey(ctx, b.body, names);
}

std::string NormalFormKey(const Variables& ctx, const NormalForm& n, const Variables::Names& names) {
  std::vector<std::string> parts;
  for (const Term& t : n) parts.push_back(t.coef.ToString() + TermKey(ctx, t, names));
  return JoinSorted(std::move(parts), "+");
}

// ---------------------------------------------------------------- polynomials inside

void WalkPolys(const NormalForm& n, std::vector<Poly>* out) {
  VisitPolys(n, [out](const Poly& p) { out->push_back(p); });
}

void WalkPolys(const Atom& a, std::vector<Poly>* out) {
  VisitPolys(*a, [out](const Poly& p) { out->push_back(p); });
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
  for (const Family& b : a->families) {
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
  for (const Family& b : a->families) {
    Append(out, b.bound);
    of_form(b.body);
  }
}

}  // namespace rewright::verifier
