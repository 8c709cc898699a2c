// Ranges of indices and conditions of a Meaning's expressions at the sizes of one application.
#include <algorithm>

#include "core/base/integer.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"
#include "core/numerics/element_facts.h"

namespace rewright {
namespace {

// The limit on numbers of indices: products of two fit 128 bits.
constexpr int64_t kFar = INT64_C(1) << 62;

int64_t Near(__int128 number) { return number > kFar ? kFar : number < -kFar ? -kFar : static_cast<int64_t>(number); }

}  // namespace

ElementFacts::Range ElementFacts::IndexOf(int number) {
  const Part& part = parts_[number];
  const ExprNode& expr = *part.expr;
  switch (expr.kind()) {
    case ExprKind::kInt: return {expr.value(), expr.value()};
    case ExprKind::kVar: return variables_[expr.variable()];
    case ExprKind::kFromValue: {
      const Interval value = FactsOf(part.args[0]).range;
      const double far = static_cast<double>(kFar);
      return {static_cast<int64_t>(std::clamp(value.lo, -far, far)),
              static_cast<int64_t>(std::clamp(value.hi, -far, far))};
    }
    default: break;
  }
  const Range a = IndexOf(part.args[0]), b = IndexOf(part.args[1]);
  using Wide = __int128;
  switch (expr.kind()) {
    case ExprKind::kIndexAdd: return {Near(Wide(a.lo) + b.lo), Near(Wide(a.hi) + b.hi)};
    case ExprKind::kIndexSub: return {Near(Wide(a.lo) - b.hi), Near(Wide(a.hi) - b.lo)};
    case ExprKind::kIndexMul: {
      const auto corners = {Wide(a.lo) * b.lo, Wide(a.lo) * b.hi, Wide(a.hi) * b.lo, Wide(a.hi) * b.hi};
      return {Near(std::min(corners)), Near(std::max(corners))};
    }
    case ExprKind::kFloorDiv: {
      if (b.lo < 1) return {-kFar, kFar};
      const auto corners = {FloorDivide(a.lo, b.lo), FloorDivide(a.lo, b.hi), FloorDivide(a.hi, b.lo),
                            FloorDivide(a.hi, b.hi)};
      return {std::min(corners), std::max(corners)};
    }
    case ExprKind::kMod:
      if (b.lo < 1) return {-kFar, kFar};
      if (a.lo >= 0 && a.hi < b.lo) return a;
      return {0, b.hi - 1};
    case ExprKind::kIndexMin: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case ExprKind::kIndexMax: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    default: return {-kFar, kFar};
  }
}

ElementFacts::Truth ElementFacts::TruthOf(int number) {
  const Part& part = parts_[number];
  const auto decide = [](bool always, bool never) {
    return always ? Truth::kYes : never ? Truth::kNo : Truth::kEither;
  };
  switch (part.expr->kind()) {
    case ExprKind::kBool: return part.expr->truth() ? Truth::kYes : Truth::kNo;
    case ExprKind::kLess:
    case ExprKind::kLessEqual:
    case ExprKind::kEqual: {
      const Range a = IndexOf(part.args[0]), b = IndexOf(part.args[1]);
      if (part.expr->kind() == ExprKind::kLess) return decide(a.hi < b.lo, a.lo >= b.hi);
      if (part.expr->kind() == ExprKind::kLessEqual) return decide(a.hi <= b.lo, a.lo > b.hi);
      return decide(a.lo == a.hi && a == b, a.hi < b.lo || b.hi < a.lo);
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const Truth settles = part.expr->kind() == ExprKind::kAnd ? Truth::kNo : Truth::kYes;
      const Truth a = TruthOf(part.args[0]);
      if (a == settles) return a;
      const Truth b = TruthOf(part.args[1]);
      return b == settles || a == b ? b : Truth::kEither;
    }
    case ExprKind::kNot: {
      const Truth a = TruthOf(part.args[0]);
      return a == Truth::kEither ? a : a == Truth::kYes ? Truth::kNo : Truth::kYes;
    }
    case ExprKind::kHolds: {
      const Interval value = FactsOf(part.args[0]).range;
      return decide(value.lo > 0, value.hi <= 0);
    }
    default: return Truth::kEither;
  }
}

// True if every index lies where the bound variable does in whose place it stands.
bool ElementFacts::AreInside(const Places& places) {
  return std::all_of(places.begin(), places.end(), [&](const Place& place) {
    const Range index = IndexOf(place.index);
    return index.lo >= 0 && index.hi < IndexOf(place.extent).lo;
  });
}

// Returns the number of points of a reduction; bound variables get their ranges.
ElementFacts::Range ElementFacts::ExtentsOf(const Part& part) {
  Range points{1, 1};
  for (size_t i = 0; i < part.extents.size(); ++i) {
    Range extent = IndexOf(part.extents[i]);
    extent = {std::max<int64_t>(extent.lo, 0), std::max<int64_t>(extent.hi, 0)};
    const Range range{0, std::max<int64_t>(extent.hi - 1, 0)};
    Range& variable = variables_[part.expr->bound()[i].id];
    if (variable != range) {
      variable = range;
      // Returns facts of parts with the variable restricted to another range.
      for (size_t other = 0; other < parts_.size(); ++other) {
        if (parts_[other].expr->MayMention(part.expr->bound()[i].id)) memo_.known[other] = 0;
      }
    }
    points = {Near(static_cast<__int128>(points.lo) * extent.lo), Near(static_cast<__int128>(points.hi) * extent.hi)};
  }
  return points;
}

// True if a guarded reduction has a point at every position. Parts of the guard that share bound variables are tried
// together, at every value of the variables around them, where these are few.
bool ElementFacts::NeverEmpty(Part& part) {
  constexpr int64_t kMostTries = 1 << 16;
  const auto found = part.never_empty.find(bindings_->variables);
  if (found != part.never_empty.end()) return found->second;
  bool& result = part.never_empty[bindings_->variables];
  result = false;
  if (part.expr->guard()->ReadsData()) return false;
  std::vector<std::pair<std::vector<int>, std::vector<ExprPtr>>> groups;  // bound variables, conditions
  for (const ExprPtr& condition : Conjuncts(part.expr->guard())) {
    std::pair<std::vector<int>, std::vector<ExprPtr>> group{{}, {condition}};
    for (const BoundVar& variable : part.expr->bound()) {
      if (condition->MayMention(variable.id)) group.first.push_back(variable.id);
    }
    for (size_t g = 0; g < groups.size();) {
      const bool meets = std::any_of(group.first.begin(), group.first.end(), [&](int variable) {
        return std::count(groups[g].first.begin(), groups[g].first.end(), variable) > 0;
      });
      if (!meets) {
        ++g;
        continue;
      }
      for (int variable : groups[g].first) {
        if (std::count(group.first.begin(), group.first.end(), variable) == 0) group.first.push_back(variable);
      }
      group.second.insert(group.second.end(), groups[g].second.begin(), groups[g].second.end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
    }
    groups.push_back(std::move(group));
  }
  std::vector<int64_t> at = bindings_->variables;
  for (const auto& [bound, conditions] : groups) {
    std::vector<int> around;
    for (const ExprPtr& condition : conditions) {
      for (const int variable : FreeVariables(condition)) {
        const bool varies = variables_[variable].lo != variables_[variable].hi;
        if (varies && std::count(bound.begin(), bound.end(), variable) == 0 &&
            std::count(around.begin(), around.end(), variable) == 0) {
          around.push_back(variable);
        }
      }
    }
    const auto count = [&](const std::vector<int>& variables) {
      double points = 1;
      for (int variable : variables) points *= static_cast<double>(variables_[variable].hi + 1);
      return points;
    };
    if (count(around) * count(bound) > static_cast<double>(kMostTries)) return false;
    const auto first = [&](const std::vector<int>& variables) {
      for (int variable : variables) at[variable] = variables_[variable].lo;
    };
    const auto next = [&](const std::vector<int>& variables) {
      for (int variable : variables) {
        if (++at[variable] <= variables_[variable].hi) return true;
        at[variable] = variables_[variable].lo;
      }
      return false;
    };
    first(around);
    do {
      bool some = false;
      first(bound);
      do {
        some = std::all_of(conditions.begin(), conditions.end(),
                           [&](const ExprPtr& condition) { return EvalCond(condition, at).value_or(false); });
      } while (!some && next(bound));
      if (!some) return false;
    } while (next(around));
  }
  return result = true;
}

}  // namespace rewright
