#include "substitutions/taso/sizes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace rewright::taso {
namespace {

constexpr size_t kMaxTerms = 128;
constexpr size_t kMaxDegree = 16;
constexpr int64_t kMaxCoefficient = int64_t{1} << 24;  // products of two stay within 64 bits

void Add(const Size::Monomial& monomial, int64_t coefficient, std::map<Size::Monomial, int64_t>* terms) {
  const auto at = terms->emplace(monomial, 0).first;
  at->second += coefficient;
  if (at->second == 0) terms->erase(at);
}

bool Small(const Size& size) {
  return size.terms().size() <= kMaxTerms &&
         std::all_of(size.terms().begin(), size.terms().end(), [](const auto& term) {
           return term.first.size() <= kMaxDegree && std::abs(term.second) <= kMaxCoefficient;
         });
}

int64_t Coefficient(const Size& size, const Size::Monomial& monomial) {
  const auto found = size.terms().find(monomial);
  return found == size.terms().end() ? 0 : found->second;
}

// Divides by the factors that all terms share: sizes are positive, so the equation with 0 stays the same.
Size Primitive(const Size& size) {
  if (size.IsZero()) return size;
  Size::Monomial common = size.terms().begin()->first;
  int64_t divisor = 0;
  for (const auto& [monomial, coefficient] : size.terms()) {
    Size::Monomial shared;
    std::set_intersection(common.begin(), common.end(), monomial.begin(), monomial.end(), std::back_inserter(shared));
    common = std::move(shared);
    divisor = std::gcd(divisor, coefficient);
  }
  Size factor(divisor);
  for (int variable : common) factor = factor * Size::Of(variable);
  return *size.DividedBy(factor);
}

// Gauss and Jordan, monomials being the unknowns. Rows that are not small are left alone.
void Reduce(std::vector<Size>* rows) {
  for (size_t pivot = 0; pivot < rows->size(); ++pivot) {
    const Size base = Primitive((*rows)[pivot]);
    if (base.IsZero() || !Small(base)) continue;
    const Size::Monomial& monomial = base.terms().begin()->first;
    for (size_t k = 0; k < rows->size(); ++k) {
      const int64_t factor = Coefficient((*rows)[k], monomial);
      if (k == pivot || factor == 0) continue;
      const Size row = Size(base.terms().begin()->second) * (*rows)[k] - Size(factor) * base;
      if (Small(row)) (*rows)[k] = row;
    }
  }
  rows->erase(std::remove_if(rows->begin(), rows->end(), [](const Size& row) { return row.IsZero(); }), rows->end());
}

}  // namespace

Size Size::Of(int variable) {
  Size size;
  size.terms_[{variable}] = 1;
  return size;
}

Size operator+(const Size& a, const Size& b) {
  Size sum = a;
  for (const auto& [monomial, coefficient] : b.terms_) Add(monomial, coefficient, &sum.terms_);
  return sum;
}

Size operator-(const Size& a, const Size& b) { return a + Size(-1) * b; }

Size operator*(const Size& a, const Size& b) {
  Size product;
  for (const auto& [m, x] : a.terms_) {
    for (const auto& [n, y] : b.terms_) {
      Size::Monomial both;
      std::merge(m.begin(), m.end(), n.begin(), n.end(), std::back_inserter(both));
      Add(both, x * y, &product.terms_);
    }
  }
  return product;
}

std::optional<Size> Size::DividedBy(const Size& divisor) const {
  if (divisor.terms_.size() != 1) return std::nullopt;
  const auto& [by, coefficient] = *divisor.terms_.begin();
  Size quotient;
  for (const auto& [monomial, c] : terms_) {
    if (c % coefficient != 0 || !std::includes(monomial.begin(), monomial.end(), by.begin(), by.end())) {
      return std::nullopt;
    }
    Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), by.begin(), by.end(), std::back_inserter(rest));
    quotient.terms_[rest] = c / coefficient;
  }
  return quotient;
}

Size Sizes::New(const std::string& hint) {
  variables_.push_back({hint, "", std::nullopt, Size(), 0});
  return Size::Of(static_cast<int>(variables_.size()) - 1);
}

Size Sizes::Quotient(const Size& numerator, int64_t divisor) {
  const Size resolved = Resolve(numerator);
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (variables_[v].divisor == divisor && Resolve(variables_[v].numerator) == resolved) {
      return Resolve(Size::Of(static_cast<int>(v)));
    }
  }
  const Size quotient = New("q");
  variables_.back().numerator = resolved;
  variables_.back().divisor = divisor;
  return quotient;
}

Size Sizes::Resolve(const Size& size) const {
  Size resolved;
  bool changed = false;
  for (const auto& [monomial, coefficient] : size.terms()) {
    Size term(coefficient);
    for (int variable : monomial) {
      const std::optional<Size>& value = variables_[variable].value;
      changed |= value.has_value();
      term = term * (value ? *value : Size::Of(variable));
    }
    resolved = resolved + term;
  }
  // A value may hold sizes that were eliminated since.
  return changed && Small(resolved) ? Resolve(resolved) : resolved;
}

bool Sizes::Equate(const Size& a, const Size& b) {
  const Size difference = Primitive(Resolve(a - b));
  if (difference.IsZero()) return true;
  if (!Small(difference)) return false;
  open_.push_back(difference);
  return Solve();
}

bool Sizes::Eliminate(const Size& difference) {
  for (const auto& [monomial, coefficient] : difference.terms()) {
    if (monomial.size() != 1 || std::abs(coefficient) != 1) continue;
    const int variable = monomial[0];
    const auto uses = [&](const Size::Monomial& m) { return std::count(m.begin(), m.end(), variable) > 0; };
    const Size value = Size::Of(variable) - Size(coefficient) * difference;
    const bool possible = variables_[variable].divisor == 0 && !value.IsZero() &&
                          std::all_of(value.terms().begin(), value.terms().end(),
                                      [&](const auto& term) { return term.second > 0 && !uses(term.first); });
    if (!possible) continue;
    variables_[variable].value = value;
    return true;
  }
  return false;
}

bool Sizes::MergeQuotients() {
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (variables_[v].divisor == 0 || variables_[v].value) continue;
    for (size_t other = 0; other < v; ++other) {
      if (variables_[other].divisor != variables_[v].divisor || variables_[other].value) continue;
      if (!(Resolve(variables_[other].numerator) == Resolve(variables_[v].numerator))) continue;
      variables_[v].value = Size::Of(static_cast<int>(other));
      return true;
    }
  }
  return false;
}

bool Sizes::Solve() {
  bool progress = true;
  while (progress) {
    progress = MergeQuotients();
    for (Size& row : open_) row = Primitive(Resolve(row));
    Reduce(&open_);
    for (const Size& row : open_) {
      const bool up = row.terms().begin()->second > 0;
      const bool one_sign = std::all_of(row.terms().begin(), row.terms().end(),
                                        [&](const auto& term) { return (term.second > 0) == up; });
      if (one_sign || !Small(row)) return false;
      if (!Eliminate(Primitive(row))) continue;
      progress = true;
      break;
    }
  }
  return true;
}

bool Sizes::Implied(const Size& a, const Size& b) const {
  const Size difference = Primitive(Resolve(a - b));
  std::vector<Size> rows;
  for (const Size& row : open_) rows.push_back(Resolve(row));
  Reduce(&rows);
  const size_t rank = rows.size();
  rows.push_back(difference);
  Reduce(&rows);
  return rows.size() == rank;
}

void Sizes::ForgetRest() { implied_ = open_; }

std::vector<std::pair<Size, Size>> Sizes::Rest() const {
  std::vector<Size> implied;
  for (const Size& row : implied_) implied.push_back(Resolve(row));
  Reduce(&implied);
  std::vector<std::pair<Size, Size>> rest;
  for (const Size& row : open_) {
    std::vector<Size> with = implied;
    with.push_back(row);
    Reduce(&with);
    if (with.size() == implied.size()) continue;
    Size left, right;
    for (const auto& [monomial, coefficient] : row.terms()) {
      Size term(coefficient);
      for (int variable : monomial) term = term * Size::Of(variable);
      (coefficient > 0 ? left : right) = coefficient > 0 ? left + term : right - term;
    }
    rest.emplace_back(left, right);
  }
  return rest;
}

std::string Sizes::NameOf(int variable) {
  Variable& v = variables_[variable];
  if (v.name.empty()) {
    const int count = ++used_names_[v.hint];
    v.name = count == 1 ? v.hint : absl::StrCat(v.hint, count);
  }
  return v.name;
}

ArgExpr Sizes::Print(const Size& size) {
  const Size resolved = Resolve(size);
  std::optional<ArgExpr> sum;
  for (bool positive : {true, false}) {
    for (const auto& [monomial, coefficient] : resolved.terms()) {
      if ((coefficient > 0) != positive) continue;
      const int64_t magnitude = std::abs(coefficient);
      std::optional<ArgExpr> product;
      if (magnitude != 1 || monomial.empty()) product = ArgExpr::Int(magnitude);
      for (int variable : monomial) {
        ArgExpr factor;
        factor.kind = ArgExpr::Kind::kName;
        const Variable& v = variables_[variable];
        if (v.divisor != 0) {
          factor = ArgExpr::Binary(ArgOp::kDiv, Print(v.numerator), ArgExpr::Int(v.divisor));
        } else {
          factor.name = NameOf(variable);
        }
        product = product ? ArgExpr::Binary(ArgOp::kMul, *product, factor) : factor;
      }
      if (!sum) {
        sum = positive ? *product : ArgExpr::Binary(ArgOp::kSub, ArgExpr::Int(0), *product);
      } else {
        sum = ArgExpr::Binary(positive ? ArgOp::kAdd : ArgOp::kSub, *sum, *product);
      }
    }
  }
  return sum.value_or(ArgExpr::Int(0));
}

}  // namespace rewright::taso
