#include "core/ir/rewrite.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/check.h"

namespace rewright {
namespace {

template <typename F>
void ForEachChild(const ExprNode& node, const F& f) {
  for (const ExprPtr& arg : node.args()) f(arg);
  for (const BoundVar& var : node.bound()) f(var.extent);
}

using Seen = absl::flat_hash_set<const ExprNode*>;

void VisitNew(const ExprPtr& expr, Seen* seen, absl::FunctionRef<void(const ExprPtr&)> visit) {
  if (!seen->insert(expr.get()).second) return;
  ForEachChild(*expr, [&](const ExprPtr& child) { VisitNew(child, seen, visit); });
  visit(expr);
}

bool AnyOfNew(const ExprNode& node, Seen* seen, absl::FunctionRef<bool(const ExprNode&)> predicate) {
  if (!seen->insert(&node).second) return false;
  if (predicate(node)) return true;
  bool found = false;
  ForEachChild(node, [&](const ExprPtr& child) { found = found || AnyOfNew(*child, seen, predicate); });
  return found;
}

// Collects free variables of one scope; a reduction begins a scope of its own, which is known after its first visit.
class FreeCollector {
 public:
  using Known = absl::flat_hash_map<const ExprNode*, std::set<int>>;
  explicit FreeCollector(Known* known) : known_(known) {}

  void Visit(const ExprNode& node) {
    if (!seen_.insert(&node).second) return;
    if (node.IsVariable()) free_.insert(node.variable());
    for (const BoundVar& var : node.bound()) Visit(*var.extent);
    if (node.kind() == ExprKind::kReduce) {
      const std::set<int>& inside = InReduction(node);
      free_.insert(inside.begin(), inside.end());
    } else {
      for (const ExprPtr& arg : node.args()) Visit(*arg);
    }
  }
  const std::set<int>& free() const { return free_; }

 private:
  // Returns what is free in guard and body together, apart from what the reduction binds.
  const std::set<int>& InReduction(const ExprNode& node) {
    if (const auto found = known_->find(&node); found != known_->end()) return found->second;
    FreeCollector inside(known_);
    for (const ExprPtr& arg : node.args()) inside.Visit(*arg);
    for (const BoundVar& var : node.bound()) inside.free_.erase(var.id);
    return (*known_)[&node] = std::move(inside.free_);
  }

  Known* known_;
  Seen seen_;
  std::set<int> free_;
};

class Rewriter {
 public:
  explicit Rewriter(absl::FunctionRef<ExprPtr(const ExprPtr&)> replace) : replace_(replace) {}

  ExprPtr Of(const ExprPtr& expr) {
    if (const auto found = done_.find(expr.get()); found != done_.end()) return found->second;
    bool changed = false;
    const auto child = [&](const ExprPtr& old) {
      ExprPtr replaced = Of(old);
      changed |= replaced != old;
      return replaced;
    };
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(child(arg));
    std::vector<BoundVar> bound = expr->bound();
    for (BoundVar& var : bound) var.extent = child(var.extent);
    ExprPtr result = replace_(changed ? WithChildren(expr, std::move(args), std::move(bound)) : expr);
    return done_[expr.get()] = std::move(result);
  }

 private:
  absl::FunctionRef<ExprPtr(const ExprPtr&)> replace_;
  absl::flat_hash_map<const ExprNode*, ExprPtr> done_;
};

const ExprPtr* At(const std::vector<ExprPtr>& list, int id) {
  return static_cast<size_t>(id) < list.size() && list[id] != nullptr ? &list[id] : nullptr;
}

// A substitution in one scope. A reduction that binds a replaced variable, or one that a replacement mentions, begins a
// new scope.
class Substituter {
 public:
  // The caller keeps both lists alive.
  Substituter(const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params, FreshVariable fresh)
      : variables_(variables), params_(params), fresh_(fresh) {
    uint64_t residues = 0;
    for (size_t id = 0; id < variables_.size(); ++id) {
      const uint64_t residue = uint64_t{1} << (id % 64);
      if (variables_[id] != nullptr && (residues & residue) == 0) replaced_.push_back(static_cast<int>(id));
      if (variables_[id] != nullptr) residues |= residue;
    }
  }

  ExprPtr Of(const ExprPtr& expr) {
    if (expr->IsVariable()) {
      const ExprPtr* value = At(variables_, expr->variable());
      return value != nullptr ? *value : expr;
    }
    if (expr->kind() == ExprKind::kParam) {
      const ExprPtr* value = At(params_, expr->param());
      return value != nullptr ? *value : expr;
    }
    if (expr->args().empty() || !Concerns(*expr)) return expr;
    if (const auto found = done_.find(expr.get()); found != done_.end()) return found->second;
    ExprPtr result = expr->kind() == ExprKind::kReduce ? OfReduction(expr) : OfOther(expr);
    return done_[expr.get()] = std::move(result);
  }

 private:
  bool Concerns(const ExprNode& node) const {
    return (!params_.empty() && node.Contains(ExprKind::kParam)) ||
           std::any_of(replaced_.begin(), replaced_.end(), [&](int id) { return node.MayMention(id); });
  }

  ExprPtr OfOther(const ExprPtr& expr) {
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(Of(arg));
    return args == expr->args() ? expr : WithChildren(expr, std::move(args), {});
  }

  // Returns the variables of the replacements that occur free in `expr`.
  std::set<int> PutIn(const ExprPtr& expr) const {
    std::set<int> mentioned;
    const std::vector<int> free = FreeVariables(expr);
    for (int id : free) {
      const ExprPtr* value = At(variables_, id);
      if (value == nullptr) continue;
      const std::vector<int> inside = FreeVariables(*value);
      mentioned.insert(inside.begin(), inside.end());
    }
    if (expr->Contains(ExprKind::kParam)) {
      for (const ExprPtr& value : params_) {
        if (value == nullptr) continue;
        const std::vector<int> inside = FreeVariables(value);
        mentioned.insert(inside.begin(), inside.end());
      }
    }
    return mentioned;
  }

  ExprPtr OfReduction(const ExprPtr& expr) {
    std::vector<BoundVar> bound = expr->bound();
    for (BoundVar& var : bound) var.extent = Of(var.extent);
    const std::set<int> mentioned = PutIn(expr);
    std::vector<ExprPtr> inner = variables_;
    bool same_scope = true;
    for (BoundVar& var : bound) {
      const bool captures = mentioned.contains(var.id);
      if (!captures && At(inner, var.id) == nullptr) continue;
      same_scope = false;
      const int old = var.id;
      if (captures) var.id = fresh_(var.name);
      if (inner.size() <= static_cast<size_t>(old)) inner.resize(static_cast<size_t>(old) + 1);
      inner[old] = captures ? Variable(var.id, var.name).node() : nullptr;
    }
    std::optional<Substituter> scope;
    if (!same_scope) scope.emplace(inner, params_, fresh_);
    Substituter& inside = same_scope ? *this : *scope;
    std::vector<ExprPtr> args = {inside.Of(expr->guard()), inside.Of(expr->body())};
    if (args == expr->args() && bound == expr->bound()) return expr;
    return WithChildren(expr, std::move(args), std::move(bound));
  }

  const std::vector<ExprPtr>& variables_;
  std::vector<int> replaced_;  // one variable of each residue modulo 64: MayMention tells no more of them
  const std::vector<ExprPtr>& params_;
  FreshVariable fresh_;
  absl::flat_hash_map<const ExprNode*, ExprPtr> done_;
};

int GreatestVariable(const std::vector<ExprPtr>& list) {
  int greatest = -1;
  for (const ExprPtr& expr : list) {
    if (expr != nullptr) greatest = std::max(greatest, expr->greatest_variable());
  }
  return greatest;
}

// Returns a producer's element in the reader's numbering, at the indices of one read. The new numbers of its bound
// variables occur nowhere else in the reader, so nothing is captured.
class Inliner {
 public:
  Inliner(const ElementFunction& producer, const absl::flat_hash_map<int, int>& numbers,
          const std::vector<ExprPtr>& indices)
      : producer_(producer), numbers_(numbers), indices_(indices) {}

  ExprPtr Of(const ExprPtr& expr) {
    if (const auto found = done_.find(expr.get()); found != done_.end()) return found->second;
    return done_[expr.get()] = New(expr);
  }

 private:
  ExprPtr New(const ExprPtr& expr) {
    if (expr->IsVariable()) return OfVariable(*expr);
    if (expr->kind() == ExprKind::kParam) {
      const ExprPtr* value = At(producer_.params, expr->param());
      CHECK(value != nullptr) << "nothing is given for the parameter " << expr->name();
      return *value;
    }
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(Of(arg));
    if (expr->kind() == ExprKind::kRead) {
      const std::vector<Index> at(args.begin(), args.end());
      return ReadOperand(producer_.operands.at(expr->operand()), at, expr->dtype()).node();
    }
    std::vector<BoundVar> bound = expr->bound();
    for (BoundVar& var : bound) {
      var.extent = Of(var.extent);
      var.id = numbers_.at(var.id);
    }
    return WithChildren(expr, std::move(args), std::move(bound));
  }

  ExprPtr OfVariable(const ExprNode& variable) const {
    const int id = variable.variable();
    const auto position = std::find(producer_.position.begin(), producer_.position.end(), id);
    if (position != producer_.position.end()) return indices_.at(position - producer_.position.begin());
    if (const auto found = numbers_.find(id); found != numbers_.end()) {
      return Variable(found->second, variable.name()).node();
    }
    const ExprPtr* value = At(producer_.variables, id);
    CHECK(value != nullptr) << "nothing is given for the variable " << variable.name();
    return *value;
  }

  const ElementFunction& producer_;
  const absl::flat_hash_map<int, int>& numbers_;
  const std::vector<ExprPtr>& indices_;
  absl::flat_hash_map<const ExprNode*, ExprPtr> done_;
};

}  // namespace

void Visit(const ExprPtr& expr, absl::FunctionRef<void(const ExprPtr&)> visit) {
  Seen seen;
  VisitNew(expr, &seen, visit);
}

bool AnyOf(const ExprPtr& expr, absl::FunctionRef<bool(const ExprNode&)> predicate) {
  Seen seen;
  return AnyOfNew(*expr, &seen, predicate);
}

std::vector<int> FreeVariables(const ExprPtr& expr) {
  FreeCollector::Known known;
  FreeCollector collector(&known);
  collector.Visit(*expr);
  return {collector.free().begin(), collector.free().end()};
}

std::vector<ExprPtr> Conjuncts(const ExprPtr& condition) {
  if (condition->kind() != ExprKind::kAnd) return {condition};
  std::vector<ExprPtr> all = Conjuncts(condition->arg(0));
  for (ExprPtr& part : Conjuncts(condition->arg(1))) all.push_back(std::move(part));
  return all;
}

ExprPtr RewriteExpr(const ExprPtr& expr, absl::FunctionRef<ExprPtr(const ExprPtr&)> replace) {
  return Rewriter(replace).Of(expr);
}

ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params,
                   FreshVariable fresh) {
  return Substituter(variables, params, fresh).Of(expr);
}

ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& variables, const std::vector<ExprPtr>& params) {
  int last = std::max({expr->greatest_variable(), GreatestVariable(variables), GreatestVariable(params)});
  return Substitute(expr, variables, params, [&last](const std::string&) { return ++last; });
}

ExprPtr Inline(const ExprPtr& expr, int operand, const ElementFunction& producer, FreshVariable fresh) {
  CHECK(!expr->Contains(ExprKind::kOpaque) && !producer.element->Contains(ExprKind::kOpaque)) << "an opaque element";
  absl::flat_hash_map<int, int> numbers;
  Visit(producer.element, [&](const ExprPtr& node) {
    for (const BoundVar& var : node->bound()) {
      if (const auto [at, is_new] = numbers.try_emplace(var.id, 0); is_new) at->second = fresh(var.name);
    }
  });
  return RewriteExpr(expr, [&](const ExprPtr& node) {
    const bool reads = node->kind() == ExprKind::kRead && node->operand() == operand;
    return reads ? Inliner(producer, numbers, node->args()).Of(producer.element) : node;
  });
}

}  // namespace rewright
