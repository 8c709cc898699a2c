// One operator out of several nodes of a graph: its meaning is theirs, composed, for all sizes of the operands.
//
//   matmul(softmax(matmul(q, transpose(k))), v)      out[i, d] = sum t: exp(s[i, t] - max t: s[i, t]) / (..) * v[t, d]
//
// Whatever reads a declaration reads a group of nodes that way: the interpreter, the prover, sharding laws, folds
// (fold.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Makes the operator whose operands are `operands`, in that order, and whose results are `results`; what lies between
// them is composed. Sizes of operands are symbols. Attributes of the nodes and sizes that are known to be one are those
// of the graph. Errors: a result depends on a leaf that is no operand and no constant of one element; an opaque node.
absl::StatusOr<std::shared_ptr<const OpDef>> MakeCompositeOp(std::string name, const Graph& graph,
                                                             const std::vector<Value>& operands,
                                                             const std::vector<Value>& results);

}  // namespace rewright
