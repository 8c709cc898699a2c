#include "substitutions/match/new_values.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

// A new value of 16 bits may be smaller than the largest operand by at most this factor: smaller ones lose bits to
// underflow that the left side kept.
constexpr double kMostShrunk = 64;
// A sum of constants may be smaller than its largest term by at most this factor.
constexpr double kMostCancelled = 256;

// The interval of elements as they are computed.
Interval WithRoundings(const Facts& facts) {
  const Interval& range = facts.range;
  if (!facts.rounded) return range;
  return Hull(range * Interval::Of(1 - kRoundingRoom), range * Interval::Of(1 + kRoundingRoom));
}

}  // namespace

bool IsSum(const Node& node) {
  if (node.meaning->IsOpaque() || node.outputs.size() != 1 || !IsFloating(node.outputs[0].dtype)) return false;
  const ExprPtr& element = node.meaning->outputs[0].element;
  return (element->IsCall(Fn::kAdd) || element->IsCall(Fn::kSub)) && element->arg(0)->IsRead() &&
         element->arg(1)->IsRead();
}

absl::Status CheckOverflow(Numerics& numerics, const Arena& arena, NodeId application) {
  const Node& node = arena.node(application);
  const bool known = arena.IsKnown(node);
  const bool looked_at = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const TensorType& type) {
    return IsFloating(type.dtype) && (known || type.dtype == DType::kFloat16);
  });
  if (!looked_at) return absl::OkStatus();  // facts of weights take a pass over them
  std::vector<Facts> within;
  double largest_operand = 0;
  bool operands_infinite = false;
  for (Value operand : node.operands) {
    Facts facts = numerics.Of(arena, operand);
    if (const DType dtype = arena.type(operand).dtype; IsFloating(dtype)) {
      facts.range = Intersect(WithRoundings(facts), {-LargestOf(dtype), LargestOf(dtype)});
    }
    largest_operand = std::max(largest_operand, facts.range.Magnitude());
    operands_infinite = operands_infinite || facts.may_be_infinite;
    within.push_back(facts);
  }
  std::vector<const Facts*> operands;
  for (const Facts& facts : within) operands.push_back(&facts);
  const std::vector<Facts> made = numerics.OfApplication(node, operands, arena.types(node.operands));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const DType dtype = node.outputs[k].dtype;
    if (!IsFloating(dtype)) continue;
    const bool narrow = dtype == DType::kFloat16;
    if (!narrow && !known) continue;
    const double largest = made[k].range.Magnitude();
    const auto refuse = [&](const std::string& why) {
      return absl::OutOfRangeError(absl::StrCat(node.op->name, " of ", DTypeName(dtype), " ", why));
    };
    if (!(largest <= LargestOf(dtype)) || (made[k].may_be_infinite && !operands_infinite))
      return refuse("may overflow");
    if (narrow && largest > 0 && largest < largest_operand / kMostShrunk) return refuse("may lose bits to underflow");
  }
  return absl::OkStatus();
}

absl::Status CheckRoomForRounding(Numerics& numerics, const Arena& arena, Value from, Value to) {
  const DType dtype = arena.type(from).dtype;
  if (dtype != DType::kFloat16 || arena.node(to.node).op == nullptr) return absl::OkStatus();
  const double largest = numerics.Of(arena, from).range.Magnitude(), end = LargestOf(dtype);
  if (largest > end || largest * (1 + kRoundingRoom) <= end) return absl::OkStatus();
  return CheckOverflow(numerics, arena, to.node);
}

bool IsBoundedBySum(Numerics& numerics, const Arena& arena, NodeId sum, NodeId part) {
  const Node& node = arena.node(sum);
  if (!IsSum(node)) return false;
  double others = 0;
  for (Value operand : node.operands) {
    if (operand.node != part) others += numerics.Of(arena, operand).range.Magnitude();
  }
  return others <= kRoundingRoom * LargestOf(node.outputs[0].dtype);
}

absl::Status CheckCancellation(Numerics& numerics, const Arena& arena, NodeId application) {
  const Node& node = arena.node(application);
  if (!arena.IsKnown(node) || !IsSum(node)) return absl::OkStatus();
  double largest_term = 0;
  for (Value operand : node.operands) {
    largest_term = std::max(largest_term, numerics.Of(arena, operand).range.Magnitude());
  }
  const double sum = numerics.Of(arena, {application, 0}).range.Magnitude();
  return CheckCancellation(sum, largest_term);
}

absl::Status CheckCancellation(double sum, double largest_term) {
  if (!std::isfinite(largest_term) || std::abs(sum) * kMostCancelled >= largest_term) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("a sum of constants cancels: ", largest_term, " to ", sum));
}

}  // namespace rewright
