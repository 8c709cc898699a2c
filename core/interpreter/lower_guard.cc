// Sums whose guard has equations between indices.
//
// Taken as it is written, a sum such as
//   out[y] = sum r: u[(y - r) div 2] where (y - r) mod 2 = 0
// visits every r, half of them in vain. Here the equations are solved for the bound variables of the reduction
// (core/index/solve.h), r = 2 h + y mod 2, and the loops are over the remaining variables. Terms keep their order, so
// the bits of the sums are the same.
#include <algorithm>

#include "core/interpreter/kernels.h"
#include "core/interpreter/lower.h"
#include "core/ir/rewrite.h"

namespace rewright::interp {
namespace {

using index::Atom;
using index::Form;

// Returns for each bound variable the remaining free variable that loops in its place. Nothing if these loops visit
// points in another order than the old ones.
std::optional<std::vector<const Atom*>> LoopsInOrder(const std::vector<Form>& values,
                                                     const std::vector<const Atom*>& free) {
  std::vector<const Atom*> loops(values.size(), nullptr);
  std::vector<const Atom*> outer;
  for (size_t i = 0; i < values.size(); ++i) {
    for (const Atom* variable : free) {
      if (!Contains(values[i], variable) || std::find(outer.begin(), outer.end(), variable) != outer.end()) continue;
      Form factor, rest;
      const bool grows = SplitAt(values[i], variable, &factor, &rest) && IsPositive(factor) && factor.IsConstant();
      if (!grows || loops[i] != nullptr || !ExtentOf(variable).IsConstant()) return std::nullopt;
      loops[i] = variable;
    }
    if (loops[i] != nullptr) outer.push_back(loops[i]);
  }
  if (outer.size() != free.size()) return std::nullopt;
  return loops;
}

}  // namespace

std::optional<StageLowering::SolvedGuard> StageLowering::SolveGuard(const ExprNode* e, int mask) {
  if (IsPosition(e->reduction())) return std::nullopt;  // points are numbered by the loops
  SolvedGuard solved;
  std::vector<Form> equations;
  for (const ExprPtr& condition : Conjuncts(e->guard())) {
    const bool binds = std::any_of(e->bound().begin(), e->bound().end(),
                                   [&](const BoundVar& var) { return condition->MayMention(var.id); });
    if (binds && condition->IsEquation() && !condition->Contains(ExprKind::kFromValue)) {
      equations.push_back(LowerIndex(condition->arg(0).get(), mask) - LowerIndex(condition->arg(1).get(), mask));
    } else {
      solved.rest.push_back(condition.get());
    }
  }
  if (equations.empty()) return std::nullopt;
  std::vector<const Atom*> unknowns;
  for (const BoundVar& var : e->bound()) {
    if (vars_[var.id].AsAtom() != nullptr) unknowns.push_back(vars_[var.id].AsAtom());
  }
  std::optional<index::Solution> solution = index::Solve({}, unknowns, equations, index::Residues::kTakenApart);
  if (!solution || solution->free == unknowns) return std::nullopt;
  for (const BoundVar& var : e->bound()) {
    const Form& variable = vars_[var.id];
    solved.values.push_back(variable.AsAtom() == nullptr ? variable : solution->values.at(variable.AsAtom()));
  }
  const auto loops = LoopsInOrder(solved.values, solution->free);
  if (!loops) return std::nullopt;

  index::Substitution substitution;
  const int height = context_.Height(e);
  for (size_t i = 0; i < loops->size(); ++i) {
    const Atom* variable = (*loops)[i];
    solved.extents.push_back(variable == nullptr ? 1 : ExtentOf(variable).constant());
    if (variable == nullptr) continue;
    const int bit = b_.BoundBit(height - static_cast<int>(i), solved.extents.back());
    if (bit < 0) return std::nullopt;
    solved.bits.push_back(bit);
    substitution[variable] = {b_.Var(bit)};
  }
  for (Form& value : solved.values) value = Compose(value, substitution);
  for (index::Condition& condition : solution->conditions) condition.form = Compose(condition.form, substitution);
  solved.conditions = std::move(solution->conditions);
  return solved;
}

// Sets the bound variables to their values; returns the condition under which a term exists.
int StageLowering::EnterSolved(const ExprNode* e, const SolvedGuard& solved, int mask) {
  for (size_t i = 0; i < solved.values.size(); ++i) vars_[e->bound()[i].id] = solved.values[i];
  substituted_ = true;
  indices_.clear();
  scalars_.clear();
  int guard = -1;
  for (const index::Condition& condition : solved.conditions) {
    const bool zero = condition.kind == index::Condition::Kind::kZero;
    const int holds = zero ? b_.IsZero(condition.form) : b_.NonNegative(condition.form, b_.AndThen(mask, guard));
    guard = b_.AndThen(guard, holds);
  }
  for (const ExprNode* condition : solved.rest) {
    guard = b_.AndThen(guard, LowerCond(condition, b_.AndThen(mask, guard)));
  }
  return guard < 0 ? b_.Bool(true) : guard;
}

}  // namespace rewright::interp
