// Two models over the same leaves, in one arena.
//
// Inputs and outputs are matched by name. Weights are matched by their elements, whatever they are called. A value that
// both models compute from the same leaves in the same way is then one node: the shared part needs no proof.
#pragma once

#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Types of inputs and outputs by role and name: "input x", "output y".
std::map<std::string, TensorType> InterfaceOf(const Graph& graph);

struct JointModels {
  Graph a, b;                                       // of one arena; outputs of b in the order of a's
  absl::flat_hash_map<Value, std::string> names_a;  // of tensors in the models
  absl::flat_hash_map<Value, std::string> names_b;
};

// Errors: InvalidArgument where inputs or outputs differ in name or type; it lists all that do. A model whose outputs
// update states (training) is refused.
absl::StatusOr<JointModels> JoinModels(const Graph& a, const Graph& b);

}  // namespace rewright
