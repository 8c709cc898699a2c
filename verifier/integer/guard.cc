#include "verifier/integer/guard.h"

#include <algorithm>
#include <numeric>

#include "core/base/integer.h"

namespace rewright::verifier {
namespace {

// The greatest common divisor of the coefficients of the non-constant monomials; 0 when there is none.
int64_t Content(const Poly& p) {
  int64_t g = 0;
  for (const Poly::Item& item : p.items()) {
    if (!item.vars.empty()) g = std::gcd(g, item.coef);
  }
  return g;
}

Poly DivideCoefs(const Poly& p, int64_t divisor, int64_t constant) {
  std::vector<Poly::Item> items;
  for (const Poly::Item& item : p.items()) {
    if (!item.vars.empty()) items.push_back({item.vars, item.coef / divisor});
  }
  items.push_back({Monomial(), constant});
  return Poly::FromItems(std::move(items));
}

}  // namespace

Guard Guard::Ge(const Poly& p) {
  if (p.IsConst()) return p.Constant() >= 0 ? True() : False();
  Guard g(Kind::kGe);
  int64_t divisor = Content(p);
  g.node_ =
      std::make_shared<Node>(Node{divisor > 1 ? DivideCoefs(p, divisor, FloorDivide(p.Constant(), divisor)) : p, {}});
  return g;
}

Guard Guard::Eq(const Poly& p) {
  if (p.IsConst()) return p.IsZero() ? True() : False();
  int64_t divisor = Content(p);
  if (p.Constant() % divisor != 0) return False();
  Poly q = divisor > 1 ? DivideCoefs(p, divisor, p.Constant() / divisor) : p;
  if (q.items().back().coef < 0) q = -q;
  Guard g(Kind::kEq);
  g.node_ = std::make_shared<Node>(Node{std::move(q), {}});
  return g;
}

Guard Guard::And(const std::vector<Guard>& all) {
  std::vector<Guard> parts;
  auto add = [&parts](const Guard& g) {
    if (std::find(parts.begin(), parts.end(), g) == parts.end()) parts.push_back(g);
  };
  for (const Guard& g : all) {
    if (g.IsTrue()) continue;
    if (g.IsFalse()) return False();
    if (g.kind() == Kind::kAnd) {
      for (const Guard& part : g.args()) add(part);
    } else {
      add(g);
    }
  }
  if (parts.empty()) return True();
  if (parts.size() == 1) return parts[0];
  Guard g(Kind::kAnd);
  g.node_ = std::make_shared<Node>(Node{Poly(), std::move(parts)});
  return g;
}

Guard Guard::Not(const Guard& a) {
  switch (a.kind()) {
    case Kind::kTrue: return False();
    case Kind::kFalse: return True();
    case Kind::kGe: return Ge(-a.poly() - Poly(1));
    case Kind::kNot: return a.args()[0];
    default: break;
  }
  Guard g(Kind::kNot);
  g.node_ = std::make_shared<Node>(Node{Poly(), {a}});
  return g;
}

bool operator==(const Guard& a, const Guard& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.node_ == b.node_) return true;
  return a.node_->poly == b.node_->poly && a.node_->args == b.node_->args;
}

std::vector<Guard> Conjuncts(const Guard& g) {
  if (g.IsTrue()) return {};
  if (g.kind() == Guard::Kind::kAnd) return g.args();
  return {g};
}

void CollectPolys(const Guard& g, std::vector<Poly>* out) {
  if (g.IsTrue() || g.IsFalse()) return;
  if (g.IsGe() || g.IsEq()) {
    out->push_back(g.poly());
    return;
  }
  for (const Guard& arg : g.args()) CollectPolys(arg, out);
}

void CollectLiterals(const Guard& g, std::vector<Guard>* out) {
  if (g.IsTrue() || g.IsFalse()) return;
  if (g.kind() == Guard::Kind::kAnd) {
    for (const Guard& arg : g.args()) CollectLiterals(arg, out);
  } else if (g.kind() == Guard::Kind::kNot && g.args()[0].kind() == Guard::Kind::kAnd) {
    for (const Guard& arg : g.args()[0].args()) CollectLiterals(arg, out);
  } else {
    out->push_back(g);
  }
}

Guard Assume(const Guard& g, const Guard& holds, const Guard& fails) {
  if (g == holds) return Guard::True();
  if (g == fails) return Guard::False();
  if (g.kind() == Guard::Kind::kAnd) {
    std::vector<Guard> parts;
    for (const Guard& part : g.args()) parts.push_back(Assume(part, holds, fails));
    return Guard::And(parts);
  }
  if (g.kind() == Guard::Kind::kNot) return Guard::Not(Assume(g.args()[0], holds, fails));
  return g;
}

}  // namespace rewright::verifier
