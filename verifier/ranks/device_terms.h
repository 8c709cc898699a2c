// Terms on a mesh: the tensors of all ranks as one tensor, whose first axes are those of the mesh. An operator that
// every rank runs is each_each_f (core/lift/lift.h); a collective is made of placements (core/ops/placement.cc).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

  // The tensor on the mesh of a tensor of the whole, which is cut or whole along each axis of the mesh.
  absl::StatusOr<Value> Place(Value whole, const MeshPlacement& placement);
  // The tensor on the mesh of one that lacks the axes along which it is whole.
  absl::StatusOr<Value> Repeat(Value value, const MeshPlacement& placement);
  // Puts parts and shares together: the axes of the mesh go, but for those along which the tensor is whole; unless
  // `value` lacks these already.
  absl::StatusOr<Value> Join(Value value, const MeshPlacement& placement, bool lacks_whole);
  // The axis of the mesh along which a node of these terms repeats or cuts; -1: it does neither.
  int AxisOf(NodeId node) const;
  // The constants of a step, which all ranks have or each its own. Equal elements that grow evenly along one axis of
  // the mesh are an expression of the rank's place.
  absl::StatusOr<Value> Constant(const RankStep& step);
  absl::StatusOr<std::vector<Value>> Apply(const RankStep& step, const std::vector<Value>& operands);

 private:
  absl::StatusOr<Value> Each(size_t depth, const char* op, Value operand, Attrs attrs);
  absl::StatusOr<Value> RepeatAt(size_t depth, size_t at, Value value);
  absl::StatusOr<Value> CutAt(size_t depth, size_t at, Value value, int64_t axis);
  absl::StatusOr<Value> OnAll(Value value);
  absl::StatusOr<std::optional<Value>> ByPlace(const RankStep& step);
  // The constant of the rank at these places along the axes of the terms, at place 0 of the others.
  const Tensor& ConstantAt(const RankStep& step, const std::vector<int64_t>& places) const;
  absl::StatusOr<Value> Collective(const RankStep& step, Value operand);
  absl::StatusOr<Value> Exchange(size_t at, Value operand);
  int64_t size(size_t at) const { return plan_.mesh[axes_[at]].size; }

  // Notes that the number of devices of a node is that of an axis.
  Value Noted(Value value, size_t at) {
    axis_of_[value.node] = axes_[at];
    return value;
  }

  Arena& arena_;
  const RankPlan& plan_;
  const std::vector<int> axes_;
  std::map<NodeId, int> axis_of_;
};

}  // namespace rewright
