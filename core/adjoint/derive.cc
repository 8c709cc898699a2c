#include "core/adjoint/derive.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/adjoint/scalars.h"
#include "core/base/check.h"
#include "core/ir/derivative.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Tells whether an expression reads elements of certain operands as values, not in conditions or indices.
class Dependence {
 public:
  explicit Dependence(std::function<bool(int operand)> is_input) : is_input_(std::move(is_input)) {}

  bool Of(const ExprPtr& expr) {
    if (const auto found = known_.find(expr); found != known_.end()) return found->second;
    return known_[expr] = New(expr);
  }

 private:
  bool New(const ExprPtr& expr) {
    if (!IsScalarKind(expr->kind()) || !IsFloating(expr->dtype())) return false;
    switch (expr->kind()) {
      case ExprKind::kRead: return is_input_(expr->operand());
      case ExprKind::kSelect: return Of(expr->yes()) || Of(expr->no());
      case ExprKind::kReduce: return Of(expr->body());
      case ExprKind::kCall:
      case ExprKind::kCast:
        return std::any_of(expr->args().begin(), expr->args().end(), [&](const ExprPtr& arg) { return Of(arg); });
      default: return false;
    }
  }

  std::function<bool(int)> is_input_;
  absl::flat_hash_map<ExprPtr, bool> known_;
};

Scalar Zero(const ExprPtr& like) { return Constant(0, like->dtype()); }

// Returns the value under conditions that are evaluated only if those that guard it hold.
Scalar Under(const Scalar& value, std::vector<ExprPtr> conditions) {
  GuardedScalar guarded = SplitGuard(value);
  for (const ExprPtr& condition : conditions) {
    for (ExprPtr& part : Conjuncts(condition)) guarded.conditions.push_back(std::move(part));
  }
  return Join(guarded);
}

std::set<int> Without(const std::set<int>& all, const std::set<int>& some) {
  std::set<int> left;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::inserter(left, left.end()));
  return left;
}

std::set<int> BoundBy(const ExprPtr& reduction) {
  std::set<int> bound;
  for (const BoundVar& var : reduction->bound()) bound.insert(var.id);
  return bound;
}

}  // namespace

bool Meets(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int v) { return b.contains(v); });
}

std::vector<ExprPtr> Deriver::Renaming(const std::set<int>& variables, absl::flat_hash_map<int, ExprPtr>* fresh) {
  std::vector<ExprPtr> renaming(variables.empty() ? 0 : *variables.rbegin() + 1);
  for (int v : variables) {
    renaming[v] = (*fresh)[v] = scope_.NewVariable(scope_.NameOf(v), scope_.ExtentOf(v), Meaning::VarKind::kBound);
  }
  return renaming;
}

// ---------------------------------------------------------------- sums

bool Deriver::IsReadable(const ExprPtr& expr) {
  return !AnyOf(expr, [&](const ExprNode& node) {
    if (node.kind() != ExprKind::kRead) return false;
    const auto shape = shapes_.find(node.operand());
    if (shape == shapes_.end()) return true;
    for (size_t axis = 0; axis < node.args().size(); ++axis) {
      if (!IsWithin(scope_.FormOf(node.arg(axis)), scope_.FormOf(shape->second[axis]))) return true;
    }
    return false;
  });
}

Scalar Deriver::SumOver(const std::set<int>& variables, const Scalar& value) {
  if (variables.empty() || IsConstant(value, 0)) return value;
  const GuardedScalar guarded = SplitGuard(value);
  std::vector<ExprPtr> inside, outside;
  for (const ExprPtr& condition : guarded.conditions) {
    const bool varies = Meets(scope_.Free(condition), variables);
    (varies || (condition->ReadsData() && !inside.empty()) ? inside : outside).push_back(condition);
  }
  Monomial varying, fixed = MonomialOf(guarded.value);
  const auto part = [&](std::vector<Scalar>* all, std::vector<Scalar>* taken) {
    std::vector<Scalar> left;
    for (Scalar& factor : *all) {
      const bool varies = Meets(scope_.Free(factor.node()), variables);
      (varies || (!inside.empty() && !IsReadable(factor.node())) ? *taken : left).push_back(factor);
    }
    *all = std::move(left);
  };
  part(&fixed.above, &varying.above);
  part(&fixed.below, &varying.below);

  absl::flat_hash_map<int, ExprPtr> fresh;
  const std::vector<ExprPtr> renaming = Renaming(variables, &fresh);
  std::vector<BoundVar> bound;
  for (int v : variables) {
    bound.push_back({fresh.at(v)->variable(), scope_.NameOf(v), Substitute(scope_.ExtentOf(v), renaming, {})});
  }
  const DType dtype = value.dtype();
  const ExprPtr guard = Substitute(AllOf(inside).node(), renaming, {});
  const ExprPtr body = Substitute(rewright::ProductOf(varying, dtype).node(), renaming, {});
  const Scalar sum = ReduceOver(ReduceKind::kSum, std::move(bound), Cond(guard), Scalar(body));
  return Join({outside, Times(rewright::ProductOf(fixed, dtype), sum)});
}

// ---------------------------------------------------------------- reductions

// Returns the row-major number of the first point at which a maximum or minimum is attained.
Index Deriver::FirstExtremum(const ExprPtr& reduction) {
  const std::vector<BoundVar>& bound = reduction->bound();
  Index count(1);
  for (const BoundVar& var : bound) count = count * Index(var.extent);
  const ExprPtr t = scope_.NewVariable(bound.size() == 1 ? bound[0].name : "t", count.node(), Meaning::VarKind::kBound);
  std::vector<ExprPtr> digits(*BoundBy(reduction).rbegin() + 1);
  Index block(1);
  for (size_t i = bound.size(); i-- > 0;) {
    const Index step = FloorDiv(Index(t), block);
    digits[bound[i].id] = (i > 0 ? Mod(step, Index(bound[i].extent)) : step).node();
    block = Index(bound[i].extent) * block;
  }
  const ReduceKind kind = reduction->reduction() == ReduceKind::kMax ? ReduceKind::kArgMax : ReduceKind::kArgMin;
  return ToIndex(ReduceOver(kind, {{t->variable(), t->name(), count.node()}},
                            Cond(Substitute(reduction->guard(), digits, {})),
                            Scalar(Substitute(reduction->body(), digits, {}))));
}

// Tells at which points a maximum or minimum is attained, and which share of the adjoint each point gets.
Deriver::Share Deriver::ShareOf(const ExprPtr& reduction) {
  if (ties_ == Ties::kFirst) {
    Index position(0);
    for (const BoundVar& var : reduction->bound()) {
      position = position * Index(var.extent) + Variable(var.id, var.name);
    }
    return {position == FirstExtremum(reduction), Constant(1, reduction->dtype())};
  }
  const Cond attains = Holds(Call(Fn::kEqual, {Scalar(reduction->body()), Scalar(reduction)}));
  const std::set<int> bound = BoundBy(reduction);
  absl::flat_hash_map<int, ExprPtr> fresh;
  const std::vector<ExprPtr> renaming = Renaming(bound, &fresh);
  std::vector<BoundVar> points;
  for (const BoundVar& var : reduction->bound()) points.push_back({fresh.at(var.id)->variable(), var.name, var.extent});
  const Cond guard(Substitute((Cond(reduction->guard()) && attains).node(), renaming, {}));
  const Scalar one = Constant(1, reduction->dtype());
  return {attains, one / ReduceOver(ReduceKind::kSum, std::move(points), guard, one)};
}

// Returns the product of all factors of a product except the one at the bound variables.
Scalar Deriver::Others(const ExprPtr& reduction) {
  absl::flat_hash_map<int, ExprPtr> fresh;
  const std::vector<ExprPtr> renaming = Renaming(BoundBy(reduction), &fresh);
  Cond differs(false);
  std::vector<BoundVar> points;
  for (const BoundVar& var : reduction->bound()) {
    const ExprPtr& other = fresh.at(var.id);
    differs = differs || !(Variable(var.id, var.name) == Index(other));
    points.push_back({other->variable(), var.name, var.extent});
  }
  return ReduceOver(ReduceKind::kProd, std::move(points), Cond(Substitute(reduction->guard(), renaming, {})) && differs,
                    Scalar(Substitute(reduction->body(), renaming, {})));
}

// ---------------------------------------------------------------- reverse mode

std::vector<Site> Deriver::Sites(const ExprPtr& element, const Scalar& seed, const std::vector<int>& position,
                                 int input) {
  Dependence depends([input](int operand) { return operand == input; });
  std::vector<Site> sites;
  if (!depends.Of(element)) return sites;
  std::vector<ExprPtr> order;
  Visit(element, [&](const ExprPtr& node) {
    if (depends.Of(node)) order.push_back(node);
  });
  absl::flat_hash_map<ExprPtr, std::vector<Scalar>> parts;
  const std::set<int> all(position.begin(), position.end());
  parts[element].push_back(SumOver(Without(all, scope_.Free(element)), seed));

  for (size_t i = order.size(); i-- > 0;) {
    const ExprPtr& node = order[i];
    const auto found = parts.find(node);
    if (found == parts.end()) continue;
    const Scalar adjoint = SumOf(found->second, node->dtype());
    parts.erase(found);
    if (IsConstant(adjoint, 0)) continue;
    const auto give = [&](const ExprPtr& child, const Scalar& value, const std::set<int>& bound = {}) {
      if (!depends.Of(child) || IsConstant(value, 0)) return;
      std::set<int> gone = scope_.Free(node);
      gone.insert(bound.begin(), bound.end());
      parts[child].push_back(SumOver(Without(gone, scope_.Free(child)), value));
    };
    switch (node->kind()) {
      case ExprKind::kRead: sites.push_back({node, adjoint}); break;
      case ExprKind::kCall: {
        const std::vector<Scalar> partials = Partials(Scalar(node));
        for (size_t k = 0; k < partials.size(); ++k) {
          if (partials[k].node() != nullptr && depends.Of(node->arg(k))) {
            give(node->arg(k), Times(adjoint, partials[k]));
          }
        }
        break;
      }
      case ExprKind::kSelect:
        give(node->yes(), Under(adjoint, {node->condition()}));
        give(node->no(), Under(adjoint, {(!Cond(node->condition())).node()}));
        break;
      case ExprKind::kCast: give(node->arg(0), Cast(adjoint, node->arg(0)->dtype())); break;
      case ExprKind::kReduce: {
        const std::set<int> bound = BoundBy(node);
        std::vector<ExprPtr> conditions = {node->guard()};
        Scalar factor = Constant(1, node->dtype());
        if (node->reduction() == ReduceKind::kMax || node->reduction() == ReduceKind::kMin) {
          const Share share = ShareOf(node);
          conditions.push_back(share.attains.node());
          factor = share.weight;
        } else if (node->reduction() == ReduceKind::kProd) {
          factor = Others(node);
        }
        give(node->body(), Under(Times(adjoint, factor), std::move(conditions)), bound);
        break;
      }
      default: CHECK(false) << "no derivative of " << PrintExpr(node, {});
    }
  }
  return sites;
}

// ---------------------------------------------------------------- forward mode

Scalar Deriver::Tangent(const ExprPtr& element, const absl::flat_hash_map<int, int>& tangents) {
  Dependence depends([&](int operand) { return tangents.contains(operand); });
  absl::flat_hash_map<ExprPtr, Scalar> done;
  const std::function<Scalar(const ExprPtr&)> of = [&](const ExprPtr& node) -> Scalar {
    if (!depends.Of(node)) return Zero(node);
    if (const auto found = done.find(node); found != done.end()) return found->second;
    Scalar result;
    switch (node->kind()) {
      case ExprKind::kRead: {
        std::vector<Index> at;
        for (const ExprPtr& arg : node->args()) at.emplace_back(arg);
        result = ReadOperand(tangents.at(node->operand()), at, node->dtype());
        break;
      }
      case ExprKind::kCall: {
        std::vector<Scalar> terms;
        const std::vector<Scalar> partials = Partials(Scalar(node));
        for (size_t k = 0; k < partials.size(); ++k) {
          if (partials[k].node() == nullptr) continue;
          const Scalar inner = of(node->arg(k));
          if (!IsConstant(inner, 0)) terms.push_back(Times(inner, partials[k]));
        }
        result = SumOf(terms, node->dtype());
        break;
      }
      case ExprKind::kSelect: result = Choose(Cond(node->condition()), of(node->yes()), of(node->no())); break;
      case ExprKind::kCast: result = Cast(of(node->arg(0)), node->dtype()); break;
      case ExprKind::kReduce: {
        Cond guard(node->guard());
        Scalar body = of(node->body());
        if (node->reduction() == ReduceKind::kMax || node->reduction() == ReduceKind::kMin) {
          const Share share = ShareOf(node);
          guard = guard && share.attains;
          body = Times(body, share.weight);
        } else if (node->reduction() == ReduceKind::kProd) {
          body = Times(Others(node), body);
        }
        for (const BoundVar& var : node->bound()) CHECK(scope_.ExtentOf(var.id) != nullptr) << var.name;
        result = SumOver(BoundBy(node), Under(Join({Conjuncts(guard.node()), body}), {}));
        break;
      }
      default: CHECK(false) << "no derivative of " << PrintExpr(node, {});
    }
    return done[node] = result;
  };
  return of(element);
}

}  // namespace rewright
