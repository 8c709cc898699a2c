#include "core/numerics/element_facts.h"

#include <algorithm>
#include <cmath>

#include "core/index/range.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

bool IsDifference(const ExprNode& expr) { return expr.IsCall(Fn::kSub); }

bool IsExtremum(const ExprNode& expr, ReduceKind kind) {
  return expr.kind() == ExprKind::kReduce && expr.reduction() == kind && expr.guard()->IsTrue();
}

}  // namespace

ElementFacts::ElementFacts(std::shared_ptr<const Meaning> meaning) : meaning_(std::move(meaning)) {
  for (const OutputMeaning& output : meaning_->outputs) {
    roots_.push_back(output.element == nullptr ? -1 : Add(output.element));
  }
  for (Part& part : parts_) {
    if (IsDifference(*part.expr)) NoteExtremum(&part);
  }
  for (Part& part : parts_) {
    if (IsExtremum(*part.expr, ReduceKind::kSum)) NotePeaks(&part);
  }
}

int ElementFacts::Add(const ExprPtr& expr) {
  Visit(expr, [&](const ExprPtr& node) {
    if (numbers_.contains(node.get())) return;
    Part part;
    part.expr = node.get();
    for (const ExprPtr& arg : node->args()) part.args.push_back(numbers_.at(arg.get()));
    for (const BoundVar& variable : node->bound()) part.extents.push_back(numbers_.at(variable.extent.get()));
    numbers_.emplace(node.get(), static_cast<int>(parts_.size()));
    parts_.push_back(std::move(part));
  });
  return numbers_.at(expr.get());
}

// True if `target` is `pattern` with indices in the places of the bound variables, which `at` gets by number of
// `bound`.
bool ElementFacts::Matches(const ExprPtr& pattern, const ExprPtr& target, const std::vector<Bound>& bound,
                           std::vector<int>* at) const {
  if (pattern->IsVariable()) {
    for (size_t i = 0; i < bound.size(); ++i) {
      if (bound[i].variable != pattern->variable()) continue;
      const auto found = numbers_.find(target.get());
      if (found == numbers_.end() || !IsIndexKind(target->kind())) return false;
      if ((*at)[i] < 0) (*at)[i] = found->second;
      return (*at)[i] == found->second;
    }
    return pattern == target;
  }
  const bool mentions = std::any_of(bound.begin(), bound.end(),
                                    [&](const Bound& variable) { return pattern->MayMention(variable.variable); });
  if (!mentions) return pattern == target;
  if (pattern->kind() != target->kind() || pattern->args().size() != target->args().size() ||
      pattern->bound() != target->bound() || pattern->dtype() != target->dtype() ||
      pattern->Label() != target->Label()) {
    return false;
  }
  for (size_t i = 0; i < pattern->args().size(); ++i) {
    if (!Matches(pattern->arg(i), target->arg(i), bound, at)) return false;
  }
  return true;
}

bool ElementFacts::PlacesOf(int pattern, int target, const std::vector<Bound>& bound, Places* places) const {
  std::vector<int> at(bound.size(), -1);
  const auto shared = [](const ExprNode* node) { return node->shared_from_this(); };
  if (!Matches(shared(parts_[pattern].expr), shared(parts_[target].expr), bound, &at)) return false;
  places->clear();
  for (size_t i = 0; i < bound.size(); ++i) {
    if (at[i] >= 0) places->push_back({bound[i].extent, at[i]});
  }
  return true;
}

void ElementFacts::NoteExtremum(Part* part) {
  for (const int element : {0, 1}) {
    const Part& other = parts_[part->args[1 - element]];
    for (const ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
      if (!IsExtremum(*other.expr, kind)) continue;
      std::vector<Bound> bound;
      for (size_t i = 0; i < other.extents.size(); ++i) bound.push_back({other.expr->bound()[i].id, other.extents[i]});
      if (!PlacesOf(other.args[1], part->args[element], bound, &part->places)) continue;
      part->extremum = (element == 0) == (kind == ReduceKind::kMax) ? -1 : 1;
      part->extremum_arg = 1 - element;
      return;
    }
  }
}

// True if the terms of a sum over `summed` run through all elements of which the difference has the extremum.
bool ElementFacts::IsPeakOf(const Part& difference, const std::vector<BoundVar>& summed) const {
  const ExprNode& extremum = *parts_[difference.args[difference.extremum_arg]].expr;
  std::vector<int> used;
  for (const Place& place : difference.places) {
    const ExprNode& index = *parts_[place.index].expr;
    const auto variable = std::find_if(summed.begin(), summed.end(), [&](const BoundVar& one) {
      return index.IsVariable(one.id) && one.extent.get() == parts_[place.extent].expr;
    });
    if (variable == summed.end() || std::count(used.begin(), used.end(), variable->id) > 0) return false;
    used.push_back(variable->id);
  }
  // The extremum is one number for all terms.
  return used.size() == extremum.bound().size() &&
         std::none_of(summed.begin(), summed.end(), [&](const BoundVar& one) { return extremum.MayMention(one.id); });
}

void ElementFacts::NotePeaks(Part* part) {
  Visit(part->expr->body(), [&](const ExprPtr& node) {
    const int number = numbers_.at(node.get());
    if (parts_[number].extremum != 0 && IsPeakOf(parts_[number], part->expr->bound())) part->peaks.push_back(number);
  });
}

std::vector<Facts> ElementFacts::Of(const Bindings& bindings, const std::vector<const Facts*>& operands,
                                    const std::vector<TensorType>& outputs) {
  bindings_ = &bindings;
  operands_ = &operands;
  variables_.resize(meaning_->variables.size());
  for (size_t v = 0; v < variables_.size(); ++v) variables_[v] = {bindings.variables[v], bindings.variables[v]};
  memo_.facts.resize(parts_.size());
  memo_.known.assign(parts_.size(), 0);
  std::vector<Facts> result;
  for (size_t o = 0; o < meaning_->outputs.size(); ++o) {
    const OutputMeaning& output = meaning_->outputs[o];
    if (roots_[o] < 0) {  // opaque
      result.push_back(Facts::Unknown(outputs[o].dtype));
      if (IsFloating(outputs[o].dtype)) result.back().may_be_undefined = result.back().may_be_infinite = true;
      result.back().rounds = result.back().rounded = true;
      continue;
    }
    bool varies = false;
    for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
      const Range range{0, std::max<int64_t>(outputs[o].shape[axis] - 1, 0)};
      Range& variable = variables_[output.index_vars[axis]];
      varies = varies || variable != range;
      variable = range;
    }
    if (o > 0 && varies) memo_.known.assign(parts_.size(), 0);
    result.push_back(FactsOf(roots_[o]));
    Round(output.dtype, &result.back());
  }
  return result;
}

const Facts& ElementFacts::FactsOf(int part) {
  if (!memo_.known[part]) {
    Facts facts = Compute(part);
    memo_.facts[part] = std::move(facts);
    memo_.known[part] = 1;
  }
  return memo_.facts[part];
}

Facts ElementFacts::Compute(int number) {
  Part& part = parts_[number];
  const ExprNode& expr = *part.expr;
  switch (expr.kind()) {
    case ExprKind::kConst:
    case ExprKind::kParam: {
      Facts facts = Facts::Of(expr.IsConst() ? expr.real() : bindings_->params[expr.param()]);
      Round(ComputedDType(expr.dtype()), &facts);
      return facts;
    }
    case ExprKind::kFromIndex: {
      const Range index = IndexOf(part.args[0]);
      Facts facts;
      facts.range = {static_cast<double>(index.low), static_cast<double>(index.high)};
      facts.integral = true;
      Round(ComputedDType(expr.dtype()), &facts);
      return facts;
    }
    case ExprKind::kRead: {
      Facts facts = *(*operands_)[expr.operand()];
      facts.rounds = false;
      return facts;
    }
    case ExprKind::kCast: return CastFacts(parts_[part.args[0]].expr->dtype(), expr.dtype(), FactsOf(part.args[0]));
    case ExprKind::kCall: return ComputeCall(part);
    case ExprKind::kSelect: return ComputeSelect(part);
    case ExprKind::kReduce: return ComputeReduction(part);
    default: {
      Facts facts = Facts::Unknown(expr.dtype());
      facts.may_be_undefined = facts.may_be_infinite = IsFloating(expr.dtype());
      facts.rounds = facts.rounded = true;
      return facts;
    }
  }
}

Facts ElementFacts::ComputeCall(const Part& part) {
  const ExprNode& expr = *part.expr;
  const Facts a = FactsOf(part.args[0]);
  const DType dtype = parts_[part.args[0]].expr->dtype();
  if (part.args.size() == 1) return CallFacts(expr.fn(), dtype, a, a);
  const bool same = part.args[0] == part.args[1];
  if (same && expr.fn() == Fn::kMul && IsFloating(dtype)) return SquareFacts(dtype, a);
  const Facts b = FactsOf(part.args[1]);
  Facts facts = CallFacts(expr.fn(), dtype, a, b);
  if (!IsFloating(dtype)) return facts;
  if (expr.fn() == Fn::kSub) {
    if (same) facts.range = Interval::Of(0);
    if (part.extremum != 0 && AreInside(part.places)) {
      facts.range = Intersect(facts.range, part.extremum < 0 ? Interval{-kUnbounded, 0} : Interval{0, kUnbounded});
    }
  } else if (expr.fn() == Fn::kDiv) {
    if (same) {
      facts.range = Interval::Of(1);
      if (!a.may_be_infinite) facts.may_be_infinite = false;
    }
    BoundQuotient(part.args[0], part.args[1], Facts::Of(1), &facts);
  } else if (expr.fn() == Fn::kMul) {
    for (const int side : {0, 1}) {
      const Part& quotient = parts_[part.args[side]];
      if (quotient.expr->IsCall(Fn::kDiv)) {
        BoundQuotient(part.args[1 - side], quotient.args[1], FactsOf(quotient.args[0]), &facts);
      }
    }
  }
  Tighten(&facts);
  return facts;
}

// Bounds factor * numerator / divisor by the form of the divisor.
void ElementFacts::BoundQuotient(int numerator, int divisor, const Facts& factor, Facts* facts) {
  std::vector<Bound> bound;
  const double c = Dominates(divisor, numerator, 1, &bound);
  if (!(c > 0)) return;
  const double most = 1 / c == 1 ? 1 : 1 / c * (1 + 0x1p-50);
  facts->range = Intersect(facts->range, factor.range * Interval{-most, most});
  // The numerator is 0 wherever the divisor is 0.
  if (!FactsOf(numerator).may_be_infinite && !FactsOf(divisor).may_be_infinite && !factor.may_be_infinite) {
    facts->may_be_infinite = false;
  }
}

// Returns the largest c that is found with part >= c * |numerator|^power, at every position; 0: none. Inside reductions
// with variables `bound`, the bound holds for the term at which the part is about the numerator.
double ElementFacts::Dominates(int number, int numerator, int power, std::vector<Bound>* bound) {
  const Part& part = parts_[number];
  const ExprNode& expr = *part.expr;
  // True if the size of `candidate` is that of the numerator.
  const auto is_numerator = [&](int candidate) {
    Places places;
    for (const int one : {candidate, parts_[candidate].expr->IsCall(Fn::kAbs) ? parts_[candidate].args[0] : -1}) {
      if (one < 0) continue;
      if (PlacesOf(one, numerator, *bound, &places) && AreInside(places)) return true;
      if (parts_[numerator].expr->IsCall(Fn::kAbs) && PlacesOf(one, parts_[numerator].args[0], *bound, &places) &&
          AreInside(places)) {
        return true;
      }
    }
    return false;
  };
  if (power == 1 && FactsOf(number).IsNonnegative() && is_numerator(number)) return 1;
  if (expr.kind() == ExprKind::kCast && IsFloating(parts_[part.args[0]].expr->dtype()) && IsFloating(expr.dtype())) {
    return Dominates(part.args[0], numerator, power, bound);
  }
  if (expr.kind() == ExprKind::kReduce && expr.guard()->IsTrue()) {
    const bool sum = expr.reduction() == ReduceKind::kSum;
    if (!sum && expr.reduction() != ReduceKind::kMax) return 0;
    ExtentsOf(part);
    if (sum && !FactsOf(part.args[1]).IsNonnegative()) return 0;
    const size_t outer = bound->size();
    for (size_t i = 0; i < part.extents.size(); ++i) bound->push_back({expr.bound()[i].id, part.extents[i]});
    const double c = Dominates(part.args[1], numerator, power, bound);
    bound->resize(outer);
    return c;
  }
  if (expr.kind() != ExprKind::kCall) return 0;
  const auto of = [&](int side) { return Dominates(part.args[side], numerator, power, bound); };
  switch (expr.fn()) {
    case Fn::kSqrt:
      return power > 2 ? 0 : std::sqrt(Dominates(part.args[0], numerator, 2 * power, bound)) * (1 - 0x1p-50);
    case Fn::kAdd:
      return std::max(FactsOf(part.args[1]).IsNonnegative() ? of(0) : 0,
                      FactsOf(part.args[0]).IsNonnegative() ? of(1) : 0);
    case Fn::kMax: return std::max(of(0), of(1));
    case Fn::kMul: {
      if (part.args[0] == part.args[1]) return power == 2 && is_numerator(part.args[0]) ? 1 : 0;
      double c = 0;
      for (const int side : {0, 1}) {
        const Interval factor = FactsOf(part.args[1 - side]).range;
        if (factor.lo > 0) c = std::max(c, factor.lo * of(side));
      }
      return c * (1 - 0x1p-50);
    }
    case Fn::kDiv: {
      const Interval factor = FactsOf(part.args[1]).range;
      return factor.lo > 0 ? of(0) / factor.hi * (1 - 0x1p-50) : 0;
    }
    case Fn::kPow:
      return power == 2 && FactsOf(part.args[1]).range == Interval::Of(2) && is_numerator(part.args[0]) ? 1 : 0;
    default: return 0;
  }
}

// Adds the facts about the compared elements that follow from the condition or its negation.
void ElementFacts::TellCondition(int number, bool holds, std::vector<Told>* told) {
  const Part& part = parts_[number];
  const ExprNode& expr = *part.expr;
  if (expr.kind() == ExprKind::kNot || expr.IsCall(Fn::kNot)) {
    return TellCondition(part.args[0], !holds, told);
  }
  if (expr.kind() == ExprKind::kHolds) return TellCondition(part.args[0], holds, told);
  const bool both = expr.kind() == ExprKind::kAnd || expr.IsCall(Fn::kAnd);
  const bool either = expr.kind() == ExprKind::kOr || expr.IsCall(Fn::kOr);
  if ((both && holds) || (either && !holds)) {
    for (const int arg : part.args) TellCondition(arg, holds, told);
    return;
  }
  if (!expr.IsCall() || !FnHas(expr.fn(), FnTrait::kCompares)) return;
  const int a = part.args[0], b = part.args[1];
  const auto tell = [&](int number, Interval within, bool nonzero) {
    const ExprKind kind = parts_[number].expr->kind();
    if (kind == ExprKind::kConst || kind == ExprKind::kParam) return;
    Facts facts = FactsOf(number);
    facts.range = Intersect(facts.range, within);
    facts.nonzero = facts.nonzero || nonzero;
    Tighten(&facts);
    told->push_back({number, facts});
  };
  const Interval of_a = FactsOf(a).range, of_b = FactsOf(b).range;
  if (expr.fn() == Fn::kEqual) {
    if (!holds) {
      if (of_b == Interval::Of(0)) tell(a, {}, true);
      if (of_a == Interval::Of(0)) tell(b, {}, true);
      return;
    }
    tell(a, of_b, false);
    tell(b, of_a, false);
    return;
  }
  // Less and less_equal: the negation is the other one with operands exchanged.
  const bool strict = (expr.fn() == Fn::kLess) == holds;
  const int lesser = holds ? a : b, greater = holds ? b : a;
  const Interval of_lesser = holds ? of_a : of_b, of_greater = holds ? of_b : of_a;
  tell(lesser, {-kUnbounded, of_greater.hi}, strict && of_greater.hi <= 0);
  tell(greater, {of_lesser.lo, kUnbounded}, strict && of_lesser.lo >= 0);
}

Facts ElementFacts::FactsWhere(int part, const std::vector<Told>& told) {
  const bool occurs = std::any_of(told.begin(), told.end(), [&](const Told& one) { return one.part <= part; });
  if (!occurs) return FactsOf(part);
  Memo memo{std::vector<Facts>(parts_.size()), std::vector<char>(parts_.size(), 0)};
  for (const Told& one : told) {
    memo.facts[one.part] = one.facts;
    memo.known[one.part] = 1;
  }
  std::swap(memo, memo_);
  Facts facts = FactsOf(part);
  std::swap(memo, memo_);
  return facts;
}

Facts ElementFacts::ComputeSelect(const Part& part) {
  const Truth truth = TruthOf(part.args[0]);
  const auto side = [&](bool holds) {
    std::vector<Told> told;
    if (part.expr->condition()->ReadsData()) TellCondition(part.args[0], holds, &told);
    return FactsWhere(part.args[holds ? 1 : 2], told);
  };
  if (truth == Truth::kYes) return side(true);
  if (truth == Truth::kNo) return side(false);
  Facts facts = Join(side(true), side(false));
  // A condition that rounding may change can select another number, even among exact ones.
  if (part.expr->condition()->ReadsData()) {
    Visit(part.expr->condition(), [&](const ExprPtr& node) {
      if (node->kind() != ExprKind::kHolds) return;
      const Facts& condition = FactsOf(numbers_.at(node->arg(0).get()));
      facts.rounds = facts.rounds || condition.rounds;
      facts.rounded = facts.rounded || condition.rounded;
    });
  }
  Tighten(&facts);
  return facts;
}

Facts ElementFacts::ComputeReduction(Part& part) {
  const ExprNode& expr = *part.expr;
  const Range points = ExtentsOf(part);
  const double most = static_cast<double>(points.high);
  const bool whole = expr.guard()->IsTrue();
  const double fewest = whole ? static_cast<double>(points.low) : 0;
  const Facts body = FactsOf(part.args[1]);
  const DType dtype = expr.body()->dtype();
  switch (expr.reduction()) {
    case ReduceKind::kSum: {
      Facts facts = SumFacts(dtype, body, fewest, most);
      if (!IsFloating(dtype) || fewest < 1 || !std::isfinite(body.range.lo)) return facts;
      for (const int peak : part.peaks) {
        if (!AreInside(parts_[peak].places)) continue;
        Facts zero = FactsOf(peak);
        zero.range = Interval::Of(0);
        zero.nonzero = false;
        zero.smallest = 0;
        const Interval rest = SumOf(body.range, fewest - 1, most - 1);
        facts.range.lo = std::max(facts.range.lo, (FactsWhere(part.args[1], {{peak, zero}}).range + rest).lo);
      }
      Tighten(&facts);
      return facts;
    }
    case ReduceKind::kProd: return ProductFacts(dtype, body, fewest, most);
    case ReduceKind::kMax:
    case ReduceKind::kMin: {
      if (fewest >= 1 || (!whole && points.low >= 1 && NeverEmpty(part))) return body;
      Facts facts = Join(body, Facts::Of(expr.reduction() == ReduceKind::kMax ? -kUnbounded : kUnbounded));
      facts.range = Hull(body.range, facts.range);
      return facts;
    }
    default: {  // positions
      Facts facts;
      facts.range = {0, std::max(most - 1, 0.0)};
      facts.integral = true;
      facts.rounded = body.rounded;
      facts.rounds = body.rounds;
      Round(DType::kInt64, &facts);
      return facts;
    }
  }
}

// ---------------------------------------------------------------- indices and conditions, at the sizes of one
// application

ElementFacts::Range ElementFacts::IndexOf(int number) {
  const Part& part = parts_[number];
  const ExprNode& expr = *part.expr;
  switch (expr.kind()) {
    case ExprKind::kInt: return {expr.value(), expr.value()};
    case ExprKind::kVar: return variables_[expr.variable()];
    case ExprKind::kFromValue: {
      const Interval value = FactsOf(part.args[0]).range;
      const double far = static_cast<double>(index::kInfinity);
      return {static_cast<int64_t>(std::clamp(value.lo, -far, far)),
              static_cast<int64_t>(std::clamp(value.hi, -far, far))};
    }
    default: break;
  }
  const bool is_operation = expr.kind() >= ExprKind::kIndexAdd && expr.kind() <= ExprKind::kIndexMax;
  return is_operation ? index::RangeOf(expr.kind(), IndexOf(part.args[0]), IndexOf(part.args[1])) : Range();
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
      if (part.expr->kind() == ExprKind::kLess) return decide(a.high < b.low, a.low >= b.high);
      if (part.expr->kind() == ExprKind::kLessEqual) return decide(a.high <= b.low, a.low > b.high);
      return decide(a.low == a.high && a == b, a.high < b.low || b.high < a.low);
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
    return index.low >= 0 && index.high < IndexOf(place.extent).low;
  });
}

// Returns the number of points of a reduction; bound variables get their ranges.
ElementFacts::Range ElementFacts::ExtentsOf(const Part& part) {
  Range points{1, 1};
  for (size_t i = 0; i < part.extents.size(); ++i) {
    Range extent = IndexOf(part.extents[i]);
    extent = {std::max<int64_t>(extent.low, 0), std::max<int64_t>(extent.high, 0)};
    const Range range{0, std::max<int64_t>(extent.high - 1, 0)};
    Range& variable = variables_[part.expr->bound()[i].id];
    if (variable != range) {
      variable = range;
      // Returns facts of parts with the variable restricted to another range.
      for (size_t other = 0; other < parts_.size(); ++other) {
        if (parts_[other].expr->MayMention(part.expr->bound()[i].id)) memo_.known[other] = 0;
      }
    }
    points = index::RangeOf(ExprKind::kIndexMul, points, extent);
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
        const bool varies = variables_[variable].low != variables_[variable].high;
        if (varies && std::count(bound.begin(), bound.end(), variable) == 0 &&
            std::count(around.begin(), around.end(), variable) == 0) {
          around.push_back(variable);
        }
      }
    }
    const auto count = [&](const std::vector<int>& variables) {
      double points = 1;
      for (int variable : variables) points *= static_cast<double>(variables_[variable].high + 1);
      return points;
    };
    if (count(around) * count(bound) > static_cast<double>(kMostTries)) return false;
    const auto first = [&](const std::vector<int>& variables) {
      for (int variable : variables) at[variable] = variables_[variable].low;
    };
    const auto next = [&](const std::vector<int>& variables) {
      for (int variable : variables) {
        if (++at[variable] <= variables_[variable].high) return true;
        at[variable] = variables_[variable].low;
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
