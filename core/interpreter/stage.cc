#include "core/interpreter/stage.h"

#include <algorithm>
#include <bit>

#include "absl/hash/hash.h"
#include "core/base/check.h"
#include "core/index/range.h"
#include "core/interpreter/kernels.h"

namespace rewright::interp {
namespace {

using index::Form;

bool IsElement(const index::Atom* leaf) { return leaf->tag >= kMaxVariables; }

}  // namespace

bool SameNode(const Node& a, const Node& b) {
  return a.kind == b.kind && a.rep == b.rep && a.fn == b.fn && a.reduce == b.reduce && a.imm == b.imm &&
         std::bit_cast<uint64_t>(a.real) == std::bit_cast<uint64_t>(b.real) && a.linear == b.linear &&
         a.args == b.args && a.bound == b.bound && a.operand == b.operand && a.mask == b.mask && a.fill == b.fill &&
         a.checks == b.checks;
}

size_t StageBuilder::Hash::operator()(int id) const {
  const Node& n = builder->node(id);
  return absl::HashOf(static_cast<int>(n.kind), static_cast<int>(n.rep), static_cast<int>(n.fn), n.imm,
                      std::bit_cast<uint64_t>(n.real), n.linear.imm, n.linear.terms, n.args, n.bound, n.operand, n.mask,
                      n.fill);
}

bool StageBuilder::Equal::operator()(int a, int b) const { return SameNode(builder->node(a), builder->node(b)); }

StageBuilder::StageBuilder(std::vector<int64_t> extents) : interned_(16, Hash{this}, Equal{this}) {
  CHECK(extents.size() <= static_cast<size_t>(kFirstBound)) << extents.size();
  stage_.extents = std::move(extents);
}

int64_t StageBuilder::extent(int bit) const {
  return bit < kFirstBound ? stage_.extents[bit] : stage_.bound_extents[bit - kFirstBound];
}

int StageBuilder::Intern(Node node) {
  const int id = static_cast<int>(stage_.nodes.size());
  stage_.nodes.push_back(std::move(node));
  const auto [it, inserted] = interned_.insert(id);
  if (inserted) {
    Derive(stage_.nodes.back());
  } else {
    stage_.nodes.pop_back();
  }
  return *it;
}

// Sets the derived fields.
void StageBuilder::Derive(Node& n) const {
  ForEachOperand(n, [&](int id) {
    n.deps |= node(id).deps;
    n.fallible |= node(id).fallible;
  });
  n.fallible |= !n.checks.empty();
  if (n.kind == NodeKind::kVar) n.deps = uint64_t{1} << n.imm;
  if (n.kind == NodeKind::kCall) n.fallible |= KernelsOf(n.rep, n.fn).partial != nullptr;
  for (int bit : n.bound) n.deps &= ~(uint64_t{1} << bit);
}

// ---------------------------------------------------------------- index forms

int StageBuilder::BoundBit(int level, int64_t extent) {
  const int next = kFirstBound + static_cast<int>(stage_.bound_extents.size());
  const auto [it, inserted] = bound_bits_.try_emplace({level, extent}, next);
  if (inserted) {
    if (next >= kMaxVariables) return -1;
    stage_.bound_extents.push_back(extent);
  }
  return it->second;
}

Form StageBuilder::Var(int bit) { return space_.Variable("", extent(bit), bit); }

Form StageBuilder::OfElement(int id) { return space_.Variable("", index::Interval(), kMaxVariables + id); }

bool StageBuilder::IsFromData(const Form& form) {
  const std::vector<const index::Atom*> leaves = LeavesOf(form);
  return std::any_of(leaves.begin(), leaves.end(), IsElement);
}

Linear StageBuilder::LinearOf(const Form& form) {
  const auto is_bounded = [](const Form::Term& term) { return term.atom->range.IsBounded(); };
  overflow_ |= !form.IsKnown() ||
               (!RangeOf(form).IsBounded() && std::all_of(form.terms().begin(), form.terms().end(), is_bounded));
  Linear linear{form.constant(), {}};
  linear.terms.reserve(form.terms().size());
  for (const Form::Term& term : form.terms()) linear.terms.push_back({AtomNode(*term.atom), term.factor});
  std::sort(linear.terms.begin(), linear.terms.end());
  return linear;
}

int StageBuilder::NodeOf(const Form& form) {
  if (const index::Atom* atom = form.AsAtom(); atom != nullptr) return AtomNode(*atom);
  return Intern(Node{.kind = NodeKind::kLinear, .linear = LinearOf(form)});
}

int StageBuilder::AtomNode(const index::Atom& atom) {
  using Kind = index::Atom::Kind;
  if (IsElement(&atom)) return atom.tag - kMaxVariables;
  if (const auto found = atom_nodes_.find(&atom); found != atom_nodes_.end()) return found->second;
  Node n{.kind = NodeKind::kVar};
  switch (atom.kind) {
    case Kind::kSymbol:
    case Kind::kVariable: n.imm = atom.tag; break;
    case Kind::kFloorDiv: n.kind = NodeKind::kFloorDiv; break;
    case Kind::kMod: n.kind = NodeKind::kMod; break;
    case Kind::kMin: n.kind = NodeKind::kIndexMin; break;
    case Kind::kMax: n.kind = NodeKind::kIndexMax; break;
    case Kind::kProduct: n.kind = NodeKind::kIndexMul; break;
  }
  if (atom.kind == Kind::kProduct) {
    int product = AtomNode(*atom.factors[0]);
    for (size_t k = 1; k < atom.factors.size(); ++k) {
      n.args = {product, AtomNode(*atom.factors[k])};
      product = Intern(n);
    }
    return atom_nodes_[&atom] = product;
  }
  if (!atom.IsLeaf()) n.args = {NodeOf(atom.a), NodeOf(atom.b)};
  return atom_nodes_[&atom] = Intern(std::move(n));
}

// ---------------------------------------------------------------- conditions

int StageBuilder::Bool(bool value) {
  return Intern(Node{.kind = NodeKind::kConst, .rep = Rep::kBool, .imm = value ? 1 : 0});
}

bool StageBuilder::IsBool(int id, bool value) const {
  const Node& n = node(id);
  return n.kind == NodeKind::kConst && n.rep == Rep::kBool && (n.imm != 0) == value;
}

bool StageBuilder::Proves(int mask, const Form& form) const {
  if (IsNonNegative(form)) return true;
  if (mask < 0) return false;
  const Node& n = node(mask);
  if (n.kind == NodeKind::kAndThen) return Proves(n.args[0], form) || Proves(n.args[1], form);
  return n.kind == NodeKind::kNonNegative && IsNonNegative(form - non_negative_.at(mask));
}

int StageBuilder::NonNegative(const Form& form, int mask) {
  if (Proves(mask, form)) return Bool(true);
  if (Proves(mask, Form(-1) - form)) return Bool(false);  // not (x >= 0) is -1 - x >= 0
  const int id = Intern(Node{.kind = NodeKind::kNonNegative, .rep = Rep::kBool, .linear = LinearOf(form)});
  non_negative_.try_emplace(id, form);
  return id;
}

int StageBuilder::IsZero(const Form& form) {
  const index::Interval range = RangeOf(form);
  if (range.low > 0 || range.high < 0) return Bool(false);
  if (range.low == 0 && range.high == 0) return Bool(true);
  return Intern(Node{.kind = NodeKind::kIsZero, .rep = Rep::kBool, .linear = LinearOf(form)});
}

int StageBuilder::AndThen(int a, int b) {
  if (a < 0 || a == b) return b;
  if (b < 0) return a;
  if (IsBool(a, true) || IsBool(b, false)) return b;
  if (IsBool(b, true) || IsBool(a, false)) return a;
  return Intern(Node{.kind = NodeKind::kAndThen, .rep = Rep::kBool, .args = {a, b}});
}

int StageBuilder::Or(int a, int b) {
  if (a == b || IsBool(a, true) || IsBool(b, false)) return a;
  if (IsBool(b, true) || IsBool(a, false)) return b;
  return Intern(Node{.kind = NodeKind::kCall, .rep = Rep::kBool, .fn = Fn::kOr, .args = {a, b}});
}

int StageBuilder::Not(int a) {
  if (IsBool(a, true) || IsBool(a, false)) return Bool(IsBool(a, false));
  if (node(a).kind == NodeKind::kNonNegative) return NonNegative(Form(-1) - non_negative_.at(a), -1);
  return Intern(Node{.kind = NodeKind::kCall, .rep = Rep::kBool, .fn = Fn::kNot, .args = {a}});
}

int StageBuilder::Const(Rep rep, double value) {
  Node n{.kind = NodeKind::kConst, .rep = rep, .real = value};
  if (rep == Rep::kBool) n.imm = value != 0;
  return Intern(std::move(n));
}

// ---------------------------------------------------------------- result

Stage StageBuilder::Take(int root) const {
  Stage result;
  result.extents = stage_.extents;
  result.bound_extents = stage_.bound_extents;
  std::vector<bool> needed(stage_.nodes.size(), false);
  needed[root] = true;
  for (size_t i = stage_.nodes.size(); i-- > 0;) {  // arguments come before users
    if (needed[i]) ForEachOperand(stage_.nodes[i], [&](int id) { needed[id] = true; });
  }
  std::vector<int> renumbered(stage_.nodes.size(), -1);
  for (size_t i = 0; i < stage_.nodes.size(); ++i) {
    if (!needed[i]) continue;
    renumbered[i] = static_cast<int>(result.nodes.size());
    Node n = stage_.nodes[i];
    const auto move = [&](int& id) { id = id < 0 ? -1 : renumbered[id]; };
    for (auto& term : n.linear.terms) move(term.first);
    for (int& arg : n.args) move(arg);
    for (BoundsCheck& check : n.checks) move(check.index);
    move(n.mask);
    move(n.fill);
    double evaluations = 1;
    for (uint64_t rest = n.deps; rest != 0; rest &= rest - 1) {
      evaluations *= static_cast<double>(extent(std::countr_zero(rest)));
    }
    for (int bit : n.bound) evaluations *= static_cast<double>(extent(bit));
    result.cost += evaluations;
    result.nodes.push_back(std::move(n));
  }
  result.root = renumbered[root];
  return result;
}

}  // namespace rewright::interp
