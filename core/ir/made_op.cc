#include "core/ir/made_op.h"

namespace rewright {

std::vector<AttrSpec> WithPlainAxes(std::vector<AttrSpec> specs) {
  for (AttrSpec& spec : specs) {
    if (spec.kind != AttrKind::kAxis && spec.kind != AttrKind::kAxes) continue;
    const auto* axis = spec.fallback ? std::get_if<int64_t>(&*spec.fallback) : nullptr;
    if (axis == nullptr || *axis < 0) spec.fallback.reset();
    spec.kind = spec.kind == AttrKind::kAxis ? AttrKind::kInt : AttrKind::kInts;
    spec.structural = true;
    spec.min = 0;
  }
  return specs;
}

std::vector<ExprPtr> SymbolsOf(OpBuilder& b, const Meaning& meaning,
                               const std::function<Index(int input, int axis)>& size) {
  std::vector<ExprPtr> symbols;
  for (const Meaning::Variable& var : meaning.variables) {
    const bool is_size = var.kind == Meaning::VarKind::kSize, is_attr = var.kind == Meaning::VarKind::kAttr;
    symbols.push_back(is_size   ? size(var.input, var.axis).node()
                      : is_attr ? b.Sym(var.attr, var.axis).node()
                                : nullptr);
  }
  return symbols;
}

ExprPtr ExprReindexer::operator()(const ExprPtr& expr) {
  if (const auto found = done_.find(expr); found != done_.end()) return found->second;
  ExprPtr written = Written(expr);
  return done_[expr] = std::move(written);
}

ExprPtr ExprReindexer::Written(const ExprPtr& expr) {
  if (expr->IsVariable()) return VariableHere(expr->variable(), expr->name());
  if (expr->kind() == ExprKind::kParam) return b_.Real(expr->name(), expr->dtype()).node();
  std::vector<ExprPtr> args;
  for (const ExprPtr& arg : expr->args()) args.push_back((*this)(arg));
  if (expr->IsRead()) return read_(expr->operand(), {args.begin(), args.end()}, expr->dtype()).node();
  std::vector<BoundVar> bound;
  for (const BoundVar& var : expr->bound()) {
    bound.push_back({VariableHere(var.id, var.name)->variable(), var.name, (*this)(var.extent)});
  }
  return WithChildren(expr, std::move(args), std::move(bound));
}

ExprPtr ExprReindexer::VariableHere(int id, const std::string& name) {
  if (static_cast<size_t>(id) >= variables_.size()) variables_.resize(id + 1);
  if (variables_[id] == nullptr) variables_[id] = b_.NewBound(name).node();
  return variables_[id];
}

}  // namespace rewright
