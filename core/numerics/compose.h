// Joins an application and those that compute its operands into one expression: relations between nodes become
// relations within an expression (core/numerics/element_facts.h). Exporters write norms and softmaxes in several nodes.
#pragma once

#include <memory>
#include <vector>

#include "core/ir/graph.h"

namespace rewright {

struct Composed {
  std::shared_ptr<const Meaning> meaning;  // of one output; sizes and attributes are numbers in it
  std::vector<Value> operands;             // the values that its reads read
};

// Joins a node with those before it if that may tell more of output 0 than the node alone: a quotient whose divisor
// comes from a sum or an extremum, a product with such a quotient, a difference from an extremum. Null otherwise.
// Products of tensors, and nodes beyond the eighth, stay reads.
Composed ComposeForFacts(const Arena& arena, NodeId node);

}  // namespace rewright
