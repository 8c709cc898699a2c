#include "core/index/cost_features.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/index/range.h"
#include "core/index/solve.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

using index::Atom;
using index::Form;

// Returns the equations between indices at which terms of the reduction exist and are not 0: a factor is 0 between the
// elements of an operand that is spread out.
void AddEquations(const ExprPtr& condition, std::vector<const ExprNode*>* equations) {
  for (const ExprPtr& part : Conjuncts(condition)) {
    if (part->IsEquation()) equations->push_back(part.get());
  }
}
void AddEquationsOfTerm(const ExprNode& term, std::vector<const ExprNode*>* equations) {
  const auto is_zero = [](const ExprPtr& e) { return e->IsConst() && e->real() == 0; };
  if (term.kind() == ExprKind::kSelect && is_zero(term.no())) {
    AddEquations(term.condition(), equations);
    AddEquationsOfTerm(*term.yes(), equations);
  } else if (term.IsCall(Fn::kMul) || term.kind() == ExprKind::kCast) {
    for (const ExprPtr& arg : term.args()) AddEquationsOfTerm(*arg, equations);
  }
}
std::vector<const ExprNode*> EquationsOf(const ExprNode& reduction) {
  std::vector<const ExprNode*> equations;
  AddEquations(reduction.guard(), &equations);
  if (reduction.reduction() == ReduceKind::kSum) AddEquationsOfTerm(*reduction.body(), &equations);
  return equations;
}

// Counts the terms at which equations hold, as far as these can be solved; bounds are ignored. Elements are unknown
// indices, one variable each.
class TermCounter {
 public:
  TermCounter(const std::vector<int64_t>& sizes, const std::map<int64_t, double>& extents)
      : sizes_(sizes), extents_(extents) {}

  // Counts over all values of the variables outside of the reduction, `around`, and of those that it binds.
  double Count(const ExprNode& reduction, const std::set<int64_t>& around,
               const std::vector<const ExprNode*>& conditions) {
    std::vector<const Atom*> positions, bound;
    for (int64_t id : around) AddVariable(id, &positions);
    for (const BoundVar& var : reduction.bound()) AddVariable(var.id, &bound);
    // The position with the most values comes first: its division leaves the least over.
    std::stable_sort(positions.begin(), positions.end(), [](const Atom* a, const Atom* b) {
      return index::ExtentOf(a).constant() > index::ExtentOf(b).constant();
    });
    std::vector<Form> equations;
    for (const ExprNode* condition : conditions) {
      equations.push_back(FormOf(condition->arg(0)) - FormOf(condition->arg(1)));
    }
    const auto solution = index::Solve(positions, bound, equations, index::Residues::kTakenApart);
    std::vector<const Atom*> free = solution ? solution->free : positions;
    if (!solution) free.insert(free.end(), bound.begin(), bound.end());
    double terms = 1;
    for (const Atom* variable : free) terms *= static_cast<double>(index::ExtentOf(variable).constant());
    return terms;
  }

 private:
  void AddVariable(int64_t id, std::vector<const Atom*>* variables) {
    const Form variable = space_.Variable("v", Form(static_cast<int64_t>(extents_.at(id))), static_cast<int>(id));
    forms_[id] = variable;
    if (variable.AsAtom() != nullptr) variables->push_back(variable.AsAtom());
  }

  Form FormOf(const ExprPtr& e) {
    if (e->kind() == ExprKind::kInt) return e->value();
    if (e->kind() == ExprKind::kFromValue) {
      const auto [at, inserted] = elements_.try_emplace(e);
      if (inserted) at->second = space_.Fresh("element");
      return at->second;
    }
    if (!e->IsVariable()) return Apply(e->kind(), FormOf(e->arg(0)), FormOf(e->arg(1)));
    const auto variable = forms_.find(e->variable());
    return variable != forms_.end() ? variable->second : Form(sizes_[e->variable()]);
  }

  const std::vector<int64_t>& sizes_;  // and attributes, by variable
  const std::map<int64_t, double>& extents_;
  index::Space space_;
  absl::flat_hash_map<int64_t, Form> forms_;
  absl::flat_hash_map<ExprPtr, Form> elements_;
};

// Counts scalar operations. `extents` maps every variable in scope to the number of its values.
class OpCounter {
 public:
  OpCounter(const std::vector<int64_t>& variables, std::map<int64_t, double> extents)
      : variables_(variables), extents_(std::move(extents)) {}

  // Counts the operations of evaluating `e` that many times.
  double Count(const ExprPtr& e, double times) {
    if (!IsScalarKind(e->kind())) return 0;
    switch (e->kind()) {
      case ExprKind::kCall: {
        double ops = times;
        for (const ExprPtr& arg : e->args()) ops += Count(arg, times);
        return ops;
      }
      case ExprKind::kSelect: return std::max(Count(e->arg(1), times), Count(e->arg(2), times));
      case ExprKind::kCast: return Count(e->arg(0), times);
      case ExprKind::kReduce: {
        const double terms = TermsOf(e);
        return terms + Count(e->body(), terms);
      }
      default: return 0;
    }
  }

 private:
  double TermsOf(const ExprPtr& reduction) {
    std::set<int64_t> around;  // variables of positions; sizes and attributes are not in extents_ and do not count
    for (int id : FreeVariables(reduction)) {
      if (extents_.contains(id)) around.insert(id);
    }
    double terms = 1;
    for (int64_t id : around) terms *= extents_.at(id);
    for (const BoundVar& var : reduction->bound()) {
      extents_[var.id] = static_cast<double>(EvalIndex(var.extent, variables_).value_or(0));
      terms *= extents_[var.id];
    }
    const std::vector<const ExprNode*> equations = EquationsOf(*reduction);
    if (equations.empty() || terms == 0) return terms;
    return TermCounter(variables_, extents_).Count(*reduction, around, equations);
  }

  const std::vector<int64_t>& variables_;
  std::map<int64_t, double> extents_;
};

}  // namespace

CostFeatures FeaturesOf(const Meaning& meaning, const std::vector<TensorType>& inputs, const Attrs& attrs,
                        const std::vector<TensorType>& outputs) {
  CostFeatures features;
  const Bindings bindings = BindingsOf(meaning, inputs, attrs);
  if (meaning.IsOpaque() && meaning.work != nullptr) {
    features.flops = static_cast<double>(EvalIndex(meaning.work, bindings.variables).value_or(0));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::map<int64_t, double> extents;
    double elements = 1;
    for (size_t axis = 0; axis < outputs[i].shape.size(); ++axis) {
      extents[meaning.outputs[i].index_vars[axis]] = static_cast<double>(outputs[i].shape[axis]);
      elements *= static_cast<double>(outputs[i].shape[axis]);
    }
    features.flops += OpCounter(bindings.variables, extents).Count(meaning.outputs[i].element, elements);
    features.bytes += static_cast<double>(outputs[i].num_bytes());
  }
  for (const TensorType& type : inputs) features.bytes += static_cast<double>(type.num_bytes());
  return features;
}

GraphFeatures FeaturesOf(const Graph& graph) {
  GraphFeatures features;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.leaf == LeafKind::kState) features.parameters += node.outputs[0].num_elements();
    if (!graph.IsRun(node)) continue;
    const CostFeatures one = FeaturesOf(*node.meaning, graph.types(node.operands), node.attrs, node.outputs);
    features.flops += one.flops;
    features.bytes += one.bytes;
  }
  return features;
}

}  // namespace rewright
