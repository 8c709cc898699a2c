#include "core/ir/derivative.h"

#include <cmath>
#include <vector>

#include "core/interpreter/oracle.h"
#include "core/ir/op.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr DType kDouble = DType::kFloat64;

Scalar Operand(int k) { return ReadOperand(k, {}, kDouble); }

// Returns the value of an expression over two scalar operands.
double ValueAt(const Scalar& e, double a, double b) {
  Meaning meaning;
  meaning.outputs.push_back({kDouble, {}, {}, e.node()});
  const std::vector<Tensor> inputs = {Tensor::FromVector(kDouble, Shape{}, std::vector<double>{a}),
                                      Tensor::FromVector(kDouble, Shape{}, std::vector<double>{b})};
  const auto result = RunOracle(meaning, {}, {TensorType{kDouble, {}}}, inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  return (*result)[0].At(0);
}

double SlopeOf(Fn fn, int by, double a, double b) {
  const double h = 1e-5;
  const auto value = [&](double step) { return EvaluateReal(fn, by == 0 ? a + step : a, by == 1 ? b + step : b); };
  return (value(h) - value(-h)) / (2 * h);
}

// Compares the derivative of every function with differences of its values, at points where it has a slope; a mistake
// in either shows.
TEST(DerivativeTest, AgreesWithDifferencesForEveryFunction) {
  int compared = 0;
  for (const FnInfo& info : AllFns()) {
    if (!Evaluate(info.fn, 0.5, 0.5).exists || FnHas(info.fn, FnTrait::kCompares)) continue;
    std::vector<Scalar> args = {Operand(0)};
    if (info.arity == 2) args.push_back(Operand(1));
    const std::vector<Scalar> partials = Partials(Call(info.fn, args));
    ASSERT_EQ(partials.size(), args.size()) << info.name;
    const double low = info.summary != nullptr ? info.low : 0.2, high = info.summary != nullptr ? info.high : 3;
    for (int step = 0; step < 8; ++step) {
      const double a = low + (high - low) * (step + 0.37) / 8, b = 1.1 + 0.2 * step;
      for (int by = 0; by < info.arity; ++by) {
        const double expected = SlopeOf(info.fn, by, a, b);
        const double found = partials[by].node() == nullptr ? 0 : ValueAt(partials[by], a, b);
        EXPECT_NEAR(found, expected, 1e-6 * (1 + std::abs(expected))) << info.name << " by " << by << " at " << a;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(DerivativeTest, KinksArePyTorchs) {
  const Scalar x = Operand(0), y = Operand(1);
  const auto by = [&](const Scalar& call, int argument, double a, double b) {
    const Scalar partial = Partials(call)[argument];
    return partial.node() == nullptr ? 0 : ValueAt(partial, a, b);
  };
  EXPECT_EQ(by(Call(Fn::kAbs, {x}), 0, 0, 0), 0);
  // Equal operands share the derivative; a number takes all.
  EXPECT_EQ(by(Max(x, y), 0, 2, 2), 0.5);
  EXPECT_EQ(by(Max(x, y), 1, 2, 2), 0.5);
  EXPECT_EQ(by(Min(x, y), 0, 2, 2), 0.5);
  EXPECT_EQ(by(Max(x, 0.0), 0, 0, 0), 0) << "relu";
  EXPECT_EQ(by(Min(x, Constant(6, kDouble)), 0, 6, 0), 0) << "the upper end of a clamp";
  EXPECT_EQ(Partials(Max(x, 0.0))[1].node(), nullptr);
  EXPECT_EQ(by(Min(x, y), 0, 1, 2), 1);
  EXPECT_EQ(by(Min(x, y), 1, 1, 2), 0);
  // pow at an exponent or a base of zero
  EXPECT_EQ(by(Pow(x, y), 0, 0, 0), 0);
  EXPECT_EQ(by(Pow(x, y), 1, 0, 0), 0);
  EXPECT_EQ(by(Pow(x, y), 1, 0, 2), 0);
  EXPECT_EQ(by(Pow(x, y), 0, 0, 1), 1);
  EXPECT_EQ(by(Call(Fn::kFloor, {x}), 0, 2, 0), 0);
}

TEST(DerivativeTest, IntegersAndTruthValuesHaveNone) {
  const Scalar i = ReadOperand(0, {}, DType::kInt64), p = ReadOperand(0, {}, DType::kBool);
  EXPECT_EQ(Partials(i * i)[0].node(), nullptr);
  EXPECT_EQ(Partials(Call(Fn::kNot, {p}))[0].node(), nullptr);
  EXPECT_EQ(Partials(Call(Fn::kLess, {Operand(0), Operand(1)}))[1].node(), nullptr);
}

// Derivatives are made of the same functions, so they have derivatives, too.
TEST(DerivativeTest, UsesTheResultThatExists) {
  const Scalar x = Operand(0);
  EXPECT_EQ(Partials(Exp(x))[0].node(), Exp(x).node());
  EXPECT_EQ(PrintExpr(Partials(Tanh(x))[0].node(), {"x"}), "1 - tanh(x) * tanh(x)");
}

}  // namespace
}  // namespace rewright
