// Terms on a mesh: the tensors of all ranks as one tensor, whose first axes are those of the mesh. An operator that
// every rank runs is each_each_f (core/lift/lift.h); a collective is made of placements (core/ops/placement.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "verifier/ranks/rank_program.h"

namespace rewright {

class DeviceTerms {
 public:
  // `axes` are the axes of the mesh that the terms have, in order; along the others all ranks compute the same.
  DeviceTerms(Arena& arena, const RankPlan& plan, std::vector<int> axes);

  const std::vector<int>& axes() const { return axes_; }

  // The tensor on the mesh whose placement along its axes is given, by axis of the whole mesh. The first axes of `core`
  // are the summands, in the order of the mesh.
  absl::StatusOr<Value> Place(Value core, const MeshPlacement& placement);
  // The sum over the axes with summands.
  absl::StatusOr<Value> SumOf(Value value, const MeshPlacement& placement);
  // The constants of a step: of all ranks the same, or begin + rank * step along one axis.
  absl::StatusOr<Value> Constant(const RankStep& step);
  absl::StatusOr<std::vector<Value>> Apply(const RankStep& step, const std::vector<Value>& operands);

 private:
  absl::StatusOr<Value> Each(size_t depth, const char* op, Value operand, Attrs attrs);
  absl::StatusOr<Value> OnAll(Value value);
  absl::StatusOr<Value> Collective(const RankStep& step, Value operand);
  absl::StatusOr<Value> Exchange(size_t at, Value operand);
  int64_t size(size_t at) const { return plan_.mesh[axes_[at]].size; }

  Arena& arena_;
  const RankPlan& plan_;
  const std::vector<int> axes_;
};

}  // namespace rewright
