// Tests rules that the generator finds, in the sets that it has made: each goal is stated here, and must follow from
// the named rules, and from no fewer of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "substitutions/egraph/derive.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"
#include "tests/support/made_sets.h"

namespace rewright {
namespace {

struct Goal {
  const char* name;
  const char* file;
  std::vector<const char*> rules;
  const char* text;
};

const Goal kGoals[] = {
    {"QkvMerge",
     "linear",
     {"linear-matmul-and-matmul-2"},
     "{ matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
     "=> split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])"},
    {"MergeOfKernelsByEnlarging",
     "conv",
     {"conv-conv2d-and-conv2d-3"},
     "{ conv2d(x[n, c, h, w], z[o2, c, 1, 1]), conv2d(x, y[o1, c, 3, 3], pads=[1, 1, 1, 1]) }\n"
     "=> split(conv2d(x, concat(pad(z, before=[0, 0, 1, 1], after=[0, 0, 1, 1]), y, axis=0), pads=[1, 1, 1, 1]),\n"
     "         axis=1, sizes=[o2, o1])"},
    // Batch normalization by its definition: minus the mean, times a factor, plus a shift.
    {"ConvBatchNormFolding",
     "conv",
     {"conv-conv2d-of-mul-of-transpose-2", "conv-sub-of-mul-of-mul"},
     "add(mul(sub(conv2d(x[n, c, h, w], k[o, c, r, s], pads=[1, 1, 1, 1]), m[1, o, 1, 1]), f[1, o, 1, 1]),\n"
     "    b[1, o, 1, 1])\n"
     "=> add(sub(conv2d(x, mul(k, transpose(f, perm=[1, 0, 2, 3])), pads=[1, 1, 1, 1]), mul(m, f)), b)"},
    {"ReluAndMaxPool",
     "conv",
     {"conv-max-pool2d-of-relu"},
     "relu(max_pool2d(x[n, c, h, w], kernel=[3, 3], strides=[2, 2]))"
     " => max_pool2d(relu(x), kernel=[3, 3], strides=[2, 2])"},
    {"DelayedSoftmaxDivision",
     "reduce-softmax",
     {"reduce-softmax-matmul-of-div"},
     "let e = exp(x[m, k]) in matmul(div(e, reduce_sum(e, axes=[1])), v[k, n])\n"
     "=> let f = exp(x) in div(matmul(f, v), reduce_sum(f, axes=[1]))"},
    {"LayerNormScaleIntoMatmul",
     "linear",
     {"linear-matmul-of-mul-of-reshape"},
     "let d = sub(x[m, k], reduce_mean(x, axes=[1])) in\n"
     "matmul(mul(div(d, sqrt(add(reduce_mean(mul(d, d), axes=[1]), ?e))), g[k]), w[k, n])\n"
     "=> let c = sub(x, reduce_mean(x, axes=[1])) in\n"
     "matmul(div(c, sqrt(add(reduce_mean(mul(c, c), axes=[1]), ?e))), mul(w, reshape(g, shape=[k, 1])))"},
    {"AveragePoolAsConvolution",
     "conv",
     {"conv-avg-pool2d"},
     "avg_pool2d(x[n, c, h, w], kernel=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)\n"
     "=> conv2d(x, scalar(1 / 9)[c, 1, 3, 3], pads=[1, 1, 1, 1], groups=c)"},
    {"BlockDiagonalMatmuls",
     "linear",
     {"linear-concat-of-matmul-of-matmul-6"},
     "concat(matmul(x[b1, m, k], y[b1, k, n]), matmul(z[b2, m, k], w[b2, k, n]), axis=0)\n"
     "=> matmul(concat(x, z, axis=0), concat(y, w, axis=0))"},
    {"ThreeLinearLayers",
     "linear",
     {"linear-add-of-matmul-and-add-of-matmul-and-add-of-matmul"},
     "{ add(matmul(x[m, k], y[k, n1]), p[n1]), add(matmul(x, z[k, n2]), q[n2]), add(matmul(x, w[k, n3]), r[n3]) }\n"
     "=> split(add(matmul(x, concat(y, z, w, axis=1)), concat(p, q, r, axis=0)), axis=1, sizes=[n1, n2, n3])"},
    {"ReluOfParts",
     "shape",
     {"shape-relu-of-split-and-relu-of-split"},
     "let s = split(x[n, c, h, w], axis=1, sizes=[?p, ?q]) in\n"
     "{ relu(s.0), relu(s.1) } => split(relu(x), axis=1, sizes=[?p, ?q])"},
    {"FactorsOfParts",
     "conv",
     {"conv-mul-of-split-and-mul-of-split"},
     "let s = split(x[n, c + d, h, w], axis=1, sizes=[c, d]) in { mul(s.0, a[1, c, 1, 1]), mul(s.1, b[1, d, 1, 1]) }\n"
     "=> split(mul(x, concat(a, b, axis=1)), axis=1, sizes=[c, d])"},
    {"ConvTakesInAFactorOfChannels",
     "conv",
     {"conv-mul-of-conv2d-3"},
     "mul(conv2d(x[n, c, h, w], k[o, c, r, s], pads=[1, 1, 1, 1]), f[1, o, 1, 1])\n"
     "=> conv2d(x, mul(k, transpose(f, perm=[1, 0, 2, 3])), pads=[1, 1, 1, 1])"},
    {"PointwiseConvBeforeAnAveragePool",
     "conv",
     {"conv-conv2d-of-avg-pool2d"},
     "conv2d(avg_pool2d(x[n, c, h, w], kernel=[3, 3], strides=[2, 1], count_include_pad=0), k[o, c, 1, 1])\n"
     "=> avg_pool2d(conv2d(x, k), kernel=[3, 3], strides=[2, 1], count_include_pad=0)"},
    {"DivisionByAWeight",
     "elementwise",
     {"elementwise-div-2"},
     "div(x[b, m, n], y[n]) => mul(x, reciprocal(y)) when weight(y)"},
    {"DepthwiseMerge",
     "conv",
     {"conv-conv2d-and-conv2d-4"},
     "{ conv2d(x[n, c, h, w], y[c, 1, r, s], pads=[1, 1, 1, 1], groups=c),\n"
     "  conv2d(x, z[c, 1, r, s], pads=[1, 1, 1, 1], groups=c) }\n"
     "=> split(conv2d(concat(x, x, axis=1), concat(y, z, axis=0), pads=[1, 1, 1, 1], groups=2 * c),\n"
     "         axis=1, sizes=[c, c])"},
    {"GeluByItsParts",
     "definitions",
     {"definitions-gelu-2"},
     "mul(0.5, mul(add(1, erf(div(x[m, n], 1.4142135623730951))), x)) => gelu(x)"},
    {"LayerNormByItsPartsWithPower",
     "definitions",
     {"definitions-layer-norm-5"},
     "let d = sub(x[m, k], reduce_mean(x, axes=[1])) in\n"
     "add(mul(g[k], div(d, sqrt(add(?e, reduce_mean(pow(d, 2), axes=[1]))))), h[k])\n"
     "=> layer_norm(x, g, h, axis=1, epsilon=?e)"},
    {"BatchNormAsFactorAndSum",
     "definitions",
     {"definitions-batch-norm-as-scale-and-shift"},
     "batch_norm(x[n, c, h, w], g[c], b[c], m[c], v[c], epsilon=?e)\n"
     "=> let f = div(g, sqrt(add(?e, v))) in\n"
     "add(reshape(sub(b, mul(m, f)), shape=[1, c, 1, 1]), mul(reshape(f, shape=[1, c, 1, 1]), x))\n"
     "when weight(g) and weight(b) and weight(m) and weight(v)"},
};

void ExpectFromTheNamedRulesAlone(const Goal& goal) {
  SCOPED_TRACE(goal.name);
  const auto file = ReadRules(MadeSet(goal.file));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::shared_ptr<const Matcher>> matchers;
  for (const char* name : goal.rules) {
    const auto rule = std::find_if(file->begin(), file->end(), [&](const Rule& r) { return r.name == name; });
    ASSERT_NE(rule, file->end()) << name;
    ASSERT_TRUE(rule->proof.has_value()) << name;
    const auto compiled = CompileRule(*rule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    matchers.push_back(std::make_shared<const Matcher>(*compiled, rule->proof->domain));
  }
  const auto stated = ParseRules(std::string("rule goal ") + goal.text, goal.name);
  ASSERT_TRUE(stated.ok()) << stated.status();
  const auto compiled = CompileRule((*stated)[0], RuleUse::kProof);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto derivation = Derive(**compiled, DirectedRules(matchers, /*both_ways=*/true));
  ASSERT_TRUE(derivation.ok()) << derivation.status();
  EXPECT_TRUE(derivation->derived) << derivation->missing;
  for (size_t left_out = 0; left_out < matchers.size(); ++left_out) {
    std::vector<std::shared_ptr<const Matcher>> fewer = matchers;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
    const auto without = Derive(**compiled, DirectedRules(fewer, /*both_ways=*/true));
    ASSERT_TRUE(without.ok()) << without.status();
    EXPECT_FALSE(without->derived) << "without " << goal.rules[left_out];
  }
}

TEST(GoalsOfMadeSets, FollowFromTheNamedRulesAlone) {
  for (const std::string& name : MadeSets()) {
    size_t goals = 0;
    for (const Goal& goal : kGoals) {
      if (name != goal.file) continue;
      ExpectFromTheNamedRulesAlone(goal);
      ++goals;
    }
    EXPECT_GT(goals, 0u) << name;
  }
}

}  // namespace
}  // namespace rewright
