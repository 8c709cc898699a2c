#include "backends/cuda/index_form.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace rewright::cuda {
namespace {

constexpr int64_t kLimit = int64_t{1} << 62;

int64_t Clamp(__int128 value) {
  if (value > kLimit) return kLimit;
  if (value < -kLimit) return -kLimit;
  return static_cast<int64_t>(value);
}

int64_t Times(int64_t a, int64_t b) { return Clamp(static_cast<__int128>(a) * b); }
int64_t Plus(int64_t a, int64_t b) { return Clamp(static_cast<__int128>(a) + b); }

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

}  // namespace

struct IndexForm::Atom {
  enum class Kind : uint8_t { kVariable, kDiv, kMod, kOther };
  Kind kind = Kind::kVariable;
  std::string text;
  int64_t low = 0, high = 0;
  int depth = 0;
  int64_t magnitude = 0;  // of what is inside
  std::set<std::string> variables;
  std::shared_ptr<const IndexForm> of = nullptr;  // kDiv, kMod: `of` by `by`
  int64_t by = 1;
};

IndexForm IndexForm::OfAtom(Atom atom) {
  IndexForm form;
  std::string text = atom.text;
  form.terms_[std::move(text)] = {1, std::make_shared<const Atom>(std::move(atom))};
  return form;
}

IndexForm IndexForm::Variable(const std::string& name, int64_t low, int64_t high, int depth) {
  if (low == high) return low;
  return OfAtom({Atom::Kind::kVariable, name, low, high, depth, std::max(std::abs(low), std::abs(high)), {name}});
}

IndexForm IndexForm::Unknown(const std::string& name, int depth) {
  return OfAtom({Atom::Kind::kVariable, name, -kLimit, kLimit, depth, 0, {name}});
}

IndexForm::Atom IndexForm::Inner(const std::string& text, int64_t low, int64_t high, const IndexForm& a,
                                 const IndexForm& b) {
  Atom atom{
      Atom::Kind::kOther, text, low, high, std::max(a.depth(), b.depth()), std::max(a.magnitude(), b.magnitude())};
  a.CollectVariables(&atom.variables);
  b.CollectVariables(&atom.variables);
  return atom;
}

bool IndexForm::IsBounded() const { return low() > -kLimit / 2 && high() < kLimit / 2; }

void IndexForm::CollectVariables(std::set<std::string>* names) const {
  for (const auto& [text, term] : terms_) names->insert(term.atom->variables.begin(), term.atom->variables.end());
}

int64_t IndexForm::low() const {
  int64_t sum = constant_;
  for (const auto& [text, term] : terms_) {
    sum = Plus(sum, Times(term.coefficient, term.coefficient > 0 ? term.atom->low : term.atom->high));
  }
  return sum;
}

int64_t IndexForm::high() const {
  int64_t sum = constant_;
  for (const auto& [text, term] : terms_) {
    sum = Plus(sum, Times(term.coefficient, term.coefficient > 0 ? term.atom->high : term.atom->low));
  }
  return sum;
}

int IndexForm::depth() const {
  int depth = -1;
  for (const auto& [text, term] : terms_) depth = std::max(depth, term.atom->depth);
  return depth;
}

int64_t IndexForm::magnitude() const {
  int64_t sum = std::abs(constant_);
  int64_t inside = 0;
  for (const auto& [text, term] : terms_) {
    const int64_t largest = std::max(std::abs(term.atom->low), std::abs(term.atom->high));
    sum = Plus(sum, Times(std::abs(term.coefficient), largest));
    inside = std::max(inside, term.atom->magnitude);
  }
  return std::max(sum, inside);
}

int64_t IndexForm::StepOf(const std::string& variable) const {
  const auto found = terms_.find(variable);
  return found == terms_.end() ? 0 : found->second.coefficient;
}

int64_t IndexForm::divisor() const {
  int64_t divisor = std::abs(constant_);
  for (const auto& [text, term] : terms_) divisor = std::gcd(divisor, std::abs(term.coefficient));
  return divisor;
}

std::string IndexForm::text() const {
  if (terms_.empty()) return constant_ < 0 ? absl::StrCat("(", constant_, ")") : absl::StrCat(constant_);
  std::string text;
  for (const auto& [name, term] : terms_) {
    const int64_t size = std::abs(term.coefficient);
    const char* sign = term.coefficient < 0 ? "-" : text.empty() ? "" : "+";
    absl::StrAppend(&text, sign, size == 1 ? "" : absl::StrCat(size, "*"), name);
  }
  if (constant_ == 0 && terms_.size() == 1 && terms_.begin()->second.coefficient == 1) return text;
  if (constant_ != 0) absl::StrAppend(&text, constant_ > 0 ? "+" : "", constant_);
  return absl::StrCat("(", text, ")");
}

void IndexForm::Accumulate(const IndexForm& other, int64_t factor) {
  constant_ = Plus(constant_, Times(other.constant_, factor));
  for (const auto& [text, term] : other.terms_) {
    Term& mine = terms_[text];
    mine.atom = term.atom;
    mine.coefficient = Plus(mine.coefficient, Times(term.coefficient, factor));
    if (mine.coefficient == 0) terms_.erase(text);
  }
}

// d * (a div d) + a mod d = a
void IndexForm::Recombine() {
  for (const auto& [text, rest] : terms_) {
    if (rest.atom->kind != Atom::Kind::kMod) continue;
    const IndexForm quotient = FloorDiv(*rest.atom->of, rest.atom->by);
    if (quotient.constant_ != 0 || quotient.terms_.size() != 1) continue;
    const auto& [quotient_text, one] = *quotient.terms_.begin();
    const auto found = terms_.find(quotient_text);
    if (found == terms_.end() || found->second.coefficient != one.coefficient * rest.coefficient * rest.atom->by) {
      continue;
    }
    const Term taken = rest;
    terms_.erase(found);
    terms_.erase(terms_.find(taken.atom->text));
    Accumulate(*taken.atom->of, taken.coefficient);
    return Recombine();
  }
}

IndexForm operator+(const IndexForm& a, const IndexForm& b) {
  IndexForm sum = a;
  sum.Accumulate(b, 1);
  sum.Recombine();
  return sum;
}

IndexForm operator-(const IndexForm& a, const IndexForm& b) {
  IndexForm sum = a;
  sum.Accumulate(b, -1);
  sum.Recombine();
  return sum;
}

IndexForm operator*(const IndexForm& a, const IndexForm& b) {
  if (a.IsConstant() || b.IsConstant()) {
    const IndexForm& form = a.IsConstant() ? b : a;
    IndexForm product;
    product.Accumulate(form, a.IsConstant() ? a.constant_ : b.constant_);
    return product;
  }
  const int64_t corners[] = {Times(a.low(), b.low()), Times(a.low(), b.high()), Times(a.high(), b.low()),
                             Times(a.high(), b.high())};
  return IndexForm::OfAtom(IndexForm::Inner(absl::StrCat("(", a.text(), "*", b.text(), ")"),
                                            *std::min_element(corners, corners + 4),
                                            *std::max_element(corners, corners + 4), a, b));
}

// Splits a into b * whole + rest, coefficient by coefficient, with coefficients of rest in [0, b); then rest may be
// divided by what its coefficients share with b, as long as the constant left over is smaller than that.
IndexForm FloorDiv(const IndexForm& a, int64_t b) {
  CHECK(b > 0) << "division by " << b;
  if (b == 1) return a;
  IndexForm whole(FloorDivide(a.constant_, b)), rest(a.constant_ - b * FloorDivide(a.constant_, b));
  for (const auto& [text, term] : a.terms_) {
    const int64_t times = FloorDivide(term.coefficient, b);
    if (times != 0) whole.terms_[text] = {times, term.atom};
    if (const int64_t left = term.coefficient - times * b; left != 0) rest.terms_[text] = {left, term.atom};
  }
  const int64_t low = FloorDivide(rest.low(), b), high = FloorDivide(rest.high(), b);
  if (low == high) return whole + IndexForm(low);
  int64_t common = b;
  for (const auto& [text, term] : rest.terms_) common = std::gcd(common, term.coefficient);
  IndexForm reduced(FloorDivide(rest.constant_, common));
  for (const auto& [text, term] : rest.terms_) reduced.terms_[text] = {term.coefficient / common, term.atom};
  const int64_t by = b / common;
  if (by == 1) return whole + reduced;
  // (x div c) div d = x div (c * d)
  if (reduced.constant_ == 0 && reduced.terms_.size() == 1) {
    const IndexForm::Term& only = reduced.terms_.begin()->second;
    if (only.coefficient == 1 && only.atom->kind == IndexForm::Atom::Kind::kDiv) {
      return whole + FloorDiv(*only.atom->of, Times(only.atom->by, by));
    }
  }
  const std::string body = reduced.text();
  const std::string text =
      reduced.low() >= 0 ? absl::StrCat("(", body, "/", by, ")") : absl::StrCat("floor_div(", body, ",", by, ")");
  IndexForm::Atom atom =
      IndexForm::Inner(text, FloorDivide(reduced.low(), by), FloorDivide(reduced.high(), by), reduced, 0);
  atom.kind = IndexForm::Atom::Kind::kDiv;
  atom.of = std::make_shared<const IndexForm>(reduced);
  atom.by = by;
  return whole + IndexForm::OfAtom(std::move(atom));
}

IndexForm Mod(const IndexForm& a, int64_t b) {
  CHECK(b > 0) << "rest of a division by " << b;
  if (b == 1) return 0;
  IndexForm rest(a.constant_ - b * FloorDivide(a.constant_, b));
  for (const auto& [text, term] : a.terms_) {
    const int64_t left = term.coefficient - b * FloorDivide(term.coefficient, b);
    if (left != 0) rest.terms_[text] = {left, term.atom};
  }
  const int64_t low = FloorDivide(rest.low(), b);
  if (low == FloorDivide(rest.high(), b)) return rest - IndexForm(b * low);
  int64_t common = b;
  for (const auto& [text, term] : rest.terms_) common = std::gcd(common, term.coefficient);
  const int64_t shift = rest.constant_ % common;
  IndexForm reduced(rest.constant_ / common);
  for (const auto& [text, term] : rest.terms_) reduced.terms_[text] = {term.coefficient / common, term.atom};
  const int64_t by = b / common;
  if (by == 1) return shift;
  const std::string body = reduced.text();
  const std::string text =
      reduced.low() >= 0 ? absl::StrCat("(", body, "%", by, ")") : absl::StrCat("floor_mod(", body, ",", by, ")");
  IndexForm::Atom atom = IndexForm::Inner(text, 0, by - 1, reduced, 0);
  atom.kind = IndexForm::Atom::Kind::kMod;
  atom.of = std::make_shared<const IndexForm>(reduced);
  atom.by = by;
  return IndexForm::OfAtom(std::move(atom)) * IndexForm(common) + IndexForm(shift);
}

IndexForm Min(const IndexForm& a, const IndexForm& b) {
  if (a.high() <= b.low()) return a;
  if (b.high() <= a.low()) return b;
  return IndexForm::OfAtom(IndexForm::Inner(absl::StrCat("index_min(", a.text(), ",", b.text(), ")"),
                                            std::min(a.low(), b.low()), std::min(a.high(), b.high()), a, b));
}

IndexForm Max(const IndexForm& a, const IndexForm& b) {
  if (a.low() >= b.high()) return a;
  if (b.low() >= a.high()) return b;
  return IndexForm::OfAtom(IndexForm::Inner(absl::StrCat("index_max(", a.text(), ",", b.text(), ")"),
                                            std::max(a.low(), b.low()), std::max(a.high(), b.high()), a, b));
}

std::vector<IndexForm> Unflatten(const IndexForm& flat, const std::vector<int64_t>& sizes) {
  std::vector<IndexForm> position(sizes.size());
  IndexForm rest = flat;
  for (size_t k = sizes.size(); k-- > 0;) {
    const int64_t size = std::max<int64_t>(sizes[k], 1);
    position[k] = k == 0 ? rest : Mod(rest, size);
    rest = FloorDiv(rest, size);
  }
  return position;
}

}  // namespace rewright::cuda
