// The graphs of all ranks as one program: step by step the same operator on every rank, whose constants may differ.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/ranks/rank_plan.h"

namespace rewright {

// An output of a step.
using StepValue = std::pair<int, int32_t>;

struct RankStep {
  const Node* node = nullptr;  // of rank 0; its operator, attributes and types are those of all ranks
  std::string name;            // of the tensor in the file of rank 0
  std::vector<StepValue> operands;
  std::vector<Tensor> constants;  // of a leaf with elements: one if all ranks have the same, else one of each rank
  const RankCollective* collective = nullptr;
  std::vector<int> group;  // axes of the mesh over which the collective goes

  bool IsInput() const { return node->op == nullptr && constants.empty(); }
};

struct RankProgram {
  std::vector<RankStep> steps;  // operands before users
  std::vector<StepValue> outputs;
};

// `plan` outlives the program. Errors (kFailedPrecondition) where the ranks part: they name rank and node, with what
// was found there and on rank 0; a group that is no axis of the mesh.
absl::StatusOr<RankProgram> AlignRanks(const RankPlan& plan);

}  // namespace rewright
