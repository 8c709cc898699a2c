// The steps of a proof that are computed on both sides (step_checker.h).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
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
constexpr int kPointsOfSizes = 4;  // at sizes that are drawn for one step

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
    if (AddSizes(all[i]) && i < drawn) with_elements_ = sizes_.size();
  }
  first_added_ = sizes_.size();
}

bool StepChecker::AddSizes(const std::vector<int64_t>& sizes) {
  auto concrete = std::make_unique<verifier::ConcreteInstance>(*instance_, sizes, fractions_, &rng_);
  if (!concrete->usable()) return false;
  if (const std::string wrong = concrete->Wrong(); !wrong.empty()) {
    report_.refused.push_back(absl::StrCat("sizes ", absl::StrJoin(sizes, ", "), ": ", wrong));
  }
  concrete_.push_back(std::move(concrete));
  sizes_.push_back(sizes);
  return true;
}

void StepChecker::AtFurtherSizes(SizesAt& search, const Tally& tally,
                                 absl::FunctionRef<bool(size_t, const verifier::Assignment&)> compute) {
  // Small and large ones take turns: some steps are too much work at large sizes, others have none that are small.
  constexpr int kWidths[] = {4, 2, 8, 3, 12, 2, 6, 3, 16, 2, 5, 24};
  constexpr size_t kMostAdded = 12;
  for (int width : kWidths) {
    if (tally.computed >= kPoints) return;
    const std::optional<SizesAt::Drawn> drawn = search.Draw(width, rng_());
    if (!drawn || !AddSizes(drawn->sizes)) continue;
    const int before = tally.computed;
    for (int point = 0; point < kPoints && tally.computed - before < kPointsOfSizes; ++point) {
      if (!compute(sizes_.size() - 1, point == 0 ? drawn->locals : verifier::Assignment())) break;
    }
    // Later steps use those that are of use.
    const size_t gone = tally.computed == before ? sizes_.size() - 1 : first_added_;
    if (tally.computed > before && sizes_.size() <= first_added_ + kMostAdded) continue;
    concrete_.erase(concrete_.begin() + static_cast<int64_t>(gone));
    sizes_.erase(sizes_.begin() + static_cast<int64_t>(gone));
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
  Sides sides{also, before, after, verifier::FreeVars(ctx, before), /*wraps=*/false};
  for (Var v : verifier::FreeVars(ctx, after)) sides.free.push_back(v);
  for (Var v : ctx.BaseVars(also)) sides.free.push_back(v);
  const std::string both = left + right;
  for (const char* wrapped : {".i32", ".i64", "wrap_"}) sides.wraps = sides.wraps || absl::StrContains(both, wrapped);
  Tally tally;
  std::vector<bool> too_much(std::max<size_t>(sizes_.size(), 1));
  for (int point = 0; point < kMostTried && tally.computed < kPoints; ++point) {
    const size_t k = sizes_.empty() ? 0 : rng_() % sizes_.size();
    if (too_much[k]) continue;
    too_much[k] = !EqualAt(ctx, sides, point, sizes_.empty() ? nullptr : &sizes_[k], {}, &tally);
  }
  if (tally.computed == 0 && instance_ != nullptr) {
    SizesAt search(ctx, WithoutEmptyValues(*instance_));
    for (const Guard& g : ctx.assumptions) search.Require(g);
    search.Require(also);
    int point = 0;
    AtFurtherSizes(search, tally, [&](size_t k, const verifier::Assignment& given) {
      return EqualAt(ctx, sides, point++, &sizes_[k], given, &tally);
    });
  }
  Note(ctx, tally.Judged(), law, [&] {
    Subject subject{.note = tally.where, .terms = before};
    subject.terms.insert(subject.terms.end(), after.begin(), after.end());
    return subject;
  });
}

bool StepChecker::EqualAt(const Variables& ctx, const Sides& sides, int point, const std::vector<int64_t>* sizes,
                          const verifier::Assignment& given, Tally* tally) {
  const uint64_t seed = rng_();
  const bool whole = point % 2 == 1;  // integers, so that sums of them are exact
  // Sums of the large ones wrap around. In other steps large numbers show nothing, and functions such as sigmoid round
  // to the same.
  const double largest = sides.wraps && point % 4 == 3 ? (1 << 14) - 1 : 4;
  ElementValues values(ctx, [&](const AtomNode& read, const std::vector<int64_t>& at) {
    std::vector<double> position(at.begin(), at.end());
    double value = verifier::HashedValue(read.name, position, seed);
    if (read.boolean) return value > 0 ? 1.0 : 0.0;
    value = whole ? std::round(largest * value) : 2 * value;
    return read.positive ? std::abs(value) + (whole ? 1 : 0.1) : value;
  });
  if (sizes != nullptr) {
    for (size_t s = 0; s < sizes->size(); ++s) values.Set(static_cast<Var>(s), (*sizes)[s]);
  } else if (!ctx.samples.empty()) {
    for (const auto& [v, value] : ctx.samples[rng_() % ctx.samples.size()]) values.Set(v, value);
  }
  for (const auto& [v, value] : given) values.Set(v, value);
  for (Var v : sides.free) {
    if (!DrawVariable(ctx, v, &values, &rng_)) return true;
  }
  for (const auto* all : {&ctx.facts(), static_cast<const std::vector<Guard>*>(&ctx.assumptions)}) {
    for (const Guard& g : *all) {
      if (!values.Of(g).value_or(true)) return true;
    }
  }
  if (!values.Of(sides.also).value_or(false)) return true;
  const std::optional<double> a = values.Of(sides.before);
  if (!a) return !values.TooMuch();
  const std::optional<double> b = values.Of(sides.after);
  if (!b) return !values.TooMuch();
  ++tally->computed;
  if (std::abs(*a - *b) > 1e-6 * std::max({1.0, std::abs(*a), std::abs(*b)})) {
    ++tally->wrong;
    tally->where = absl::StrCat(*a, " and ", *b, " for the two sides, which are");
  }
  return true;
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
  Tally tally;
  // The proof's facts about sizes hold wherever the left side is legal and no value is empty.
  for (size_t k = 0; k < with_elements_; ++k) {
    const std::vector<int64_t>& sizes = sizes_[k];
    ElementValues values(ctx, [](const AtomNode&, const std::vector<int64_t>&) { return std::nan(""); });
    for (size_t s = 0; s < sizes.size(); ++s) values.Set(static_cast<Var>(s), sizes[s]);
    for (const Guard& fact : ctx.facts()) {
      if (values.Of(fact).value_or(true)) continue;
      ++tally.wrong;
      tally.where = absl::StrCat("sizes ", absl::StrJoin(sizes, ", "), " without the fact ", ctx.Print(fact), " in");
    }
  }
  const SymbolicValue value{node, output};
  std::vector<bool> too_much(concrete_.size());
  const int points = concrete_.empty() ? 0 : kMostTried;
  for (int point = 0; point < points && tally.computed < kPoints; ++point) {
    const size_t k = static_cast<size_t>(point) % concrete_.size();
    too_much[k] = too_much[k] || !ComposedAt(ctx, value, at, form, k, {}, &tally);
  }
  if (tally.computed == 0) {
    SizesAt search(ctx, WithoutEmptyValues(*instance_));
    const SymbolicNode& n = instance_->nodes[static_cast<size_t>(node)];
    const std::vector<ExprPtr>& shape = n.shapes[static_cast<size_t>(output)];
    for (size_t axis = 0; axis < at.size(); ++axis) search.RequireInside(at[axis], shape[axis]);
    AtFurtherSizes(search, tally, [&](size_t k, const verifier::Assignment& given) {
      return ComposedAt(ctx, value, at, form, k, given, &tally);
    });
  }
  Note(ctx, tally.Judged(), verifier::Law::kComposition, [&] { return Subject{.note = tally.where, .terms = form}; });
}

bool StepChecker::ComposedAt(const Variables& ctx, SymbolicValue value, const std::vector<Poly>& at,
                             const NormalForm& form, size_t k, const verifier::Assignment& given, Tally* tally) {
  verifier::ConcreteInstance& concrete = *concrete_[k];
  ElementValues values(
      ctx,
      [&](const AtomNode& read, const std::vector<int64_t>& position) {
        return ReadAt(*instance_, concrete, read, position);
      },
      /*of_run=*/true);
  for (size_t s = 0; s < sizes_[k].size(); ++s) values.Set(static_cast<Var>(s), sizes_[k][s]);
  for (const auto& [v, number] : given) values.Set(v, number);
  std::vector<int64_t> position;
  for (size_t axis = 0; axis < at.size(); ++axis) {
    for (Var v : at[axis].Vars()) {
      if (!DrawVariable(ctx, v, &values, &rng_)) return true;
    }
    const std::optional<int64_t> index = values.Of(at[axis]);
    if (!index || *index < 0 || *index >= concrete.ShapeOf(value)[axis]) return true;
    position.push_back(*index);
  }
  concrete.Clear();
  const double expected = concrete.Element(value, position);
  const std::optional<double> found = values.Of(form);
  if (concrete.undefined()) {  // for example, log of a negative element: redraw
    concrete_[k] = std::make_unique<verifier::ConcreteInstance>(*instance_, sizes_[k], fractions_, &rng_);
    return true;
  }
  if (!concrete.out_of_bounds() && (!found || !std::isfinite(expected))) return found || !values.TooMuch();
  ++tally->computed;
  if (concrete.out_of_bounds()) {
    ++tally->wrong;
    tally->where = absl::StrCat("a read beyond an operand at [", absl::StrJoin(position, ", "), "] of");
  } else if (std::abs(*found - expected) > 1e-6 * std::max({1.0, std::abs(*found), std::abs(expected)})) {
    ++tally->wrong;
    tally->where = absl::StrCat(*found, " for ", expected, " at [", absl::StrJoin(position, ", "), "] of");
  }
  return true;
}

}  // namespace rewright
