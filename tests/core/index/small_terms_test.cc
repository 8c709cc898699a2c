// Forms of all small terms against plain evaluation at every point of a box.
#include "tests/support/small_terms.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "core/index/form.h"
#include "core/index/print.h"
#include "core/index/range.h"
#include "forms_util.h"

namespace rewright::index {
namespace {

using Extent = std::function<int64_t(int64_t m, int64_t n)>;

class SmallForms : public ::testing::Test {
 protected:
  // x and y are below their extents, as numbers and as forms.
  void ExpectRight(const Extent& extent_x, const Form& form_x, const Extent& extent_y, const Form& form_y) {
    const std::vector<SmallPoint> points = SmallBox(3, extent_x, extent_y);
    const Form x = space_.Variable("x", form_x), y = space_.Variable("y", form_y);
    std::vector<Values> values;
    for (const SmallPoint& point : points) {
      values.push_back({{m_.AsAtom(), point.m}, {n_.AsAtom(), point.n}, {x.AsAtom(), point.x}, {y.AsAtom(), point.y}});
    }
    const auto apply = [](ExprKind kind, const Form& a, const Form& b) { return Apply(kind, a, b); };
    const SmallTerms<Form, decltype(apply)> terms(points, m_, n_, x, y, apply);
    const int64_t visited = terms.ForEach(AllCases() ? 1 : 20, [&](const SmallTerm<Form>& term) {
      ASSERT_TRUE(term.number.IsKnown()) << term.text;
      const Interval range = RangeOf(term.number);
      const int64_t least = term.Least(), greatest = term.Greatest();
      EXPECT_TRUE(range.low <= least && greatest <= range.high) << term.text << ": " << range.low << " " << range.high;
      EXPECT_FALSE(IsNonNegative(term.number - (least + 1))) << term.text << " is " << least << " somewhere";
      EXPECT_FALSE(IsNonNegative(Form(greatest - 1) - term.number)) << term.text << " is " << greatest << " somewhere";
      const Form low = BoundOf(term.number, /*upper=*/false), high = BoundOf(term.number, /*upper=*/true);
      for (size_t k = 0; k < points.size(); ++k) {
        ASSERT_EQ(Evaluate(term.number, values[k]), term.values[k]) << term.text << " is not " << Text(term.number);
        if (low.IsKnown()) {
          ASSERT_LE(Evaluate(low, values[k]), term.values[k]) << term.text << " is not above " << Text(low);
        }
        if (high.IsKnown()) {
          ASSERT_GE(Evaluate(high, values[k]), term.values[k]) << term.text << " is not below " << Text(high);
        }
      }
    });
    std::cout << visited << " terms at " << points.size() << " points\n";
  }

  Space space_;
  const Form m_ = space_.Symbol("m", 1), n_ = space_.Symbol("n", 1);
};

TEST_F(SmallForms, OfAVariableForEachSize) {
  ExpectRight([](int64_t m, int64_t) { return m; }, m_, [](int64_t, int64_t n) { return n; }, n_);
}

TEST_F(SmallForms, OfAPositionInAProduct) {
  ExpectRight([](int64_t m, int64_t n) { return m * n; }, m_ * n_, [](int64_t, int64_t) { return 4; }, 4);
}

}  // namespace
}  // namespace rewright::index
