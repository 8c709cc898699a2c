// Tests the spaces of models: frequent subgraphs, their operators over small tensors, and the laws found in them.
#include "substitutions/generate/mined/mined_spaces.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "substitutions/generate/select/select_rules.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "tests/support/parsed_graph.h"

namespace rewright::generate {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

// Two blocks of a network; operands and nodes of the second one are written in another order.
const char kBlocks[] = R"(input x: f32[1,6,8,8]
state k1: f32[6,6,3,3]
state k2: f32[6,6,3,3]
state b: f32[6,1,1]
%1 = conv2d(x, k1, pads=[1,1,1,1])
%2 = add(%1, b)
%3 = relu(%2)
%4 = conv2d(%3, k2, pads=[1,1,1,1])
%5 = add(b, %4)
%6 = relu(%5)
output y = %6
)";

std::map<std::string, int64_t> CountsOf(const std::vector<Graph>& graphs, const MineOptions& options) {
  std::map<std::string, int64_t> counts;
  for (const FrequentSubgraph& one : MineSubgraphs(graphs, options).subgraphs) counts[one.form] = one.count;
  return counts;
}

std::vector<Space> SpacesOfGraph(const Graph& graph, const MineOptions& options) {
  return SpacesOf({graph}, MineSubgraphs({graph}, options), 9, 1).spaces;
}

// The rules of all spaces, printed.
std::string Rules(const std::vector<Space>& spaces, SelectOptions options = {}) {
  std::string text;
  for (const Space& space : spaces) {
    const auto found = FindPairs(space, {});
    EXPECT_TRUE(found.ok()) << found.status();
    const auto selected = SelectRules(space, found->pairs, options);
    EXPECT_TRUE(selected.ok()) << selected.status();
    for (const Rule& rule : selected->rules) text += PrintLaw(rule) + "\n", options.known.push_back(rule);
  }
  return text;
}

TEST(MineSubgraphs, CountsTheSameSubgraphWhateverItsOrder) {
  EXPECT_THAT(CountsOf({GraphOf(kBlocks)}, {.max_nodes = 3}),
              IsSupersetOf({::testing::Pair("relu_4d(x1)", 2),
                            ::testing::Pair("add_stretched_4.3d(#1.0,k1); conv2d_pads1.1.1.1_3x3_4.4d(x2,k3)", 2),
                            ::testing::Pair(
                                "add_stretched_4.3d(#1.0,k1); conv2d_pads1.1.1.1_3x3_4.4d(x2,k3); relu_4d(#0.0)", 2)}));
}

TEST(MineSubgraphs, CountsOverAllModels) {
  const MineOptions options{.max_nodes = 2, .min_count = 4};
  EXPECT_THAT(CountsOf({GraphOf(kBlocks)}, options), SizeIs(0));
  EXPECT_THAT(CountsOf({GraphOf(kBlocks), GraphOf(kBlocks)}, options),
              IsSupersetOf({::testing::Pair("add_stretched_4.3d(x1,k2); relu_4d(#0.0)", 4)}));
  EXPECT_EQ(MineSubgraphs({GraphOf(kBlocks), GraphOf(kBlocks)}, options).subgraphs[0].graphs, 2);
}

TEST(MineSubgraphs, LeavesOutWhatNoSpaceHas) {
  const Graph graph = GraphOf("input x: f32[4,3]\ninput i: i64[2]\n%1 = gather(x, i)\n%2 = relu(%1)\noutput y = %2\n");
  const MinedSubgraphs mined = MineSubgraphs({graph}, {.min_count = 1});
  EXPECT_EQ(mined.nodes, 2);
  EXPECT_EQ(mined.left_out, 1);
  EXPECT_THAT(mined.subgraphs, SizeIs(1));
}

TEST(MinedSpaces, HaveTheSubgraphAtSmallSizes) {
  const std::vector<Space> spaces = SpacesOfGraph(GraphOf(kBlocks), {});
  ASSERT_THAT(spaces, SizeIs(1));  // those of parts of the block have no operators of their own
  EXPECT_THAT(spaces[0].operators, SizeIs(3));
  const auto found = FindPairs(spaces[0], {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT(found->counts.graphs, 10u);
  EXPECT_EQ(spaces[0].assignments, SpacesOfGraph(GraphOf(kBlocks), {})[0].assignments);
}

TEST(MinedSpaces, FindLawsOfTheModelsAttributes) {
  const Graph graph = GraphOf(R"(input x: f32[1,6,8,8]
%1 = clip(x, min=0, max=6)
%2 = max_pool2d(%1, kernel=[3,3], pads=[1,1,1,1])
output y = %2
)");
  EXPECT_THAT(Rules(SpacesOfGraph(graph, {.max_nodes = 2, .min_count = 1})),
              HasSubstr("=> clip(max_pool2d(x, attrs=?p), max=6.0, min=0.0)"));
}

// Sizes of five axes have names, too.
TEST(MinedSpaces, StateLawsThatAreReadBack) {
  const Graph graph = GraphOf(R"(input x: f32[1,6,4,5]
%1 = reshape(x, shape=[1,2,3,4,5])
%2 = transpose(%1, perm=[0,2,1,3,4])
%3 = reshape(%2, shape=[1,6,4,5])
output y = %3
)");
  const std::string rules = Rules(SpacesOfGraph(graph, {.min_count = 1}));
  EXPECT_THAT(rules, HasSubstr("transpose(transpose("));
  EXPECT_TRUE(ParseRules(rules, "found.rules").ok()) << ParseRules(rules, "found.rules").status();
}

TEST(MinedSpaces, LeaveOutWhatFollowsFromGivenRules) {
  const Graph graph = GraphOf("input x: f32[4,3]\n%1 = relu(x)\n%2 = relu(%1)\noutput y = %2\n");
  const std::vector<Space> spaces = SpacesOfGraph(graph, {.min_count = 1});
  EXPECT_THAT(Rules(spaces), HasSubstr("relu(relu(x)) => relu(x)"));
  const auto law = ParseRules("rule twice relu(relu(x)) => relu(x)\n", "given.rules");
  ASSERT_TRUE(law.ok()) << law.status();
  const auto compiled = CompileRule((*law)[0]);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(Rules(spaces, {.given = {std::make_shared<const Matcher>(*compiled)}}), "");
}

}  // namespace
}  // namespace rewright::generate
