#include "core/adjoint/gather.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/adjoint/scalars.h"
#include "core/index/solve.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

using index::Atom;
using index::Form;

class ReadInversion {
 public:
  // The site under variables of its own: the same are bound elsewhere.
  ReadInversion(Scope& scope, Deriver& deriver, const Site& site, const std::vector<ExprPtr>& position)
      : scope_(scope), deriver_(deriver) {
    std::vector<ExprPtr> renaming;
    for (int v : scope.Free(site.read)) {
      const ExprPtr fresh = scope.NewVariable(scope.NameOf(v), scope.ExtentOf(v), scope.KindOf(v));
      if (renaming.size() <= static_cast<size_t>(v)) renaming.resize(v + 1);
      renaming[v] = fresh;
      if (!scope.FormOf(fresh).IsConstant()) moving_.insert(fresh->variable());
    }
    guarded_ = SplitGuard(Scalar(Substitute(site.adjoint.node(), renaming, {})));
    for (size_t axis = 0; axis < position.size(); ++axis) {
      equations_.emplace_back(Substitute(site.read->arg(axis), renaming, {}), position[axis]);
    }
  }

  Gathered Solved() {
    // Conditions that are equations are solved along, as far as this is possible.
    for (const bool with_conditions : {true, false}) {
      for (const bool with_data : {true, false}) {
        if (std::optional<Gathered> result = Attempt(with_conditions, with_data)) return *std::move(result);
      }
    }
    return Unsolved();
  }

  Gathered Unsolved() {
    std::vector<ExprPtr> conditions;
    for (const auto& [at, place] : equations_) conditions.push_back((Index(at) == Index(place)).node());
    conditions.insert(conditions.begin(), guarded_.conditions.begin(), guarded_.conditions.end());
    for (ExprPtr& condition : conditions) condition = scope_.Simplify(condition);
    const Scalar value(scope_.Simplify(guarded_.value.node()));
    return {deriver_.SumOver(moving_, Join({conditions, value})), {}, static_cast<int>(equations_.size())};
  }

 private:
  bool ReadsMoving(const Form& form) const {
    const std::vector<const Atom*> data = scope_.DataLeaves(form);
    return std::any_of(data.begin(), data.end(),
                       [&](const Atom* leaf) { return Meets(scope_.Free(scope_.LeafExpr(leaf)), moving_); });
  }

  std::optional<Gathered> Attempt(bool with_conditions, bool with_data) {
    std::vector<Form> equations;
    std::vector<ExprPtr> conditions;  // that stay
    const auto add = [&](const ExprPtr& a, const ExprPtr& b, bool required) {
      const Form equation = scope_.FormOf(a) - scope_.FormOf(b);
      if (!equation.IsKnown()) return false;
      if (!with_data && ReadsMoving(equation)) {
        conditions.push_back((Index(a) == Index(b)).node());
      } else if (required || Moves(equation)) {
        equations.push_back(equation);
      } else {
        return false;
      }
      return true;
    };
    for (const auto& [at, place] : equations_) {
      if (!add(at, place, true)) return std::nullopt;
    }
    std::vector<ExprPtr> guards;
    for (const ExprPtr& condition : guarded_.conditions) {
      if (with_conditions && condition->IsEquation() && add(condition->arg(0), condition->arg(1), false)) continue;
      guards.push_back(condition);
    }
    std::vector<const Atom*> first, others;
    for (int v : moving_) {
      const Form leaf = scope_.FormOf(scope_.VariableOf(v));
      if (leaf.AsAtom() == nullptr || leaf.AsAtom()->range.low != 0 || !ExtentOf(leaf.AsAtom()).IsKnown()) {
        return std::nullopt;
      }
      (scope_.KindOf(v) == Meaning::VarKind::kOutputIndex ? first : others).push_back(leaf.AsAtom());
    }
    std::optional<index::Solution> solution = index::Solve(first, others, equations);
    if (!solution) return std::nullopt;
    return Finish(*std::move(solution), std::move(conditions), guards);
  }

  bool Moves(const Form& form) const {
    return std::any_of(moving_.begin(), moving_.end(), [&](int v) {
      const Form leaf = scope_.FormOf(scope_.VariableOf(v));
      return leaf.AsAtom() != nullptr && Contains(form, leaf.AsAtom());
    });
  }

  // Nothing where the values of variables depend on elements that are read at such variables.
  std::optional<Gathered> Finish(index::Solution solution, std::vector<ExprPtr> conditions,
                                 const std::vector<ExprPtr>& guards) {
    std::set<int> free;
    for (const Atom* variable : solution.free) free.insert(IdOf(variable));
    index::Substitution substitution;
    for (const auto& [variable, value] : solution.exact) {
      if (value.scale.Is(1) && value.value == Form::OfAtom(variable)) continue;
      if (ReadsMoving(value.value)) return std::nullopt;
      substitution[variable] = value;
    }
    // Elements that are read at variables, in conditions.
    index::Substitution data;
    for (const index::Condition& condition : solution.conditions) {
      for (const Atom* leaf : scope_.DataLeaves(condition.form)) {
        data[leaf] = {scope_.FormOf(scope_.Simplify(scope_.LeafExpr(leaf), substitution))};
      }
    }
    Gathered result;
    std::vector<ExprPtr> all;
    for (const index::Condition& condition : solution.conditions) {
      const Form form = Compose(condition.form, data);
      if (!form.IsKnown()) return std::nullopt;
      const bool zero = condition.kind == index::Condition::Kind::kZero;
      all.push_back(scope_.CondOf(form, zero));
      // That a number is divisible is what a solution by division needs: no equation is left.
      const bool divides =
          form.AsAtom() != nullptr && form.AsAtom()->kind == Atom::Kind::kMod && scope_.DataLeaves(form).empty();
      if (zero && !divides && Meets(scope_.Free(all.back()), free)) ++result.unsolved;
    }
    for (const ExprPtr& condition : guards) all.push_back(scope_.Simplify(condition, substitution));
    for (const ExprPtr& condition : conditions) {
      all.push_back(scope_.Simplify(condition, substitution));
      ++result.unsolved;
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const ExprPtr& a, const ExprPtr& b) { return a->ReadsData() < b->ReadsData(); });
    const Scalar value(scope_.Simplify(guarded_.value.node(), substitution));
    result.term = deriver_.SumOver(free, Join({all, value}));
    result.steps = std::move(solution.steps);
    return result;
  }

  // The number of an unknown; one that a law has brought in gets its number here.
  int IdOf(const Atom* variable) {
    for (int v : moving_) {
      if (scope_.FormOf(scope_.VariableOf(v)) == Form::OfAtom(variable)) return v;
    }
    const ExprPtr made =
        scope_.NewVariable(variable->name, scope_.ExprOf(ExtentOf(variable)), Meaning::VarKind::kBound);
    scope_.Register(variable, made);
    return made->variable();
  }

  Scope& scope_;
  Deriver& deriver_;
  std::set<int> moving_;
  std::vector<std::pair<ExprPtr, ExprPtr>> equations_;
  GuardedScalar guarded_;
};

}  // namespace

Gathered Gather(Scope& scope, Deriver& deriver, const Site& site, const std::vector<ExprPtr>& position, bool solve) {
  ReadInversion inversion(scope, deriver, site, position);
  return solve ? inversion.Solved() : inversion.Unsolved();
}

}  // namespace rewright
