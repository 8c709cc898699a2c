// A graph of a loss and its gradients in layers: the forward pass of each in turn, then their backward passes in the
// opposite order. Gradients are summed over ranks, weights gathered and stages of a pipeline made by layers.
//
// A position is the index of a forward node in the order of the forward pass. A backward node has the position of the
// part of the forward pass that it belongs to: the smallest position at which any value it reads was last used or, if
// it reads forward values only, the largest position at which its result is read. So a backward node never reads a
// value that the backward pass of an earlier position makes, and layers, which are stretches of positions, may be cut
// anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/parallel/subgraphs.h"

namespace rewright {

struct Passes {
  struct Place {
    bool forward = false;
    int position = 0;
  };
  int length = 0;                            // positions; at least 1
  absl::flat_hash_map<NodeId, Place> nodes;  // leaves, too, where it has no meaning
  std::vector<double> seconds;               // by position: of both passes; a guess is by operations and bytes
  std::vector<double> bytes;                 // by position: what is handed on from it to the next one, and back
  std::vector<bool> may_cut;                 // by position: whether a layer may begin there
};

// A guess of what each node takes, by operations and bytes: by position in Graph::nodes(), 0 where a run computes
// nothing.
std::vector<double> GuessedSeconds(const Graph& graph);

// Output 0 of the graph is the loss. `weights` are the names of the states whose gradients the other outputs are, in
// order. `seconds` are by position in Graph::nodes(); empty: they are guessed. `groups`, the nodes that a device runs
// as one, are not cut: parts of them would be slower, and may round otherwise.
Passes PassesOf(const Graph& graph, const std::vector<std::string>& weights, const std::vector<Group>& groups = {},
                const std::vector<double>& seconds = {});

// The layer, 0, 1, .., of each position. Beginning at the end of the forward pass, a layer takes as many positions as
// it needs to have `limit` of these amounts, which are given by position.
std::vector<int> LayersByAmount(const Passes& passes, const std::vector<int64_t>& amounts, int64_t limit);

// Divides the positions into `count` layers so that the longest time of a layer, messages to and from its neighbours
// included, is as short as possible. Error: fewer positions than layers.
absl::StatusOr<std::vector<int>> LayersByTime(const Passes& passes, int count);

struct Layers {
  int count = 0;
  // A backward pass is two subgraphs: what earlier layers need of it, and the rest, the gradients of weights.
  bool split_backward = false;
  Subgraphs subgraphs;     // forward passes 0..count-1, then backward passes count-1..0; the latter may be empty
  std::vector<int> homes;  // by output of the graph, the layer that makes it

  int parts() const { return split_backward ? 2 : 1; }
  // The subgraph of a pass of a layer, of a backward pass the first one; the last one of its backward pass; and the
  // layer of a subgraph.
  int SubgraphOf(bool forward, int layer) const { return forward ? layer : count + parts() * (count - 1 - layer); }
  int LastOf(int layer) const { return SubgraphOf(false, layer) + parts() - 1; }
  int LayerOf(int subgraph) const { return subgraph < count ? subgraph : count - 1 - (subgraph - count) / parts(); }
};

// `layers` are by position, as above. Nodes that the passes do not know, such as those that pack gradients, are where
// the last of their operands is made. `groups` are not cut by `split_backward` either.
Layers CutIntoLayers(const Graph& graph, const Passes& passes, const std::vector<int>& layers,
                     bool split_backward = false, const std::vector<Group>& groups = {});

}  // namespace rewright
