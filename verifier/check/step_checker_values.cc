// The steps of a proof that are computed on both sides (step_checker.h).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verifier/check/step_checker.h"
#include "verifier/check/step_values.h"
#include "verifier/refute/counterexample.h"

namespace rewright {

using verifier::AtomNode;
using verifier::ElementValues;
using verifier::VarInfo;

namespace {

constexpr int kPoints = 10;               // at which elements are computed
constexpr int kMostTried = 32 * kPoints;  // elements need not exist everywhere
constexpr int kMostSizes = 6;

// The instance where there is something to compute everywhere.
RuleInstance WithoutEmptyValues(RuleInstance instance) {
  for (const SymbolicNode& node : instance.nodes) {
    for (const std::vector<ExprPtr>& shape : node.shapes) {
      for (const ExprPtr& size : shape) instance.conditions.push_back((Index(size) > 0).node());
    }
  }
  return instance;
}

}  // namespace

void StepChecker::Begin(const RuleInstance& instance, const std::vector<std::vector<int64_t>>& assignments) {
  instance_ = &instance;
  concrete_.clear();
  sizes_.clear();
  const RuleInstance whole = WithoutEmptyValues(instance);
  std::vector<std::vector<int64_t>> all = verifier::CounterexampleSearch(whole, rng_()).Draw(2 * kMostSizes);
  const size_t drawn = all.size();
  with_elements_ = 0;
  all.insert(all.end(), assignments.begin(), assignments.end());
  fractions_ = verifier::RoundsToIntegers(instance);
  for (size_t i = 0; i < all.size() && concrete_.size() < static_cast<size_t>(kMostSizes); ++i) {
    const std::vector<int64_t>& sizes = all[i];
    auto concrete = std::make_unique<verifier::ConcreteInstance>(instance, sizes, fractions_, &rng_);
    if (!concrete->usable()) continue;
    if (const std::string wrong = concrete->Wrong(); !wrong.empty()) {
      report_.refused.push_back(absl::StrCat("sizes ", absl::StrJoin(sizes, ", "), ": ", wrong));
    }
    concrete_.push_back(std::move(concrete));
    sizes_.push_back(sizes);
    if (i < drawn) with_elements_ = sizes_.size();
  }
}

namespace {

// Values of the variables that the polynomials of the forms need and that nothing says yet: within their ranges.
bool DrawVariable(const verifier::Variables& ctx, verifier::Var v, ElementValues* values, std::mt19937_64* rng) {
  if (values->Knows(v)) return true;
  const VarInfo& info = ctx.Info(v);
  if (info.kind != VarInfo::Kind::kLocal) return true;
  int64_t low = -2, high = 5;
  if (info.range) {
    for (const verifier::Poly* p : {&info.range->first, &info.range->second}) {
      for (verifier::Var x : p->Vars()) {
        if (!DrawVariable(ctx, x, values, rng)) return false;
        for (verifier::Var y : ctx.Info(x).inner) {
          if (!DrawVariable(ctx, y, values, rng)) return false;
        }
      }
    }
    const std::optional<int64_t> lo = values->Of(info.range->first), hi = values->Of(info.range->second);
    if (!lo || !hi || *lo >= *hi) return false;
    low = *lo;
    high = *hi;
  }
  values->Set(v, low + static_cast<int64_t>((*rng)() % static_cast<uint64_t>(high - low)));
  return true;
}

}  // namespace

void StepChecker::Equal(const Variables& ctx, verifier::Law law, const Guard& also, const NormalForm& before,
                        const NormalForm& after) {
  // Once for every text: the names of variables are the same in all attempts at an instance.
  const std::string left = verifier::NormalFormKey(ctx, before), right = verifier::NormalFormKey(ctx, after);
  if (left == right ||
      !equal_.insert(absl::StrCat(verifier::LawName(law), "|", ctx.Print(also), "|", left, "|", right)).second) {
    ++report_.by_law[law].repeated;
    return;
  }
  std::vector<Var> free = verifier::FreeVars(ctx, before);
  for (Var v : verifier::FreeVars(ctx, after)) free.push_back(v);
  for (Var v : ctx.BaseVars(also)) free.push_back(v);
  // In other steps large numbers show nothing, and functions such as sigmoid round to the same.
  const std::string both = left + right;
  const bool wraps = both.find(".i32") != std::string::npos || both.find(".i64") != std::string::npos ||
                     both.find("wrap_") != std::string::npos;
  int computed = 0, wrong = 0;
  std::string where;
  for (int point = 0; point < kMostTried && computed < kPoints; ++point) {
    const uint64_t seed = rng_();
    const bool whole = point % 2 == 1;                                   // integers, so that sums of them are exact
    const double largest = wraps && point % 4 == 3 ? (1 << 14) - 1 : 4;  // sums of the large ones wrap around
    ElementValues values(ctx, [&](const AtomNode& read, const std::vector<int64_t>& at) {
      std::vector<double> position(at.begin(), at.end());
      double value = verifier::HashedValue(read.name, position, seed);
      if (read.boolean) return value > 0 ? 1.0 : 0.0;
      value = whole ? std::round(largest * value) : 2 * value;
      return read.positive ? std::abs(value) + (whole ? 1 : 0.1) : value;
    });
    if (!sizes_.empty()) {
      const std::vector<int64_t>& sizes = sizes_[rng_() % sizes_.size()];
      for (size_t s = 0; s < sizes.size(); ++s) values.Set(static_cast<Var>(s), sizes[s]);
    } else if (!ctx.samples.empty()) {
      for (const auto& [v, value] : ctx.samples[rng_() % ctx.samples.size()]) values.Set(v, value);
    }
    bool usable = true;
    for (Var v : free) usable = usable && DrawVariable(ctx, v, &values, &rng_);
    for (const auto* all : {&ctx.facts(), static_cast<const std::vector<Guard>*>(&ctx.assumptions)}) {
      for (const Guard& g : *all) usable = usable && values.Of(g).value_or(true);
    }
    usable = usable && values.Of(also).value_or(false);
    if (!usable) continue;
    const std::optional<double> a = values.Of(before), b = values.Of(after);
    if (!a || !b) continue;
    ++computed;
    if (std::abs(*a - *b) > 1e-6 * std::max({1.0, std::abs(*a), std::abs(*b)})) {
      ++wrong;
      where = absl::StrCat(*a, " and ", *b, " for the two sides, which are");
    }
  }
  const Finding finding = computed == 0 ? Finding::kOpen : wrong == 0 ? Finding::kValue : Finding::kWrong;
  Note(ctx, finding, law, [&] {
    Subject subject{.note = where, .terms = before};
    subject.terms.insert(subject.terms.end(), after.begin(), after.end());
    return subject;
  });
}

LeafName::LeafName(const std::string& name) {
  const size_t leaf = name.rfind('@'), real = name.rfind('%');
  kind = leaf != std::string::npos ? Kind::kLeaf : real != std::string::npos ? Kind::kReal : Kind::kNumber;
  if (kind == Kind::kNumber) {
    if (!absl::SimpleAtod(name, &value)) value = std::nan("");
  } else if (!absl::SimpleAtoi(name.substr((kind == Kind::kLeaf ? leaf : real) + 1), &number)) {
    number = -1;
  }
}

double StepChecker::ReadAt(const RuleInstance& instance, verifier::ConcreteInstance& concrete, const AtomNode& read,
                           const std::vector<int64_t>& position) {
  const LeafName name(read.name);
  if (name.kind == LeafName::Kind::kNumber) return position.empty() ? name.value : std::nan("");
  if (name.kind == LeafName::Kind::kReal) {
    const bool exists = name.number >= 0 && name.number < static_cast<int>(concrete.reals().size()) && position.empty();
    return exists ? concrete.reals()[static_cast<size_t>(name.number)] : std::nan("");
  }
  const bool exists = name.number >= 0 && name.number < static_cast<int>(instance.nodes.size()) &&
                      concrete.ShapeOf({name.number, 0}).size() == position.size();
  return exists ? concrete.Element({name.number, 0}, position) : std::nan("");
}

void StepChecker::Composed(const Variables& ctx, int node, int output, const std::vector<Poly>& at,
                           const NormalForm& form) {
  int computed = 0, wrong = 0;
  std::string where;
  // The proof's facts about sizes hold wherever the left side is legal and no value is empty.
  for (size_t k = 0; k < with_elements_; ++k) {
    const std::vector<int64_t>& sizes = sizes_[k];
    ElementValues values(ctx, [](const AtomNode&, const std::vector<int64_t>&) { return std::nan(""); });
    for (size_t s = 0; s < sizes.size(); ++s) values.Set(static_cast<Var>(s), sizes[s]);
    for (const Guard& fact : ctx.facts()) {
      if (values.Of(fact).value_or(true)) continue;
      ++wrong;
      where = absl::StrCat("sizes ", absl::StrJoin(sizes, ", "), " without the fact ", ctx.Print(fact), " in");
    }
  }
  const int points = concrete_.empty() ? 0 : kMostTried;
  for (int point = 0; point < points && computed < kPoints; ++point) {
    const size_t k = static_cast<size_t>(point) % concrete_.size();
    verifier::ConcreteInstance& concrete = *concrete_[k];
    ElementValues values(ctx, [&](const AtomNode& read, const std::vector<int64_t>& position) {
      return ReadAt(*instance_, concrete, read, position);
    });
    for (size_t s = 0; s < sizes_[k].size(); ++s) values.Set(static_cast<Var>(s), sizes_[k][s]);
    bool usable = true;
    std::vector<int64_t> position;
    for (const Poly& p : at) {
      for (Var v : p.Vars()) usable = usable && DrawVariable(ctx, v, &values, &rng_);
      const std::optional<int64_t> index = usable ? values.Of(p) : std::nullopt;
      usable = usable && index;
      position.push_back(index.value_or(0));
    }
    const SymbolicValue value{node, output};
    if (!usable) continue;
    bool inside = true;
    for (size_t axis = 0; axis < position.size(); ++axis) {
      inside = inside && position[axis] >= 0 && position[axis] < concrete.ShapeOf(value)[axis];
    }
    if (!inside) continue;
    concrete.Clear();
    const double expected = concrete.Element(value, position);
    const std::optional<double> found = values.Of(form);
    if (concrete.undefined()) {  // for example, log of a negative element: redraw
      concrete_[k] = std::make_unique<verifier::ConcreteInstance>(*instance_, sizes_[k], fractions_, &rng_);
      continue;
    }
    if (!concrete.out_of_bounds() && (!found || !std::isfinite(expected))) continue;
    ++computed;
    if (concrete.out_of_bounds()) {
      ++wrong;
      where = absl::StrCat("a read beyond an operand at [", absl::StrJoin(position, ", "), "] of");
      continue;
    }
    if (std::abs(*found - expected) > 1e-6 * std::max({1.0, std::abs(*found), std::abs(expected)})) {
      ++wrong;
      where = absl::StrCat(*found, " for ", expected, " at [", absl::StrJoin(position, ", "), "] of");
    }
  }
  const Finding finding = wrong > 0 ? Finding::kWrong : computed == 0 ? Finding::kOpen : Finding::kValue;
  Note(ctx, finding, verifier::Law::kComposition, [&] { return Subject{.note = where, .terms = form}; });
}

}  // namespace rewright
