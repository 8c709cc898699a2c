#include "verifier/integer/polynomial.h"

#include <algorithm>

#include "core/base/work.h"
#include "verifier/integer/give_up.h"

namespace rewright::verifier {
namespace {

int64_t CheckedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw GiveUp("an index coefficient does not fit 64 bits");
  return r;
}

int64_t CheckedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw GiveUp("an index coefficient does not fit 64 bits");
  return r;
}

// More monomials than any honest rule makes: an expansion that would only run into the time limit.
constexpr size_t kMaxItems = 4000;

}  // namespace

Poly::Poly(int64_t constant) {
  if (constant != 0) items_.push_back({Monomial(), constant});
}

Poly Poly::Of(Var v) { return Of(Monomial{v}, 1); }

Poly Poly::Of(const Monomial& vars, int64_t coef) {
  Poly p;
  if (coef != 0) p.items_.push_back({vars, coef});
  return p;
}

Poly Poly::FromItems(std::vector<Item> items) {
  if (items.size() > kMaxItems) throw GiveUp("an index polynomial grew too large");
  CountSteps(1 + static_cast<int64_t>(items.size()));
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.vars < b.vars; });
  Poly p;
  for (Item& item : items) {
    if (!p.items_.empty() && p.items_.back().vars == item.vars) {
      p.items_.back().coef = CheckedAdd(p.items_.back().coef, item.coef);
    } else {
      if (!p.items_.empty() && p.items_.back().coef == 0) p.items_.pop_back();
      p.items_.push_back(std::move(item));
    }
  }
  if (!p.items_.empty() && p.items_.back().coef == 0) p.items_.pop_back();
  return p;
}

int64_t Poly::Coef(Var v) const {
  for (const Item& item : items_) {
    if (item.vars.size() == 1 && item.vars[0] == v) return item.coef;
  }
  return 0;
}

bool Poly::Contains(Var v) const {
  for (const Item& item : items_) {
    if (std::find(item.vars.begin(), item.vars.end(), v) != item.vars.end()) return true;
  }
  return false;
}

bool Poly::IsLinearIn(Var v) const {
  int count = 0;
  for (const Item& item : items_) {
    if (std::find(item.vars.begin(), item.vars.end(), v) == item.vars.end()) continue;
    if (item.vars.size() != 1) return false;
    ++count;
  }
  return count == 1;
}

std::vector<Var> Poly::Vars() const {
  CountSteps(1 + static_cast<int64_t>(items_.size()));
  std::vector<Var> out;
  for (const Item& item : items_) out.insert(out.end(), item.vars.begin(), item.vars.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool Poly::Decompose(Var v, Poly* a, Poly* b) const {
  std::vector<Item> with, without;
  for (const Item& item : items_) {
    auto first = std::find(item.vars.begin(), item.vars.end(), v);
    if (first == item.vars.end()) {
      without.push_back(item);
      continue;
    }
    Item rest = item;
    rest.vars.erase(rest.vars.begin() + (first - item.vars.begin()));
    if (std::find(rest.vars.begin(), rest.vars.end(), v) != rest.vars.end()) return false;
    with.push_back(std::move(rest));
  }
  *a = FromItems(std::move(with));
  *b = FromItems(std::move(without));
  return true;
}

Poly operator+(const Poly& a, const Poly& b) {
  CountSteps(1 + static_cast<int64_t>(a.items_.size() + b.items_.size()));
  Poly out;
  out.items_.reserve(a.items_.size() + b.items_.size());
  auto i = a.items_.begin();
  auto j = b.items_.begin();
  while (i != a.items_.end() || j != b.items_.end()) {
    if (j == b.items_.end() || (i != a.items_.end() && i->vars < j->vars)) {
      out.items_.push_back(*i++);
    } else if (i == a.items_.end() || j->vars < i->vars) {
      out.items_.push_back(*j++);
    } else {
      int64_t coef = CheckedAdd(i->coef, j->coef);
      if (coef != 0) out.items_.push_back({i->vars, coef});
      ++i, ++j;
    }
  }
  return out;
}

Poly operator-(const Poly& a) {
  Poly out = a;
  for (Poly::Item& item : out.items_) item.coef = CheckedMul(item.coef, -1);
  return out;
}

Poly operator-(const Poly& a, const Poly& b) { return a + (-b); }

Poly operator*(const Poly& a, const Poly& b) {
  if (a.items_.size() * b.items_.size() > kMaxItems) throw GiveUp("an index polynomial grew too large");
  std::vector<Poly::Item> items;
  items.reserve(a.items_.size() * b.items_.size());
  for (const Poly::Item& x : a.items_) {
    for (const Poly::Item& y : b.items_) {
      items.push_back({MultiplyMonomials(x.vars, y.vars), CheckedMul(x.coef, y.coef)});
    }
  }
  return Poly::FromItems(std::move(items));
}

bool DivideMonomial(const Monomial& a, const Monomial& b, Monomial* quotient) {
  quotient->clear();
  auto j = b.begin();
  for (Var v : a) {
    if (j != b.end() && *j == v) {
      ++j;
    } else {
      quotient->push_back(v);
    }
  }
  return j == b.end();
}

std::pair<Poly, Poly> Poly::Divided(const Monomial& by) const {
  std::vector<Item> multiples, rest;
  for (const Item& item : items_) {
    Monomial quotient;
    if (DivideMonomial(item.vars, by, &quotient)) {
      multiples.push_back({quotient, item.coef});
    } else {
      rest.push_back(item);
    }
  }
  return {FromItems(std::move(multiples)), FromItems(std::move(rest))};
}

bool DivideExactly(const Poly& p, const Poly& divisor, Poly* quotient) {
  if (divisor.items().size() != 1) return false;
  std::vector<Poly::Item> items;
  for (const Poly::Item& item : p.items()) {
    Monomial rest;
    if (item.coef % divisor.items()[0].coef != 0 || !DivideMonomial(item.vars, divisor.items()[0].vars, &rest)) {
      return false;
    }
    items.push_back({rest, item.coef / divisor.items()[0].coef});
  }
  *quotient = Poly::FromItems(std::move(items));
  return true;
}

Monomial MultiplyMonomials(const Monomial& a, const Monomial& b) {
  Monomial out;
  out.resize(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), out.begin());
  return out;
}

void Substitution::Set(Var v, Poly value) {
  for (auto& entry : entries_) {
    if (entry.first == v) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(v, std::move(value));
}

void Substitution::Erase(Var v) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), [v](const auto& e) { return e.first == v; }),
                 entries_.end());
}

const Poly* Substitution::Find(Var v) const {
  for (const auto& entry : entries_) {
    if (entry.first == v) return &entry.second;
  }
  return nullptr;
}

}  // namespace rewright::verifier
