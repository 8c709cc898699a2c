// Nodes of a model whose operator nobody here knows: opaque operators (docs/decisions/029, 064) of which not even a
// reference function is there. What is known is where a node stands and the types of its outputs; so rewrites happen
// around it, and whoever runs the file runs it.
//
// The operator is named foreign.DOMAIN.NAME and made when it is asked for. The attribute `node` tells nodes apart,
// which are functions of their own: whether a node gives the same twice is not known of an operator that is not known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/op.h"

namespace rewright {

// `name`: "com.acme.Frob"; what a printed name cannot hold becomes an underscore. Null where the name is too long, or
// too many were made (FindOp): they live as long as the process.
const OpDef* ForeignOp(const std::string& name);
// Null where the name is no foreign operator's.
const OpDef* FindForeignOp(const std::string& name, const OpDef* (*find)(const std::string&));

// `node`: not negative.
Attrs ForeignAttrs(int64_t node, const std::vector<TensorType>& outputs);

bool IsForeign(const Node& node);
int CountForeign(const Graph& graph);

}  // namespace rewright
