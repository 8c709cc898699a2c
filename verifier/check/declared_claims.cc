#include "verifier/check/declared_claims.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/integer.h"
#include "verifier/integer/give_up.h"

namespace rewright {

using verifier::IndexSum;
using verifier::PlusTimes;
using verifier::Times;

namespace {

IndexSum Literal(int64_t value) { return value == 0 ? IndexSum() : IndexSum{{{}, value}}; }

// At least `least`.
std::string AtLeast(verifier::StepQueryBuilder& claim, const IndexSum& a, int64_t least) {
  return claim.AtLeastZero(PlusTimes(a, Literal(1), -least));
}

std::string Below(verifier::StepQueryBuilder& claim, const IndexSum& a, const IndexSum& end) {
  return AtLeast(claim, PlusTimes(end, a, -1), 1);
}

}  // namespace

DeclaredClaims::Scope DeclaredClaims::OfSymbols() const {
  Scope scope;
  scope.variables.assign(symbols_.begin(), symbols_.end());
  return scope;
}

DeclaredClaims::Scope DeclaredClaims::OfNode(int node) {
  const SymbolicNode& n = instance_.nodes[static_cast<size_t>(node)];
  const Scope symbols = OfSymbols();
  Scope scope;
  scope.node = node;
  scope.variables.resize(n.meaning->variables.size());
  for (size_t v = 0; v < n.indices.size() && v < scope.variables.size(); ++v) {
    if (n.indices[v] != nullptr) scope.variables[v] = Of(n.indices[v], symbols);
  }
  return scope;
}

std::vector<std::string> DeclaredClaims::Premises() {
  std::vector<std::string> out;
  const Scope symbols = OfSymbols();
  for (size_t s = 0; s < instance_.symbols.size(); ++s) {
    if (instance_.symbols[s].min != INT64_MIN) out.push_back(AtLeast(claim_, symbols_[s], instance_.symbols[s].min));
  }
  for (const ExprPtr& condition : instance_.conditions) Conjuncts(condition, symbols, &out);
  for (int k = 0; k < static_cast<int>(instance_.nodes.size()); ++k) {
    if (instance_.nodes[static_cast<size_t>(k)].meaning == nullptr) {
      for (const IndexSum& size : Shape({k, 0})) out.push_back(AtLeast(claim_, size, 1));
    } else if (k < instance_.num_lhs_nodes) {
      for (std::string& part : Legal(k)) out.push_back(std::move(part));
    }
  }
  return out;
}

std::vector<std::string> DeclaredClaims::Legal(int node) {
  const SymbolicNode& n = instance_.nodes[static_cast<size_t>(node)];
  std::vector<std::string> out;
  if (n.meaning == nullptr) return out;
  const Scope scope = OfNode(node);
  for (size_t v = 0; v < scope.variables.size(); ++v) {
    const Meaning::Variable& variable = n.meaning->variables[v];
    if (variable.kind != Meaning::VarKind::kAttr || variable.min == INT64_MIN || !scope.variables[v]) continue;
    out.push_back(AtLeast(claim_, *scope.variables[v], variable.min));
  }
  for (const Requirement& requirement : n.meaning->requirements) {
    const std::optional<std::string> condition = Condition(requirement.condition, scope);
    if (!condition) throw verifier::GiveUp("a requirement that elements decide");
    out.push_back(*condition);
  }
  for (const OutputMeaning& output : n.meaning->outputs) {
    for (const ExprPtr& size : output.shape) out.push_back(AtLeast(claim_, Of(size, scope), 0));
  }
  return out;
}

std::vector<IndexSum> DeclaredClaims::Shape(SymbolicValue value) {
  const SymbolicNode& n = instance_.nodes[static_cast<size_t>(value.node)];
  const auto output = static_cast<size_t>(value.output);
  const bool is_leaf = n.meaning == nullptr;
  const Scope scope = is_leaf ? OfSymbols() : OfNode(value.node);
  std::vector<IndexSum> out;
  for (const ExprPtr& size : is_leaf ? n.shapes[output] : n.meaning->outputs[output].shape) {
    out.push_back(Of(size, scope));
  }
  return out;
}

// ---------------------------------------------------------------- indices and conditions

IndexSum DeclaredClaims::Of(const ExprPtr& e, const Scope& scope) {
  const auto arg = [&](size_t i) { return Of(e->arg(i), scope); };
  switch (e->kind()) {
    case ExprKind::kInt: return Literal(e->value());
    case ExprKind::kVar: {
      const auto v = static_cast<size_t>(e->variable());
      if (v >= scope.variables.size() || !scope.variables[v]) throw verifier::GiveUp("a variable without a value");
      return *scope.variables[v];
    }
    case ExprKind::kIndexAdd: return PlusTimes(arg(0), arg(1), 1);
    case ExprKind::kIndexSub: return PlusTimes(arg(0), arg(1), -1);
    case ExprKind::kIndexMul: return Times(arg(0), arg(1));
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      const IndexSum num = arg(0), den = arg(1);
      const IndexSum quotient = Quotient(num, den);
      return e->kind() == ExprKind::kFloorDiv ? quotient : PlusTimes(num, Times(den, quotient), -1);
    }
    case ExprKind::kIndexMin: return claim_.Least(arg(0), arg(1));
    case ExprKind::kIndexMax:
      return PlusTimes({}, claim_.Least(PlusTimes({}, arg(0), -1), PlusTimes({}, arg(1), -1)), -1);
    case ExprKind::kFromValue: {
      // An integer of which nothing is known, the same for the same element.
      std::string text = absl::StrCat("element ", scope.node, " ", reinterpret_cast<uintptr_t>(e.get()));
      for (const std::optional<IndexSum>& value : scope.variables) {
        absl::StrAppend(&text, ";", value ? claim_.Text(*value) : "");
      }
      return claim_.Unknown(text);
    }
    default: break;
  }
  throw verifier::GiveUp("an index expression of an unknown kind");
}

void DeclaredClaims::UseLeastValues() {
  const verifier::Variables& ctx = claim_.context();
  for (verifier::Var v = 0; v < ctx.NumVariables(); ++v) {
    if (!ctx.IsParam(v) || !ctx.Info(v).min) continue;
    const IndexSum self = claim_.Of(verifier::Poly::Of(v), {});
    least_.emplace(self.begin()->first[0], *ctx.Info(v).min);
  }
}

IndexSum DeclaredClaims::Ranged(const IndexSum& extent, Scope& scope) {
  const IndexSum self = claim_.Fresh();
  extents_.emplace(self.begin()->first[0], extent);
  scope.path.push_back(claim_.AtLeastZero(self));
  scope.path.push_back(Below(claim_, self, extent));
  return self;
}

bool DeclaredClaims::IsNonnegative(const IndexSum& a, int depth) const {
  constexpr int kMostRanges = 20;
  if (depth > kMostRanges) return false;
  int ranged = -1;  // the constant made last, since extents mention only older ones
  for (const auto& [product, coef] : a) {
    for (int constant : product) {
      if (extents_.contains(constant)) ranged = std::max(ranged, constant);
    }
  }
  if (ranged >= 0) {
    IndexSum factor, rest;
    for (const auto& [product, coef] : a) {
      std::vector<int> others = product;
      const auto place = std::find(others.begin(), others.end(), ranged);
      if (place == others.end()) {
        rest[product] = coef;
        continue;
      }
      others.erase(place);
      if (std::find(others.begin(), others.end(), ranged) != others.end()) return false;
      factor[others] = coef;
    }
    if (IsNonnegative(factor, depth + 1)) return IsNonnegative(rest, depth + 1);
    if (!IsNonnegative(PlusTimes({}, factor, -1), depth + 1)) return false;
    const IndexSum last = PlusTimes(extents_.at(ranged), Literal(1), -1);
    return IsNonnegative(PlusTimes(rest, Times(factor, last), 1), depth + 1);
  }
  // Each constant is measured from its least value.
  IndexSum shifted;
  for (const auto& [product, coef] : a) {
    IndexSum expanded = Literal(coef);
    for (int constant : product) {
      const auto least = least_.find(constant);
      if (least == least_.end() || least->second < 0) return false;
      expanded = Times(expanded, PlusTimes({{{constant}, 1}}, Literal(1), least->second));
    }
    shifted = PlusTimes(shifted, expanded, 1);
  }
  return std::all_of(shifted.begin(), shifted.end(), [](const auto& entry) { return entry.second >= 0; });
}

IndexSum DeclaredClaims::Quotient(const IndexSum& num, const IndexSum& den) {
  if (den == Literal(1)) return num;
  if (den.size() != 1) return claim_.Quotient(num, den);
  // Multiples of the divisor are taken out.
  const auto& [factors, times] = *den.begin();
  IndexSum whole, rest;
  for (const auto& [product, coef] : num) {
    std::vector<int> others;
    std::set_difference(product.begin(), product.end(), factors.begin(), factors.end(), std::back_inserter(others));
    const bool divides = others.size() + factors.size() == product.size() && (factors.empty() || coef % times == 0);
    const int64_t multiple = divides && times > 0 ? FloorDivide(coef, times) : 0;
    if (multiple != 0) whole = PlusTimes(whole, {{others, 1}}, multiple);
    if (multiple == 0 || factors.empty()) rest = PlusTimes(rest, {{product, 1}}, coef - multiple * times);
  }
  const bool below = IsNonnegative(PlusTimes(den, Literal(1), -1)) && IsNonnegative(rest) &&
                     IsNonnegative(PlusTimes(PlusTimes(den, rest, -1), Literal(1), -1));
  return below ? whole : PlusTimes(whole, claim_.Quotient(rest, den), 1);
}

std::optional<std::string> DeclaredClaims::Condition(const ExprPtr& e, const Scope& scope) {
  const auto arg = [&](size_t i) { return Of(e->arg(i), scope); };
  switch (e->kind()) {
    case ExprKind::kBool: return e->truth() ? "true" : "false";
    case ExprKind::kLess: return Below(claim_, arg(0), arg(1));
    case ExprKind::kLessEqual: return claim_.AtLeastZero(PlusTimes(arg(1), arg(0), -1));
    case ExprKind::kEqual: return claim_.Equal(arg(0), arg(1));
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot: {
      std::string out = e->kind() == ExprKind::kAnd ? "(and" : e->kind() == ExprKind::kOr ? "(or" : "(not";
      for (const ExprPtr& part : e->args()) {
        const std::optional<std::string> text = Condition(part, scope);
        if (!text) return std::nullopt;
        absl::StrAppend(&out, " ", *text);
      }
      return out + ")";
    }
    default: return std::nullopt;
  }
}

void DeclaredClaims::Conjuncts(const ExprPtr& e, const Scope& scope, std::vector<std::string>* out) {
  if (e->kind() == ExprKind::kAnd) {
    for (const ExprPtr& part : e->args()) Conjuncts(part, scope, out);
  } else if (std::optional<std::string> text = Condition(e, scope)) {
    out->push_back(*std::move(text));
  }
}

// ---------------------------------------------------------------- reads

std::vector<DeclaredClaims::Obligation> DeclaredClaims::Reads(int node) {
  const SymbolicNode& n = instance_.nodes[static_cast<size_t>(node)];
  std::vector<Obligation> out;
  if (n.meaning == nullptr) return out;
  for (const OutputMeaning& output : n.meaning->outputs) {
    Scope scope = OfNode(node);
    scope.reads = &out;
    for (size_t k = 0; k < output.shape.size(); ++k) {
      Visit(output.shape[k], scope);
      const IndexSum at = Ranged(Of(output.shape[k], scope), scope);
      scope.variables[static_cast<size_t>(output.index_vars[k])] = at;
    }
    Visit(output.element, scope);
  }
  return out;
}

void DeclaredClaims::Require(const Scope& scope, const std::string& what, std::vector<std::string> goals) {
  scope.reads->push_back({what, scope.path, std::move(goals)});
}

void DeclaredClaims::Visit(const ExprPtr& e, Scope& scope) {
  const size_t outside = scope.path.size();
  switch (e->kind()) {
    case ExprKind::kAnd:
      Visit(e->arg(0), scope);
      Conjuncts(e->arg(0), scope, &scope.path);
      Visit(e->arg(1), scope);
      scope.path.resize(outside);
      return;
    case ExprKind::kSelect: {
      Visit(e->condition(), scope);
      Conjuncts(e->condition(), scope, &scope.path);
      Visit(e->yes(), scope);
      scope.path.resize(outside);
      if (const auto condition = Condition(e->condition(), scope)) {
        scope.path.push_back(absl::StrCat("(not ", *condition, ")"));
      }
      Visit(e->no(), scope);
      scope.path.resize(outside);
      return;
    }
    case ExprKind::kReduce: {
      std::vector<std::pair<size_t, IndexSum>> ranges;
      for (const BoundVar& b : e->bound()) {
        Visit(b.extent, scope);
        ranges.emplace_back(b.id, Of(b.extent, scope));
      }
      for (const auto& [v, extent] : ranges) scope.variables[v] = Ranged(extent, scope);
      Visit(e->guard(), scope);
      Conjuncts(e->guard(), scope, &scope.path);
      Visit(e->body(), scope);
      scope.path.resize(outside);
      return;
    }
    default: break;
  }
  for (const ExprPtr& part : e->args()) Visit(part, scope);
  if (e->kind() == ExprKind::kFloorDiv || e->kind() == ExprKind::kMod) {
    Require(scope, "a divisor is positive", {AtLeast(claim_, Of(e->arg(1), scope), 1)});
  }
  if (e->kind() != ExprKind::kRead) return;
  const SymbolicNode& n = instance_.nodes[static_cast<size_t>(scope.node)];
  const std::vector<IndexSum> sizes = Shape(n.inputs[static_cast<size_t>(e->operand())]);
  std::vector<std::string> goals;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const IndexSum at = Of(e->arg(axis), scope);
    goals.push_back(claim_.AtLeastZero(at));
    goals.push_back(Below(claim_, at, sizes[axis]));
  }
  Require(scope, absl::StrCat("in bounds: ", PrintExpr(e, {})), std::move(goals));
}

}  // namespace rewright
