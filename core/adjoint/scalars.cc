#include "core/adjoint/scalars.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// The greatest number of factors of a product that is split: a node that occurs in several places would be repeated for
// each.
constexpr size_t kMaxFactors = 12;

bool Has(const std::vector<ExprPtr>& list, const ExprPtr& expr) {
  return std::find(list.begin(), list.end(), expr) != list.end();
}

// True for a selection of constants.
bool IsStep(const Scalar& value) {
  const ExprPtr& node = value.node();
  if (node->IsConst() || (node->IsCall(Fn::kNeg) && node->arg(0)->IsConst())) return true;
  return node->kind() == ExprKind::kSelect && IsStep(Scalar(node->yes())) && IsStep(Scalar(node->no()));
}

// True if products and sums of such numbers are exact: multiples of 2^-10 below 2^10. Other numbers stay separate
// factors, so that no order of multiplication changes their rounding.
bool IsShort(double number) { return std::fabs(number) < 1024 && std::floor(number * 1024) == number * 1024; }

void Multiply(Monomial* product, const Scalar& value) {
  const ExprPtr& node = value.node();
  if (node->IsConst() && IsShort(node->real()) && IsShort(product->coefficient * node->real())) {
    product->coefficient *= node->real();
  } else if (node->IsCall(Fn::kNeg)) {
    product->coefficient = -product->coefficient;
    Multiply(product, Scalar(node->arg(0)));
  } else if (node->IsCall(Fn::kMul) && product->above.size() < kMaxFactors) {
    Multiply(product, Scalar(node->arg(0)));
    Multiply(product, Scalar(node->arg(1)));
  } else if (node->IsCall(Fn::kDiv) && product->above.size() < kMaxFactors) {
    Multiply(product, Scalar(node->arg(0)));
    product->below.emplace_back(node->arg(1));
  } else {
    product->above.push_back(value);
  }
}

std::vector<const ExprNode*> Sorted(const std::vector<Scalar>& factors) {
  std::vector<const ExprNode*> nodes;
  for (const Scalar& factor : factors) nodes.push_back(factor.node().get());
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

struct Term {
  std::vector<ExprPtr> conditions;
  Monomial product;
};

bool SameProduct(const Monomial& a, const Monomial& b) {
  return Sorted(a.above) == Sorted(b.above) && Sorted(a.below) == Sorted(b.below);
}

bool AreOpposite(const ExprPtr& a, const ExprPtr& b) {
  if ((!Cond(a)).node() == b) return true;
  const bool less = a->kind() == ExprKind::kLess && b->kind() == ExprKind::kLessEqual;
  const bool more = a->kind() == ExprKind::kLessEqual && b->kind() == ExprKind::kLess;
  return (less || more) && a->arg(0) == b->arg(1) && a->arg(1) == b->arg(0);
}

// Returns the position of the condition in `a` whose opposite `b` has at the same position; -1 if the lists differ
// otherwise.
int ComplementAt(const std::vector<ExprPtr>& a, const std::vector<ExprPtr>& b) {
  if (a.size() != b.size()) return -1;
  int found = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (found >= 0 || !AreOpposite(a[i], b[i])) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

// True if the condition compares indices: the positions that it excludes may not be readable.
bool ComparesIndices(const ExprPtr& condition) {
  return condition->Contains(ExprKind::kLess) || condition->Contains(ExprKind::kLessEqual) ||
         condition->Contains(ExprKind::kEqual);
}

// Merges terms of one product into one, and terms under a condition and its negation into one selection.
std::vector<GuardedScalar> Merged(const std::vector<Scalar>& terms, DType dtype) {
  std::vector<Term> found;
  for (const Scalar& scalar : terms) {
    if (IsConstant(scalar, 0)) continue;
    GuardedScalar guarded = SplitGuard(scalar);
    Term term{std::move(guarded.conditions), MonomialOf(guarded.value)};
    const auto same = std::find_if(found.begin(), found.end(), [&](const Term& other) {
      return other.conditions == term.conditions && SameProduct(other.product, term.product);
    });
    if (same != found.end()) {
      same->product.coefficient += term.product.coefficient;
    } else {
      found.push_back(std::move(term));
    }
  }
  std::vector<GuardedScalar> merged;
  for (const Term& term : found) {
    if (term.product.coefficient == 0) continue;
    GuardedScalar guarded{term.conditions, ProductOf(term.product, dtype)};
    bool taken = false;
    for (GuardedScalar& other : merged) {
      const int at = ComplementAt(other.conditions, guarded.conditions);
      if (at < 0) continue;
      other.value = Choose(Cond(other.conditions[at]), other.value, guarded.value);
      other.conditions.erase(other.conditions.begin() + at);
      taken = true;
      break;
    }
    if (!taken) merged.push_back(std::move(guarded));
  }
  return merged;
}

}  // namespace

bool IsConstant(const Scalar& value, double number) {
  return value.node()->IsConst() && value.node()->real() == number;
}

Cond AllOf(const std::vector<ExprPtr>& conditions) {
  std::vector<ExprPtr> seen;
  Cond all(true);
  for (const ExprPtr& condition : conditions) {
    if (condition->IsFalse()) return Cond(false);
    if (condition->IsTrue() || Has(seen, condition)) continue;
    seen.push_back(condition);
    all = all && Cond(condition);
  }
  return all;
}

GuardedScalar SplitGuard(const Scalar& value) {
  GuardedScalar guarded{{}, value};
  while (guarded.value.node()->kind() == ExprKind::kSelect && IsConstant(Scalar(guarded.value.node()->no()), 0)) {
    const ExprPtr node = guarded.value.node();
    for (ExprPtr& part : Conjuncts(node->condition())) {
      if (!Has(guarded.conditions, part)) guarded.conditions.push_back(std::move(part));
    }
    guarded.value = Scalar(node->yes());
  }
  return guarded;
}

Scalar Join(const GuardedScalar& guarded) {
  return Choose(AllOf(guarded.conditions), guarded.value, Constant(0, guarded.value.dtype()));
}

Scalar Choose(const Cond& condition, const Scalar& yes, const Scalar& no) {
  if (condition.node()->IsTrue() || yes.node() == no.node()) return yes;
  if (condition.node()->IsFalse()) return no;
  if (condition.node()->kind() == ExprKind::kNot && !IsConstant(no, 0)) {
    return Choose(Cond(condition.node()->arg(0)), no, yes);
  }
  return Select(condition, yes, no);
}

Monomial MonomialOf(const Scalar& value) {
  Monomial product;
  Multiply(&product, value);
  return product;
}

Scalar ProductOf(const Monomial& monomial, DType dtype) {
  std::vector<Scalar> factors = monomial.above;
  std::stable_partition(factors.begin(), factors.end(), [](const Scalar& factor) { return factor.node()->IsConst(); });
  Scalar product;
  for (const Scalar& factor : factors) product = product.node() == nullptr ? factor : product * factor;
  const double size = std::fabs(monomial.coefficient);
  if (product.node() == nullptr) {
    product = Constant(size, dtype);
  } else if (size != 1) {
    product = size * product;
  }
  for (const Scalar& factor : monomial.below) product = product / factor;
  return monomial.coefficient < 0 ? -product : product;
}

Scalar Times(const Scalar& a, const Scalar& b) {
  if (IsConstant(a, 0)) return a;
  if (IsConstant(b, 0)) return b;
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const ExprPtr& node = x->node();
    if (node->kind() != ExprKind::kSelect) continue;
    if (IsConstant(Scalar(node->yes()), 0)) {
      return Join({{(!Cond(node->condition())).node()}, Times(Scalar(node->no()), *y)});
    }
    if (IsConstant(Scalar(node->no()), 0) || IsStep(*x) || IsStep(*y)) {
      return Choose(Cond(node->condition()), Times(Scalar(node->yes()), *y), Times(Scalar(node->no()), *y));
    }
  }
  Monomial product = MonomialOf(a);
  Multiply(&product, b);
  return ProductOf(product, a.dtype());
}

Scalar SumOf(const std::vector<Scalar>& terms, DType dtype) {
  std::vector<GuardedScalar> merged = Merged(terms, dtype);
  if (merged.empty()) return Constant(0, dtype);
  if (merged.size() == 1) return Join(merged[0]);
  // A sum does not begin with a subtracted term, if it has another.
  std::stable_partition(merged.begin(), merged.end(), [](const GuardedScalar& term) {
    return !term.conditions.empty() || !term.value.node()->IsCall(Fn::kNeg);
  });
  // A common condition that reads elements stays behind the conditions that guard it.
  std::vector<ExprPtr> common;
  for (const ExprPtr& condition : merged[0].conditions) {
    const auto has = [&](const GuardedScalar& term) { return Has(term.conditions, condition); };
    if (!std::all_of(merged.begin(), merged.end(), has)) {
      if (condition->ReadsData()) break;
      continue;
    }
    const bool guarded = common.size() < static_cast<size_t>(&condition - merged[0].conditions.data());
    if (!condition->ReadsData() || !guarded) common.push_back(condition);
  }
  Scalar sum;
  Cond some(false);
  bool everywhere = false, reads = false;
  for (GuardedScalar& term : merged) {
    std::erase_if(term.conditions, [&](const ExprPtr& condition) { return Has(common, condition); });
    everywhere |= term.conditions.empty();
    some = some || AllOf(term.conditions);
    reads |= std::any_of(term.conditions.begin(), term.conditions.end(), ComparesIndices);
    const bool negative = term.conditions.empty() && term.value.node()->IsCall(Fn::kNeg);
    if (sum.node() == nullptr) {
      sum = Join(term);
    } else if (negative) {
      sum = sum - Scalar(term.value.node()->arg(0));
    } else {
      sum = sum + Join(term);
    }
  }
  if (reads && !everywhere) common.push_back(some.node());
  return Join({common, sum});
}

}  // namespace rewright
