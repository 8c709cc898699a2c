#include "verifier/ranks/device_terms.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/base/status_macros.h"
#include "core/lift/lift.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

const OpDef& Lifted(const OpDef& op, size_t depth) {
  const OpDef* lifted = &op;
  for (; depth > 0; --depth) lifted = LiftedOp(*lifted);
  return *lifted;
}

}  // namespace

DeviceTerms::DeviceTerms(Arena& arena, const RankPlan& plan, std::vector<int> axes)
    : arena_(arena), plan_(plan), axes_(std::move(axes)) {}

absl::StatusOr<Value> DeviceTerms::Each(size_t depth, const char* op, Value operand, Attrs attrs) {
  ASSIGN_OR_RETURN(const NodeId node, arena_.Add(Lifted(*FindOp(op), depth), {operand}, std::move(attrs)));
  return Value{node, 0};
}

absl::StatusOr<Value> DeviceTerms::OnAll(Value value) {
  for (size_t at = axes_.size(); at-- > 0;) {
    ASSIGN_OR_RETURN(value, Each(0, "replicate", value, {{"degree", size(at)}}));
  }
  return value;
}

absl::StatusOr<Value> DeviceTerms::Place(Value core, const MeshPlacement& placement) {
  int64_t summands = 0;
  for (int axis : axes_) summands += placement[axis] == kSummand;
  for (size_t at = 0; at < axes_.size(); ++at) {
    const int place = placement[axes_[at]];
    if (place == kSummand) {
      --summands;
    } else if (place == kWhole) {
      ASSIGN_OR_RETURN(core, Each(at, "replicate", core, {{"degree", size(at)}}));
    } else {
      ASSIGN_OR_RETURN(core, Each(at, "partition", core, {{"axis", summands + place}, {"degree", size(at)}}));
    }
  }
  return core;
}

absl::StatusOr<Value> DeviceTerms::SumOf(Value value, const MeshPlacement& placement) {
  std::vector<int64_t> sums;
  for (size_t at = 0; at < axes_.size(); ++at) {
    if (placement[axes_[at]] == kSummand) sums.push_back(static_cast<int64_t>(at));
  }
  if (sums.empty()) return value;
  return arena_.Apply("reduce_sum", {value}, {{"axes", sums}, {"keepdims", int64_t{0}}});
}

absl::StatusOr<Value> DeviceTerms::Constant(const RankStep& step) {
  if (step.constants.size() == 1) return OnAll(arena_.AddConstant(step.constants[0]));
  // Elements of all ranks in a row, those of other axes of the mesh at place 0.
  const TensorType& type = step.node->outputs[0];
  Shape shape;
  for (size_t at = 0; at < axes_.size(); ++at) shape.push_back(size(at));
  shape.insert(shape.end(), type.shape.begin(), type.shape.end());
  Tensor all(TensorType{type.dtype, shape});
  int64_t ranks = 1;
  for (size_t at = 0; at < axes_.size(); ++at) ranks *= size(at);
  const int64_t elements = step.constants[0].num_elements();
  for (int64_t place = 0; place < ranks; ++place) {
    int64_t rank = 0, rest = place, stride = 1;
    for (int axis = static_cast<int>(plan_.mesh.size()) - 1; axis >= 0; stride *= plan_.mesh[axis--].size) {
      if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) continue;
      rank += rest % plan_.mesh[axis].size * stride;
      rest /= plan_.mesh[axis].size;
    }
    for (int64_t i = 0; i < elements; ++i) all.Set(place * elements + i, step.constants[rank].At(i));
  }
  return arena_.AddConstant(all);
}

absl::StatusOr<std::vector<Value>> DeviceTerms::Apply(const RankStep& step, const std::vector<Value>& operands) {
  if (step.collective != nullptr) {
    ASSIGN_OR_RETURN(const Value value, Collective(step, operands[0]));
    return std::vector<Value>{value};
  }
  const bool made = operands.empty();
  ASSIGN_OR_RETURN(const NodeId node,
                   arena_.Add(Lifted(*step.node->op, made ? 0 : axes_.size()), operands, step.node->attrs));
  std::vector<Value> values;
  for (int32_t k = 0; k < static_cast<int32_t>(arena_.node(node).outputs.size()); ++k) {
    values.push_back({node, k});
    if (made) {
      ASSIGN_OR_RETURN(values.back(), OnAll(values.back()));
    }
  }
  return values;
}

// Piece p of each rank comes to rank p: the axis of the mesh and that of the pieces are exchanged.
absl::StatusOr<Value> DeviceTerms::Exchange(size_t at, Value operand) {
  const Shape shape = arena_.type(operand).shape;
  const size_t cut = axes_.size();
  Shape pieces = shape;
  pieces[cut] /= size(at);
  pieces.insert(pieces.begin() + static_cast<int64_t>(cut), size(at));
  std::vector<int64_t> order;
  for (size_t k = 0; k < pieces.size(); ++k) order.push_back(static_cast<int64_t>(k));
  std::swap(order[at], order[cut]);
  ASSIGN_OR_RETURN(const Value parted, arena_.Apply("reshape", {operand}, {{"shape", pieces}}));
  ASSIGN_OR_RETURN(const Value moved, arena_.Apply("transpose", {parted}, {{"perm", order}}));
  return arena_.Apply("reshape", {moved}, {{"shape", shape}});
}

absl::StatusOr<Value> DeviceTerms::Collective(const RankStep& step, Value operand) {
  static const std::map<std::string, const char*> kReductions = {{"sum", "reduce_sum"},
                                                                 {"max", "reduce_max"},
                                                                 {"min", "reduce_min"},
                                                                 {"product", "reduce_prod"},
                                                                 {"avg", "reduce_mean"}};
  const RankCollective& collective = *step.collective;
  std::vector<int64_t> places;  // of the axes of the group, among those of the terms
  for (int axis : step.group) {
    const auto found = std::find(axes_.begin(), axes_.end(), axis);
    if (found == axes_.end()) return absl::InternalError("a collective over an axis that the terms do not have");
    places.push_back(found - axes_.begin());
  }
  if (collective.kind == CollectiveKind::kAllToAll) {
    if (places.size() > 1) return absl::UnimplementedError("an all-to-all over several axes of the mesh");
    return places.empty() ? absl::StatusOr<Value>(operand) : Exchange(places[0], operand);
  }
  const int64_t others = static_cast<int64_t>(axes_.size() - places.size());
  Value value = operand;
  if (collective.kind == CollectiveKind::kAllGather) {
    // The innermost axis first: its ranks have neighbouring blocks.
    int64_t count = static_cast<int64_t>(axes_.size());
    for (auto at = places.rbegin(); at != places.rend(); ++at) {
      --count;
      ASSIGN_OR_RETURN(value, Each(*at, "combine", value, {{"axis", count - *at + collective.axis}}));
    }
  } else if (!places.empty()) {
    const auto reduction = kReductions.find(collective.reduction);
    if (reduction == kReductions.end()) return absl::UnimplementedError("a reduction by " + collective.reduction);
    ASSIGN_OR_RETURN(value,
                     arena_.Apply(reduction->second, {value}, {{"axes", places}, {"keepdims", int64_t{0}}}));
  }
  int64_t count = others;
  for (int64_t at : places) {
    if (collective.kind == CollectiveKind::kReduceScatter) {
      ASSIGN_OR_RETURN(value, Each(at, "partition", value,
                                   {{"axis", count - at + collective.axis}, {"degree", size(at)}}));
    } else {
      ASSIGN_OR_RETURN(value, Each(at, "replicate", value, {{"degree", size(at)}}));
    }
    ++count;
  }
  return value;
}

}  // namespace rewright
