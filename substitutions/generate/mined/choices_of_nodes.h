// Applications of a model's graph as operators of a space.
#pragma once

#include <optional>
#include <string>

#include "core/ir/graph.h"
#include "substitutions/generate/enumerate/space.h"

namespace rewright::generate {

struct NodeChoice {
  OperatorChoice choice;  // sizes in it are the model's numbers
  bool swapped = false;   // the choice takes the node's two operands in the other order
};

// The node as an operator: its attributes, the ranks of its operands, how these broadcast. Sizes are no part of its
// name. Nothing where the generator has no such operator: types other than f32, more than three operands or outputs, an
// opaque operator, a slice that is not the first part of an axis.
std::optional<NodeChoice> ChoiceOf(const Graph& graph, const Node& node);

// The number, if the value is a constant of one element that is a whole number of at most 8.
std::optional<int64_t> WholeNumber(const Graph& graph, Value value);

}  // namespace rewright::generate
