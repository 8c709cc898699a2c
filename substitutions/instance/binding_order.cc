#include "substitutions/instance/binding_order.h"

#include <algorithm>

#include "substitutions/language/rule_binding.h"

namespace rewright {
namespace {

class Binding {
 public:
  explicit Binding(const std::vector<RuleNode>& nodes) : nodes_(nodes) {}

  BindingOrder Run() {
    std::vector<RuleEquation> open;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const RuleNode& node = nodes_[i];
      const int id = static_cast<int>(i);
      if (node.op == nullptr && !node.any_shape) open.push_back(RuleEquation{id, -1});
      if (node.dtype_attr >= 0) order_.bound.insert({ArgExpr::Ref::kAttr, node.dtype_attr});
      if (node.value && node.value->ref == ArgExpr::Ref::kAttr) {
        order_.bound.insert({ArgExpr::Ref::kAttr, node.value->id});
      }
      for (size_t k = 0; k < node.attrs.size(); ++k) open.push_back(RuleEquation{id, static_cast<int>(k)});
    }
    while (!open.empty()) {
      std::vector<RuleEquation> rest;
      const size_t before = order_.bound.size() + lengths_.size();
      for (const RuleEquation& equation : open) {
        const size_t known = order_.bound.size() + lengths_.size();
        const bool settled = BindEquation(equation);
        if (settled || order_.bound.size() + lengths_.size() > known) order_.equations.push_back(equation);
        if (!settled) rest.push_back(equation);
      }
      if (rest.size() == open.size() && order_.bound.size() + lengths_.size() == before) break;
      open = std::move(rest);
    }
    order_.complete = open.empty();
    return std::move(order_);
  }

 private:
  // Binds what one item can bind; true when the item is settled.
  bool BindItem(const ArgExpr& expr) {
    const auto bound = [this](ArgExpr::Ref ref, int id) { return order_.bound.count({ref, id}) > 0; };
    if (AllBound(expr, bound)) return true;
    const ArgExpr* name = SolvableName(expr, bound);
    if (name == nullptr) return false;
    if (IsLength(*name)) {
      lengths_.insert(name->args[0].id);
    } else {
      order_.bound.insert({name->ref, name->id});
    }
    return true;
  }

  bool BindList(const std::vector<ArgExpr>& items) {
    const auto bound = [this](ArgExpr::Ref ref, int id) { return order_.bound.count({ref, id}) > 0; };
    // Splices that are not bound are, when all but one have known lengths.
    std::vector<const ArgExpr*> open;
    int unknown = 0;
    for (const ArgExpr& item : items) {
      if (item.kind != ArgExpr::Kind::kSplice || AllBound(item, bound)) continue;
      const ArgExpr& name = item.args[0];
      if (!IsPlainName(name)) return false;
      unknown += name.ref == ArgExpr::Ref::kPack && lengths_.count(name.id) ? 0 : 1;
      open.push_back(&name);
    }
    if (unknown > 1) return false;
    for (const ArgExpr* name : open) order_.bound.insert({name->ref, name->id});
    bool settled = true;
    for (const ArgExpr& item : items) {
      if (item.kind != ArgExpr::Kind::kSplice) settled &= BindItem(item);
    }
    return settled;
  }

  bool BindEquation(const RuleEquation& equation) {
    const auto bound = [this](ArgExpr::Ref ref, int id) { return order_.bound.count({ref, id}) > 0; };
    const RuleNode& node = nodes_[equation.node];
    if (equation.attr < 0) {
      if (!node.shape.broadcasts) return BindList(node.shape.dims);
      return std::all_of(node.shape.dims.begin(), node.shape.dims.end(),
                         [&](const ArgExpr& dim) { return AllBound(dim, bound); });
    }
    const ArgExpr& expr = node.attrs[equation.attr];
    return expr.kind == ArgExpr::Kind::kList ? BindList(expr.args) : BindItem(expr);
  }

  const std::vector<RuleNode>& nodes_;
  BindingOrder order_;
  std::set<int> lengths_;  // packs whose lengths are known
};

}  // namespace

BindingOrder OrderBinding(const std::vector<RuleNode>& nodes) { return Binding(nodes).Run(); }

}  // namespace rewright
