#include "substitutions/egraph/egraph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "substitutions/egraph/reverse_rule.h"
#include "substitutions/egraph/saturate.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<std::shared_ptr<const Matcher>> MatchersOf(const std::string& text) {
  std::vector<std::shared_ptr<const Matcher>> matchers;
  auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  for (const Rule& rule : *rules) {
    auto compiled = CompileRule(rule);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    matchers.push_back(std::make_shared<const Matcher>(*compiled));
  }
  return matchers;
}

std::vector<Value> AddTo(EGraph& egraph, const std::string& text, const std::map<std::string, Tensor>& weights = {}) {
  auto classes = egraph.Add(GraphOf(text, weights));
  EXPECT_TRUE(classes.ok()) << classes.status();
  return *classes;
}

// True if the rules make the outputs of the two graphs equal, one by one.
bool Meet(const std::string& rules, const std::string& a, const std::string& b, bool both_ways = false) {
  EGraph egraph;
  const std::vector<Value> left = AddTo(egraph, a), right = AddTo(egraph, b);
  Saturate(egraph, DirectedRules(MatchersOf(rules), both_ways));
  EXPECT_TRUE(egraph.IsCongruent());
  bool equal = left.size() == right.size();
  for (size_t k = 0; equal && k < left.size(); ++k) equal = egraph.Equal(left[k], right[k]);
  return equal;
}

// ---------------------------------------------------------------- the structure

TEST(EGraphTest, EqualGraphsAreOne) {
  EGraph egraph;
  const char* text = "input x: f32[2,3]\n%1 = relu(x)\n%2 = exp(%1)\noutput a = %2\n";
  EXPECT_EQ(AddTo(egraph, text), AddTo(egraph, text));
  EXPECT_EQ(egraph.num_nodes(), 3);
  EXPECT_EQ(egraph.num_classes(), 3);
}

TEST(EGraphTest, UnionsReachUsersOfUsers) {
  EGraph egraph;
  const std::vector<Value> values = AddTo(egraph,
                                          "input x: f32[2]\ninput y: f32[2]\n%1 = relu(x)\n%2 = exp(%1)\n%3 = relu(y)\n"
                                          "%4 = exp(%3)\noutput a = x\noutput b = y\noutput c = %2\noutput d = %4\n");
  EXPECT_FALSE(egraph.Equal(values[2], values[3]));
  EXPECT_TRUE(egraph.Union(values[0], values[1]));
  EXPECT_FALSE(egraph.Union(values[0], values[1]));
  egraph.Rebuild();
  EXPECT_TRUE(egraph.Equal(values[2], values[3]));
  EXPECT_EQ(egraph.num_nodes(), 4);  // two leaves, a relu, an exp
  EXPECT_EQ(egraph.num_classes(), 3);
  EXPECT_TRUE(egraph.IsCongruent());
}

TEST(EGraphTest, OperandsOfCommutativeOperatorsHaveNoOrder) {
  EGraph egraph;
  const std::vector<Value> values =
      AddTo(egraph,
            "input x: f32[2,3]\ninput y: f32[3]\n%1 = add(x, y)\n%2 = add(y, x)\n%3 = sub(x, y)\n%4 = sub(y, x)\n"
            "output a = %1\noutput b = %2\noutput c = %3\noutput d = %4\n");
  EXPECT_TRUE(egraph.Equal(values[0], values[1]));
  EXPECT_FALSE(egraph.Equal(values[2], values[3]));
}

TEST(EGraphTest, AClassMayDependOnItself) {
  EGraph egraph;
  const std::vector<Value> values =
      AddTo(egraph, "input x: f32[2]\n%1 = relu(x)\n%2 = relu(%1)\n%3 = relu(%2)\noutput a = %1\noutput b = %3\n");
  Saturate(egraph, DirectedRules(MatchersOf("rule r relu(relu(x)) => relu(x)"), false));
  EXPECT_TRUE(egraph.Equal(values[0], values[1]));
  EXPECT_THAT(egraph.Nodes(values[0]), SizeIs(2));  // relu(x) and the relu of the class itself
  EXPECT_TRUE(egraph.IsCongruent());
}

TEST(EGraphTest, OutputsOfOneApplicationLieInTheirOwnClasses) {
  EGraph egraph;
  const std::vector<Value> values =
      AddTo(egraph,
            "input x: f32[4]\ninput y: f32[4]\n%1.0, %1.1 = split(x, axis=0, sizes=[1,3])\n"
            "%2.0, %2.1 = split(y, axis=0, sizes=[1,3])\n%3 = relu(%1.1)\n%4 = relu(%2.1)\n"
            "output a = x\noutput b = y\noutput c = %1.0\noutput d = %2.0\noutput e = %3\noutput f = %4\n");
  EXPECT_FALSE(egraph.Equal(values[2], values[3]));
  egraph.Union(values[0], values[1]);
  egraph.Rebuild();
  EXPECT_TRUE(egraph.Equal(values[2], values[3]));
  EXPECT_TRUE(egraph.Equal(values[4], values[5]));
  EXPECT_FALSE(egraph.Equal(values[2], values[4]));
}

TEST(EGraphTest, TheRepresentativeSaysWhatIsKnown) {
  EGraph egraph;
  const std::vector<Value> values =
      AddTo(egraph,
            "input x: f32[2]\nstate w: f32[2]\nconst %1: f32[2] = [1,1]\n%2 = relu(x)\n%3 = relu(w)\n"
            "output a = %2\noutput b = %3\noutput c = %1\n");
  const Arena& arena = *egraph.arena();
  EXPECT_FALSE(arena.IsKnown(egraph.Find(values[0])));
  egraph.Union(values[0], values[1]);
  EXPECT_TRUE(arena.IsKnown(egraph.Find(values[0])));
  egraph.Union(values[0], values[2]);
  EXPECT_EQ(arena.node(egraph.Find(values[1]).node).leaf, LeafKind::kConstant);
}

TEST(EGraphTest, ALeafNameStandsForOneLeaf) {
  EGraph egraph;
  AddTo(egraph, "input x: f32[2]\n%1 = relu(x)\noutput a = %1\n");
  EXPECT_FALSE(egraph.Add(GraphOf("input x: f32[3]\n%1 = relu(x)\noutput a = %1\n")).ok());
}

// ---------------------------------------------------------------- rules

constexpr char kAssociate[] = "rule a add(add(x[n], y[n]), z[n]) => add(x, add(y, z))\n";

TEST(EGraphTest, MatchesGoThroughAllMembersOfAClass) {
  // add(exp(x), y) is no sum of sums, but its first operand's class has a member that makes it one.
  EGraph egraph;
  const std::vector<Value> values =
      AddTo(egraph,
            "input p: f32[2]\ninput q: f32[2]\ninput y: f32[2]\n%1 = exp(p)\n%2 = add(%1, y)\n%3 = add(p, q)\n"
            "%4 = add(q, y)\n%5 = add(p, %4)\noutput a = %1\noutput b = %2\noutput c = %3\noutput d = %5\n");
  egraph.Union(values[0], values[2]);
  Saturate(egraph, DirectedRules(MatchersOf(kAssociate), false));
  EXPECT_TRUE(egraph.Equal(values[1], values[3]));
}

TEST(EGraphTest, AllSumsOfFourAreOneClass) {
  const char* head = "input a: f32[2]\ninput b: f32[2]\ninput c: f32[2]\ninput d: f32[2]\n";
  EXPECT_TRUE(Meet(kAssociate, absl::StrCat(head, "%1 = add(a, b)\n%2 = add(%1, c)\n%3 = add(%2, d)\noutput o = %3\n"),
                   absl::StrCat(head, "%1 = add(d, b)\n%2 = add(c, a)\n%3 = add(%1, %2)\noutput o = %3\n")));
}

constexpr char kMergeSharedLhs[] =
    "rule m { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
    "=> split(matmul(x, concat(y, z, axis=1)), axis=len(b) + 1, sizes=[n1, n2])\n";

TEST(EGraphTest, SiblingsAreMergedInTheOrderOfTheRule) {
  const char* head = "input x: f32[3,4]\nstate y: f32[4,5]\nstate z: f32[4,6]\n";
  const std::string two = absl::StrCat(head, "%1 = matmul(x, y)\n%2 = matmul(x, z)\noutput p = %1\noutput q = %2\n");
  EXPECT_TRUE(Meet(kMergeSharedLhs, two,
                   absl::StrCat(head,
                                "%1 = concat(y, z, axis=1)\n%2 = matmul(x, %1)\n%3.0, %3.1 = split(%2, axis=1, "
                                "sizes=[5,6])\noutput p = %3.0\noutput q = %3.1\n")));
  EXPECT_FALSE(Meet(kMergeSharedLhs, two,
                    absl::StrCat(head,
                                 "%1 = concat(z, y, axis=1)\n%2 = matmul(x, %1)\n%3.0, %3.1 = split(%2, axis=1, "
                                 "sizes=[6,5])\noutput p = %3.0\noutput q = %3.1\n")));
}

TEST(EGraphTest, AllOutputsOfAClassAsOperands) {
  const char* rules =
      "rule r concat(split(x, axis=?a, sizes=?z).., axis=?a) => x\n"
      "rule s relu(relu(x)) => relu(x)\n";
  const char* head = "input x: f32[5]\n%1 = relu(x)\n%2.0, %2.1 = split(%1, axis=0, sizes=[2,3])\n";
  EXPECT_TRUE(Meet(rules, absl::StrCat(head, "%3 = concat(%2.0, %2.1, axis=0)\n%4 = relu(%3)\noutput a = %4\n"),
                   "input x: f32[5]\n%1 = relu(x)\noutput a = %1\n"));
  EXPECT_FALSE(Meet(rules, absl::StrCat(head, "%3 = concat(%2.1, %2.0, axis=0)\n%4 = relu(%3)\noutput a = %4\n"),
                    "input x: f32[5]\n%1 = relu(x)\noutput a = %1\n"));
}

TEST(EGraphTest, OutputsThatTwoOperandsNeedComeFromOneApplication) {
  const char* rules =
      "rule r let s = split(x[n], axis=0, sizes=[?k, ?k]) in add(s.0, s.1) => add(s.1, s.0)\n"
      "rule t let s = split(x[n], axis=0, sizes=[?k, ?k]) in sub(s.0, s.1) => neg(sub(s.1, s.0))\n";
  const char* head =
      "input x: f32[4]\ninput y: f32[4]\n%1.0, %1.1 = split(x, axis=0, sizes=[2,2])\n"
      "%2.0, %2.1 = split(y, axis=0, sizes=[2,2])\n";
  EXPECT_TRUE(Meet(rules, absl::StrCat(head, "%3 = sub(%1.0, %1.1)\noutput a = %3\n"),
                   absl::StrCat(head, "%3 = sub(%1.1, %1.0)\n%4 = neg(%3)\noutput a = %4\n")));
  EXPECT_FALSE(Meet(rules, absl::StrCat(head, "%3 = sub(%1.0, %2.1)\noutput a = %3\n"),
                    absl::StrCat(head, "%3 = sub(%2.1, %1.0)\n%4 = neg(%3)\noutput a = %4\n")));
}

TEST(EGraphTest, ConditionsHoldForClasses) {
  const char* rule = "rule r exp(add(x[n], y[n])) => mul(exp(x), exp(y)) when weight(y)\n";
  const char* right = "%3 = exp(x)\n%4 = exp(y)\n%5 = mul(%3, %4)\noutput a = %5\n";
  const char* left = "%3 = add(x, y)\n%4 = exp(%3)\noutput a = %4\n";
  const char* weight = "input x: f32[2]\nstate y: f32[2]\n";
  const char* input = "input x: f32[2]\ninput y: f32[2]\n";
  EXPECT_TRUE(Meet(rule, absl::StrCat(weight, left), absl::StrCat(weight, right)));
  EXPECT_FALSE(Meet(rule, absl::StrCat(input, left), absl::StrCat(input, right)));
  // An input that is known to equal a weight is treated as the weight.
  EGraph egraph;
  const std::vector<Value> values =
      AddTo(egraph, absl::StrCat("state w: f32[2]\n", input, "%3 = add(x, y)\n%4 = exp(%3)\n%5 = exp(x)\n",
                                 "%6 = exp(y)\n%7 = mul(%5, %6)\n",
                                 "output a = %4\noutput b = %7\noutput c = y\noutput d = w\n"));
  egraph.Union(values[2], values[3]);
  Saturate(egraph, DirectedRules(MatchersOf(rule), false));
  EXPECT_TRUE(egraph.Equal(values[0], values[1]));
}

TEST(EGraphTest, NumbersMatchClassesWithThatConstant) {
  const char* rules = "rule r mul(x[n], 1) => x\nrule s sub(x[n], x) => 0[n]\nrule t add(x[n], 0) => x\n";
  const char* head = "input x: f32[2]\ninput y: f32[2]\n";
  EXPECT_TRUE(Meet(rules, absl::StrCat(head, "%1 = sub(y, y)\n%2 = add(x, %1)\noutput a = %2\n"),
                   absl::StrCat(head, "output a = x\n")));
  EXPECT_FALSE(Meet(rules, absl::StrCat(head, "%1 = sub(y, y)\n%2 = mul(x, %1)\noutput a = %2\n"),
                    absl::StrCat(head, "output a = x\n")));
}

TEST(EGraphTest, AStretchedAxisMatchesOnlyWhereTheRuleSaysSo) {
  const char* rule =
      "rule r add(relu(x[n, m]), relu(y[n, m])) => add(relu(y), relu(x))\n"
      "rule s mul(x[n, m], y[n, m]) => div(x, div(1[n, m], y))\n";
  const auto left = [](const char* shape) {
    return absl::StrCat("input x: f32[2,3]\ninput y: f32", shape, "\n%1 = mul(x, y)\noutput a = %1\n");
  };
  const auto right = [](const char* shape) {
    return absl::StrCat("input x: f32[2,3]\ninput y: f32", shape, "\nconst %1: f32[2,3] = [1,1,1,1,1,1]\n",
                        "%2 = div(%1, y)\n%3 = div(x, %2)\noutput a = %3\n");
  };
  EXPECT_TRUE(Meet(rule, left("[2,3]"), right("[2,3]")));
  EXPECT_FALSE(Meet(rule, left("[1,3]"), right("[1,3]")));
}

// ---------------------------------------------------------------- both directions

TEST(EGraphTest, RulesAreEquationsWhereTheyAreReadBothWays) {
  const char* rule = "rule r exp(add(x[n], y[n])) => mul(exp(x), exp(y))\n";
  const char* head = "input x: f32[2]\ninput y: f32[2]\n";
  // mul(exp(x), exp(y)) = exp(add(x, y)) = exp(add(y, x)): add is commutative, as is mul.
  const std::string left =
      absl::StrCat(head, "%1 = exp(x)\n%2 = exp(y)\n%3 = mul(%1, %2)\n%4 = neg(%3)\noutput a = %4\n");
  EGraph one, both;
  const Value from_one = AddTo(one, left)[0], from_both = AddTo(both, left)[0];
  Saturate(one, DirectedRules(MatchersOf(rule), false));
  Saturate(both, DirectedRules(MatchersOf(rule), true));
  const std::string right = absl::StrCat(head, "%1 = add(x, y)\n%2 = exp(%1)\n%3 = neg(%2)\noutput a = %3\n");
  EXPECT_FALSE(one.Equal(from_one, AddTo(one, right)[0]));
  EXPECT_TRUE(both.Equal(from_both, AddTo(both, right)[0]));
}

TEST(EGraphTest, ConditionsHoldFromRightToLeftToo) {
  const char* head = "input x: f32[2]\ninput y: f32[2]\n";
  const std::string right = absl::StrCat(head, "%1 = exp(x)\n%2 = exp(y)\n%3 = mul(%1, %2)\noutput a = %3\n");
  const std::string left = absl::StrCat(head, "%1 = add(x, y)\n%2 = exp(%1)\noutput a = %2\n");
  for (const bool holds : {true, false}) {
    EGraph egraph;
    const Value start = AddTo(egraph, right)[0];
    const std::string rule =
        absl::StrCat("rule r exp(add(x[n], y[n])) => mul(exp(x), exp(y)) when n == ", holds ? 2 : 3);
    Saturate(egraph, DirectedRules(MatchersOf(rule), true));
    EXPECT_EQ(egraph.Equal(start, AddTo(egraph, left)[0]), holds);
  }
}

TEST(EGraphTest, ARightSideThatDoesNotBindAllNamesHasNoReverse) {
  for (const char* rule : {"rule r mul(x[n], 0) => 0[n]", "rule r mul(x[n], 1) => x", "rule r sub(x[n], x) => 0[n]"}) {
    EXPECT_EQ(ReverseMatcher(*MatchersOf(rule)[0]), nullptr) << rule;
  }
  EXPECT_NE(ReverseMatcher(*MatchersOf(kMergeSharedLhs)[0]), nullptr);
}

// ---------------------------------------------------------------- limits

std::string SumOf(int count) {
  std::string text;
  for (int i = 0; i <= count; ++i) absl::StrAppend(&text, "input x", i, ": f32[2]\n");
  absl::StrAppend(&text, "%1 = add(x0, x1)\n");
  for (int i = 2; i <= count; ++i) absl::StrAppend(&text, "%", i, " = add(%", i - 1, ", x", i, ")\n");
  return absl::StrCat(text, "output o = %", count, "\n");
}

TEST(SaturateTest, EveryLimitEndsIt) {
  const std::vector<DirectedRule> rules = DirectedRules(MatchersOf(kAssociate), false);
  const auto end = [&](const SaturationLimits& limits) {
    EGraph egraph;
    AddTo(egraph, SumOf(7));
    const SaturationResult result = Saturate(egraph, rules, limits);
    EXPECT_TRUE(egraph.IsCongruent());
    EXPECT_EQ(result.failures, 0) << result.first_failure;
    return result.end;
  };
  SaturationLimits limits;
  limits.max_nodes = 100;
  EXPECT_EQ(end(limits), SaturationEnd::kNodes);
  limits = {};
  limits.max_matches = 50;
  EXPECT_EQ(end(limits), SaturationEnd::kMatches);
  limits = {};
  limits.max_rounds = 2;
  EXPECT_EQ(end(limits), SaturationEnd::kRounds);
  limits = {};
  limits.stop = [] { return true; };
  EXPECT_EQ(end(limits), SaturationEnd::kStopped);
  limits = {};
  limits.done = [] { return true; };
  EXPECT_EQ(end(limits), SaturationEnd::kDone);
}

TEST(SaturateTest, AllSumsAreFound) {
  EGraph egraph;
  const Value sum = AddTo(egraph, SumOf(4))[0];
  SaturationLimits limits;
  limits.max_rounds = 100;
  const SaturationResult result = Saturate(egraph, DirectedRules(MatchersOf(kAssociate), false), limits);
  EXPECT_EQ(result.end, SaturationEnd::kSaturated);
  // There is one class for every set of operands, and one e-node for every way to cut the set in two.
  EXPECT_EQ(egraph.num_classes(), 31);
  EXPECT_THAT(egraph.Nodes(sum), SizeIs(15));
}

TEST(SaturateTest, WhatExceedsTheShareOfARuleWaits) {
  EGraph egraph;
  const Value sum = AddTo(egraph, SumOf(4))[0];
  SaturationLimits limits;
  limits.max_rounds = 1000;
  limits.max_matches_of_rule = 5;
  const SaturationResult result = Saturate(egraph, DirectedRules(MatchersOf(kAssociate), false), limits);
  EXPECT_EQ(result.end, SaturationEnd::kSaturated);
  EXPECT_GT(result.rounds, 6);
  EXPECT_THAT(egraph.Nodes(sum), SizeIs(15));
}

TEST(SaturateTest, MergesCountInTheFirstRounds) {
  const std::string text =
      "input x: f32[3,4]\nstate y: f32[4,5]\nstate z: f32[4,6]\n%1 = matmul(x, y)\n%2 = matmul(x, z)\n"
      "output p = %1\noutput q = %2\n";
  const auto nodes = [&](int merge_rounds) {
    EGraph egraph;
    AddTo(egraph, text);
    SaturationLimits limits;
    limits.max_rounds = 3;
    limits.max_merge_rounds = merge_rounds;
    Saturate(egraph, DirectedRules(MatchersOf(kMergeSharedLhs), false), limits);
    return egraph.num_nodes();
  };
  EXPECT_EQ(nodes(0), 5);
  EXPECT_EQ(nodes(1), 8);
  EXPECT_GT(nodes(2), 8);  // merged with the merged one
}

// ---------------------------------------------------------------- all members of a class are equal

double Distance(const Tensor& a, const Tensor& b) {
  double distance = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    distance = std::max(distance, std::abs(x - y) / (1 + std::abs(x)));
  }
  return distance;
}

// Computes every class by the first of its e-nodes whose operands are computed, and compares all other e-nodes with it.
// Returns their number and the greatest difference.
void CompareMembers(const EGraph& egraph, const absl::flat_hash_map<std::string, Tensor>& inputs, int64_t* compared,
                    double* distance) {
  const Arena& arena = *egraph.arena();
  absl::flat_hash_map<Value, Tensor> values;
  absl::flat_hash_map<NodeId, bool> visited;
  for (bool changed = true; changed;) {
    changed = false;
    for (Value representative : egraph.Classes()) {
      for (NodeId id : egraph.Nodes(representative)) {
        const Node& node = arena.node(id);
        const bool ready = std::all_of(node.operands.begin(), node.operands.end(),
                                       [&](Value operand) { return values.contains(operand); });
        if (!ready || !visited.emplace(id, true).second) continue;
        changed = true;
        std::vector<Tensor> results;
        if (node.op == nullptr) {
          results = {node.leaf == LeafKind::kInput ? inputs.at(node.name) : *arena.Elements(id)};
        } else {
          std::vector<TensorType> types;
          std::vector<Tensor> operands;
          for (Value operand : node.operands) {
            types.push_back(arena.type(operand));
            operands.push_back(values.at(operand));
          }
          InterpretOptions options;
          options.precision = Precision::kFloat64;
          auto run = Interpret(*node.meaning, BindingsOf(*node.meaning, types, node.attrs), node.outputs, types,
                               operands, options);
          ASSERT_TRUE(run.ok()) << run.status();
          results = *run;
        }
        for (size_t k = 0; k < results.size(); ++k) {
          const auto [it, fresh] = values.emplace(egraph.Find(Value{id, static_cast<int32_t>(k)}), results[k]);
          if (fresh) continue;
          ++*compared;
          *distance = std::max(*distance, Distance(it->second, results[k]));
        }
      }
    }
  }
  for (Value representative : egraph.Classes()) EXPECT_TRUE(values.contains(representative));
}

TEST(SaturateTest, AFalseRuleMakesMembersDiffer) {
  EGraph egraph;
  AddTo(egraph, "input x: f32[2]\n%1 = exp(x)\n%2 = neg(%1)\noutput a = %2\n");
  Saturate(egraph, DirectedRules(MatchersOf("rule f neg(x) => x"), false));
  int64_t compared = 0;
  double distance = 0;
  CompareMembers(egraph, {{"x", Tensor::FromVector<float>(DType::kFloat32, {2}, {1, 2})}}, &compared, &distance);
  EXPECT_EQ(compared, 1);
  EXPECT_GT(distance, 0.1);
}

TEST(SaturateTest, EveryMemberOfAClassIsEqual) {
  constexpr uint64_t kSeed = 20250714;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  const std::string folder = std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/";
  auto set = RuleSet::FromFiles({folder + "core.rules", folder + "laws.rules"});
  ASSERT_TRUE(set.ok()) << set.status();
  const std::vector<DirectedRule> rules = DirectedRules(set->matchers(), /*both_ways=*/true);
  std::mt19937_64 rng(kSeed);
  SaturationLimits limits;
  limits.max_rounds = 4;
  limits.max_nodes = 400;
  limits.max_matches_of_rule = 100;
  int64_t compared = 0;
  std::vector<int64_t> uses(rules.size(), 0);
  for (int i = 0; i < Cases(600); ++i) {
    // A random left side of a rule is a small graph in which rules apply.
    const Matcher& matcher = *set->matchers()[rng() % set->matchers().size()];
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances;
    const auto keep = [&](const StructuralAssignment& structure, RuleInstance instance) {
      instances.emplace_back(structure, std::move(instance));
      return absl::OkStatus();
    };
    ASSERT_TRUE(ForEachStructuralAssignment(matcher.rule(), SmallLimits(matcher.rule()), keep).ok());
    const auto& [structure, instance] = instances[rng() % instances.size()];
    const auto application = DrawApplication(matcher.rule(), structure, instance, {}, rng);
    if (!application) continue;
    SCOPED_TRACE(absl::StrCat(matcher.rule().name(), " ", application->description));
    EGraph egraph;
    ASSERT_TRUE(egraph.Add(application->graph).ok());
    const SaturationResult result = Saturate(egraph, rules, limits);
    EXPECT_EQ(result.failures, 0) << result.first_failure;
    EXPECT_TRUE(egraph.IsCongruent());
    for (size_t rule = 0; rule < rules.size(); ++rule) uses[rule] += result.uses[rule];
    double distance = 0;
    CompareMembers(egraph, application->inputs, &compared, &distance);
    EXPECT_LT(distance, 1e-6);
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, Cases(600) * 10);
  EXPECT_GT(std::count_if(uses.begin(), uses.end(), [](int64_t n) { return n > 0; }), Cases(600) / 4);
}

}  // namespace
}  // namespace rewright
