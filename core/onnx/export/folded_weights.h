// Decides which weights are computed at export and which the written file computes. For the sources of this folder
// only.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "core/ir/graph.h"
#include "core/onnx/export/conv_biases.h"
#include "core/onnx/source.h"

namespace rewright {

// A graph on its way out.
struct ExportedGraph {
  const Graph& graph;
  const OnnxSource* source = nullptr;  // null: no file was read
  const ExportPlan& plan;
  const ConvBiases& biases;
  int64_t opset = 0;
  std::function<bool(NodeId)> is_folded;  // says of a known node whether it may be computed at export
  std::function<bool(NodeId)> is_sized;   // its shape depends on named sizes
};

struct WeightChoice {
  std::set<Value> folded;                // computed at export, leaves excluded
  absl::flat_hash_set<NodeId> computed;  // known nodes that the written file computes
};

// Chooses for the known values that run-time nodes, kept nodes and outputs read. A value that may be computed at export
// is, unless its tensor would take more bytes than the weights that it alone reads: such weights are narrower, or other
// nodes read them too. Only values that the file computes, that are made of few bytes of weights, or that are reals of
// fewer bits, are left to it.
WeightChoice ChooseFolded(const ExportedGraph& exported);

}  // namespace rewright
