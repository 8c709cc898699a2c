// Reductions that are scattered.
//
// In a sum like  out[j] = sum k: u[k] where indices[k] mod n = j  the guard says which position a term belongs to.
// Taken as it is written, every position looks at every term. Here the guard is solved for the position
// (core/index/solve.h): one stage computes where each term goes, another what it is, and a third takes the terms in,
// one after the other (Scatter). It is recognized by the expression, whichever operator it belongs to.
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/index/solve.h"
#include "core/interpreter/kernels.h"
#include "core/interpreter/lower.h"
#include "core/ir/rewrite.h"

namespace rewright::interp {

using index::Form;

namespace {

void Conjuncts(const ExprPtr& condition, std::vector<const ExprNode*>* parts) {
  if (condition->kind() != ExprKind::kAnd) return parts->push_back(condition.get());
  for (const ExprPtr& arg : condition->args()) Conjuncts(arg, parts);
}

bool IsDataEquation(const ExprNode* condition) {
  return condition->kind() == ExprKind::kEqual && condition->Contains(ExprKind::kFromValue);
}

// The variables that occur outside of elements.
void PlainVariables(const ExprNode& index, std::set<int>* variables) {
  if (index.IsVariable()) variables->insert(index.variable());
  if (index.kind() == ExprKind::kFromValue) return;
  for (const ExprPtr& arg : index.args()) PlainVariables(*arg, variables);
}

int64_t ProductOf(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// Row-major strides by bit of `among` that is set, 0 elsewhere.
std::vector<int64_t> StridesOf(uint64_t among, const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 0);
  int64_t stride = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    if (((among >> axis) & 1) == 0) continue;
    strides[axis] = stride;
    stride *= extents[axis];
  }
  return strides;
}

}  // namespace

// Lowers where a term goes (-1: nowhere) and its value, at the values that variables have here; targets have none yet.
// False where the guard does not determine them.
bool StageLowering::LowerTerms(const ExprNode* e, const std::vector<Target>& targets, int* place, int* term) {
  std::vector<const index::Atom*> unknowns;
  for (size_t i = 0; i < targets.size(); ++i) {
    const int bit = b_.BoundBit(-1 - static_cast<int>(i), targets[i].extent);
    if (bit < 0) return false;
    vars_[targets[i].id] = b_.Var(bit);
    if (const index::Atom* atom = vars_[targets[i].id].AsAtom(); atom != nullptr) unknowns.push_back(atom);
  }
  std::vector<const ExprNode*> conjuncts, later;
  Conjuncts(e->guard(), &conjuncts);
  std::vector<Form> equations;
  int mask = -1;
  bool reordered = false;
  for (const ExprNode* condition : conjuncts) {
    const bool mentions = std::any_of(targets.begin(), targets.end(),
                                      [&](const Target& target) { return condition->MayMention(target.id); });
    if (!mentions) {
      mask = b_.AndThen(mask, LowerCond(condition, mask));
    } else if (IsDataEquation(condition)) {
      equations.push_back(LowerIndex(condition->arg(0).get(), mask) - LowerIndex(condition->arg(1).get(), mask));
    } else {
      later.push_back(condition);
      continue;
    }
    reordered |= !later.empty();
  }
  const std::optional<index::Solution> solution = index::Solve(unknowns, {}, equations);
  if (!solution || !solution->free.empty()) return false;
  Form to;
  for (const Target& target : targets) {
    Form& variable = vars_[target.id];
    if (const index::Atom* atom = variable.AsAtom(); atom != nullptr) variable = solution->values.at(atom);
    to = to + variable * target.stride;
  }
  indices_.clear();
  scalars_.clear();
  for (const index::Condition& condition : solution->conditions) {
    const bool zero = condition.kind == index::Condition::Kind::kZero;
    mask = b_.AndThen(mask, zero ? b_.IsZero(condition.form) : b_.NonNegative(condition.form, mask));
  }
  for (const ExprNode* condition : later) mask = b_.AndThen(mask, LowerCond(condition, mask));
  *place = b_.Intern(Node{.kind = NodeKind::kFromIndex, .rep = Rep::kInt64, .linear = b_.LinearOf(to)});
  if (mask >= 0) {
    *place = b_.Intern(
        Node{.kind = NodeKind::kSelect, .rep = Rep::kInt64, .args = {mask, *place, b_.Const(Rep::kInt64, -1)}});
  }
  *term = LowerScalar(e->body().get(), mask);
  const Node& where = b_.node(*place);
  return !b_.overflow() && !(reordered && where.fallible) && ((where.deps | b_.node(*term).deps) >> kFirstBound) == 0;
}

// A reduction whose guard says by data which position a term belongs to, done term by term in the place of position by
// position; -1 where it is none, or small.
int StageLowering::Scattered(const ExprNode* e, int mask) {
  if (!e->guard()->Contains(ExprKind::kFromValue) || IsPosition(e->reduction())) return -1;
  std::set<int> determined;
  std::vector<const ExprNode*> conjuncts;
  Conjuncts(e->guard(), &conjuncts);
  for (const ExprNode* condition : conjuncts) {
    if (IsDataEquation(condition)) PlainVariables(*condition, &determined);
  }
  for (const BoundVar& var : e->bound()) determined.erase(var.id);

  // The axes of the result, in the order of bits, and those of the terms: positions that are not determined, then what
  // the reduction binds.
  std::map<int, int> by_bit;
  for (int id : FreeVariables(e->shared_from_this())) {
    if (vars_[id].IsConstant()) continue;
    if (BitOf(id) < 0) return -1;
    by_bit[BitOf(id)] = id;
  }
  std::vector<int> bits;
  Stage result;
  for (const auto& [bit, id] : by_bit) {
    bits.push_back(bit);
    result.extents.push_back(b_.extent(bit));
  }
  const std::vector<int64_t> strides = StridesOf(~uint64_t{0}, result.extents);
  std::vector<Target> targets;
  std::vector<int> ids;  // by axis of the terms
  std::vector<int64_t> extents;
  Scatter scatter{.rep = RepOfNode(e), .reduce = e->reduction()};
  for (size_t axis = 0; axis < bits.size(); ++axis) {
    const int id = by_bit.at(bits[axis]);
    if (determined.contains(id)) {
      targets.push_back({id, result.extents[axis], strides[axis]});
    } else {
      ids.push_back(id);
      extents.push_back(result.extents[axis]);
      scatter.loops.push_back({.extent = extents.back(), .out = strides[axis]});
    }
  }
  for (const BoundVar& var : e->bound()) {
    const Form extent = LowerIndex(var.extent.get(), mask);
    if (!extent.IsConstant() || extent.constant() < 1) return -1;
    ids.push_back(var.id);
    extents.push_back(extent.constant());
    scatter.loops.push_back({.extent = extents.back()});
  }
  const double terms = static_cast<double>(ProductOf(extents));
  double positions = 1;
  for (const Target& target : targets) positions *= static_cast<double>(target.extent);
  if (positions < 2 || terms > kMaxMaterialized || positions * terms < context_.program->tuning.min_hoisted ||
      extents.size() > kFirstBound || bits.size() > kFirstBound || !HasReduction(RepOfNode(e), e->reduction())) {
    return -1;
  }

  // Which axes a part of the terms depends on is known when it has been lowered over all of them.
  int roots[2];
  uint64_t deps[2];
  for (int part = 0; part < 3; ++part) {
    const uint64_t all = (uint64_t{1} << extents.size()) - 1, among = part == 0 ? all : deps[part - 1];
    std::vector<int64_t> chosen;
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      if ((among >> axis) & 1) chosen.push_back(extents[axis]);
    }
    StageLowering inner(context_, chosen);
    for (size_t v = 0; v < vars_.size(); ++v) inner.vars_[v] = vars_[v].IsConstant() ? vars_[v] : Form();
    for (size_t axis = 0, k = 0; axis < extents.size(); ++axis) {
      inner.vars_[ids[axis]] = (among >> axis) & 1 ? inner.b_.Axis(static_cast<int>(k++)) : Form();
    }
    if (!inner.LowerTerms(e, targets, &roots[0], &roots[1])) return -1;
    if (part == 0) {
      for (int k = 0; k < 2; ++k) deps[k] = inner.b_.node(roots[k]).deps;
      if (mask >= 0 && (inner.b_.node(roots[0]).fallible || inner.b_.node(roots[1]).fallible)) return -1;
      continue;
    }
    (part == 1 ? scatter.places : scatter.terms) = AddStage(inner.b_.Take(roots[part - 1]));
  }
  const std::vector<int64_t> place_strides = StridesOf(deps[0], extents), term_strides = StridesOf(deps[1], extents);
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    scatter.loops[axis].place = place_strides[axis];
    scatter.loops[axis].term = term_strides[axis];
  }
  // Rows of the result that are whole innermost; terms of one position keep their order.
  int64_t least = targets[0].stride;
  for (const Target& target : targets) least = std::min(least, target.stride);
  std::stable_partition(scatter.loops.begin(), scatter.loops.end(),
                        [&](const Scatter::Loop& loop) { return loop.out == 0 || loop.out > least; });
  std::erase_if(scatter.loops, [](const Scatter::Loop& loop) { return loop.extent == 1; });
  result.scatter = std::move(scatter);
  return ReadStage(std::move(result), RepOfNode(e), bits);
}

}  // namespace rewright::interp
