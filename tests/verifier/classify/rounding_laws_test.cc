#include "verifier/classify/rounding_laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "tests/verifier/rules_util.h"
#include "verifier/classify/prove_rounding.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Gives the rule's largest instance with few axes.
RuleInstance InstanceOf(const std::string& text) {
  const auto compiled = CompileRule(RuleOf(text), RuleUse::kProof);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  const auto instances = Instances(**compiled, SmallLimits(**compiled));
  EXPECT_TRUE(instances.ok()) << instances.status();
  return instances->back();
}

RoundingOfInstance RoundingOf(const std::string& text) { return ProveRounding(InstanceOf(text), true, ProofOptions()); }

struct OperationsCase {
  const char* rule;
  bool same;
  bool stored;
};

void PrintTo(const OperationsCase& c, std::ostream* os) { *os << c.rule; }

class Operations : public ::testing::TestWithParam<OperationsCase> {};

TEST_P(Operations, AreTheSame) {
  const RuleInstance instance = InstanceOf(GetParam().rule);
  const bool same = ProveRounding(instance, true, ProofOptions()).same_operations;
  EXPECT_EQ(same, GetParam().same);
  EXPECT_EQ(ProveRoundingOnHalves(instance, same, ProofOptions()).same_operations, GetParam().stored);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Operations,
    ::testing::Values(
        // A constant that is computed: the prover meets a stand-in for its operation outside of every node.
        OperationsCase{"rule r avg_pool2d(x[n, c, h, w], kernel=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1) => "
                       "conv2d(x, scalar(1 / 9)[c, 1, 3, 3], pads=[1, 1, 1, 1], groups=c)",
                       false, false},
        // Products of one matrix side by side; a sum in another order, and the same sum.
        OperationsCase{"rule r { matmul(x[m, k], y[k, n]), matmul(x, z[k, l]) } "
                       "=> split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n, l])",
                       true, true},
        // Which part of a concatenation a group of channels lies in.
        OperationsCase{"rule r concat(conv2d(x[n, c, h, w], y[o, c, r, s]),"
                       " conv2d(z[n, c, h, w], k[o, c, r, s]), axis=1)"
                       " => conv2d(concat(x, z, axis=1), concat(y, k, axis=0), groups=2)",
                       true, true},
        OperationsCase{"rule r concat(conv2d(x[n, c, h, w], y[o, c, r, s]),"
                       " conv2d(z[n, c, h, w], k[o, c, r, s]), axis=1)"
                       " => conv2d(concat(x, z, axis=1), concat(k, y, axis=0), groups=2)",
                       false, false},
        OperationsCase{"rule r { conv2d(x[n, g * i, h, w], y[g * o, i, r, s], groups=g),"
                       " conv2d(x, k[g * o, i, r, s], groups=g) }"
                       " => split(conv2d(concat(x, x, axis=1), concat(y, k, axis=0), groups=g + g), axis=1,"
                       " sizes=[g * o, g * o]) when g > 1",
                       true, true},
        OperationsCase{"rule r reduce_sum(reduce_sum(x[m, n], axes=[0]), axes=[0])"
                       " => reduce_sum(x, axes=[0, 1])",
                       false, false},
        OperationsCase{"rule r reduce_sum(transpose(x[m, n], perm=[1, 0]), axes=[0], keepdims=0)"
                       " => reduce_sum(x, axes=[1], keepdims=0)",
                       true, true},
        // A sum of one term, and the term: the law keeps them apart.
        OperationsCase{"rule r reduce_sum(x[1, n], axes=[0], keepdims=0) => reshape(x, shape=[n])", false, false},
        OperationsCase{"rule r reduce_sum(x[1, m, n], axes=[0, 1], keepdims=0)"
                       " => reduce_sum(reshape(x, shape=[m, n]), axes=[0], keepdims=0)",
                       true, true},
        // The sum is computed in another type, or stored in one.
        OperationsCase{"rule r cast(reduce_sum(x: f32[n], axes=[0]), to=f64) => reduce_sum(cast(x, to=f64), axes=[0])",
                       false, false},
        OperationsCase{"rule r cast(reduce_sum(1: f16[n], axes=[0]), to=f32) => reduce_sum(1: f32[n], axes=[0])", false,
                       false},
        OperationsCase{"rule r add(add(x[n], y[n]), z[n]) => add(x, add(y, z))", false, false},
        OperationsCase{"rule r add(x[n], y[n]) => add(y, x)", true, true},
        // The number next to a result is an odd function of it.
        OperationsCase{"rule r sub(x[n], y[n]) => add(x, neg(y))", true, true},
        OperationsCase{"rule r mul(neg(x[n]), y[n]) => neg(mul(x, y))", true, true},
        OperationsCase{"rule r div(x[n], 2) => mul(x, 0.5)", true, true},
        OperationsCase{"rule r div(x[n], 3) => mul(x, 0.25)", false, false},
        // In 16-bit storage a product that is stored before it is added is another number.
        OperationsCase{"rule r mul(x[n], sigmoid(x)) => swish(x)", true, false},
        OperationsCase{"rule r cast(cast(x: f32[n], to=f64), to=f32) => x", true, true},
        OperationsCase{"rule r add(cast(x: f32[n], to=f64), cast(y: f32[n], to=f64)) => cast(add(x, y), to=f64)", false,
                       false}));

TEST(Magnitudes, AreTheSameWhereNothingCancels) {
  for (const char* rule : {"rule r mul(x[n], add(y[n], z[n])) => add(mul(x, y), mul(x, z))",
                           "rule r add(add(x[n], y[n]), z[n]) => add(x, add(y, z))",
                           "rule r matmul(matmul(x[m, k], y[k, l]), z[l, n]) => matmul(x, matmul(y, z))"}) {
    EXPECT_TRUE(RoundingOf(rule).same_magnitudes) << rule;
  }
}

TEST(Magnitudes, AreLostWhereOneSideCancels) {
  const RoundingOfInstance removed = RoundingOf("rule r sub(add(x[n], y[n]), y) => x");
  EXPECT_GT(removed.loss, 1e4);
  EXPECT_FALSE(removed.same_magnitudes);
  EXPECT_GT(RoundingOf("rule r identity(x[n]) => sub(add(x, exp(x)), exp(x))").growth, 1e4);
  EXPECT_LT(RoundingOf("rule r sub(add(x[n], x), x) => x").loss, 4);
}

// The ratio grows with a size, or between elements of one leaf: leaves of one size at small sizes show neither.
TEST(Magnitudes, AreLostAtLargeSizesAndBetweenElements) {
  EXPECT_GT(RoundingOf("rule r reduce_mean(sub(x[m, n], reduce_mean(x, axes=[1])), axes=[1])"
                       " => reduce_sum(sub(x, reduce_mean(x, axes=[1])), axes=[1])")
                .growth,
            500);
  // The size is tied to another one, either way.
  for (const char* condition : {"n == 2 * k", "k == 3 * n", "n == k * l", "n >= k + 600", "n + 5 == k"}) {
    const std::string rule = absl::StrCat(
        "rule r { reduce_mean(sub(x[m, n], reduce_mean(x, axes=[1])), axes=[1]), relu(y[k, l]) }"
        " => { reduce_sum(sub(x, reduce_mean(x, axes=[1])), axes=[1]), relu(y) } when ",
        condition);
    EXPECT_GT(RoundingOf(rule).growth, 500) << rule;
  }
  // Two elements apart, of which one side adds and takes away the third.
  EXPECT_GT(RoundingOf("rule r reduce_sum(slice(x[3], starts=[0], stops=[2], steps=[1]), axes=[0])"
                       " => sub(reduce_sum(x, axes=[0]), slice(x, starts=[2], stops=[3], steps=[1]))")
                .growth,
            1e3);
}

// A constant of a rule may be computed: -3 / 4 and 1 - n have a sign like any other number.
TEST(Magnitudes, HaveNoSignInConstantsThatAreComputed) {
  for (const char* rule :
       {"rule r identity(x[n]) => add(add(x, mul(exp(x), scalar(3 / 4))), mul(exp(x), scalar(-3 / 4)))",
        "rule r identity(x[n]) => add(mul(x, scalar(n)), mul(x, scalar(1 - n)))"}) {
    EXPECT_GT(RoundingOf(rule).growth, 1e3) << rule;
  }
}

// A proof that divides shows magnitudes: they are positive. An infinity where an extremum begins is none.
TEST(Magnitudes, ArePositiveAndFinite) {
  for (const char* rule : {"rule r div(x[n], div(y[n], z[n])) => div(mul(x, z), y)",
                           "rule r max_pool2d(relu(x[n, c, h, w]), kernel=[3, 3], pads=[1, 1, 1, 1])"
                           " => relu(max_pool2d(x, kernel=[3, 3], pads=[1, 1, 1, 1]))"}) {
    EXPECT_TRUE(RoundingOf(rule).same_magnitudes) << rule;
  }
}

// The new values of a rule, by the names of their operators.
std::vector<std::string> NewValues(const std::string& text) {
  const RuleInstance instance = InstanceOf(text);
  std::vector<std::string> names;
  for (int node : ProveRoundingOnHalves(instance, false, ProofOptions()).new_values) {
    names.push_back(instance.nodes[static_cast<size_t>(node)].op->name);
  }
  return names;
}

TEST(NewValues, AreThoseThatNoValueOfTheLeftSideBounds) {
  EXPECT_THAT(NewValues("rule r add(matmul(x[m, k], w[k, n]), matmul(z[m, k], w)) => matmul(add(x, z), w)"),
              ElementsAre("add"));
  EXPECT_THAT(NewValues("rule r mul(matmul(x[m, k], y[k, n]), a[1, 1]) => matmul(mul(x, a), y)"), ElementsAre("mul"));
  EXPECT_THAT(NewValues("rule r matmul(mul(x[m, k], a[1, 1]), y[k, n]) => mul(matmul(x, y), a)"),
              ElementsAre("matmul"));
  // A value that is only moved, or the greatest of some, is no larger; nor is a part of a value of the left side.
  EXPECT_THAT(NewValues("rule r relu(concat(x[m], y[n], axis=0)) => concat(relu(x), relu(y), axis=0)"), IsEmpty());
  EXPECT_THAT(NewValues("rule r matmul(concat(x[m, k], z[l, k], axis=0), y[k, n]) "
                        "=> concat(matmul(x, y), matmul(z, y), axis=0)"),
              IsEmpty());
}

}  // namespace
}  // namespace rewright
