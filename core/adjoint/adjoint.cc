#include "core/adjoint/adjoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/adjoint/derive.h"
#include "core/adjoint/gather.h"
#include "core/adjoint/scalars.h"
#include "core/adjoint/scope.h"
#include "core/base/check.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Shifts stand as reads of operands from here on: they are constants, and keep track of their positions.
constexpr int kFirstShift = 1 << 20;

// Bound variables that depend on what is inside of a reduction alone: equal sums become equal nodes, and no reduction
// binds a variable that one inside of it binds. Printed names are told apart, too.
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
      Gathered gathered = Gather(scope_, deriver_, site, position, inversion == Inversion::kGathered);
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
      std::vector<ExprPtr> shape = shapes_[k];  // a copy: the map moves what it holds
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
    std::string letter = "p";
    std::vector<ExprPtr> position;
    for (size_t axis = 0; axis < result->shape.size(); ++axis) {
      const std::string name = absl::StrCat(letter, axis);
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

  // The element with the shifts back in their places, which are added to `shifts`.
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
