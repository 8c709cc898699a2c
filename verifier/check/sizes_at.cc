#include "verifier/check/sizes_at.h"

#include <algorithm>
#include <utility>

namespace rewright {

using verifier::Guard;
using verifier::Poly;
using verifier::Var;
using verifier::VarInfo;

std::optional<Index> SizesAt::Of(Var v) {
  const VarInfo& info = ctx_.Info(v);
  const auto of_two = [&](const Poly& a, const Poly& b, const auto& make) -> std::optional<Index> {
    const std::optional<Index> first = Of(a), second = Of(b);
    return first && second ? std::optional(make(*first, *second)) : std::nullopt;
  };
  const auto quotient = [](const Index& a, const Index& b) { return FloorDiv(a, b); };
  switch (info.kind) {
    case VarInfo::Kind::kParam:
      if (v < static_cast<Var>(own_symbols_)) return Variable(v, info.name);
      return info.defined ? of_two(info.defined->first, info.defined->second, quotient) : std::nullopt;
    case VarInfo::Kind::kDiv: return of_two(info.a, info.b, quotient);
    case VarInfo::Kind::kMin: return of_two(info.a, info.b, [](const Index& a, const Index& b) { return Min(a, b); });
    case VarInfo::Kind::kValue: return std::nullopt;
    case VarInfo::Kind::kLocal: break;
  }
  const auto known = std::find(locals_.begin(), locals_.end(), v);
  if (known != locals_.end()) {
    return Variable(static_cast<int>(own_symbols_) + static_cast<int>(known - locals_.begin()), info.name);
  }
  const int number = static_cast<int>(instance_.symbols.size());
  locals_.push_back(v);
  // Ranges begin at 0, or at what is found among a few small numbers.
  instance_.symbols.push_back({info.name, info.range ? 0 : INT64_MIN, /*is_size=*/false});
  const Index self = Variable(number, info.name);
  if (info.range) {
    const std::optional<Index> low = Of(info.range->first), high = Of(info.range->second);
    if (!low || !high) return std::nullopt;
    instance_.conditions.push_back((self >= *low).node());
    instance_.conditions.push_back((self < *high).node());
  }
  return self;
}

std::optional<Index> SizesAt::Of(const Poly& p) {
  Index sum = 0;
  for (const Poly::Item& item : p.items()) {
    Index product = item.coef;
    for (Var v : item.vars) {
      const std::optional<Index> factor = Of(v);
      if (!factor) return std::nullopt;
      product = product * *factor;
    }
    sum = sum + product;
  }
  return sum;
}

std::optional<Cond> SizesAt::Of(const Guard& g) {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return Cond(true);
    case Guard::Kind::kFalse: return Cond(false);
    case Guard::Kind::kGe:
    case Guard::Kind::kEq: {
      const std::optional<Index> p = Of(g.poly());
      if (!p) return std::nullopt;
      return g.IsGe() ? *p >= 0 : *p == 0;
    }
    case Guard::Kind::kNot: {
      const std::optional<Cond> part = Of(g.args()[0]);
      return part ? std::optional(!*part) : std::nullopt;
    }
    case Guard::Kind::kAnd: break;
  }
  Cond all = true;
  for (const Guard& part : g.args()) {
    const std::optional<Cond> one = Of(part);
    if (!one) return std::nullopt;
    all = all && *one;
  }
  return all;
}

void SizesAt::Require(const Guard& g) {
  for (const Guard& part : verifier::Conjuncts(g)) {
    if (const std::optional<Cond> condition = Of(part)) instance_.conditions.push_back(condition->node());
  }
}

void SizesAt::RequireInside(const Poly& index, const ExprPtr& size) {
  const std::optional<Index> at = Of(index);
  if (at) instance_.conditions.push_back(InRange(*at, 0, Index(size)).node());
}

std::optional<SizesAt::Drawn> SizesAt::Draw(int width, uint64_t seed) {
  const auto values = verifier::CounterexampleSearch(instance_, seed).DrawWithin(width);
  if (!values) return std::nullopt;
  Drawn drawn;
  drawn.sizes.assign(values->begin(), values->begin() + static_cast<int64_t>(own_symbols_));
  for (size_t i = 0; i < locals_.size(); ++i) drawn.locals[locals_[i]] = (*values)[own_symbols_ + i];
  return drawn;
}

}  // namespace rewright
