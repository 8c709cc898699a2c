// The graphs of all ranks as one program: step by step the same operator on every rank, whose constants may differ. A
// slice that begins elsewhere on each rank is a dynamic_slice whose starts are such constants.
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
  const OpDef* op = nullptr;  // null for leaves
  Attrs attrs;
  std::vector<TensorType> types;  // of the results on a rank
  std::string name;               // of the tensor in the file of rank 0; of an input its own
  std::vector<StepValue> operands;
  std::vector<Tensor> constants;  // of a leaf with elements: one if all ranks have the same, else one of each rank
  const RankCollective* collective = nullptr;
  std::vector<int> group;  // axes of the mesh over which the collective goes

  bool IsInput() const { return op == nullptr && constants.empty(); }
};

struct RankProgram {
  std::vector<RankStep> steps;  // operands before users
  std::vector<StepValue> outputs;
};

// `plan` outlives the program. Errors (kFailedPrecondition) where the ranks part: they name rank and node, with what
// was found there and on rank 0; a group that is no axis of the mesh.
absl::StatusOr<RankProgram> AlignRanks(const RankPlan& plan);

}  // namespace rewright
