#include "verifier/check/step_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/integer.h"
#include "core/base/text_hash.h"
#include "core/ir/functions.h"
#include "substitutions/language/stand_ins.h"
#include "verifier/refute/concrete.h"

namespace rewright::verifier {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Integers of a tensor wrap around, here at small numbers: i32 sooner than i64.
double Wrapped(double value, const std::string& name) {
  if (std::floor(value) != value) return kNone;
  const double range = name.ends_with("64") ? 1 << 16 : 1 << 15;
  return value - range * std::floor(value / range + 0.5);
}

bool Same(double a, double b) { return std::abs(a - b) < 1e-9 * std::max(1.0, std::abs(a)); }

}  // namespace

double HashedValue(const std::string& text, const std::vector<double>& numbers, uint64_t seed) {
  TextHash hash;
  hash.Add(text);
  for (double number : numbers) {
    const double scale = std::exp2(std::ceil(std::log2(std::max(std::abs(number), 1e-3))));
    hash.Add(std::to_string(std::llround(number / scale * (1 << 22))) + " " + std::to_string(scale));
  }
  hash.Add(std::to_string(seed));
  return static_cast<double>(hash.value() >> 11) * 0x1p-52 - 1;
}

std::optional<int64_t> ElementValues::Of(const Poly& p) {
  work_ = 0;
  try {
    return Index(p);
  } catch (const CannotEvaluate&) {
    return std::nullopt;
  }
}

std::optional<bool> ElementValues::Of(const Guard& g) {
  work_ = 0;
  try {
    return Holds(g);
  } catch (const CannotEvaluate&) {
    return std::nullopt;
  }
}

std::optional<double> ElementValues::Of(const NormalForm& n) {
  work_ = 0;
  try {
    const double value = Value(n);
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  } catch (const CannotEvaluate&) {
    return std::nullopt;
  }
}

int64_t ElementValues::Index(Var v) {
  const auto known = values_.find(v);
  if (known != values_.end()) return known->second;
  const VarInfo& info = ctx_.Info(v);
  switch (info.kind) {
    case VarInfo::Kind::kDiv: {
      const int64_t num = Index(info.a), den = Index(info.b);
      if (den <= 0) throw CannotEvaluate();
      return FloorDivide(num, den);
    }
    case VarInfo::Kind::kMin: return std::min(Index(info.a), Index(info.b));
    case VarInfo::Kind::kValue: {
      const double value = Value(ElementOf(info));
      if (!FitsInt64(value)) throw CannotEvaluate();
      return std::llround(value);
    }
    case VarInfo::Kind::kParam: {
      if (!info.defined) throw CannotEvaluate();
      const int64_t num = Index(info.defined->first), den = Index(info.defined->second);
      if (den <= 0 || num % den != 0) throw CannotEvaluate();
      return num / den;
    }
    case VarInfo::Kind::kLocal: break;
  }
  throw CannotEvaluate();
}

int64_t ElementValues::Index(const Poly& p) {
  int64_t sum = 0;
  for (const Poly::Item& item : p.items()) {
    int64_t product = item.coef;
    for (Var v : item.vars) {
      if (!CheckedMultiply(product, Index(v), &product)) throw CannotEvaluate();
    }
    if (!CheckedAdd(sum, product, &sum)) throw CannotEvaluate();
  }
  return sum;
}

bool ElementValues::Holds(const Guard& g) {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return true;
    case Guard::Kind::kFalse: return false;
    case Guard::Kind::kGe: return Index(g.poly()) >= 0;
    case Guard::Kind::kEq: return Index(g.poly()) == 0;
    case Guard::Kind::kNot: return !Holds(g.args()[0]);
    case Guard::Kind::kAnd: break;
  }
  return std::all_of(g.args().begin(), g.args().end(), [this](const Guard& part) { return Holds(part); });
}

bool ElementValues::IsKnown(const Poly& p, const std::vector<Var>& open) const {
  for (const Poly::Item& item : p.items()) {
    for (Var v : item.vars) {
      if (Has(open, v)) return false;
      const std::vector<Var>& inner = ctx_.Info(v).inner;
      if (std::any_of(inner.begin(), inner.end(), [&](Var x) { return Has(open, x); })) {
        return false;
      }
    }
  }
  return true;
}

// From the conditions in which v stands alone with a factor, all else being known.
bool ElementValues::Bounds(Var v, const std::vector<Guard>& parts, const std::vector<Var>& open, int64_t* low,
                           int64_t* high) {
  bool below = false, above = false;
  for (const Guard& g : parts) {
    if (g.kind() != Guard::Kind::kGe && g.kind() != Guard::Kind::kEq) continue;
    int64_t factor = 0, rest = 0;
    bool plain = true;
    for (const Poly::Item& item : g.poly().items()) {
      int64_t product = item.coef;
      int times = 0;
      for (Var x : item.vars) {
        if (x == v) {
          ++times;
          continue;
        }
        plain = plain && IsKnown(Poly::Of(x), open);
        if (plain && !CheckedMultiply(product, Index(x), &product)) throw CannotEvaluate();
      }
      plain = plain && times <= 1;
      int64_t& sum = times == 1 ? factor : rest;
      if (!CheckedAdd(sum, product, &sum)) throw CannotEvaluate();
    }
    if (!plain || factor == 0) continue;
    if (factor == INT64_MIN || rest == INT64_MIN) throw CannotEvaluate();
    const int64_t size = std::abs(factor), other = factor > 0 ? rest : -rest;
    // size * v + other >= 0, or = 0; for a negative factor of an inequality the other way around.
    if (g.kind() == Guard::Kind::kEq || factor > 0) {
      const int64_t least = -FloorDivide(other, size);
      *low = below ? std::max(*low, least) : least;
      below = true;
    }
    if (g.kind() == Guard::Kind::kEq || factor < 0) {
      const int64_t most = FloorDivide(-other, size);
      *high = above ? std::min(*high, most) : most;
      above = true;
    }
  }
  return below && above;
}

void ElementValues::OverPoints(const std::vector<Var>& bound, const Guard& guard, const std::function<void()>& visit) {
  const std::vector<Guard> parts = guard.kind() == Guard::Kind::kAnd ? guard.args() : std::vector<Guard>{guard};
  std::set<std::vector<int64_t>> points;
  std::vector<std::pair<Var, std::optional<int64_t>>> before;
  for (Var v : bound) {
    before.emplace_back(v, values_.contains(v) ? std::optional(values_[v]) : std::nullopt);
    values_.erase(v);
  }
  const std::function<void(std::vector<Var>)> extend = [&](std::vector<Var> open) {
    if (++work_ > kMostWork) throw CannotEvaluate();
    if (open.empty()) {
      if (!Holds(guard)) return;
      std::vector<int64_t> point;
      for (Var v : bound) point.push_back(values_[v]);
      points.insert(std::move(point));
      return;
    }
    for (Var v : open) {
      int64_t low = 0, high = -1;
      if (!Bounds(v, parts, open, &low, &high)) continue;
      open.erase(std::find(open.begin(), open.end(), v));
      for (int64_t value = low; value <= high; ++value) {
        values_[v] = value;
        extend(open);
      }
      values_.erase(v);
      return;
    }
    throw CannotEvaluate();  // no variable is bounded by the known ones
  };
  extend(bound);
  for (const std::vector<int64_t>& point : points) {
    for (size_t i = 0; i < bound.size(); ++i) values_[bound[i]] = point[i];
    visit();
  }
  for (const auto& [v, value] : before) {
    values_.erase(v);
    if (value) values_[v] = *value;
  }
}

double ElementValues::Value(const NormalForm& n) {
  double sum = 0;
  for (const Term& t : n) {
    double total = 0;
    OverPoints(t.bound, t.guard, [&] {
      double product = 1;
      for (const Atom& a : t.atoms) product *= Value(a);
      total += product;
    });
    sum += t.coef.ToDouble() * total;
  }
  return sum;
}

double ElementValues::Value(const Atom& a) {
  if (++work_ > kMostWork) throw CannotEvaluate();
  switch (a->kind) {
    case AtomNode::Kind::kRead: {
      std::vector<int64_t> at;
      for (const Poly& p : a->at) at.push_back(Index(p));
      return leaves_(*a, at);
    }
    case AtomNode::Kind::kInt: return static_cast<double>(Index(a->value));
    case AtomNode::Kind::kFn: {
      std::vector<double> args;
      for (const NormalForm& n : a->args) args.push_back(Value(n));
      if (std::any_of(args.begin(), args.end(), [](double x) { return !std::isfinite(x); })) return kNone;
      return Function(a->name, args);
    }
    case AtomNode::Kind::kBinder: break;
  }
  return Binder(*a);
}

double ElementValues::Place(const AtomNode& a) {
  const bool least = a.name == "argmin";
  double extremum = kNone, place = kNone;
  for (const Family& b : a.families) {
    const std::vector<NormalForm>* parts = PartsOfPlaced(b.body);
    if (parts == nullptr && b.bound.size() != 1) throw CannotEvaluate();
    OverPoints(b.bound, b.guard, [&] {
      const double value = Value(parts != nullptr ? (*parts)[0] : b.body);
      if (!std::isfinite(value)) throw CannotEvaluate();
      const double here = parts != nullptr ? Value((*parts)[1]) : static_cast<double>(values_[b.bound[0]]);
      const bool same = Same(value, extremum);
      if (std::isnan(extremum) || (!same && (least ? value < extremum : value > extremum))) {
        extremum = value;
        place = here;
      } else if (same) {
        place = std::min(place, here);
      }
    });
  }
  return place;
}

double ElementValues::Binder(const AtomNode& a) {
  if (a.name == "argmax" || a.name == "argmin") return Place(a);
  const bool integers = a.name.find('.') != std::string::npos;
  const bool least = a.name.starts_with("min");
  if (a.name == "prod" || a.name == "max" || a.name.starts_with("max.") || a.name.starts_with("min.")) {
    double result = a.name == "prod" ? 1 : kNone;
    for (const Family& b : a.families) {
      OverPoints(b.bound, b.guard, [&] {
        double value = Value(b.body);
        if (integers && !of_run_) value = Wrapped(value, a.name);
        if (!std::isfinite(value)) throw CannotEvaluate();
        if (a.name == "prod") {
          result *= value;
        } else if (std::isnan(result) || (!Same(value, result) && (least ? value < result : value > result))) {
          result = value;
        }
      });
    }
    return result;
  }
  // Any other binder is a function of the values in its range, in any order.
  std::vector<double> all;
  for (const Family& b : a.families) OverPoints(b.bound, b.guard, [&] { all.push_back(Value(b.body)); });
  std::sort(all.begin(), all.end());
  return HashedValue(a.name, all, 0);
}

double ElementValues::Function(const std::string& name, const std::vector<double>& args) {
  const double x = args[0];
  const bool zero = Same(x, 0);
  if (name == "recip") return zero ? kNone : 1 / x;
  if (name == "pos") return !zero && x > 0 ? 1 : 0;
  if (name == "zero") return zero ? 1 : 0;
  if (name == "floor") return std::floor(x + 1e-9);
  if (name == "ceil") return std::ceil(x - 1e-9);
  if (name.starts_with("truncate_")) return x < 0 ? std::ceil(x - 1e-9) : std::floor(x + 1e-9);
  if (name.starts_with("wrap_")) return Wrapped(x, name);
  const size_t dot = name.find('.');
  if (dot != std::string::npos) {
    const std::string plain = name.substr(0, dot);
    std::vector<double> wrapped;
    for (double arg : args) wrapped.push_back(of_run_ ? arg : Wrapped(arg, name));
    if (plain == "less") return wrapped[0] < wrapped[1] ? 1 : 0;
    if (plain == "zero") return wrapped[0] == 0 ? 1 : 0;
    if (plain == "float" || plain == "widen") return wrapped[0];
    if (plain == "max") return std::max(wrapped[0], wrapped[1]);
    if (plain == "min") return std::min(wrapped[0], wrapped[1]);
    if (plain == "quotient") return wrapped[1] == 0 ? kNone : std::trunc(wrapped[0] / wrapped[1]);
    const bool finite = std::all_of(wrapped.begin(), wrapped.end(), [](double arg) { return std::isfinite(arg); });
    const FnInfo* bits = FindFn(plain);
    const bool random = bits != nullptr && bits->fn == Fn::kRandomBits;
    if (random && of_run_ && finite) return RandomBitsValue(args[0], args[1]);
    if (bits != nullptr && !random && IsOfBits(bits->fn) && finite && wrapped.size() == 2) {
      return BitsValue(bits->fn, name.ends_with("64"), wrapped[0], wrapped[1]);
    }
    return finite ? std::floor(0x1p14 * HashedValue(name, wrapped, 0)) : kNone;  // an integer, which does not wrap
  }
  const FnInfo* known = FindFn(name);
  if (known != nullptr && known->fn != Fn::kRandomBits) {
    const double value = EvaluateReal(known->fn, x, args.size() > 1 ? args[1] : 0);
    return std::isfinite(value) && std::abs(value) < 1e12 ? value : kNone;
  }
  if (name.starts_with("any_")) return StandInValue(name, args);
  return HashedValue(name, args, 0);
}

}  // namespace rewright::verifier
