#include "backends/cpu/kernels/epilogue.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// Element c of a tensor with one element per channel, or its only one.
double PerChannel(const Tensor& tensor, int64_t c) { return tensor.At(tensor.num_elements() == 1 ? 0 : c); }

}  // namespace

absl::StatusOr<LinearEpilogue> LinearStepsOf(Lowering& lowering, const FusedGroup& group, int64_t channels) {
  std::vector<double> bias(static_cast<size_t>(channels), 0), scale(static_cast<size_t>(channels), 1), shift = bias;
  bool biased = false, scaled = false, shifted = false;
  for (const EpilogueStep& step : group.epilogue) {
    if (step.kind != EpilogueStep::Kind::kLinear) continue;
    const Node& node = lowering.graph().node(step.node);
    const OpDef* const op = node.op;
    std::vector<Tensor> tensors;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      tensors.emplace_back();
      if (k != static_cast<size_t>(step.operand)) {
        ASSIGN_OR_RETURN(tensors[k], lowering.ConstantTensor(node.operands[k]));
      }
    }
    const bool adds = op == ops::Add() || (op == ops::Sub() && step.operand == 0);
    biased = biased || (adds && !scaled);
    shifted = shifted || (adds && scaled) || (!adds && (op == ops::BatchNorm() || op == ops::Sub()));
    scaled = scaled || !adds;
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      double factor = 1, term = 0;
      if (op == ops::BatchNorm()) {
        const double epsilon = Real(node, "epsilon");
        const auto at = [&](int operand) { return PerChannel(tensors[operand], static_cast<int64_t>(c)); };
        factor = at(1) / std::sqrt(at(4) + epsilon);
        term = at(2) - at(3) * factor;
      } else {
        const double other = PerChannel(tensors[1 - step.operand], static_cast<int64_t>(c));
        if (op == ops::Add()) {
          term = other;
        } else if (op == ops::Sub()) {
          factor = step.operand == 0 ? 1 : -1;
          term = step.operand == 0 ? -other : other;
        } else {
          factor = op == ops::Mul() ? other : 1 / other;
        }
      }
      if (scaled) {
        scale[c] *= factor;
        shift[c] = shift[c] * factor + term;
      } else {
        bias[c] += term;
      }
    }
  }
  const auto floats = [](const std::vector<double>& values, bool present) {
    return present ? std::vector<float>(values.begin(), values.end()) : std::vector<float>();
  };
  return LinearEpilogue{floats(bias, biased), floats(scale, scaled), floats(shift, shifted && scaled)};
}

PostOps PostOpsOf(const FusedGroup& group, const LinearEpilogue& linear, Value* residual) {
  PostOps post_ops;
  post_ops.scale = !linear.scale.empty();
  post_ops.shift = !linear.shift.empty();
  for (const EpilogueStep& step : group.epilogue) {
    if (step.kind == EpilogueStep::Kind::kResidual) {
      post_ops.residual = true;
      *residual = step.other;
    } else if (step.kind == EpilogueStep::Kind::kActivation) {
      post_ops.activations.push_back(step.activation);
    }
  }
  return post_ops;
}

absl::StatusOr<std::shared_ptr<void>> AllocatePacked(size_t bytes, const TensorType& weights) {
  const std::string what = absl::StrCat("the weight ", weights.ToString(), " packed");
  RETURN_IF_ERROR(CheckMemory(static_cast<int64_t>(bytes), what));
  return AllocateBytes(bytes);
}

}  // namespace rewright::cpu
