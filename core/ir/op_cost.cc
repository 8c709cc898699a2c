// What an application costs, counted on its meaning.
#include <map>
#include <set>

#include "core/ir/index_value.h"
#include "core/ir/op.h"

namespace rewright {
namespace {

// Counts scalar operations. `extents` maps every variable in scope to the number of its values.
class OpCounter {
 public:
  OpCounter(const std::vector<int64_t>& variables, std::map<int64_t, double> extents)
      : variables_(variables), extents_(std::move(extents)) {}

  // Operations of evaluating `e` at every value of the variables in `scope`.
  double Count(const ExprPtr& e, const std::set<int64_t>& scope) {
    if (!IsScalarKind(e->kind)) return 0;
    switch (e->kind) {
      case ExprKind::kCall: {
        double ops = Points(scope);
        for (const ExprPtr& arg : e->args) ops += Count(arg, scope);
        return ops;
      }
      case ExprKind::kSelect: return std::max(Count(e->args[1], scope), Count(e->args[2], scope));
      case ExprKind::kCast: return Count(e->args[0], scope);
      case ExprKind::kReduce: {
        std::set<int64_t> inner;
        FreeVariables(e, inner);
        for (const BoundVar& var : e->bound) {
          extents_[var.id] = static_cast<double>(EvalIndex(var.extent, variables_).value_or(0));
          inner.insert(var.id);
        }
        return Points(inner) + Count(e->args[1], inner);
      }
      default: return 0;
    }
  }

 private:
  double Points(const std::set<int64_t>& scope) const {
    double points = 1;
    for (int64_t id : scope) points *= extents_.at(id);
    return points;
  }

  // Variables of positions that occur in `e`; sizes and attributes are not in extents_ and do not count.
  void FreeVariables(const ExprPtr& e, std::set<int64_t>& out) const {
    if (e->kind == ExprKind::kVar && extents_.contains(e->integer)) out.insert(e->integer);
    std::set<int64_t> below;
    for (const ExprPtr& arg : e->args) FreeVariables(arg, below);
    for (const BoundVar& var : e->bound) below.erase(var.id);
    out.merge(below);
  }

  const std::vector<int64_t>& variables_;
  std::map<int64_t, double> extents_;
};

}  // namespace

CostFeatures FeaturesOf(const Meaning& meaning, const std::vector<TensorType>& inputs, const Attrs& attrs,
                        const std::vector<TensorType>& outputs) {
  CostFeatures features;
  const Bindings bindings = BindingsOf(meaning, inputs, attrs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::map<int64_t, double> extents;
    std::set<int64_t> scope;
    for (size_t axis = 0; axis < outputs[i].shape.size(); ++axis) {
      extents[meaning.outputs[i].index_vars[axis]] = static_cast<double>(outputs[i].shape[axis]);
      scope.insert(meaning.outputs[i].index_vars[axis]);
    }
    features.flops += OpCounter(bindings.variables, extents).Count(meaning.outputs[i].element, scope);
    features.bytes += static_cast<double>(outputs[i].num_bytes());
  }
  for (const TensorType& type : inputs) features.bytes += static_cast<double>(type.num_bytes());
  return features;
}

}  // namespace rewright
