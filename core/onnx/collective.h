// Collectives of a graph per rank: nodes of the domain rewright.ranks, which python/rewright/ranks.py writes.
//
//   AllReduce(x; reduction, group)            the sum.. over the ranks of the group
//   AllGather(x; axis, group)                 the tensors of the group joined along the axis, in the order of the ranks
//   ReduceScatter(x; reduction, axis, group)  a rank's block, along the axis, of the sum
//   AllToAll(x; group)                        piece p of each rank for rank p, along axis 0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/onnx/onnx.h"

namespace rewright {

struct CollectiveNode {
  std::string kind;             // "AllReduce", ..
  std::string reduction;        // "sum", "max", "min", "product", "avg"; empty where there is none
  int64_t axis = 0;             // of the tensor
  std::vector<int64_t> group;   // ranks, in the order of their blocks
};

// Errors: the node is no collective; an attribute is missing.
absl::StatusOr<CollectiveNode> ReadCollective(const OpaqueNode& node);

}  // namespace rewright
