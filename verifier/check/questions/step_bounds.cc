#include "verifier/check/questions/step_bounds.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "verifier/integer/give_up.h"

namespace rewright::verifier {
namespace {

constexpr int kTrials = 64;  // of one goal

IndexSum Negated(const IndexSum& p) { return PlusTimes({}, p, -1); }

IndexSum Constant(int x) { return {{{x}, 1}}; }

std::set<int> ConstantsOf(const IndexSum& p) {
  std::set<int> constants;
  for (const auto& [product, coef] : p) constants.insert(product.begin(), product.end());
  return constants;
}

bool IsNumber(const IndexSum& p) { return p.empty() || (p.size() == 1 && p.begin()->first.empty()); }

int64_t NumberOf(const IndexSum& p) { return p.empty() ? 0 : p.begin()->second; }

// p = factor x + rest, where x is a factor of no term twice and does not occur in `rest`.
struct Parts {
  bool linear = true;
  IndexSum factor, rest;
};

// The whole quotient of p by one product; nothing where it does not divide every term.
std::optional<IndexSum> Divided(const IndexSum& p, const IndexSum& den) {
  if (den.size() != 1) return std::nullopt;
  const auto& [factors, times] = *den.begin();
  IndexSum quotient;
  for (const auto& [product, coef] : p) {
    std::vector<int> others;
    std::set_difference(product.begin(), product.end(), factors.begin(), factors.end(), std::back_inserter(others));
    if (others.size() + factors.size() != product.size() || coef % times != 0) return std::nullopt;
    quotient[std::move(others)] = coef / times;
  }
  return quotient;
}

Parts PartsOf(const IndexSum& p, int x) {
  Parts parts;
  for (const auto& [product, coef] : p) {
    std::vector<int> others = product;
    const auto at = std::find(others.begin(), others.end(), x);
    if (at == others.end()) {
      parts.rest[product] = coef;
      continue;
    }
    others.erase(at);
    parts.linear = parts.linear && std::find(others.begin(), others.end(), x) == others.end();
    parts.factor[std::move(others)] = coef;
  }
  return parts;
}

}  // namespace

void StepBounds::Add(const IndexRelation& fact) {
  if (fact.equation) {
    AddEquation(Reduced(fact.p));
    return;
  }
  at_least_zero_.insert(fact.p);
  for (const int x : ConstantsOf(fact.p)) {
    const Parts parts = PartsOf(fact.p, x);
    if (!parts.linear || !IsNumber(parts.factor)) continue;
    const int64_t factor = NumberOf(parts.factor);
    if (factor == -1) bounds_[x].push_back({parts.rest, /*above=*/true});
    if (factor != 1) continue;
    if (IsNumber(parts.rest)) {
      const int64_t least = -NumberOf(parts.rest);
      const auto [place, first] = least_.emplace(x, least);
      if (!first) place->second = std::max(place->second, least);
    } else {
      bounds_[x].push_back({Negated(parts.rest), /*above=*/false});
    }
  }
}

void StepBounds::AddEquation(const IndexSum& p) {
  // The longest product leads, so that equal products become the same one.
  const std::pair<const std::vector<int>, int64_t>* lead = nullptr;
  for (const auto& term : p) {
    if (term.first.empty() || std::abs(term.second) != 1) continue;
    if (lead == nullptr || term.first.size() >= lead->first.size()) lead = &term;
  }
  if (lead == nullptr) return;
  const std::vector<int> product = lead->first;
  const IndexSum equation = lead->second == 1 ? p : Negated(p);
  for (auto& [other, sum] : equations_) {
    const auto found = sum.find(product);
    if (found != sum.end()) sum = PlusTimes(sum, equation, -found->second);
  }
  equations_[product] = equation;
}

void StepBounds::AddQuotient(int q, const IndexSum& num, const IndexSum& den) {
  const IndexSum one = {{{}, 1}};
  if (!Imply({PlusTimes(den, one, -1), false})) return;
  const bool positive = Imply({num, false});
  const IndexSum rest = PlusTimes(num, Times(den, Constant(q)), -1);
  Add({rest, false});
  Add({PlusTimes(PlusTimes(den, rest, -1), one, -1), false});
  if (positive) Add({Constant(q), false});
  int trials = kTrials;
  AddEnd(q, num, den, &trials);
}

void StepBounds::AddEnd(int q, const IndexSum& most, const IndexSum& den, int* trials) {
  if (--*trials < 0) return;
  const IndexSum one = {{{}, 1}};
  if (const std::optional<IndexSum> end = Divided(PlusTimes(most, one, 1), den)) {
    Add({PlusTimes(PlusTimes(*end, Constant(q), -1), one, -1), false});
    return;
  }
  for (const int x : ConstantsOf(most)) {
    const Parts parts = PartsOf(most, x);
    const auto found = bounds_.find(x);
    if (found == bounds_.end() || !parts.linear || !IsCovered(parts.factor)) continue;
    for (const Bound& bound : std::vector<Bound>(found->second)) {
      if (bound.above) AddEnd(q, PlusTimes(parts.rest, Times(parts.factor, bound.bound), 1), den, trials);
    }
  }
}

bool StepBounds::Imply(const IndexRelation& goal) const {
  try {
    int trials = kTrials;
    if (!goal.equation) return IsAtLeastZero(goal.p, &trials);
    return Reduced(goal.p).empty() || (IsAtLeastZero(goal.p, &trials) && IsAtLeastZero(Negated(goal.p), &trials));
  } catch (const GiveUp&) {
    return false;
  }
}

bool StepBounds::IsAtLeastZero(const IndexSum& p, int* trials) const {
  if (at_least_zero_.count(p) > 0 || IsCovered(p) || IsCovered(Reduced(p))) return true;
  if (--*trials < 0) return false;
  for (const int x : ConstantsOf(p)) {
    const auto found = bounds_.find(x);
    if (found == bounds_.end()) continue;
    const Parts parts = PartsOf(p, x);
    if (!parts.linear) continue;
    for (const Bound& bound : found->second) {
      if (!IsCovered(bound.above ? Negated(parts.factor) : parts.factor)) continue;
      const IndexSum at_bound = PlusTimes(parts.rest, Times(parts.factor, bound.bound), 1);
      if (IsAtLeastZero(at_bound, trials)) return true;
    }
  }
  return false;
}

bool StepBounds::IsCovered(const IndexSum& p) const {
  int64_t least = 0;
  for (const auto& [product, coef] : p) {
    if (!product.empty() && coef < 0) return false;
    int64_t value = coef;
    for (const int x : product) {
      const auto found = least_.find(x);
      if (found == least_.end() || found->second < 0) return false;
      if (__builtin_mul_overflow(value, found->second, &value)) return false;
    }
    if (__builtin_add_overflow(least, value, &least)) return false;
  }
  return least >= 0;
}

IndexSum StepBounds::Reduced(IndexSum p) const {
  for (const auto& [product, sum] : equations_) {
    const auto found = p.find(product);
    if (found != p.end()) p = PlusTimes(p, sum, -found->second);
  }
  return p;
}

}  // namespace rewright::verifier
