#include "substitutions/language/siblings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "substitutions/egraph/derive.h"
#include "substitutions/egraph/reverse_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/match/applier.h"
#include "substitutions/match/matcher.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kProducts[] =
    "rule r\n  { matmul(x[b.., m, k], y[k, n]).. }\n"
    "  => split(matmul(x, concat(y.., axis=1)), axis=len(b) + 1, sizes=[n..])\n";
constexpr char kLinear[] =
    "rule r { add(matmul(x[m, k], y[k, n]), p[n]).. }\n"
    "=> split(add(matmul(x, concat(y.., axis=1)), concat(p.., axis=0)), axis=1, sizes=[n..])";

Rule Parse(const std::string& text) {
  auto rules = ParseRules(text, "f.rules");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? rules->at(0) : Rule();
}

Matcher MatcherOf(const std::string& text) {
  auto rule = CompileRule(Parse(text));
  EXPECT_TRUE(rule.ok()) << rule.status();
  return Matcher(*rule);
}

// Makes matmul(x, w1), matmul(x, w2), .. of 2, 3, .. columns; for the numbers in `activations` the second operand is an
// input.
std::string Products(int count, const std::vector<int>& activations = {}) {
  std::string leaves = "input x: f32[3,4]\n", nodes, outputs;
  for (int i = 1; i <= count; ++i) {
    const bool activation = std::find(activations.begin(), activations.end(), i) != activations.end();
    absl::StrAppend(&leaves, activation ? "input" : "state", " w", i, ": f32[4,", i + 1, "]\n");
    absl::StrAppend(&nodes, "%", i, " = matmul(x, w", i, ")\n");
    absl::StrAppend(&outputs, "output o", i, " = %", i, "\n");
  }
  return leaves + nodes + outputs;
}

// Returns the number of outputs that each match replaces.
std::vector<size_t> Counts(const std::vector<Match>& matches) {
  std::vector<size_t> counts;
  for (const Match& match : matches) counts.push_back(match.roots.size());
  return counts;
}

TEST(SiblingsTest, ARuleIsPrintedAsItIsRead) {
  const Rule rule = Parse(kProducts);
  EXPECT_TRUE(IsSiblingRule(rule));
  EXPECT_EQ(PrintRule(rule), kProducts);
  EXPECT_FALSE(IsSiblingRule(Parse("rule r relu(relu(x)) => relu(x)")));
}

TEST(SiblingsTest, ExpandsToOrdinaryRules) {
  Rule rule = Parse(absl::StrCat(kProducts, "  when weight(y) and k > 1 and weight(x)"));
  ASSERT_TRUE(CheckSiblings(rule).ok()) << CheckSiblings(rule);
  EXPECT_EQ(
      PrintLaw(ExpandSiblings(rule, 1)),
      "rule r\n"
      "  matmul(x[b.., m, k], y_1[k, n_1]) => split(matmul(x, concat(y_1, axis=1)), axis=len(b) + 1, sizes=[n_1])\n"
      "  when weight(y_1) and k > 1 and weight(x)\n");
  EXPECT_EQ(PrintLaw(ExpandSiblings(rule, 3)),
            "rule r\n  { matmul(x[b.., m, k], y_1[k, n_1]), matmul(x, y_2[k, n_2]), matmul(x, y_3[k, n_3]) }\n"
            "  => split(matmul(x, concat(y_1, y_2, y_3, axis=1)), axis=len(b) + 1, sizes=[n_1, n_2, n_3])\n"
            "  when weight(y_1) and weight(y_2) and weight(y_3) and k > 1 and weight(x)\n");
}

TEST(SiblingsTest, IsCompiledAsTheRuleForTwo) {
  const auto rule = CompileRule(Parse(kLinear));
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_TRUE((*rule)->siblings());
  EXPECT_EQ((*rule)->lhs().size(), 2u);
  EXPECT_TRUE((*rule)->symmetric(0));
  EXPECT_EQ(PrintLaw((*rule)->rule()), PrintLaw(Parse(kLinear)));
  std::vector<std::string> differ;
  for (int id = 0; id < (*rule)->num_lhs_nodes(); ++id) {
    if ((*rule)->differs(id)) differ.push_back((*rule)->nodes()[id].name);
  }
  EXPECT_THAT(differ, ElementsAre("y_1", "p_1", "y_2", "p_2"));
  EXPECT_FALSE((*CompileRule(Parse("rule r relu(relu(x)) => relu(x)")))->siblings());
}

// Cases that the rules for one and two siblings do not settle are refused.
TEST(SiblingsTest, OtherFormsAreErrors) {
  const char* const kCases[][2] = {
      {"rule r { matmul(x[m, k], y[k, n]).. } => matmul(x, concat(y.., axis=1))", "expected split"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n])",
       "expected split"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, y), axis=1, sizes=[n..])", "found no list"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(add(matmul(x, concat(y.., axis=1)), matmul(x, y)), axis=1, "
       "sizes=[n..])",
       "f.rules:1:94: rule r: found y, expected concat(y.., axis=..)"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., x, axis=1)), axis=1, sizes=[n..])",
       "expected concat(y.., axis=..)"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=n)), axis=1, sizes=[n..])",
       "found n, which differs from sibling to sibling"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=rank(y), sizes=[n..])",
       "found y, which differs"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(add(matmul(x, concat(y.., axis=1)), 0[n]), axis=1, "
       "sizes=[n..])",
       "found n, which differs"},
      {"rule r { matmul(x[n, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])",
       "found n, which differs from sibling to sibling, in x[n, k]"},
      {"rule r { matmul(x[m, k], y[k, 2 * n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])",
       "found n, which differs"},
      {"rule r { matmul(x[m, n], y[n, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])",
       "found n, which differs"},
      {"rule r { matmul(x[m, k], y[n, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])",
       "expected a shape with the size n once"},
      {"rule r { matmul(x[m, k], y).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])",
       "found no shape of y"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..]) "
       "when n < m",
       "found the condition n < m on n"},
      {"rule r { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..]) "
       "when positive(y)",
       "found the condition positive(y) on y"},
      {"rule r { matmul(x[m, k], y..).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])",
       "expected it behind the sibling alone"},
      {"rule r let z = relu(x[m, k]) in { matmul(z, y[k, n]).. } => split(matmul(relu(x), concat(y.., axis=1)), "
       "axis=1, "
       "sizes=[n..])",
       "found let"}};
  for (const auto& [text, message] : kCases) {
    const auto rule = CompileRule(Parse(text));
    EXPECT_THAT(std::string(rule.status().message()), HasSubstr(message)) << text;
  }
}

// All pairs, and all siblings from each one on.
TEST(SiblingsTest, AllSiblingsAreOneMatch) {
  const Matcher matcher = MatcherOf(kProducts);
  EXPECT_THAT(Counts(matcher.FindMatches(GraphOf(Products(1)))), IsEmpty());
  EXPECT_THAT(Counts(matcher.FindMatches(GraphOf(Products(2)))), ElementsAre(2));
  EXPECT_THAT(Counts(matcher.FindMatches(GraphOf(Products(3)))), ElementsAre(2, 2, 3, 2));
  EXPECT_THAT(Counts(matcher.FindMatches(GraphOf(Products(4)))), ElementsAre(2, 2, 2, 4, 2, 2, 3, 2));
}

TEST(SiblingsTest, WeightsAreAlsoMergedByThemselves) {
  const Matcher matcher = MatcherOf(kProducts);
  EXPECT_THAT(Counts(matcher.FindMatches(GraphOf(Products(4, {3})))), ElementsAre(2, 2, 2, 4, 3, 2, 2, 3, 2));
}

TEST(SiblingsTest, MoreThanAreProvedAreNotMerged) {
  const std::vector<size_t> counts = Counts(MatcherOf(kProducts).FindMatches(GraphOf(Products(kMostSiblings + 3))));
  EXPECT_EQ(*std::max_element(counts.begin(), counts.end()), static_cast<size_t>(kMostSiblings));
}

// A sibling that is computed from another one is left out of the group, without an error.
TEST(SiblingsTest, ThoseThatDependOnEachOtherAreNotMerged) {
  const Graph graph = GraphOf(
      "input x: f32[3,3]\nstate a: f32[3,3]\nstate b: f32[3,5]\n"
      "%1 = matmul(x, a)\n%2 = matmul(x, b)\n%3 = matmul(x, %1)\noutput p = %2\noutput q = %3\n");
  for (const Match& match : MatcherOf(kProducts).FindMatches(graph)) EXPECT_EQ(match.roots.size(), 2u);
}

std::vector<Tensor> Computed(const Graph& graph) {
  auto inputs = RandomInputs(graph, 7);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  absl::flat_hash_map<std::string, Tensor> named;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    named.emplace(graph.node(graph.inputs()[i].node).name, inputs->at(i));
  }
  auto outputs = InterpretGraph(graph, named);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

// One rule merges any number of siblings; values stay the same.
TEST(SiblingsTest, MergedProductsAreThoseThatWere) {
  const Matcher matcher = MatcherOf(kProducts);
  for (int count : {2, 3, 4, 7}) {
    std::vector<int> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 1);
    const Graph graph = GraphOf(Products(count, all));
    const std::vector<Match> matches = matcher.FindMatches(graph);
    const auto largest = std::max_element(
        matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.roots.size() < b.roots.size(); });
    ASSERT_EQ(largest->roots.size(), static_cast<size_t>(count));
    const auto merged = ApplyMatch(graph, *largest);
    ASSERT_TRUE(merged.ok()) << merged.status();
    int products = 0;
    for (NodeId id : merged->nodes()) products += merged->node(id).op == FindOp("matmul");
    EXPECT_EQ(products, 1) << PrintGraph(*merged);
    const std::vector<Tensor> before = Computed(graph), after = Computed(*merged);
    ASSERT_EQ(before.size(), static_cast<size_t>(count));
    for (int k = 0; k < count; ++k) EXPECT_TRUE(before[k].BitEqual(after[k])) << count << ", output " << k;
  }
}

// One step merges all siblings in an e-graph.
TEST(SiblingsTest, AnEGraphMergesAllAtOnce) {
  const auto four = CompileRule(ExpandSiblings(Parse(kProducts), 4));
  ASSERT_TRUE(four.ok()) << four.status();
  const auto matcher = std::make_shared<const Matcher>(*CompileRule(Parse(kProducts)));
  const Graph graph = GraphOf(Products(4));
  EGraph egraph(graph.arena());
  for (const auto& output : graph.outputs()) egraph.Add(output.value);
  egraph.Rebuild();
  std::vector<Match> matches;
  for (NodeId id : graph.nodes()) {
    if (graph.node(id).op != nullptr) egraph.MatchAt(*matcher, id, &matches);
  }
  EXPECT_THAT(Counts(matches), ElementsAre(2, 2, 2, 4, 2, 2, 3, 2));
  EXPECT_NE(ReverseMatcher(*matcher), nullptr);
}

}  // namespace
}  // namespace rewright
