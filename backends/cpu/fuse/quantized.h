// Products and convolutions of 8-bit integers, as importers compose them (docs/decisions/054):
//   sums = product(cast(a, i32) - zero, cast(b, i32) - zero) + bias
//   y = cast(clip(round(cast(sums, f32) * factor) + point, low, high), to 8 bits)
// Which nodes of a graph are such a product, and what of it is in its group.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/graph.h"

namespace rewright::cpu {

// A factor x - zero, of i32, where x is of 8 bits.
struct CentredFactor {
  DType dtype = DType::kUInt8;  // of x
  Value zero;                   // one element of i32, in the range of x, known where x - zero is read; no node: 0
  // The value that the group reads: x, or x - zero if nodes other than such products read that, too.
  Value value;
  bool is_difference = false;
  std::vector<NodeId> nodes;  // the cast and the difference, in the group of each product that reads it
};

struct QuantizedProduct {
  NodeId product = -1;  // a matmul, or a conv2d of one group
  CentredFactor left;
  // The weights of a convolution or a known right factor are read as they are in the graph, of i32.
  std::optional<CentredFactor> right;
  Value bias;  // known, of one element or one for each column; no node: none
  // The step that makes 8 bits of the sums; without it the sums are the result.
  struct Requantized {
    Value factor;  // as the bias, of f32
    int point = 0, low = 0, high = 0;
    DType to = DType::kUInt8;
  };
  std::optional<Requantized> requantized;
  std::vector<NodeId> nodes;  // of the group, operands before users
  Value result() const { return {nodes.back(), 0}; }
};

// The number that all elements of a known value of integers are, as far as its leaf tells.
std::optional<int64_t> KnownInteger(const Graph& graph, Value value);

// The product of this node; none if the node is no such product. The graph alone decides it.
std::optional<QuantizedProduct> QuantizedProductAt(const Graph& graph, NodeId product);

}  // namespace rewright::cpu
