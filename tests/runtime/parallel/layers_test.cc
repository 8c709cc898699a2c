// Tests a loss and its gradients cut into layers: run subgraph by subgraph they give the same as at once.
#include "runtime/parallel/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "core/autodiff/autodiff.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model with a connection that skips layers and a weight that the first and last layers read; its loss, and the
// gradients by its weights.
Graph ModelWithGradients() {
  Rng rng(17);
  std::map<std::string, Tensor> states;
  for (const char* name : {"w", "u", "v"}) states[name] = RandomTensor({DType::kFloat32, {4, 4}}, rng, -1, 1);
  const auto graph = ParseGraph(R"(training
input x: f32[5,4]
state w: f32[4,4]
state u: f32[4,4]
state v: f32[4,4]
%1 = matmul(x, w)
%2 = relu(%1)
%3 = matmul(%2, u)
%4 = tanh(%3)
%5 = matmul(%4, v)
%6 = add(%5, %2)
%7 = sigmoid(%6)
%8 = matmul(%7, w)
%9 = reduce_mean(%8, axes=[0,1])
output loss = %9
)",
                                states);
  EXPECT_TRUE(graph.ok()) << graph.status();
  std::vector<Value> weights;
  for (const std::string name : {"w", "u", "v"}) {
    for (Value state : graph->states()) {
      if (graph->node(state.node).name == name) weights.push_back(state);
    }
  }
  const auto gradients = Gradients(*graph->arena(), graph->outputs()[0].value, weights);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  std::vector<Output> outputs = graph->outputs();
  for (size_t k = 0; k < weights.size(); ++k) outputs.push_back({(*gradients)[k], "gradients." + std::to_string(k)});
  return Graph(graph->arena(), graph->inputs(), std::move(outputs));
}

// Computes the outputs, subgraph by subgraph, by the interpreter.
std::vector<Tensor> RunSubgraphs(const Graph& graph, const Layers& layers, const std::vector<Tensor>& inputs) {
  const Subgraphs& subgraphs = layers.subgraphs;
  std::vector<Tensor> tensors = inputs;
  for (Value state : graph.states()) tensors.push_back(*graph.arena()->Elements(state.node));
  tensors.resize(subgraphs.tensors.size());
  for (const Subgraphs::Subgraph& subgraph : subgraphs.subgraphs) {
    absl::flat_hash_map<std::string, Tensor> in;
    for (size_t k = 0; k < subgraph.inputs.size(); ++k) {
      const Tensor& tensor = tensors[static_cast<size_t>(subgraph.inputs[k])];
      EXPECT_NE(tensor.data(), nullptr) << "tensor " << subgraph.inputs[k] << " is not made yet";
      in[subgraph.graph.node(subgraph.graph.inputs()[k].node).name] = tensor;
    }
    const auto out = InterpretGraph(subgraph.graph, in);
    EXPECT_TRUE(out.ok()) << out.status();
    for (size_t k = 0; k < subgraph.outputs.size(); ++k) tensors[static_cast<size_t>(subgraph.outputs[k])] = (*out)[k];
  }
  std::vector<Tensor> outputs;
  for (int tensor : subgraphs.outputs) outputs.push_back(tensors[static_cast<size_t>(tensor)]);
  return outputs;
}

TEST(LayersTest, AnyCutGivesTheSameBits) {
  const Graph graph = ModelWithGradients();
  const Passes passes = PassesOf(graph, {"w", "u", "v"});
  ASSERT_EQ(passes.length, 9);
  Rng rng(3);
  const std::vector<Tensor> inputs = {RandomTensor({DType::kFloat32, {5, 4}}, rng, -1, 1)};
  const auto expected = InterpretGraph(graph, {{"x", inputs[0]}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (int mask = 0; mask < 1 << 8; ++mask) {
    std::vector<int> layers(9, 0);
    for (int i = 1; i < 9; ++i) layers[i] = layers[i - 1] + (mask >> (i - 1) & 1);
    const std::vector<Tensor> found = RunSubgraphs(graph, CutIntoLayers(graph, passes, layers), inputs);
    ASSERT_EQ(found.size(), expected->size());
    for (size_t k = 0; k < found.size(); ++k) EXPECT_TRUE(found[k].BitEqual((*expected)[k])) << "cut " << mask;
  }
}

// A subgraph like the pass of a stage that several ranks compute.
TEST(SubgraphsTest, ASubgraphMayBeCutAgain) {
  const auto graph = ParseGraph(R"(training
input value.2: f32[2,2]
input value.value.2: f32[2,2]
%1 = relu(value.2)
%2 = add(%1, value.2)
%3 = mul(%2, value.2)
%4 = mul(%3, value.value.2)
output out = %4
)",
                                {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<int> numbers(graph->nodes().size(), 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Node& node = graph->node(graph->nodes()[i]);
    if (node.op != nullptr && node.op->name == "mul") numbers[i] = 1;
  }
  const Subgraphs subgraphs = SplitGraph(*graph, numbers, 2, {});
  EXPECT_EQ(subgraphs.subgraphs[1].inputs.size(), 3u);
  // Leaves of equal name and type would be one leaf.
  std::set<NodeId> leaves;
  for (Value input : subgraphs.subgraphs[1].graph.inputs()) leaves.insert(input.node);
  EXPECT_EQ(leaves.size(), 3u);
}

// Subgraph 0 alone reads and updates a. Subgraph 1 also reads b and the next value of c; the old value of d is needed
// at the end, and the next value of e is also a result.
TEST(SubgraphsTest, ASubgraphKeepsAStateThatItAloneReads) {
  const auto graph = ParseGraph(R"(training
input x: f32[2]
state a: f32[2]
state b: f32[2]
state c: f32[2]
state d: f32[2]
state e: f32[2]
%1 = add(a, x)
%2 = add(b, x)
%3 = add(c, x)
%4 = add(d, x)
%5 = mul(x, b)
%6 = mul(%5, %3)
%7 = add(e, x)
output result = %6
output old = d
output twice = %7
update a = %1
update b = %2
update c = %3
update d = %4
update e = %7
)",
                                {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<int> numbers;
  for (NodeId id : graph->nodes()) {
    numbers.push_back(graph->node(id).op != nullptr && graph->node(id).op->name == "mul" ? 1 : 0);
  }
  const Subgraphs subgraphs = SplitGraph(*graph, numbers, 2, graph->states());
  ASSERT_EQ(subgraphs.state_owners.size(), 1u);
  const auto& [kept, by] = *subgraphs.state_owners.begin();
  EXPECT_EQ(graph->node(graph->states()[static_cast<size_t>(kept) - 1].node).name, "a");
  EXPECT_EQ(by.state, "a");
  EXPECT_EQ(by.subgraph, 0);
  EXPECT_EQ(subgraphs.outputs[3], kept);
  const Graph& owner = subgraphs.subgraphs[0].graph;
  ASSERT_EQ(owner.states().size(), 1u);
  EXPECT_EQ(owner.node(owner.states()[0].node).name, "a");
  EXPECT_EQ(owner.results().size(), subgraphs.subgraphs[0].outputs.size());
  EXPECT_EQ(subgraphs.subgraphs[0].inputs.size(), 5u);
}

TEST(LayersTest, GradientsAreMadeWhereTheirWeightsAreUsed) {
  const Graph graph = ModelWithGradients();
  const Passes passes = PassesOf(graph, {"w", "u", "v"});
  // matmul relu | matmul tanh | matmul add sigmoid | matmul reduce_mean
  const Layers layers = CutIntoLayers(graph, passes, {0, 0, 1, 1, 2, 2, 2, 3, 3});
  EXPECT_EQ(layers.count, 4);
  // The last layer has the loss. The first and last layers read the first weight; the first has the sum of both
  // gradients.
  EXPECT_THAT(layers.homes, ElementsAre(3, 0, 1, 2));
}

TEST(LayersTest, TimesMayBeGiven) {
  const Graph graph = ModelWithGradients();
  std::vector<double> seconds;
  double sum = 0;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const bool runs = graph.IsRun(graph.node(graph.nodes()[i]));
    seconds.push_back(runs ? static_cast<double>(i) : 0);
    sum += seconds.back();
  }
  const Passes passes = PassesOf(graph, {"w", "u", "v"}, {}, seconds);
  EXPECT_EQ(std::accumulate(passes.seconds.begin(), passes.seconds.end(), 0.0), sum);
}

TEST(LayersTest, WhatADeviceRunsAsOneIsNotCut) {
  const Graph graph = ModelWithGradients();
  // The second and the third node of the forward pass, and two of the backward pass that belong to its end.
  Group group, later;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op == nullptr) continue;
    if (node.op->name == "relu") group.nodes.push_back(id);
    if (node.op->name == "matmul" && group.nodes.size() == 1) group.nodes.push_back(id);
  }
  ASSERT_EQ(group.nodes.size(), 2u);
  const std::vector<bool> may_cut = PassesOf(graph, {"w", "u", "v"}, {group}).may_cut;
  EXPECT_THAT(may_cut, ElementsAre(true, true, false, true, true, true, true, true, true));
}

TEST(LayersTest, AreCutByAmountsFromTheEnd) {
  Passes passes;
  passes.may_cut.assign(6, true);
  EXPECT_THAT(LayersByAmount(passes, {4, 0, 4, 0, 4, 4}, 4), ElementsAre(0, 0, 1, 1, 2, 3));
  EXPECT_THAT(LayersByAmount(passes, {4, 0, 4, 0, 4, 4}, 5), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(LayersByAmount(passes, {4, 0, 4, 0, 4, 4}, 100), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(LayersByAmount(passes, {0, 0, 4, 0, 0, 4}, 4), ElementsAre(0, 0, 0, 0, 0, 1));
  passes.may_cut[5] = passes.may_cut[2] = false;
  EXPECT_THAT(LayersByAmount(passes, {4, 0, 4, 0, 4, 4}, 4), ElementsAre(0, 1, 1, 1, 2, 2));
  EXPECT_THAT(LayersByAmount(passes, {0, 0, 0, 0, 0, 0}, 1), ElementsAre(0, 0, 0, 0, 0, 0));
}

// A mask whose product a residual adds later stays with its reader, so that a group of both does not separate blocks.
TEST(LayersTest, WhatReadsTheForwardPassAloneStandsWithItsReader) {
  const auto graph = ParseGraph(R"(training
input x: f32[4]
state w: f32[4]
const %0: f32[] = [0]
%1 = mul(x, w)
%2 = relu(%1)
%3 = tanh(%2)
%4 = add(%3, %2)
%5 = reduce_mean(%4, axes=[0])
%6 = less(%0, %2)
%7 = where(%6, x, %0)
output loss = %5
output gradient = %7
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  Group masked;
  for (NodeId id : graph->nodes()) {
    const Node& node = graph->node(id);
    if (node.op != nullptr && (node.op->name == "less" || node.op->name == "where")) masked.nodes.push_back(id);
  }
  ASSERT_EQ(masked.nodes.size(), 2u);
  const Passes passes = PassesOf(*graph, {"w"}, {masked});
  EXPECT_EQ(passes.nodes.at(masked.nodes[0]).position, 1);
  EXPECT_EQ(passes.nodes.at(masked.nodes[1]).position, 0);
  EXPECT_THAT(passes.may_cut, ElementsAre(true, false, true, true, true));
}

// The same holds for a value that is computed again over several nodes, though its trigger is a gradient of a later
// position.
TEST(LayersTest, WhatIsComputedAgainStandsWithItsReader) {
  const auto graph = ParseGraph(R"(training
input x: f32[4]
state w: f32[4]
const %0: f32[] = [0]
%1 = mul(x, w)
%2 = exp(%1)
%3 = tanh(%2)
%4 = mul(%3, %1)
%5 = reduce_mean(%4, axes=[0])
%6 = mul(%3, %3)
%7 = after(%1, %6)
%8 = exp(%7)
%9 = less(%0, %8)
%10 = mul(%6, %2)
%11 = where(%9, %10, %0)
output loss = %5
output gradient = %11
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<NodeId>& nodes = graph->nodes();
  const auto again = std::find_if(nodes.begin(), nodes.end(), [&](NodeId id) {
    const Node& node = graph->node(id);
    return node.op != nullptr && node.op->name == "after";
  });
  ASSERT_NE(again, nodes.end());
  const Passes passes = PassesOf(*graph, {"w"}, {{{*again, again[1], again[2], nodes.back()}}});
  for (int k : {0, 1, 2}) EXPECT_EQ(passes.nodes.at(again[k]).position, 0) << graph->node(again[k]).op->name;
  EXPECT_EQ(passes.nodes.at(again[3]).position, 2);
  EXPECT_THAT(passes.may_cut, ElementsAre(true, true, true, true, true));
}

TEST(LayersTest, AreCutByTime) {
  Passes passes;
  passes.length = 6;
  passes.seconds = {4, 1, 1, 1, 1, 4};
  passes.bytes.assign(6, 0);
  passes.may_cut.assign(6, true);
  EXPECT_THAT(*LayersByTime(passes, 3), ElementsAre(0, 1, 1, 1, 1, 2));
  EXPECT_THAT(*LayersByTime(passes, 1), ElementsAre(0, 0, 0, 0, 0, 0));
  // A cut in the middle would send far more than those next to it.
  passes.seconds = {2, 2, 2, 2, 2, 2};
  passes.bytes = {1e9, 1e9, 1e11, 1e9, 1e9, 0};
  const std::vector<int> cut = *LayersByTime(passes, 2);
  EXPECT_EQ(cut[2], cut[3]);
  EXPECT_THAT(std::string(LayersByTime(passes, 7).status().message()),
              HasSubstr("found 7 stages, expected at most 6, the forward pass has no more to cut"));
  passes.bytes.assign(6, 0);
  passes.may_cut[3] = false;
  EXPECT_EQ((*LayersByTime(passes, 2))[2], (*LayersByTime(passes, 2))[3]);
}

// The longest of the layers' times is the least possible, and the cuts are the earliest with it.
TEST(LayersTest, AreCutByTimeAsByTryingAllCuts) {
  std::minstd_rand random(7);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    Passes passes;
    passes.length = 2 + static_cast<int>(random() % 7);
    const auto length = static_cast<size_t>(passes.length);
    for (size_t i = 0; i < length; ++i) {
      passes.seconds.push_back(static_cast<double>(random() % 4));
      passes.bytes.push_back(static_cast<double>(random() % 3) * 1e9);
    }
    for (size_t i = 0; i < length; ++i) passes.may_cut.push_back(i == 0 || random() % 4 > 0);
    const auto most = static_cast<int>(std::count(passes.may_cut.begin(), passes.may_cut.end(), true));
    const int count = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    const std::vector<int> layers = *LayersByTime(passes, count);
    const auto longest = [&](const std::vector<int>& of) {
      double most_seconds = 0;
      for (int k = 0; k < count; ++k) {
        double seconds = 0;
        for (size_t i = 0; i < length; ++i) {
          if (of[i] != k) continue;
          seconds += passes.seconds[i];
          if (i > 0 && of[i - 1] != k) seconds += passes.bytes[i - 1] / 1e10;
          if (i + 1 < length && of[i + 1] != k) seconds += passes.bytes[i] / 1e10;
        }
        most_seconds = std::max(most_seconds, seconds);
      }
      return most_seconds;
    };
    double best = std::numeric_limits<double>::infinity();
    for (unsigned cuts = 0; cuts < 1u << (length - 1); ++cuts) {
      std::vector<int> of(length, 0);
      bool legal = true;
      for (size_t i = 1; i < length; ++i) {
        const bool cut = (cuts >> (i - 1) & 1) != 0;
        of[i] = of[i - 1] + (cut ? 1 : 0);
        legal = legal && (!cut || passes.may_cut[i]);
      }
      if (legal && of.back() == count - 1) best = std::min(best, longest(of));
    }
    EXPECT_EQ(layers.back(), count - 1);
    EXPECT_NEAR(longest(layers), best, 1e-9);
  }
}

}  // namespace
}  // namespace rewright
