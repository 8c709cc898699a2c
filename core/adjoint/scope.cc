#include "core/adjoint/scope.h"

#include <algorithm>

#include "core/adjoint/scalars.h"
#include "core/base/check.h"
#include "core/index/compose.h"
#include "core/index/divide.h"
#include "core/index/form_builder.h"
#include "core/index/range.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

using index::Atom;
using index::Form;

bool IsSymbol(const Meaning::VarKind kind) {
  return kind == Meaning::VarKind::kSize || kind == Meaning::VarKind::kAttr;
}

}  // namespace

Scope::Scope(const Meaning& meaning, Uses uses) {
  for (const Meaning::Variable& variable : meaning.variables) {
    variables_.push_back({variable.name, variable.kind, nullptr});
    least_.push_back(variable.kind == Meaning::VarKind::kSize ? 1 : variable.min);
  }
  for (const Requirement& requirement : meaning.requirements) {
    for (const ExprPtr& part : Conjuncts(requirement.condition)) {
      if (part->IsEquation()) Define(part->arg(0), part->arg(1));
    }
  }
  for (const Requirement& requirement : meaning.requirements) {
    for (const ExprPtr& part : Conjuncts(requirement.condition)) {
      if (uses == Uses::kAll && part->kind() == ExprKind::kLessEqual) DefineAtMost(part->arg(0), part->arg(1));
    }
  }
  for (const OutputMeaning& output : meaning.outputs) NoteExtents(output);
}

void Scope::NoteExtents(const OutputMeaning& output) {
  for (size_t axis = 0; axis < output.shape.size(); ++axis) {
    variables_[output.index_vars[axis]].extent = output.shape[axis];
  }
  Visit(output.element, [&](const ExprPtr& node) {
    for (const BoundVar& bound : node->bound()) variables_[bound.id].extent = bound.extent;
  });
}

ExprPtr Scope::NewVariable(const std::string& name, const ExprPtr& extent, Meaning::VarKind kind) {
  variables_.push_back({name, kind, extent});
  least_.push_back(0);
  return VariableOf(num_variables() - 1);
}

const std::set<int>& Scope::Free(const ExprPtr& expr) {
  if (const auto found = free_.find(expr); found != free_.end()) return found->second;
  std::set<int> free;
  if (expr->IsVariable() && !IsSymbol(KindOf(expr->variable()))) free.insert(expr->variable());
  for (const ExprPtr& arg : expr->args()) {
    const std::set<int>& below = Free(arg);
    free.insert(below.begin(), below.end());
  }
  for (const BoundVar& bound : expr->bound()) free.erase(bound.id);
  for (const BoundVar& bound : expr->bound()) {
    const std::set<int>& below = Free(bound.extent);
    free.insert(below.begin(), below.end());
  }
  return free_[expr] = std::move(free);
}

// ---------------------------------------------------------------- requirements

// Defines symbol = value. The symbol must not occur in the value, except in a quotient that becomes a symbol itself.
bool Scope::DefineAs(const Form& symbol, const Form& value) {
  const Atom* s = symbol.AsAtom();
  if (s == nullptr || s->kind != Atom::Kind::kSymbol || !value.IsKnown()) return false;
  Form defined = value;
  const Atom* product = value.AsAtom();
  if (Contains(value, s)) {
    if (product == nullptr || product->kind != Atom::Kind::kProduct) return false;
    const Atom* quotient = nullptr;
    for (const Atom* factor : product->factors) {
      const bool divides = factor->kind == Atom::Kind::kFloorDiv && factor->a.AsAtom() == s;
      if (divides && quotient == nullptr) {
        quotient = factor;
      } else if (Contains(Form::OfAtom(factor), s)) {
        return false;
      }
    }
    if (quotient == nullptr) return false;
    Form others;
    index::DivideMonomial(product, quotient, &others);
    const ExprPtr text = ExprOf(Form::OfAtom(quotient));
    const Form q = space_.Symbol(PrintExpr(text, {}), 1);
    leaves_[q.AsAtom()] = text;
    defined = others * q;
  }
  const index::Substitution step = {{s, {defined}}};
  for (auto& entry : definitions_) entry.second.value = Compose(entry.second.value, step);
  definitions_[s] = {defined};
  if (const Atom* monomial = defined.AsAtom(); monomial != nullptr && monomial->kind == Atom::Kind::kProduct) {
    monomials_.emplace_back(monomial, leaves_.at(s));
  }
  forms_.clear();
  return true;
}

void Scope::Define(const ExprPtr& a, const ExprPtr& b) {
  const Form left = FormOf(a), right = FormOf(b);
  if (!left.IsKnown() || !right.IsKnown() || left == right) return;
  // The later of two symbols is expressed by the earlier one.
  const Atom *x = left.AsAtom(), *y = right.AsAtom();
  const bool both = x != nullptr && y != nullptr && x->kind == Atom::Kind::kSymbol && y->kind == Atom::Kind::kSymbol;
  if (both && x->tag < y->tag) {
    DefineAs(right, left);
    return;
  }
  if (DefineAs(left, right) || DefineAs(right, left)) return;
  const auto is_product = [](const Atom* atom) { return atom != nullptr && atom->kind == Atom::Kind::kProduct; };
  if (is_product(x) && is_product(y)) products_.emplace_back(x, y);
}

// Defines b = a + s for symbols a <= b, if the range of b follows from that of a.
void Scope::DefineAtMost(const ExprPtr& a, const ExprPtr& b) {
  const Form left = FormOf(a), right = FormOf(b);
  const Atom *x = left.AsAtom(), *y = right.AsAtom();
  if (x == nullptr || y == nullptr || x == y || x->kind != Atom::Kind::kSymbol || y->kind != Atom::Kind::kSymbol)
    return;
  if (x->range.low < y->range.low || written_.contains(x)) return;
  const Form more = space_.Symbol(x->name + ".." + y->name, 0);
  leaves_[more.AsAtom()] = (Index(leaves_.at(y)) - Index(leaves_.at(x))).node();
  if (DefineAs(right, left + more)) written_[more.AsAtom()] = {right - left};
}

namespace {

// Returns the form with products replaced by those that they equal.
class WithProducts {
 public:
  WithProducts(const Atom* from, const Atom* to) : from_(from), to_(Form::OfAtom(to)) {}

  Form Of(const Form& form) {
    if (!form.IsKnown()) return form;
    Form result = form.constant();
    for (const Form::Term& term : form.terms()) {
      Form rest;
      if (index::DivideMonomial(term.atom, from_, &rest)) {
        result = result + Of(rest) * to_ * term.factor;
        continue;
      }
      Form product = term.factor;
      for (const Atom* factor : index::FactorsOf(term.atom)) product = product * OfAtom(factor);
      result = result + product;
    }
    return result;
  }

 private:
  Form OfAtom(const Atom* atom) {
    if (atom->IsLeaf()) return Form::OfAtom(atom);
    const Form a = Of(atom->a), b = Of(atom->b);
    switch (atom->kind) {
      case Atom::Kind::kFloorDiv: return FloorDiv(a, b);
      case Atom::Kind::kMod: return Mod(a, b);
      case Atom::Kind::kMin: return Min(a, b);
      default: return Max(a, b);
    }
  }

  const Atom* from_;
  const Form to_;
};

}  // namespace

bool Scope::IsNonNegative(const Form& form) {
  if (index::IsNonNegative(form)) return true;
  for (const auto& [a, b] : products_) {
    const Form bound = BoundOf(form, /*upper=*/false);
    if (!bound.IsKnown()) return false;
    if (index::IsNonNegative(WithProducts(a, b).Of(bound)) || index::IsNonNegative(WithProducts(b, a).Of(bound))) {
      return true;
    }
  }
  return false;
}

// ---------------------------------------------------------------- forms

Form Scope::FormOf(const ExprPtr& index) {
  if (const auto found = forms_.find(index); found != forms_.end()) return found->second;
  const Form form = NewForm(index);
  return forms_[index] = form;
}

Form Scope::NewForm(const ExprPtr& index) {
  if (index->kind() == ExprKind::kInt) return index->value();
  if (index->kind() == ExprKind::kFromValue) {
    const Form leaf = space_.Fresh("value");
    leaves_[leaf.AsAtom()] = index;
    return leaf;
  }
  if (!index->IsVariable()) return Apply(index->kind(), FormOf(index->arg(0)), FormOf(index->arg(1)));
  const int id = index->variable();
  if (IsSymbol(KindOf(id))) {
    const int64_t least = least_[id] == INT64_MIN ? -index::kInfinity : least_[id];
    const Form symbol = space_.Symbol(NameOf(id), least, index::kInfinity, id);
    leaves_[symbol.AsAtom()] = index;
    return Compose(symbol, definitions_);
  }
  CHECK(ExtentOf(id) != nullptr) << "nothing is known of " << index->name();
  const Form extent = FormOf(ExtentOf(id));
  if (!extent.IsKnown()) return Form::Unknown();
  const Form leaf = space_.Variable(NameOf(id), extent, id);
  if (leaf.AsAtom() != nullptr) leaves_[leaf.AsAtom()] = index;
  return leaf;
}

void Scope::Register(const Atom* leaf, const ExprPtr& variable) {
  leaves_[leaf] = variable;
  forms_[variable] = Form::OfAtom(leaf);
}

std::vector<const Atom*> Scope::DataLeaves(const Form& form) const {
  std::vector<const Atom*> data;
  for (const Atom* leaf : LeavesOf(form)) {
    if (LeafExpr(leaf)->kind() == ExprKind::kFromValue) data.push_back(leaf);
  }
  return data;
}

Index Scope::ProductOf(const Atom* atom) {
  const auto factors_of = index::FactorsOf(atom);
  std::vector<const Atom*> factors(factors_of.begin(), factors_of.end());
  Index product(1);
  for (const auto& [monomial, symbol] : monomials_) {
    Form rest;
    if (!index::DivideMonomial(atom, monomial, &rest)) continue;
    product = Index(symbol);
    factors.clear();
    if (!rest.Is(1)) {
      const Atom* left = rest.AsAtom();
      factors.assign(index::FactorsOf(left).begin(), index::FactorsOf(left).end());
    }
    break;
  }
  // Factors that vary come before symbols.
  std::stable_sort(factors.begin(), factors.end(), [](const Atom* a, const Atom* b) {
    return (a->kind != Atom::Kind::kSymbol) > (b->kind != Atom::Kind::kSymbol);
  });
  for (const Atom* factor : factors) {
    if (factor->IsLeaf()) {
      product = product * Index(leaves_.at(factor));
      continue;
    }
    const Index a(ExprOf(factor->a)), b(ExprOf(factor->b));
    switch (factor->kind) {
      case Atom::Kind::kFloorDiv: product = product * FloorDiv(a, b); break;
      case Atom::Kind::kMod: product = product * Mod(a, b); break;
      case Atom::Kind::kMin: product = product * Min(a, b); break;
      default: product = product * Max(a, b); break;
    }
  }
  return product;
}

ExprPtr Scope::ExprOf(const Form& value) {
  CHECK(value.IsKnown()) << "an index that does not fit 64 bits";
  const Form form = Compose(value, written_);
  Index sum(0);
  const auto add = [&](bool negative) {
    for (const Form::Term& term : form.terms()) {
      if ((term.factor < 0) != negative) continue;
      const Index product = ProductOf(term.atom);
      sum = negative ? sum - Index(-term.factor) * product : sum + Index(term.factor) * product;
    }
  };
  add(/*negative=*/false);
  if (form.constant() > 0) sum = sum + Index(form.constant());
  add(/*negative=*/true);
  if (form.constant() < 0) sum = sum.Is(0) ? Index(form.constant()) : sum - Index(-form.constant());
  return sum.node();
}

ExprPtr Scope::CondOf(const Form& value, bool zero) {
  CHECK(value.IsKnown()) << "a condition that does not fit 64 bits";
  if (zero && (index::IsPositive(value) || index::IsPositive(-value))) return Cond(false).node();
  if (!zero && IsNonNegative(value)) return Cond(true).node();
  if (!zero && index::IsPositive(-value)) return Cond(false).node();
  const Form form = Compose(value, written_);
  Form more = 0, less = 0;
  for (const Form::Term& term : form.terms()) {
    const Form part = Form::OfAtom(term.atom) * term.factor;
    (term.factor > 0 ? more : less) = (term.factor > 0 ? more + part : less - part);
  }
  const int64_t constant = form.constant();
  if (zero) {
    if (form.Is(0)) return Cond(true).node();
    (constant > 0 ? more : less) = constant > 0 ? more + constant : less - constant;
    return (more.Is(0) ? Index(ExprOf(less)) == Index(0) : Index(ExprOf(more)) == Index(ExprOf(less))).node();
  }
  if (constant >= 0) return (Index(ExprOf(less)) <= Index(ExprOf(more + constant))).node();
  return (Index(ExprOf(less - constant - 1)) < Index(ExprOf(more))).node();
}

// ---------------------------------------------------------------- simplification

namespace {

class Simplifier {
 public:
  Simplifier(Scope& scope, const index::Substitution& substitution) : scope_(scope), substitution_(substitution) {}

  ExprPtr Of(const ExprPtr& expr) {
    if (const auto found = done_.find(expr); found != done_.end()) return found->second;
    ExprPtr result = IsIndexKind(expr->kind())  ? OfIndex(expr)
                     : IsCondKind(expr->kind()) ? OfCondition(expr)
                                                : OfScalar(expr);
    return done_[expr] = std::move(result);
  }

 private:
  std::vector<ExprPtr> Args(const ExprPtr& expr) {
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(Of(arg));
    return args;
  }

  // Indices in elements that are themselves indices are simplified first.
  ExprPtr WithData(const ExprPtr& index) {
    if (!index->Contains(ExprKind::kFromValue)) return index;
    if (index->kind() == ExprKind::kFromValue) return ToIndex(Scalar(Of(index->arg(0)))).node();
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : index->args()) args.push_back(WithData(arg));
    return WithChildren(index, std::move(args), {});
  }

  Form FormOf(const ExprPtr& index) { return Compose(scope_.FormOf(WithData(index)), substitution_); }

  ExprPtr OfIndex(const ExprPtr& index) {
    if (index->kind() == ExprKind::kFromValue) return WithData(index);
    const Form form = FormOf(index);
    if (form.IsKnown()) return scope_.ExprOf(form);
    if (!index->args().empty()) return WithChildren(index, Args(index), {});
    const Form leaf = Compose(scope_.FormOf(index), substitution_);
    return leaf.IsKnown() ? scope_.ExprOf(leaf) : index;
  }

  ExprPtr OfCondition(const ExprPtr& cond) {
    switch (cond->kind()) {
      case ExprKind::kBool: return cond;
      case ExprKind::kAnd: {
        const std::vector<ExprPtr> args = Args(cond);
        std::vector<ExprPtr> parts = Conjuncts(args[0]);
        for (ExprPtr& part : Conjuncts(args[1])) parts.push_back(std::move(part));
        return AllOf(parts).node();
      }
      case ExprKind::kOr: {
        const std::vector<ExprPtr> args = Args(cond);
        return args[1]->IsTrue() || args[0] == args[1] ? args[1] : (Cond(args[0]) || Cond(args[1])).node();
      }
      case ExprKind::kNot: return Negated(cond->arg(0));
      case ExprKind::kHolds: return Holds(Scalar(Of(cond->arg(0)))).node();
      default: break;
    }
    const Form a = FormOf(cond->arg(0)), b = FormOf(cond->arg(1));
    const Form apart = cond->kind() == ExprKind::kLess ? b - a - 1 : b - a;
    if (!apart.IsKnown()) return WithChildren(cond, Args(cond), {});
    return scope_.CondOf(apart, cond->IsEquation());
  }

  ExprPtr Negated(const ExprPtr& cond) {
    if (cond->kind() == ExprKind::kLess) return Of((Index(cond->arg(1)) <= Index(cond->arg(0))).node());
    if (cond->kind() == ExprKind::kLessEqual) return Of((Index(cond->arg(1)) < Index(cond->arg(0))).node());
    const ExprPtr simple = Of(cond);
    if (simple != cond && (simple->kind() == ExprKind::kLess || simple->kind() == ExprKind::kLessEqual)) {
      return simple->kind() == ExprKind::kLess ? (Index(simple->arg(1)) <= Index(simple->arg(0))).node()
                                               : (Index(simple->arg(1)) < Index(simple->arg(0))).node();
    }
    return (!Cond(simple)).node();
  }

  ExprPtr OfScalar(const ExprPtr& expr) {
    if (expr->kind() == ExprKind::kReduce) return OfReduction(expr);
    if (expr->args().empty()) return expr;
    if (expr->kind() == ExprKind::kSelect) {
      const ExprPtr condition = Of(expr->condition());
      if (condition->IsTrue()) return Of(expr->yes());
      if (condition->IsFalse()) return Of(expr->no());
      const Scalar chosen = Choose(Cond(condition), Scalar(Of(expr->yes())), Scalar(Of(expr->no())));
      // Nested guards are merged.
      const bool nested = chosen.node()->kind() == ExprKind::kSelect && IsFloating(chosen.dtype()) &&
                          IsConstant(Scalar(chosen.node()->no()), 0);
      return nested ? Join(SplitGuard(chosen)).node() : chosen.node();
    }
    return WithChildren(expr, Args(expr), {});
  }

  ExprPtr OfReduction(const ExprPtr& expr) {
    const ExprPtr guard = Of(expr->guard());
    std::vector<BoundVar> bound;
    for (const BoundVar& var : expr->bound()) {
      ExprPtr extent = Of(var.extent);
      // A variable that can only be 0: its form is 0 already.
      const bool is_zero = scope_.FormOf(scope_.VariableOf(var.id)).Is(0);
      if (!is_zero) bound.push_back({var.id, var.name, std::move(extent)});
    }
    const Scalar body(Of(expr->body()));
    const bool sums = expr->reduction() == ReduceKind::kSum && IsFloating(body.dtype());
    if (sums && (IsConstant(body, 0) || guard->IsFalse())) return Constant(0, body.dtype()).node();
    if (bound.empty() && !IsPosition(expr->reduction()) && (guard->IsTrue() || sums)) {
      return Join({Conjuncts(guard), body}).node();
    }
    if (bound.empty()) bound = expr->bound();
    return ReduceOver(expr->reduction(), std::move(bound), Cond(guard), body).node();
  }

  Scope& scope_;
  const index::Substitution& substitution_;
  absl::flat_hash_map<ExprPtr, ExprPtr> done_;
};

}  // namespace

ExprPtr Scope::Simplify(const ExprPtr& expr, const index::Substitution& substitution) {
  return Simplifier(*this, substitution).Of(expr);
}

}  // namespace rewright
