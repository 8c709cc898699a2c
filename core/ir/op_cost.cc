// What an application costs, counted on its meaning.
#include <map>
#include <set>

#include "core/ir/index_range.h"
#include "core/ir/index_value.h"
#include "core/ir/op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Counts scalar operations. `extents` maps every variable in scope to the number of its values.
class OpCounter {
 public:
  OpCounter(const std::vector<int64_t>& variables, std::map<int64_t, double> extents)
      : variables_(variables), extents_(std::move(extents)) {}

  // Operations of evaluating `e` at every value of the variables in `scope`.
  double Count(const ExprPtr& e, const std::set<int64_t>& scope) {
    if (!IsScalarKind(e->kind())) return 0;
    switch (e->kind()) {
      case ExprKind::kCall: {
        double ops = Points(scope);
        for (const ExprPtr& arg : e->args()) ops += Count(arg, scope);
        return ops;
      }
      case ExprKind::kSelect: return std::max(Count(e->arg(1), scope), Count(e->arg(2), scope));
      case ExprKind::kCast: return Count(e->arg(0), scope);
      case ExprKind::kReduce: {
        std::set<int64_t> inner;  // variables of positions; sizes and attributes are not in extents_ and do not count
        for (int id : FreeVariables(e)) {
          if (extents_.contains(id)) inner.insert(id);
        }
        for (int id : PositionsFromData(*e)) inner.erase(id);  // a term is taken in once, at one of them
        for (const BoundVar& var : e->bound()) {
          extents_[var.id] = static_cast<double>(EvalIndex(var.extent, variables_).value_or(0));
          inner.insert(var.id);
        }
        return Points(inner) + Count(e->body(), inner);
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

  const std::vector<int64_t>& variables_;
  std::map<int64_t, double> extents_;
};

}  // namespace

CostFeatures FeaturesOf(const Meaning& meaning, const std::vector<TensorType>& inputs, const Attrs& attrs,
                        const std::vector<TensorType>& outputs) {
  CostFeatures features;
  const Bindings bindings = BindingsOf(meaning, inputs, attrs);
  if (meaning.IsOpaque()) {
    features.flops = static_cast<double>(EvalIndex(meaning.work, bindings.variables).value_or(0));
  }
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
