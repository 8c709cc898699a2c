// What the e-nodes of an e-graph cost, as far as a cost can be put on one of them.
//
// A device runs groups, so costs are not additive by node: an addition costs a kernel alone and nothing behind a
// convolution. An e-node's cost here is the least of what it costs alone and what it adds to an e-node that computes
// one of its operands. Sums of these guide the extraction; which graph is taken, the device's cost of whole graphs
// decides.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "search/cost_model.h"
#include "search/extraction.h"
#include "substitutions/egraph/egraph.h"

namespace rewright {

class ENodeCosts {
 public:
  ENodeCosts(const EGraph& egraph, CostModel& costs) : egraph_(egraph), costs_(costs) {}

  // Seconds, above 0; infinite where the device cannot run it.
  double Of(NodeId enode);

 private:
  // The application in scratch_, reading leaves; where `operand` is not null, that class is computed by `maker`.
  absl::StatusOr<NodeId> Copy(NodeId enode, const Value* operand, NodeId maker);
  Value Leaf(Value representative);
  // Of the scratch graph that computes all outputs of an application of scratch_.
  double Total(NodeId copy);

  const EGraph& egraph_;
  CostModel& costs_;
  std::shared_ptr<Arena> scratch_ = std::make_shared<Arena>();
  ValueMap leaves_;                            // of one copy, by representative
  absl::flat_hash_map<NodeId, double> total_;  // of nodes of scratch_
};

// The classes that the roots can need, as an extraction problem.
struct EGraphProblem {
  ExtractionProblem problem;
  std::vector<NodeId> nodes;   // by number of the node
  std::vector<Value> classes;  // by number of the class
  absl::flat_hash_map<Value, int> class_numbers;
  absl::flat_hash_map<NodeId, int> node_numbers;
};
EGraphProblem ProblemOf(const EGraph& egraph, const std::vector<Value>& roots, ENodeCosts& costs);

}  // namespace rewright
