// Numbers nodes by what rules see of them: nodes that no rule can tell apart have one number.
//
// Work that grows with a graph is done once for all parts of it that are alike. The numbers are of one process only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"

namespace rewright {

// The signature of a node without its operands: operator, attributes, types, kind of leaf, the elements of a constant.
// It leaves out a weight's data. Two different nodes have the same number only by accident of 64 bits.
uint64_t NodeSignature(const Node& node);

// Signatures that include what conditions read of weights: a common value of all elements, and if all are positive or
// finite. Numbers of one object are equal for equal signatures alone, since it keeps the text behind each. It remembers
// them by node and by data, for graphs of one arena. Share one: reading weights from memory is slow. Not thread-safe.
class NodeSignatures {
 public:
  uint64_t Of(const Graph& graph, NodeId id);
  uint64_t Of(const TensorType& type);

 private:
  uint64_t Number(const std::string& text);
  const std::string& ElementsOf(const Tensor& weight);

  std::vector<uint64_t> nodes_;                            // by identity; 0: not known
  absl::flat_hash_map<const void*, std::string> weights_;  // by where the elements are
  absl::flat_hash_map<uint64_t, std::string> texts_;       // the text that each number was given for
};

// By position in graph.nodes(): the signature of all nodes within `radius` edges of the node, up and down, by
// Weisfeiler and Leman's refinement (1968). Signatures are refined `radius` times by those of operands, in order, and
// of users. Two neighbourhoods may have one signature if they differ only in the places that read several values of the
// same signature. This suffices for leaving out repeated work; it is no proof that two neighbourhoods are equal.
std::vector<uint64_t> NeighbourhoodSignatures(const Graph& graph, NodeSignatures& signatures, int radius);

}  // namespace rewright
