// Compares forms with plain evaluation, for all values of their variables.
#include "core/index/form.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/base/integer.h"
#include "core/index/compose.h"
#include "core/index/divide.h"
#include "core/index/print.h"
#include "core/index/range.h"
#include "core/ir/expr.h"
#include "forms_util.h"
#include "gtest/gtest.h"

namespace rewright::index {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

class FormTest : public testing::Test {
 protected:
  Form Var(const std::string& name, int64_t extent) { return space_.Variable(name, extent); }

  // Expects the form to have the value `expected` everywhere, and its range to hold all values.
  void ExpectEverywhere(const Form& form, const std::vector<Form>& variables,
                        const std::function<int64_t(const std::vector<int64_t>&)>& expected,
                        const Values& symbols = {}) {
    ASSERT_TRUE(form.IsKnown());
    std::vector<const Atom*> atoms;
    for (const Form& variable : variables) {
      if (variable.AsAtom() != nullptr) atoms.push_back(variable.AsAtom());
    }
    const Interval range = RangeOf(form);
    const bool non_negative = IsNonNegative(form);
    ForAll(atoms, symbols, [&](const Values& values) {
      std::vector<int64_t> at;
      for (const Form& variable : variables) at.push_back(Evaluate(variable, values));
      const int64_t value = Evaluate(form, values);
      ASSERT_EQ(value, expected(at)) << Text(form) << " at " << testing::PrintToString(at);
      ASSERT_TRUE(range.low <= value && value <= range.high) << Text(form);
      if (non_negative) {
        ASSERT_GE(value, 0) << Text(form);
      }
    });
  }

  Space space_;
};

// ---------------------------------------------------------------- laws, exhaustively

TEST_F(FormTest, DivisionAndRemainderOfSums) {
  for (int64_t d = 1; d <= 7; ++d) {
    for (int64_t extent : {1, 2, 3, 4, 6, 9}) {
      const Form x = Var("x", extent), y = Var("y", 5);
      for (int64_t a = -5; a <= 8; ++a) {
        for (int64_t b : {-6, -1, 0, 1, 2, 3, 4}) {
          for (int64_t c = -3; c <= 9; c += 2) {
            const Form sum = x * a + y * b + c;
            const auto value = [&](const std::vector<int64_t>& at) { return a * at[0] + b * at[1] + c; };
            ExpectEverywhere(FloorDiv(sum, d), {x, y}, [&](const auto& at) { return FloorDivide(value(at), d); });
            ExpectEverywhere(Mod(sum, d), {x, y}, [&](const auto& at) { return FloorRemainder(value(at), d); });
            // Expects d*(a div d) + a mod d to be the same form as a.
            EXPECT_EQ(FloorDiv(sum, d) * d + Mod(sum, d), sum) << Text(sum) << " by " << d;
          }
        }
      }
    }
  }
}

TEST_F(FormTest, NestedDivisionAndRemainder) {
  const Form x = Var("x", 50), y = Var("y", 3);
  const auto div = FloorDivide, mod = FloorRemainder;
  for (int64_t c = 1; c <= 6; ++c) {
    for (int64_t d = 1; d <= 6; ++d) {
      for (int64_t a = 1; a <= 3; ++a) {
        const Form sum = x * a + y - 2;
        const auto value = [&](const std::vector<int64_t>& at) { return a * at[0] + at[1] - 2; };
        ExpectEverywhere(FloorDiv(FloorDiv(sum, c) + y, d), {x, y},
                         [&](const auto& at) { return div(div(value(at), c) + at[1], d); });
        ExpectEverywhere(Mod(FloorDiv(sum, c) + y, d), {x, y},
                         [&](const auto& at) { return mod(div(value(at), c) + at[1], d); });
        ExpectEverywhere(FloorDiv(Mod(sum, c) + y, d), {x, y},
                         [&](const auto& at) { return div(mod(value(at), c) + at[1], d); });
        ExpectEverywhere(Mod(Mod(sum, c) * a + y, d), {x, y},
                         [&](const auto& at) { return mod(a * mod(value(at), c) + at[1], d); });
        EXPECT_EQ(FloorDiv(FloorDiv(sum, c), d), FloorDiv(sum, c * d));
        EXPECT_EQ(Mod(Mod(sum, c * d), d), Mod(sum, d));
        EXPECT_EQ(FloorDiv(Mod(sum, c * d), c), Mod(FloorDiv(sum, c), d));
      }
    }
  }
}

TEST_F(FormTest, DigitsOfANumberGiveTheNumber) {
  const Form flat = Var("flat", 2 * 3 * 5 * 7);
  const Form a = FloorDiv(flat, 105), b = Mod(FloorDiv(flat, 35), 3), c = Mod(FloorDiv(flat, 7), 5), d = Mod(flat, 7);
  EXPECT_EQ(a * 105 + b * 35 + c * 7 + d, flat);
  EXPECT_EQ(d + (c + b * 5) * 7 + a * 105, flat);
  // Digits of digits to another base are digits.
  EXPECT_EQ(Mod(b * 35 + c * 7 + d, 35), Mod(flat, 35));
  EXPECT_EQ(FloorDiv(a * 105 + b * 35 + c * 7 + d, 35), FloorDiv(flat, 35));
  EXPECT_EQ(FloorDiv(b * 35 + c * 7 + d, 7), Mod(FloorDiv(flat, 7), 15));
}

TEST_F(FormTest, RangesDecide) {
  const Form x = Var("x", 4), y = Var("y", 6);
  EXPECT_EQ(FloorDiv(y * 4 + x, 4), y);
  EXPECT_EQ(Mod(y * 4 + x, 4), x);
  EXPECT_EQ(FloorDiv(x - 4, 4), Form(-1));
  EXPECT_EQ(Mod(x - 4, 4), x);
  EXPECT_EQ(FloorDiv(Form(3) - x, 4), Form(0));
  EXPECT_EQ(rewright::index::Min(x, y + 3), x);
  EXPECT_EQ(rewright::index::Max(x, y + 3), y + 3);
  EXPECT_EQ(rewright::index::Min(y - 6, x), y - 6);
  EXPECT_EQ(RangeOf(x * 2 - y).low, -5);
  EXPECT_EQ(RangeOf(x * 2 - y).high, 6);
  EXPECT_TRUE(IsNonNegative(x * y));
  EXPECT_FALSE(IsNonNegative(x - 1));
  EXPECT_TRUE(IsWithin(Mod(y, 3), 3));
}

TEST_F(FormTest, OpenEndsStayOpen) {
  const Form data = space_.Variable("data", Interval());
  EXPECT_FALSE(RangeOf(FloorDiv(data, 8)).IsBounded());
  EXPECT_FALSE(RangeOf(data - 1).IsBounded());
  EXPECT_EQ(RangeOf(Mod(data, 8)).high, 7);
  EXPECT_TRUE(RangeOf(rewright::index::Min(rewright::index::Max(data, 0), 9)).IsBounded());
  EXPECT_FALSE(IsNonNegative(data));
  // Factors of unbounded atoms do not grow.
  EXPECT_EQ(Text(FloorDiv(-data, 8)), "(-data) div 8");
}

// ---------------------------------------------------------------- random expressions

class RandomExpression {
 public:
  RandomExpression(uint64_t seed, std::vector<Index> leaves) : rng_(seed), leaves_(std::move(leaves)) {}

  Index Make(int depth) {
    if (depth == 0 || Pick(0, 5) == 0) {
      const int64_t leaf = Pick(0, static_cast<int64_t>(leaves_.size()));
      return leaf == static_cast<int64_t>(leaves_.size()) ? Index(Pick(-7, 7)) : leaves_[leaf];
    }
    const Index a = Make(depth - 1);
    switch (Pick(0, 7)) {
      case 0: return a * Index(Pick(-4, 6));
      case 1: return a - Make(depth - 1);
      case 2: return rewright::Min(a, Make(depth - 1));
      case 3: return rewright::Max(a, Make(depth - 1));
      case 4: return rewright::FloorDiv(a, Divisor(depth));
      case 5: return rewright::Mod(a, Divisor(depth));
      case 6: return Pick(0, 3) == 0 ? a * Make(depth - 1) : a + Make(depth - 1);
      default: return a + Make(depth - 1);
    }
  }

 private:
  Index Divisor(int depth) {
    if (Pick(0, 5) > 0) return Index(Pick(1, 9));
    return rewright::Max(Make(depth - 1), Index(1));
  }
  int64_t Pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }

  std::mt19937_64 rng_;
  std::vector<Index> leaves_;
};

Form FormOf(const ExprPtr& e, const std::vector<Form>& leaves) {
  if (e->kind() == ExprKind::kInt) return e->value();
  if (e->kind() == ExprKind::kVar) return leaves[e->variable()];
  return Apply(e->kind(), FormOf(e->arg(0), leaves), FormOf(e->arg(1), leaves));
}

int64_t PlainValue(const ExprPtr& e, const std::vector<int64_t>& leaves) {
  if (e->kind() == ExprKind::kInt) return e->value();
  if (e->kind() == ExprKind::kVar) return leaves[e->variable()];
  const int64_t a = PlainValue(e->arg(0), leaves), b = PlainValue(e->arg(1), leaves);
  switch (e->kind()) {
    case ExprKind::kIndexAdd: return a + b;
    case ExprKind::kIndexSub: return a - b;
    case ExprKind::kIndexMul: return a * b;
    case ExprKind::kFloorDiv: return FloorDivide(a, b);
    case ExprKind::kMod: return FloorRemainder(a, b);
    case ExprKind::kIndexMin: return std::min(a, b);
    default: return std::max(a, b);
  }
}

std::vector<Index> Leaves(int count) {
  std::vector<Index> leaves;
  for (int id = 0; id < count; ++id) {
    leaves.push_back(Variable(id, std::string(1, static_cast<char>('x' + id))));
  }
  return leaves;
}

TEST_F(FormTest, RandomExpressionsHaveTheirValues) {
  const std::vector<Form> variables = {Var("x", 4), Var("y", 6), Var("z", 3)};
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    SCOPED_TRACE(seed);
    const ExprPtr e = RandomExpression(seed, Leaves(3)).Make(4).node();
    ExpectEverywhere(FormOf(e, variables), variables, [&](const auto& at) { return PlainValue(e, at); });
    if (HasFatalFailure()) return;
  }
}

TEST_F(FormTest, ComposedFormsHaveTheirValues) {
  const std::vector<Form> variables = {Var("x", 4), Var("y", 6), Var("z", 3)};
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const ExprPtr outer = RandomExpression(2 * seed, Leaves(3)).Make(3).node();
    const ExprPtr inner = RandomExpression(2 * seed + 1, Leaves(3)).Make(3).node();
    const Form replaced = FormOf(inner, variables);
    const Form composed = Compose(FormOf(outer, variables), {{variables[1].AsAtom(), {replaced}}});
    // Forms are simplified under y's range, and may be wrong outside of it.
    if (!(RangeOf(replaced).low >= 0 && RangeOf(replaced).high <= 5)) continue;
    ExpectEverywhere(composed, variables, [&](const auto& at) {
      return PlainValue(outer, {at[0], PlainValue(inner, at), at[2]});
    });
    const Form expanded = ExpandMods(composed, [](const Atom&) { return false; });
    ExpectEverywhere(expanded, variables, [&](const auto& at) {
      return PlainValue(outer, {at[0], PlainValue(inner, at), at[2]});
    });
    if (HasFatalFailure()) return;
  }
}

// ---------------------------------------------------------------- symbols

class SymbolTest : public FormTest {
 protected:
  SymbolTest() : h_(space_.Symbol("H", 1)), w_(space_.Symbol("W", 1)), y_(Var("y", h_)), x_(Var("x", w_)) {}
  Form Var(const std::string& name, const Form& extent) { return space_.Variable(name, extent); }

  void ExpectForAllSizes(const Form& form,
                         const std::function<int64_t(int64_t h, int64_t w, int64_t y, int64_t x)>& f) {
    for (int64_t h = 1; h <= 5; ++h) {
      for (int64_t w = 1; w <= 5; ++w) {
        ExpectEverywhere(form, {y_, x_}, [&](const auto& at) { return f(h, w, at[0], at[1]); },
                         {{h_.AsAtom(), h}, {w_.AsAtom(), w}});
      }
    }
  }

  Form h_, w_, y_, x_;
};

TEST_F(SymbolTest, RowMajorPlaces) {
  const Form flat = y_ * w_ + x_;
  EXPECT_EQ(FloorDiv(flat, w_), y_);
  EXPECT_EQ(Mod(flat, w_), x_);
  EXPECT_EQ(FloorDiv(flat * 2 + 1, w_ * 2), y_);
  EXPECT_EQ(Mod(flat * 2 + 1, w_ * 2), x_ * 2 + 1);
  EXPECT_EQ(FloorDiv(x_ - w_, w_), Form(-1));
  const Form p = space_.Variable("p", h_ * w_);
  EXPECT_EQ(FloorDiv(p, w_) * w_ + Mod(p, w_), p);
  EXPECT_EQ(FloorDiv(p, h_ * w_), Form(0));
  EXPECT_EQ(FloorDiv(FloorDiv(p, h_), w_), Form(0));
  EXPECT_EQ(FloorDiv(p, w_) * w_ * h_ + Mod(p, w_) * h_, p * h_);
  EXPECT_EQ(Text(flat), "W*y + x");
}

TEST_F(SymbolTest, NonNegative) {
  EXPECT_TRUE(IsNonNegative(h_ * w_ - y_ * w_ - x_ - 1));
  EXPECT_TRUE(IsNonNegative(h_ - y_ - 1));
  EXPECT_FALSE(IsNonNegative(h_ - y_ - 2));
  EXPECT_TRUE(IsNonNegative(h_ * w_ - h_));
  EXPECT_FALSE(IsNonNegative(h_ * w_ - h_ - 1));
  EXPECT_TRUE(IsWithin(Mod(x_ * 3 + y_, w_), w_));
  EXPECT_TRUE(IsNonNegative(FloorDiv(h_ - y_, w_)));
  EXPECT_FALSE(IsPositive(h_ - w_));
}

TEST_F(SymbolTest, RandomExpressionsHaveTheirValuesAtAllSizes) {
  const std::vector<Form> leaves = {h_, w_, y_, x_};
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    const ExprPtr e = RandomExpression(seed, Leaves(4)).Make(3).node();
    ExpectForAllSizes(FormOf(e, leaves), [&](int64_t h, int64_t w, int64_t y, int64_t x) {
      return PlainValue(e, {h, w, y, x});
    });
    if (HasFatalFailure()) return;
  }
}

TEST_F(SymbolTest, DivideIsExact) {
  Form quotient, rest;
  Divide(h_ * w_ * 6 + w_ * 3 + 5, w_ * 3, &quotient, &rest);
  EXPECT_EQ(quotient, h_ * 2 + 1);
  EXPECT_EQ(rest, Form(5));
  const Form d = h_ + w_ - 1;
  Divide(d * (h_ * 2 - w_) + y_, d, &quotient, &rest);
  EXPECT_EQ(quotient, h_ * 2 - w_);
  EXPECT_EQ(rest, y_);
  Divide(h_, w_, &quotient, &rest);
  EXPECT_EQ(quotient, Form(0));
  EXPECT_EQ(rest, h_);
}

// ---------------------------------------------------------------- structure

TEST_F(SymbolTest, AffineParts) {
  const std::optional<Affine> affine = AffineIn(y_ * w_ * 2 + x_ - h_ + 3, {y_.AsAtom(), x_.AsAtom()});
  ASSERT_TRUE(affine);
  EXPECT_EQ(affine->constant, Form(3) - h_);
  EXPECT_EQ(affine->factors, (std::vector<Form>{w_ * 2, 1}));
  EXPECT_FALSE(AffineIn(x_ * y_, {y_.AsAtom(), x_.AsAtom()}));
  EXPECT_TRUE(AffineIn(x_ * y_, {y_.AsAtom()}));
  EXPECT_FALSE(AffineIn(x_ * x_, {x_.AsAtom()}));
  EXPECT_FALSE(AffineIn(x_ + FloorDiv(x_, 2), {x_.AsAtom()}));
  EXPECT_TRUE(AffineIn(x_ + FloorDiv(y_, 2), {x_.AsAtom()}));
  EXPECT_FALSE(AffineIn(Form::Unknown(), {}));
}

TEST_F(SymbolTest, ScaledReplacement) {
  // Replaces 2*x by p, and x elsewhere by p div 2.
  const Form p = space_.Fresh("p");
  const Substitution doubled = {{x_.AsAtom(), {p, 2}}};
  EXPECT_EQ(Compose(x_ * 6 + 1, doubled), p * 3 + 1);
  EXPECT_EQ(Compose(x_ * 3, doubled), FloorDiv(p, 2) * 3);
  const Substitution by_symbol = {{x_.AsAtom(), {p, h_}}};
  EXPECT_EQ(Compose(x_ * h_ * w_, by_symbol), p * w_);
}

TEST_F(SymbolTest, LeavesAndExtents) {
  EXPECT_EQ(LeavesOf(FloorDiv(y_ + h_, w_)), (std::vector<const Atom*>{h_.AsAtom(), w_.AsAtom(), y_.AsAtom()}));
  EXPECT_TRUE(Contains(Mod(y_ * 3, w_), y_.AsAtom()));
  EXPECT_FALSE(Contains(Mod(y_ * 3, w_), x_.AsAtom()));
  EXPECT_EQ(ExtentOf(y_.AsAtom()), h_);
  EXPECT_EQ(ExtentOf(space_.Variable("n", 7).AsAtom()), Form(7));
  EXPECT_FALSE(ExtentOf(space_.Fresh("p").AsAtom()).IsKnown());
  EXPECT_EQ(space_.Variable("one", 1), Form(0));
}

// ---------------------------------------------------------------- numbers that do not fit

TEST_F(FormTest, OverflowIsUnknown) {
  const Form x = Var("x", 4);
  EXPECT_FALSE((Form(kMax) + 1).IsKnown());
  EXPECT_FALSE((Form(kMin) - 1).IsKnown());
  EXPECT_FALSE((-Form(kMin)).IsKnown());
  EXPECT_FALSE((x * kMax * 2).IsKnown());
  EXPECT_FALSE((x * kMax + x).IsKnown());
  EXPECT_FALSE((x * (int64_t{1} << 40) * (x * (int64_t{1} << 40))).IsKnown());
  EXPECT_FALSE(FloorDiv(x, 0).IsKnown());
  EXPECT_FALSE(Mod(x, -3).IsKnown());
  const Form unknown = Form::Unknown();
  for (const Form& form : {unknown + 1, Form(1) - unknown, unknown * 0, FloorDiv(unknown, 2), Mod(3, unknown),
                           rewright::index::Min(unknown, 1), rewright::index::Max(x, unknown),
                           Compose(x * kMax, {{x.AsAtom(), {x * 2}}})}) {
    EXPECT_FALSE(form.IsKnown());
    EXPECT_FALSE(form.IsConstant());
    EXPECT_FALSE(IsNonNegative(form));
    EXPECT_FALSE(RangeOf(form).IsBounded());
    EXPECT_NE(form, form);
  }
  // Results that fit are exact, also beyond the limits of ranges.
  EXPECT_EQ((Form(kMax) - kMax).constant(), 0);
  EXPECT_EQ(FloorDiv(Form(kMin), 3).constant(), kMin / 3 - 1);
  EXPECT_EQ(Form(kMin).Divisor(), kMin);
  EXPECT_EQ(Magnitude(x * kMax), kInfinity);
}

TEST_F(FormTest, MagnitudeIsOfAllSteps) {
  const Form x = Var("x", 100);
  EXPECT_EQ(Magnitude(x), 99);
  EXPECT_EQ(Magnitude(x * 3 - 1), 298);
  EXPECT_EQ(Magnitude(Mod(x * 3, 10)), 297);
  EXPECT_EQ(Magnitude(FloorDiv(x * 7 + 2, 50) * 2), 695);
}

TEST_F(FormTest, DivisorOfAllParts) {
  const Form x = Var("x", 9), y = Var("y", 9);
  EXPECT_EQ((x * 6 - y * 4 + 10).Divisor(), 2);
  EXPECT_EQ(Form(0).Divisor(), 0);
  EXPECT_EQ((x * 6 - 9).Divisor(), 3);
}

// ---------------------------------------------------------------- text

TEST_F(FormTest, Text) {
  const Form x = Var("x", 9), y = Var("y", 9), n = space_.Variable("n", Interval{-5, 5});
  EXPECT_EQ(Text(x * 4 - y + 3), "4*x - y + 3");
  EXPECT_EQ(Text(-x), "-x");
  EXPECT_EQ(Text(Form(-2)), "-2");
  EXPECT_EQ(Text(FloorDiv(x + y, 4) * 2), "2*((x + y) div 4)");
  EXPECT_EQ(Text(Mod(FloorDiv(x, 2), 3)), "(x div 2) mod 3");
  EXPECT_EQ(Text(rewright::index::Min(x, y)), "min(x, y)");
  EXPECT_EQ(Text(x * y * 2), "2*x*y");
  EXPECT_EQ(Text(Form::Unknown()), "unknown");
  EXPECT_EQ(CText(x), "x");
  EXPECT_EQ(CText(Form(-2)), "(-2)");
  EXPECT_EQ(CText(x * 4 - y + 3), "(4*x-y+3)");
  EXPECT_EQ(CText(-x - 3), "(-x-3)");
  EXPECT_EQ(CText(FloorDiv(x + y, 4) * 2), "(2*((x+y)/4))");
  EXPECT_EQ(CText(Mod(x, 2)), "(x%2)");
  EXPECT_EQ(CText(FloorDiv(n, 2)), "floor_div(n,2)");
  EXPECT_EQ(CText(Mod(n, 2) + 1), "(floor_mod(n,2)+1)");
  EXPECT_EQ(CText(rewright::index::Max(x, y)), "index_max(x,y)");
  EXPECT_EQ(CText(x * y), "(x*y)");
}

TEST_F(FormTest, LeavesAreTheSameByNameRangeAndTag) {
  EXPECT_EQ(space_.Variable("t", 5), space_.Variable("t", 5));
  EXPECT_NE(space_.Variable("t", 5), space_.Variable("t", 6));
  EXPECT_NE(space_.Variable("t", 5, 1), space_.Variable("t", 5, 2));
  EXPECT_NE(space_.Fresh("t", 5), space_.Fresh("t", 5));
}

}  // namespace
}  // namespace rewright::index
