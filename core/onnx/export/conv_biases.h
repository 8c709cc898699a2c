// Finds sums that are written as the bias of a Conv. For the sources of this folder only.
#pragma once

#include <functional>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/graph.h"

namespace rewright {

class ConvBiases {
 public:
  // `fold_weights`: a bias of one element may be repeated for all channels. `is_folded` says of a known node that it is
  // computed at export. `graph` must outlive this.
  ConvBiases(const Graph& graph, bool fold_weights, const std::function<bool(NodeId)>& is_folded);

  // Returns, by convolution, the sums that it absorbs.
  const absl::flat_hash_map<NodeId, NodeId>& sums() const { return sums_; }
  // True for a sum that a convolution absorbs.
  bool IsAbsorbed(NodeId sum) const { return biases_.contains(sum); }
  // Returns the value that an absorbed sum adds, of shape [1, channels, 1, 1] or of one element.
  Value BiasOf(NodeId sum) const { return biases_.at(sum); }
  // True for a value that some convolution could add, and for the vector behind it, dropped ones included.
  bool IsBias(Value value) const { return values_.contains(value); }
  // Leaves the sum to be written by itself.
  void Drop(NodeId conv);

  // Returns a vector of which the bias is a reshape; the reshape is then not needed.
  std::optional<Value> VectorBehind(Value bias) const;

 private:
  // Returns the operand of `sum` other than `conv`, if it can be a bias.
  std::optional<Value> BiasOperand(const Node& sum, Value conv) const;

  const Graph& graph_;
  const bool fold_weights_;
  absl::flat_hash_map<NodeId, NodeId> sums_;   // by convolution
  absl::flat_hash_map<NodeId, Value> biases_;  // by sum
  absl::flat_hash_set<Value> values_;
};

}  // namespace rewright
