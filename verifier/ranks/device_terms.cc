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

int DeviceTerms::AxisOf(NodeId node) const {
  const auto found = axis_of_.find(node);
  return found == axis_of_.end() ? -1 : found->second;
}

absl::StatusOr<Value> DeviceTerms::RepeatAt(size_t depth, size_t at, Value value) {
  ASSIGN_OR_RETURN(value, Each(depth, "replicate", value, {{"degree", size(at)}}));
  return Noted(value, at);
}

absl::StatusOr<Value> DeviceTerms::CutAt(size_t depth, size_t at, Value value, int64_t axis) {
  ASSIGN_OR_RETURN(value, Each(depth, "partition", value, {{"axis", axis}, {"degree", size(at)}}));
  return Noted(value, at);
}

absl::StatusOr<Value> DeviceTerms::OnAll(Value value) {
  for (size_t at = axes_.size(); at-- > 0;) {
    ASSIGN_OR_RETURN(value, RepeatAt(0, at, value));
  }
  return value;
}

absl::StatusOr<Value> DeviceTerms::Place(Value whole, const MeshPlacement& placement) {
  for (size_t at = 0; at < axes_.size(); ++at) {
    const int place = placement[axes_[at]];
    ASSIGN_OR_RETURN(whole, place == kWhole ? RepeatAt(at, at, whole) : CutAt(at, at, whole, place));
  }
  return whole;
}

absl::StatusOr<Value> DeviceTerms::Repeat(Value value, const MeshPlacement& placement) {
  for (size_t at = 0; at < axes_.size(); ++at) {
    if (placement[axes_[at]] != kWhole) continue;
    ASSIGN_OR_RETURN(value, RepeatAt(at, at, value));
  }
  return value;
}

absl::StatusOr<Value> DeviceTerms::Join(Value value, const MeshPlacement& placement, bool lacks_whole) {
  int64_t before = 0, behind = 0;  // axes of the mesh that the value has, before and behind the one in question
  for (int axis : axes_) before += placement[axis] != kWhole || !lacks_whole;
  for (size_t at = axes_.size(); at-- > 0;) {
    const int place = placement[axes_[at]];
    if (place == kWhole && lacks_whole) continue;
    --before;
    if (place == kWhole) {
      ++behind;
    } else if (IsShare(place)) {
      ASSIGN_OR_RETURN(value, arena_.Apply(place == kMean ? "reduce_mean" : "reduce_sum", {value},
                                           {{"axes", std::vector<int64_t>{before}}, {"keepdims", int64_t{0}}}));
    } else {
      ASSIGN_OR_RETURN(value, Each(static_cast<size_t>(before), "combine", value, {{"axis", behind + place}}));
    }
  }
  return value;
}

absl::StatusOr<Value> DeviceTerms::Constant(const RankStep& step) {
  if (step.constants.size() == 1) return OnAll(arena_.AddConstant(step.constants[0]));
  ASSIGN_OR_RETURN(const std::optional<Value> by_place, ByPlace(step));
  if (by_place) return *by_place;
  Shape shape;
  for (size_t at = 0; at < axes_.size(); ++at) shape.push_back(size(at));
  const int64_t ranks = NumElements(shape), elements = step.constants[0].num_elements();
  shape.insert(shape.end(), step.types[0].shape.begin(), step.types[0].shape.end());
  Tensor all(TensorType{step.types[0].dtype, shape});
  for (int64_t place = 0; place < ranks; ++place) {
    std::vector<int64_t> places(axes_.size());
    int64_t rest = place;
    for (size_t at = axes_.size(); at-- > 0; rest /= size(at)) places[at] = rest % size(at);
    const Tensor& constant = ConstantAt(step, places);
    for (int64_t i = 0; i < elements; ++i) all.Set(place * elements + i, constant.At(i));
  }
  return arena_.AddConstant(all);
}

const Tensor& DeviceTerms::ConstantAt(const RankStep& step, const std::vector<int64_t>& places) const {
  if (step.constants.size() == 1) return step.constants[0];
  int64_t rank = 0;
  for (size_t axis = 0; axis < plan_.mesh.size(); ++axis) {
    const auto found = std::find(axes_.begin(), axes_.end(), static_cast<int>(axis));
    rank = rank * plan_.mesh[axis].size + (found == axes_.end() ? 0 : places[found - axes_.begin()]);
  }
  return step.constants[rank];
}

absl::StatusOr<std::optional<Value>> DeviceTerms::ByPlace(const RankStep& step) {
  const TensorType& type = step.types[0];
  if (type.dtype == DType::kBool) return std::nullopt;
  for (const Tensor& constant : step.constants) {
    for (int64_t i = 1; i < constant.num_elements(); ++i) {
      if (constant.At(i) != constant.At(0)) return std::nullopt;
    }
    if (constant.num_elements() == 0) return std::nullopt;
  }
  std::vector<int64_t> places(axes_.size(), 0);
  const double begin = ConstantAt(step, places).At(0);
  std::optional<size_t> along;
  double growth = 0;
  for (size_t at = 0; at < axes_.size(); ++at) {
    for (int64_t p = 1; p < size(at); ++p) {
      places[at] = p;
      const double more = ConstantAt(step, places).At(0) - begin;
      if (p == 1 && more != 0) {
        if (along) return std::nullopt;
        along = at;
        growth = more;
      }
      if (more != (along == at ? growth * static_cast<double>(p) : 0)) return std::nullopt;
    }
    places[at] = 0;
  }
  if (!along) return std::nullopt;
  const Value first = arena_.AddConstant(Tensor::Scalar(type.dtype, begin));
  const Value step_by = arena_.AddConstant(Tensor::Scalar(type.dtype, growth));
  ASSIGN_OR_RETURN(Value value, arena_.Apply("iota", {}, {{"shape", Shape{size(*along)}},
                                                          {"axis", int64_t{0}}, {"dtype", type.dtype}}));
  Noted(value, *along);
  ASSIGN_OR_RETURN(value, arena_.Apply("mul", {value, step_by}));
  ASSIGN_OR_RETURN(value, arena_.Apply("add", {value, first}));
  for (size_t at = *along; at-- > 0;) {
    ASSIGN_OR_RETURN(value, RepeatAt(0, at, value));
  }
  for (size_t at = *along + 1; at < axes_.size(); ++at) {
    ASSIGN_OR_RETURN(value, RepeatAt(at, at, value));
  }
  if (type.shape.empty()) return value;
  ASSIGN_OR_RETURN(value, Each(axes_.size(), "expand", value, {{"shape", type.shape}}));
  return value;
}

absl::StatusOr<std::vector<Value>> DeviceTerms::Apply(const RankStep& step, const std::vector<Value>& operands) {
  if (step.collective != nullptr) {
    ASSIGN_OR_RETURN(const Value value, Collective(step, operands[0]));
    return std::vector<Value>{value};
  }
  const bool made = operands.empty();
  ASSIGN_OR_RETURN(const NodeId node,
                   arena_.Add(Lifted(*step.op, made ? 0 : axes_.size()), operands, step.attrs));
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
      ASSIGN_OR_RETURN(value, CutAt(at, at, value, count - at + collective.axis));
    } else {
      ASSIGN_OR_RETURN(value, RepeatAt(at, at, value));
    }
    ++count;
  }
  return value;
}

}  // namespace rewright
