// An application and what computes its operands, as one expression: relations between nodes become relations within an
// expression (core/numerics/element_facts.h). Exporters write norms and softmaxes in several nodes.
#pragma once

#include <memory>
#include <vector>

#include "core/ir/graph.h"

namespace rewright {

struct Composed {
  std::shared_ptr<const Meaning> meaning;  // of one output; sizes and attributes are numbers in it
  std::vector<Value> operands;             // what its reads read
};

// Joins a node with those before it where that may tell more of output 0 than the node alone: a quotient by something
// that a sum or an extremum leads to, a product with such a quotient, a difference from an extremum. Null elsewhere;
// products of tensors, and nodes beyond the eighth, are read as they are.
Composed ComposeForFacts(const Arena& arena, NodeId node);

}  // namespace rewright
