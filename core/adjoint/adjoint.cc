#include "core/adjoint/adjoint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/adjoint/derive.h"
#include "core/adjoint/scalars.h"
#include "core/adjoint/scope.h"
#include "core/base/check.h"
#include "core/index/compose.h"
#include "core/index/range.h"
#include "core/index/solve.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

using index::Atom;
using index::Form;

// Shifts become reads of operands from here on: they are constants, and keep track of their positions.
constexpr int kFirstShift = 1 << 20;

// Renumbers bound variables by the inside of their reduction alone: equal sums become equal nodes, and no reduction
// binds a variable that one inside of it binds. Printed names are made distinct, too.
class Canonical {
 public:
  Canonical(Scope& scope, std::set<std::string> taken) : scope_(scope), taken_(std::move(taken)) {}

  ExprPtr Of(const ExprPtr& expr) {
    return RewriteExpr(
        expr, [&](const ExprPtr& node) { return node->kind() == ExprKind::kReduce ? OfReduction(node) : node; });
  }

 private:
  struct Inside {
    int depth = 0;
    std::set<std::string> names;
  };

  const Inside& InsideOf(const ExprPtr& expr) {
    if (const auto found = inside_.find(expr); found != inside_.end()) return found->second;
    Inside inside;
    const auto take = [&](const ExprPtr& child) {
      const Inside& below = InsideOf(child);
      inside.depth = std::max(inside.depth, below.depth);
      inside.names.insert(below.names.begin(), below.names.end());
    };
    for (const ExprPtr& arg : expr->args()) take(arg);
    for (const BoundVar& var : expr->bound()) {
      take(var.extent);
      inside.names.insert(var.name);
    }
    if (expr->kind() == ExprKind::kReduce) ++inside.depth;
    return inside_[expr] = std::move(inside);
  }

  ExprPtr OfReduction(const ExprPtr& node) {
    std::set<std::string> names = taken_;
    int depth = 0;
    for (const ExprPtr& arg : node->args()) {
      const Inside& inside = InsideOf(arg);
      depth = std::max(depth, inside.depth);
      names.insert(inside.names.begin(), inside.names.end());
    }
    std::vector<ExprPtr> renaming;
    std::vector<BoundVar> bound = node->bound();
    for (size_t k = 0; k < bound.size(); ++k) {
      std::string name = bound[k].name;
      while (!names.insert(name).second) name += "'";
      const auto [at, is_new] = numbers_.try_emplace(std::tuple(depth, k, name, bound[k].extent), 0);
      if (is_new) {
        at->second = scope_.NewVariable(name, bound[k].extent, Meaning::VarKind::kBound)->variable();
      }
      if (renaming.size() <= static_cast<size_t>(bound[k].id)) renaming.resize(bound[k].id + 1);
      renaming[bound[k].id] = scope_.VariableOf(at->second);
      bound[k].id = at->second;
      bound[k].name = name;
    }
    return ReduceOver(node->reduction(), std::move(bound), Cond(Substitute(node->guard(), renaming, {})),
                      Scalar(Substitute(node->body(), renaming, {})))
        .node();
  }

  Scope& scope_;
  const std::set<std::string> taken_;
  std::map<std::tuple<int, size_t, std::string, ExprPtr>, int> numbers_;
  absl::flat_hash_map<ExprPtr, Inside> inside_;
};

struct Gathered {
  Scalar term;                     // over the position
  std::vector<std::string> steps;  // the method by which the equations were solved
  int unsolved = 0;                // equations that stay as conditions of a sum
};

// From scatter to gather: "element v adds w(v) at position f(v)" becomes "position p is the sum of w(v) over the v with
// f(v) = p". Position p determines as many of the v as the equations allow (core/index/solve.h).
class ReadInversion {
 public:
  // Inverts one site: its contribution at `position`, which has one variable per axis of the operand. The site's
  // variables are renamed to new ones, since the same are bound elsewhere.
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
    // Conditions that are equations are solved together with these, if possible.
    for (const bool with_conditions : {true, false}) {
      for (const bool with_data : {true, false}) {
        if (std::optional<Gathered> result = Attempt(with_conditions, with_data)) return *std::move(result);
      }
    }
    return Unsolved();
  }

  // Keeps every equation as a condition: the definition.
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

  // Returns nothing if the values of variables depend on elements that are read at such variables.
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
      // A condition of divisibility belongs to a solution by division; it is not an unsolved equation.
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

  // Returns the number of an unknown; one that a law introduced gets its number here.
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

class Derivation {
 public:
  Derivation(const OpDef& op, const StructuralKey& key, const Meaning& meaning)
      : key_(key), meaning_(meaning), scope_(meaning), deriver_(scope_, shapes_, op.ties) {
    for (size_t input = 0; input < key.ranks.size(); ++input) {
      std::vector<ExprPtr>& shape = shapes_[static_cast<int>(input)];
      shape.resize(key.ranks[input], Index(1).node());
    }
    for (size_t id = 0; id < meaning.variables.size(); ++id) {
      const Meaning::Variable& var = meaning.variables[id];
      if (var.kind != Meaning::VarKind::kSize) continue;
      const bool unit = op.broadcasts && (key.units[var.input] >> var.axis & 1) != 0;
      if (!unit) shapes_[var.input][var.axis] = Variable(static_cast<int>(id), var.name).node();
    }
    for (const OutputMeaning& output : meaning.outputs) elements_.push_back(HideShifts(output.element));
  }

  Derivative Gradient(int input, Inversion inversion) {
    CHECK(IsFloating(key_.dtypes[input])) << "no gradient by " << DTypeName(key_.dtypes[input]);
    const int n = static_cast<int>(key_.ranks.size());
    std::vector<Site> sites;
    for (size_t o = 0; o < meaning_.outputs.size(); ++o) {
      const OutputMeaning& output = meaning_.outputs[o];
      if (!IsFloating(output.dtype)) continue;
      const int cotangent = n + static_cast<int>(o);
      shapes_[cotangent] = output.shape;
      std::vector<Index> at;
      for (int v : output.index_vars) at.emplace_back(scope_.VariableOf(v));
      const Scalar seed = ReadOperand(cotangent, at, output.dtype);
      for (Site& site : deriver_.Sites(elements_[o], seed, output.index_vars, input)) sites.push_back(std::move(site));
    }
    Derivative result;
    result.dtype = key_.dtypes[input];
    result.shape = shapes_[input];
    const std::vector<ExprPtr> position = NewPosition(&result);
    std::vector<Scalar> terms;
    for (const Site& site : sites) {
      ReadInversion read(scope_, deriver_, site, position);
      Gathered gathered = inversion == Inversion::kGathered ? read.Solved() : read.Unsolved();
      terms.push_back(gathered.term);
      result.unsolved += gathered.unsolved;
      for (std::string& step : gathered.steps) result.steps.push_back(std::move(step));
    }
    return Finish(std::move(result), terms);
  }

  Derivative Tangent(int output) {
    const OutputMeaning& primal = meaning_.outputs[output];
    const int n = static_cast<int>(key_.ranks.size());
    absl::flat_hash_map<int, int> tangents;
    for (int k = 0; k < n; ++k) {
      if (!IsFloating(key_.dtypes[k])) continue;
      tangents[k] = n + k;
      std::vector<ExprPtr> shape = shapes_[k];  // a copy, since the map may move its elements
      shapes_[n + k] = std::move(shape);
    }
    Derivative result;
    result.dtype = primal.dtype;
    result.shape = primal.shape;
    result.position = primal.index_vars;
    for (int v : primal.index_vars) result.position_names.push_back(scope_.NameOf(v));
    return Finish(std::move(result), {deriver_.Tangent(elements_[output], tangents)});
  }

 private:
  std::vector<ExprPtr> NewPosition(Derivative* result) {
    std::vector<ExprPtr> position;
    for (size_t axis = 0; axis < result->shape.size(); ++axis) {
      const std::string name = absl::StrCat("p", axis);
      position.push_back(scope_.NewVariable(name, result->shape[axis], Meaning::VarKind::kOutputIndex));
      result->position.push_back(position.back()->variable());
      result->position_names.push_back(name);
    }
    return position;
  }

  ExprPtr HideShifts(const ExprPtr& element) {
    return RewriteExpr(element, [&](const ExprPtr& node) {
      const auto found = std::find(meaning_.shifts.begin(), meaning_.shifts.end(), node);
      if (found == meaning_.shifts.end()) return node;
      const int operand = kFirstShift + static_cast<int>(found - meaning_.shifts.begin());
      std::vector<Index> at;
      std::vector<ExprPtr>& shape = shapes_[operand];
      shape.clear();
      for (int v : scope_.Free(node)) {
        at.emplace_back(scope_.VariableOf(v));
        shape.push_back(scope_.ExtentOf(v));
      }
      return ReadOperand(operand, at, node->dtype()).node();
    });
  }

  // Returns the element with the shifts put back, which are added to `shifts`.
  ExprPtr ShowShifts(const ExprPtr& element, std::vector<ExprPtr>* shifts) {
    ElementFunction producer;
    for (size_t id = 0; id < meaning_.variables.size(); ++id) {
      producer.variables.push_back(scope_.VariableOf(static_cast<int>(id)));
    }
    for (size_t k = 0; k < key_.ranks.size(); ++k) producer.operands.push_back(static_cast<int>(k));
    return RewriteExpr(element, [&](const ExprPtr& node) {
      if (!node->IsRead() || node->operand() < kFirstShift) return node;
      const ExprPtr& shift = meaning_.shifts[node->operand() - kFirstShift];
      producer.element = shift;
      producer.params.clear();
      Visit(shift, [&](const ExprPtr& part) {
        if (part->kind() != ExprKind::kParam) return;
        if (producer.params.size() <= static_cast<size_t>(part->param())) producer.params.resize(part->param() + 1);
        producer.params[part->param()] = part;
      });
      const std::set<int>& free = scope_.Free(shift);
      producer.position.assign(free.begin(), free.end());
      const auto fresh = [&](const std::string& name) {
        return scope_.NewVariable(name, nullptr, Meaning::VarKind::kBound)->variable();
      };
      shifts->push_back(Inline(node, node->operand(), producer, fresh));
      return shifts->back();
    });
  }

  Derivative Finish(Derivative result, const std::vector<Scalar>& terms) {
    std::vector<Scalar> simple;
    for (const Scalar& term : terms) simple.emplace_back(scope_.Simplify(term.node()));
    const Scalar sum = SumOf(simple, result.dtype);
    const ExprPtr element = ShowShifts(sum.node(), &result.shifts);
    Canonical canonical(scope_, {result.position_names.begin(), result.position_names.end()});
    result.element = canonical.Of(element);
    for (ExprPtr& shift : result.shifts) shift = canonical.Of(shift);
    return result;
  }

  const StructuralKey& key_;
  const Meaning& meaning_;
  Scope scope_;
  OperandShapes shapes_;
  Deriver deriver_;
  std::vector<ExprPtr> elements_;
};

}  // namespace

Derivative GradientOf(const OpDef& op, const StructuralKey& key, const Meaning& meaning, int input,
                      Inversion inversion) {
  return Derivation(op, key, meaning).Gradient(input, inversion);
}

Derivative TangentOf(const OpDef& op, const StructuralKey& key, const Meaning& meaning, int output) {
  return Derivation(op, key, meaning).Tangent(output);
}

std::vector<int> OperandsRead(const ExprPtr& element) {
  std::set<int> read;
  Visit(element, [&](const ExprPtr& node) {
    if (node->IsRead()) read.insert(node->operand());
  });
  return {read.begin(), read.end()};
}

}  // namespace rewright
