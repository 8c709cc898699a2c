// Opaque operators (docs/decisions/029, 064) for nodes of a model whose operator is unknown here; they have not even a
// reference function. Only a node's position and the types of its outputs are known. Rewrites happen around the node,
// and the program that runs the file computes it.
//
// The operator is named foreign.DOMAIN.NAME and made when it is asked for. The attribute `node` keeps nodes apart: two
// nodes of one unknown operator may give different results on equal inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/op.h"
#include "core/ops/ops.h"

namespace rewright {

// Returns the operator for a `name` such as "com.acme.Frob"; characters that a printed name cannot hold become
// underscores. Null if the name is too long, or too many were made (FindOp): they live as long as the process.
const OpDef* ForeignOp(const std::string& name);
// Returns null if the name is not that of a foreign operator.
const OpDef* FindForeignOp(const std::string& name, const OpDef* (*find)(const std::string&));

// `node`: not negative.
Attrs ForeignAttrs(int64_t node, const std::vector<TensorType>& outputs);

bool IsForeign(const Node& node);
int CountForeign(const Graph& graph);

}  // namespace rewright
