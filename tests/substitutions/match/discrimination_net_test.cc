#include "substitutions/match/discrimination_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/ir/text.h"
#include "substitutions/egraph/saturate.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::vector<std::shared_ptr<const Matcher>> Matchers(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  std::vector<std::shared_ptr<const Matcher>> matchers;
  for (const Rule& rule : *rules) {
    auto compiled = CompileRule(rule);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    matchers.push_back(std::make_shared<const Matcher>(*std::move(compiled)));
  }
  return matchers;
}

// Returns the rules that the net gives for the graph's output.
std::vector<int> CandidatesOf(const RuleIndex& index, const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  std::vector<int> rules;
  index.Candidates(*graph, graph->outputs()[0].value.node, &rules);
  return rules;
}

TEST(DiscriminationNetTest, TellsRulesApartByWhatIsBelowTheirTops) {
  const RuleIndex index(Matchers(R"(
    rule a relu(relu(x)) => relu(x)
    rule b relu(neg(relu(x))) => relu(x)
    rule c relu(neg(abs(x))) => relu(x)
    rule d relu(x) => relu(x)
    rule e neg(neg(x)) => x
  )"));
  const std::string input = "input x: f32[2]\n";
  EXPECT_THAT(CandidatesOf(index, input + "%1 = relu(x)\noutput y = %1\n"), ElementsAre(3));
  EXPECT_THAT(CandidatesOf(index, input + "%1 = relu(x)\n%2 = relu(%1)\noutput y = %2\n"), ElementsAre(0, 3));
  EXPECT_THAT(CandidatesOf(index, input + "%1 = relu(x)\n%2 = neg(%1)\n%3 = relu(%2)\noutput y = %3\n"),
              ElementsAre(1, 3));
  EXPECT_THAT(CandidatesOf(index, input + "%1 = abs(x)\n%2 = neg(%1)\n%3 = relu(%2)\noutput y = %3\n"),
              ElementsAre(2, 3));
  EXPECT_THAT(CandidatesOf(index, input + "%1 = abs(x)\noutput y = %1\n"), IsEmpty());
}

TEST(DiscriminationNetTest, OperandsOfCommutativeOperatorsStandInBothOrders) {
  const RuleIndex index(Matchers(R"(
    rule a add(relu(x), mul(y, neg(z))) => add(relu(x), mul(y, neg(z)))
    rule b sub(relu(x), y) => sub(relu(x), y)
  )"));
  const std::string parts = "input x: f32[2]\n%1 = relu(x)\n%2 = neg(x)\n%3 = mul(%2, x)\n";
  EXPECT_THAT(CandidatesOf(index, parts + "%4 = add(%1, %3)\noutput y = %4\n"), ElementsAre(0));
  EXPECT_THAT(CandidatesOf(index, parts + "%4 = add(%3, %1)\noutput y = %4\n"), ElementsAre(0));
  EXPECT_THAT(CandidatesOf(index, parts + "%4 = add(%1, %1)\noutput y = %4\n"), IsEmpty());
  EXPECT_THAT(CandidatesOf(index, parts + "%4 = sub(%1, x)\noutput y = %4\n"), ElementsAre(1));
  EXPECT_THAT(CandidatesOf(index, parts + "%4 = sub(x, %1)\noutput y = %4\n"), IsEmpty());
}

TEST(DiscriminationNetTest, LeavesAreTestedForWhatConditionsAsk) {
  const RuleIndex index(Matchers(R"(
    rule a mul(x, 1) => x
    rule b add(x[n], y[n]) => add(y, x) when weight(y)
  )"));
  const std::string leaves = "input x: f32[2]\nstate w: f32[2]\n%0 = relu(w)\n%9 = relu(x)\n";
  EXPECT_THAT(CandidatesOf(index, leaves + "%1 = mul(x, %9)\noutput y = %1\n"), IsEmpty());
  EXPECT_THAT(CandidatesOf(index, leaves + "%1 = mul(x, w)\noutput y = %1\n"), ElementsAre(0));
  EXPECT_THAT(CandidatesOf(index, leaves + "%1 = mul(x, %0)\noutput y = %1\n"), IsEmpty());
  EXPECT_THAT(CandidatesOf(index, leaves + "%1 = add(x, %0)\noutput y = %1\n"), ElementsAre(1));
  EXPECT_THAT(CandidatesOf(index, leaves + "%1 = add(x, %9)\noutput y = %1\n"), IsEmpty());
}

TEST(DiscriminationNetTest, RulesShareTheirTops) {
  const auto states = [](const std::string& text) {
    const auto matchers = Matchers(text);
    std::vector<const CompiledRule*> rules;
    for (const auto& matcher : matchers) rules.push_back(&matcher->rule());
    return DiscriminationNet(rules).num_states();
  };
  const std::string a = "rule a exp(neg(relu(x))) => exp(x)\n", b = "rule b exp(neg(abs(x))) => exp(x)\n";
  EXPECT_EQ(states(a), 4);  // exp, neg, relu, x
  EXPECT_EQ(states(b), 4);
  EXPECT_EQ(states(a + b), 6);
}

// Compares the net with all rules at random applications of every shipped rule: no matching rule is missing, in the
// graph and in its e-graph.
TEST(DiscriminationNetTest, MissesNoMatchOfAnyShippedRule) {
  const auto core = FindRuleFile("core.rules"), laws = FindRuleFile("laws.rules");
  ASSERT_TRUE(core.ok() && laws.ok());
  const auto set =
      RuleSet::FromFiles({*core, *laws}, {.trust_unverified = true, .allow_risky = true, .allow_finite_only = true});
  ASSERT_TRUE(set.ok()) << set.status();
  const auto& matchers = set->matchers();
  std::vector<const CompiledRule*> rules;
  for (const auto& matcher : matchers) rules.push_back(&matcher->rule());
  const DiscriminationNet net(rules);
  std::mt19937_64 rng(1);
  int drawn = 0, own = 0;
  int64_t named = 0, looked_at = 0;
  for (size_t number = 0; number < matchers.size(); ++number) {
    const CompiledRule& rule = *rules[number];
    const absl::Status status = ForEachStructuralAssignment(
        rule, SmallLimits(rule), [&](const StructuralAssignment& structure, RuleInstance instance) {
          if (rng() % 4 != 0 && drawn > 0) return absl::OkStatus();
          const auto application = DrawApplication(rule, structure, instance, {}, rng);
          if (!application) return absl::OkStatus();
          ++drawn;
          const Graph& graph = application->graph;
          for (NodeId id : graph.nodes()) {
            if (graph.node(id).op == nullptr) continue;
            std::vector<int> candidates, matching;
            set->index().Candidates(graph, id, &candidates);
            for (size_t other = 0; other < matchers.size(); ++other) {
              std::vector<Match> matches;
              matchers[other]->MatchAt(graph, id, &matches);
              if (!matches.empty()) matching.push_back(static_cast<int>(other));
            }
            EXPECT_TRUE(std::is_sorted(candidates.begin(), candidates.end()));
            EXPECT_THAT(candidates, IsSupersetOf(matching)) << rule.name();
            own += std::count(matching.begin(), matching.end(), static_cast<int>(number)) > 0;
            named += static_cast<int64_t>(candidates.size());
            looked_at += static_cast<int64_t>(matchers.size());
          }
          EGraph egraph(graph.arena());
          for (const Output& output : graph.outputs()) egraph.Add(output.value);
          Saturate(egraph, DirectedRules({matchers[number]}, false), {.max_rounds = 1});
          for (NodeId id : egraph.Applications()) {
            std::vector<int> candidates, matching;
            egraph.Candidates(net, id, &candidates);
            for (size_t other = 0; other < matchers.size(); ++other) {
              std::vector<Match> matches;
              egraph.MatchAt(*matchers[other], id, &matches);
              if (!matches.empty()) matching.push_back(static_cast<int>(other));
            }
            EXPECT_THAT(candidates, IsSupersetOf(matching)) << rule.name();
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << rule.name() << ": " << status;
  }
  EXPECT_GT(drawn, 100);
  EXPECT_GT(own, drawn / 2);
  // A net that named all rules would be useless.
  EXPECT_LT(named, looked_at / 20);
}

}  // namespace
}  // namespace rewright
