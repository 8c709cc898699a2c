// Reductions that are scattered.
//
// In a sum such as
//   out[j] = sum k: u[k] where indices[k] mod n = j
// the guard tells which position a term belongs to. Taken as it is written, every position visits every term. Here the
// guard is solved for the position (core/index/solve.h): one stage computes the position of each term, another its
// value, and a third accumulates the terms one after the other (Scatter). The expression decides, not the operator.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/index/solve.h"
#include "core/interpreter/kernels.h"
#include "core/interpreter/lower.h"
#include "core/ir/index_range.h"
#include "core/ir/rewrite.h"

namespace rewright::interp {

using index::Form;

namespace {

// Returns row-major strides of the axes that are set in `among`; 0 for others.
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

// Lowers the position of a term (-1: nowhere) and its value, at the current values of variables; targets have none yet.
// False if the guard does not determine the targets.
bool StageLowering::LowerTerms(const ExprNode* e, const std::vector<Target>& targets, int* place, int* term) {
  std::vector<const index::Atom*> unknowns;
  for (size_t i = 0; i < targets.size(); ++i) {
    const int bit = b_.BoundBit(-1 - static_cast<int>(i), targets[i].extent);
    if (bit < 0) return false;
    vars_.Set(targets[i].id, b_.Var(bit));
    if (const index::Atom* atom = vars_[targets[i].id].AsAtom(); atom != nullptr) unknowns.push_back(atom);
  }
  std::vector<const ExprNode*> later;
  std::vector<Form> equations;
  int mask = -1;
  bool reordered = false;
  for (const ExprPtr& condition : Conjuncts(e->guard())) {
    const bool mentions = std::any_of(targets.begin(), targets.end(),
                                      [&](const Target& target) { return condition->MayMention(target.id); });
    if (!mentions) {
      mask = b_.AndThen(mask, LowerCond(condition.get(), mask));
    } else if (IsDataEquation(*condition)) {
      equations.push_back(LowerIndex(condition->arg(0).get(), mask) - LowerIndex(condition->arg(1).get(), mask));
    } else {
      later.push_back(condition.get());
      continue;
    }
    reordered |= !later.empty();
  }
  const std::optional<index::Solution> solution = index::Solve(unknowns, {}, equations);
  if (!solution || !solution->free.empty()) return false;
  Form to;
  for (const Target& target : targets) {
    if (const index::Atom* atom = vars_[target.id].AsAtom(); atom != nullptr) {
      vars_.Set(target.id, solution->values.at(atom));
    }
    to = to + vars_[target.id] * target.stride;
  }
  substituted_ = true;
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

// Finds the axes of the result and of the terms. False if no position is determined by data, or all is small.
bool StageLowering::PlanScatter(const ExprNode* e, ScatterPlan* plan) {
  const std::set<int> determined = PositionsFromData(*e);
  std::map<int, int> by_bit;  // of the variables that the reduction depends on
  for (int id : FreeVariables(e->shared_from_this())) {
    if (vars_[id].IsConstant()) continue;
    if (BitOf(id) < 0) return false;
    by_bit[BitOf(id)] = id;
  }
  for (const auto& [bit, id] : by_bit) {
    plan->bits.push_back(bit);
    plan->result.extents.push_back(b_.extent(bit));
  }
  const std::vector<int64_t> strides = StridesOf(~uint64_t{0}, plan->result.extents);
  std::vector<Scatter::Loop>& loops = plan->scatter.loops;
  double positions = 1, terms = 1;
  for (size_t axis = 0; axis < plan->bits.size(); ++axis) {
    const int id = by_bit.at(plan->bits[axis]);
    const int64_t extent = plan->result.extents[axis];
    if (determined.contains(id)) {
      plan->targets.push_back({id, extent, strides[axis]});
      positions *= static_cast<double>(extent);
    } else {
      plan->ids.push_back(id);
      loops.push_back({.extent = extent, .out = strides[axis]});
    }
  }
  for (const BoundVar& var : e->bound()) {
    const Form extent = LowerIndex(var.extent.get(), -1);
    if (!extent.IsConstant() || extent.constant() < 1) return false;
    plan->ids.push_back(var.id);
    loops.push_back({.extent = extent.constant()});
  }
  for (const Scatter::Loop& loop : loops) terms *= static_cast<double>(loop.extent);
  plan->scatter.rep = RepOfNode(e);
  plan->scatter.reduce = e->reduction();
  return positions >= 2 && terms <= kMaxMaterialized && positions * terms >= context_.program->tuning.min_hoisted &&
         loops.size() <= kFirstBound && plan->bits.size() <= kFirstBound;
}

// Lowers positions and terms over those axes of the terms that are set in `among`; the others are at 0.
bool StageLowering::LowerTermsOver(const ExprNode* e, const ScatterPlan& plan, uint64_t among, TermRoots* roots,
                                   StageLowering* inner) {
  inner->vars_ = vars_.Mapped([](int) { return Form(); });
  int next = 0;
  for (size_t axis = 0; axis < plan.ids.size(); ++axis) {
    inner->vars_.Set(plan.ids[axis], (among >> axis) & 1 ? inner->b_.Axis(next++) : Form());
  }
  return inner->LowerTerms(e, plan.targets, &roots->place, &roots->term);
}

// Lowers a reduction whose guard tells by data which position a term belongs to: it is done term by term instead of
// position by position. -1 if it is no such reduction, or small.
int StageLowering::Scattered(const ExprNode* e, int mask) {
  if (!e->guard()->Contains(ExprKind::kFromValue) || IsPosition(e->reduction())) return -1;
  ScatterPlan plan;
  if (!PlanScatter(e, &plan)) return -1;
  std::vector<int64_t> extents;
  for (const Scatter::Loop& loop : plan.scatter.loops) extents.push_back(loop.extent);
  const auto chosen = [&](uint64_t among) {
    std::vector<int64_t> some;
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      if ((among >> axis) & 1) some.push_back(extents[axis]);
    }
    return some;
  };
  // The axes on which positions and terms depend are known after they have been lowered over all axes.
  TermRoots roots;
  StageLowering whole(context_, extents);
  if (!LowerTermsOver(e, plan, ~uint64_t{0}, &roots, &whole)) return -1;
  const Node &place = whole.b_.node(roots.place), &term = whole.b_.node(roots.term);
  if (mask >= 0 && (place.fallible || term.fallible)) return -1;
  const uint64_t place_deps = place.deps, term_deps = term.deps;
  const auto stage_of = [&](uint64_t deps, int TermRoots::*root) -> std::optional<Stage> {
    StageLowering part(context_, chosen(deps));
    if (!LowerTermsOver(e, plan, deps, &roots, &part)) return std::nullopt;
    return part.b_.Take(roots.*root);
  };
  std::optional<Stage> places = stage_of(place_deps, &TermRoots::place);
  std::optional<Stage> terms = stage_of(term_deps, &TermRoots::term);
  if (!places || !terms) return -1;
  plan.scatter.places = AddStage(*std::move(places));
  plan.scatter.terms = AddStage(*std::move(terms));

  std::vector<Scatter::Loop>& loops = plan.scatter.loops;
  const std::vector<int64_t> place_strides = StridesOf(place_deps, extents),
                             term_strides = StridesOf(term_deps, extents);
  for (size_t axis = 0; axis < loops.size(); ++axis) {
    loops[axis].place = place_strides[axis];
    loops[axis].term = term_strides[axis];
  }
  // Puts contiguous rows of the result innermost; the terms of one position keep their order.
  int64_t least = plan.targets[0].stride;
  for (const Target& target : plan.targets) least = std::min(least, target.stride);
  std::stable_partition(loops.begin(), loops.end(),
                        [&](const Scatter::Loop& loop) { return loop.out == 0 || loop.out > least; });
  std::erase_if(loops, [](const Scatter::Loop& loop) { return loop.extent == 1; });
  plan.result.scatter = std::move(plan.scatter);
  return ReadStage(std::move(plan.result), RepOfNode(e), plan.bits);
}

}  // namespace rewright::interp
