// All small terms of index arithmetic, each with its values by plain evaluation: x, y, sizes m and n and a few numbers
// under +, *, div, mod and min, up to three operations. Whoever computes with indices is held against them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/integer.h"
#include "core/ir/expr.h"
#include "tests/counts.h"

namespace rewright {

struct SmallPoint {
  int64_t m, n, x, y;
};

// The points with m, n from 1 to `most`, 0 <= x < extent_x(m, n) and 0 <= y < extent_y(m, n).
template <typename Extent>
std::vector<SmallPoint> SmallBox(int64_t most, const Extent& extent_x, const Extent& extent_y) {
  std::vector<SmallPoint> points;
  for (int64_t m = 1; m <= most; ++m) {
    for (int64_t n = 1; n <= most; ++n) {
      for (int64_t x = 0; x < extent_x(m, n); ++x) {
        for (int64_t y = 0; y < extent_y(m, n); ++y) points.push_back({m, n, x, y});
      }
    }
  }
  return points;
}

// A term as a Number of the arithmetic at hand.
template <typename Number>
struct SmallTerm {
  Number number;
  std::vector<int64_t> values;  // at the points
  std::string text;
  bool positive = false;  // a sum or product of sizes and positive numbers: it may divide
  bool constant = false;

  int64_t Least() const { return *std::min_element(values.begin(), values.end()); }
  int64_t Greatest() const { return *std::max_element(values.begin(), values.end()); }
};

// Makes the terms by `apply`, a function of (ExprKind, Number, Number) for the kinds below.
template <typename Number, typename Apply>
class SmallTerms {
 public:
  using Term = SmallTerm<Number>;
  static constexpr int64_t kNumbers[] = {2, 3, -3};

  // The leaves are m, n, x, y as Numbers.
  SmallTerms(const std::vector<SmallPoint>& points, const Number& m, const Number& n, const Number& x, const Number& y,
             const Apply& apply)
      : apply_(apply) {
    AddLeaf(points, m, "m", true, [](const SmallPoint& p) { return p.m; });
    AddLeaf(points, n, "n", true, [](const SmallPoint& p) { return p.n; });
    AddLeaf(points, x, "x", false, [](const SmallPoint& p) { return p.x; });
    AddLeaf(points, y, "y", false, [](const SmallPoint& p) { return p.y; });
    for (int64_t number : kNumbers) {
      AddLeaf(points, Number(number), std::to_string(number), number > 0, [=](const SmallPoint&) { return number; });
      leaves_.back().constant = true;
    }
  }

  // Calls visit(term) for all terms of one and two operations, and for today's part of those of three: one of every
  // `step`. Returns how many there were.
  template <typename Visit>
  int64_t ForEach(size_t step, const Visit& visit) const {
    int64_t visited = 0;
    const auto show = [&](const Term& term) {
      ++visited;
      visit(term);
    };
    std::vector<Term> ones, twos;
    ForEachPair(leaves_, leaves_, [&](ExprKind kind, const Term& a, const Term& b) {
      if (!(a.constant && b.constant)) show(ones.emplace_back(Combine(kind, a, b)));
    });
    const auto keep = [&](ExprKind kind, const Term& a, const Term& b) {
      show(twos.emplace_back(Combine(kind, a, b)));
    };
    ForEachPair(ones, leaves_, keep);
    ForEachQuotient(leaves_, ones, keep);
    size_t number = 0;
    const size_t today = step == 1 ? 0 : FirstOfToday(step);
    const auto part = [&](ExprKind kind, const Term& a, const Term& b) {
      if (number++ % step == today) show(Combine(kind, a, b));
    };
    ForEachPair(twos, leaves_, part);
    ForEachQuotient(leaves_, twos, part);
    ForEachPair(ones, ones, part);
    return visited;
  }

 private:
  template <typename Value>
  void AddLeaf(const std::vector<SmallPoint>& points, const Number& number, const std::string& text, bool positive,
               const Value& value) {
    Term& leaf = leaves_.emplace_back(Term{number, {}, text, positive, false});
    for (const SmallPoint& point : points) leaf.values.push_back(value(point));
  }

  // All applications to an `a` and a `b`; of two that differ in the order of the operands alone, one.
  template <typename Visit>
  void ForEachPair(const std::vector<Term>& as, const std::vector<Term>& bs, const Visit& visit) const {
    for (size_t a = 0; a < as.size(); ++a) {
      for (size_t b = &as == &bs ? a : 0; b < bs.size(); ++b) {
        for (ExprKind kind : {ExprKind::kIndexAdd, ExprKind::kIndexMul, ExprKind::kIndexMin}) visit(kind, as[a], bs[b]);
      }
    }
    ForEachQuotient(as, bs, visit);
  }

  template <typename Visit>
  void ForEachQuotient(const std::vector<Term>& as, const std::vector<Term>& bs, const Visit& visit) const {
    for (const Term& a : as) {
      for (const Term& b : bs) {
        if (!b.positive) continue;
        for (ExprKind kind : {ExprKind::kFloorDiv, ExprKind::kMod}) visit(kind, a, b);
      }
    }
  }

  Term Combine(ExprKind kind, const Term& a, const Term& b) const {
    const bool keeps_sign = kind == ExprKind::kIndexAdd || kind == ExprKind::kIndexMul;
    Term term{apply_(kind, a.number, b.number),
              {},
              "(" + a.text + Symbol(kind) + b.text + ")",
              keeps_sign && a.positive && b.positive,
              false};
    term.values.reserve(a.values.size());
    for (size_t k = 0; k < a.values.size(); ++k) term.values.push_back(Value(kind, a.values[k], b.values[k]));
    return term;
  }

  static const char* Symbol(ExprKind kind) {
    switch (kind) {
      case ExprKind::kIndexAdd: return " + ";
      case ExprKind::kIndexMul: return " * ";
      case ExprKind::kFloorDiv: return " div ";
      case ExprKind::kMod: return " mod ";
      default: return " min ";
    }
  }

  static int64_t Value(ExprKind kind, int64_t a, int64_t b) {
    switch (kind) {
      case ExprKind::kIndexAdd: return a + b;
      case ExprKind::kIndexMul: return a * b;
      case ExprKind::kFloorDiv: return FloorDivide(a, b);
      case ExprKind::kMod: return FloorRemainder(a, b);
      default: return std::min(a, b);
    }
  }

  const Apply& apply_;
  std::vector<Term> leaves_;
};

}  // namespace rewright
