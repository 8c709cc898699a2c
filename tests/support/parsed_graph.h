// Graphs of tests, by their text.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/ir/graph.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace rewright {

// Returns the graph that `text` states (core/ir/text.h), with the values of states by name. An error fails the test and
// returns an empty graph.
inline Graph GraphOf(const std::string& text, const std::map<std::string, Tensor>& states = {}) {
  auto graph = ParseGraph(text, states);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

// Likewise, with weights drawn from [low, high).
inline Graph GraphWithWeights(const std::string& text, double low, double high, uint64_t seed) {
  const Graph empty = GraphOf(text);
  Rng rng(seed);
  std::map<std::string, Tensor> weights;
  for (const NodeId id : empty.nodes()) {
    const Node& node = empty.node(id);
    if (node.leaf == LeafKind::kState) weights[node.name] = RandomTensor(node.outputs[0], rng, low, high);
  }
  return GraphOf(text, weights);
}

}  // namespace rewright
