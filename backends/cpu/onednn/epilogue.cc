#include "backends/cpu/onednn/epilogue.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

using Kind = EpilogueStep::Kind;

struct LinearEpilogue {
  std::vector<float> bias, scale, shift;  // empty: none
};

template <typename F>
std::vector<float> PerChannel(int64_t channels, const F& f) {
  std::vector<float> values;
  for (int64_t c = 0; c < channels; ++c) values.push_back(static_cast<float>(f(c)));
  return values;
}

// (x - mean) * (scale / sqrt(var + epsilon)) + bias, as the operator has it
absl::Status AddBatchNorm(Lowering& lowering, const Node& node, int64_t channels, LinearEpilogue* linear) {
  Tensor scale, bias, mean, var;
  Tensor* const tensors[] = {&scale, &bias, &mean, &var};
  for (size_t k = 0; k < 4; ++k) {
    ASSIGN_OR_RETURN(*tensors[k], lowering.ConstantTensor(node.operands[1 + k]));
  }
  const double epsilon = Real(node, "epsilon");
  linear->bias = PerChannel(channels, [&](int64_t c) { return -mean.At(c); });
  linear->scale = PerChannel(channels, [&](int64_t c) { return scale.At(c) / std::sqrt(var.At(c) + epsilon); });
  linear->shift = PerChannel(channels, [&](int64_t c) { return bias.At(c); });
  return absl::OkStatus();
}

absl::StatusOr<LinearEpilogue> LinearStepsOf(Lowering& lowering, const FusedGroup& group, int64_t channels) {
  LinearEpilogue linear;
  for (const EpilogueStep& step : group.epilogue) {
    if (step.kind >= Kind::kResidual) break;
    const Node& node = lowering.graph().node(step.node);
    if (step.kind == Kind::kBatchNorm) {
      RETURN_IF_ERROR(AddBatchNorm(lowering, node, channels, &linear));
      continue;
    }
    ASSIGN_OR_RETURN(const Tensor other, lowering.ConstantTensor(node.operands[1 - step.operand]));
    const double sign = node.op == ops::Sub() ? -1 : 1;
    std::vector<float>& values = step.kind == Kind::kBias    ? linear.bias
                                 : step.kind == Kind::kScale ? linear.scale
                                                             : linear.shift;
    values = PerChannel(channels, [&](int64_t c) { return sign * other.At(other.num_elements() == 1 ? 0 : c); });
  }
  return linear;
}

}  // namespace

absl::Status ReadLinearSteps(Lowering& lowering, const FusedGroup& group, int64_t channels, int64_t laid_channels,
                             std::vector<BufferUse>* uses) {
  ASSIGN_OR_RETURN(LinearEpilogue linear, LinearStepsOf(lowering, group, channels));
  for (std::vector<float>* values : {&linear.bias, &linear.scale, &linear.shift}) {
    if (values->empty()) continue;
    values->resize(static_cast<size_t>(laid_channels));
    uses->push_back(Lowering::Read(lowering.AddConstantNumbers(std::move(*values))));
  }
  return absl::OkStatus();
}

absl::Status ReadEpilogue(Lowering& lowering, const FusedGroup& group, int64_t channels, int64_t laid_channels,
                          const Layout& residual, std::vector<BufferUse>* uses) {
  RETURN_IF_ERROR(ReadLinearSteps(lowering, group, channels, laid_channels, uses));
  if (!PostOpsOf(group).residual) return absl::OkStatus();
  ASSIGN_OR_RETURN(uses->emplace_back(), lowering.ReadAs(ResidualOf(group), residual));
  return absl::OkStatus();
}

PostOps PostOpsOf(const FusedGroup& group) {
  PostOps post_ops;
  for (const EpilogueStep& step : group.epilogue) {
    const bool norm = step.kind == Kind::kBatchNorm;
    post_ops.bias |= norm || step.kind == Kind::kBias;
    post_ops.scale |= norm || step.kind == Kind::kScale;
    post_ops.shift |= norm || step.kind == Kind::kShift;
    post_ops.residual |= step.kind == Kind::kResidual;
    if (step.kind == Kind::kActivation) post_ops.activations.push_back(step.activation);
  }
  return post_ops;
}

Value ResidualOf(const FusedGroup& group) {
  const auto adds = [](const EpilogueStep& step) { return step.kind == Kind::kResidual; };
  return std::find_if(group.epilogue.begin(), group.epilogue.end(), adds)->other;
}

size_t FusedFunctions(const ConvEpilogue& epilogue) { return epilogue.relu || epilogue.clips ? 1 : 0; }

void Activate(const std::vector<ActivationFunction>& functions, size_t first, float* x, int64_t n) {
  for (size_t k = first; k < functions.size(); ++k) {
    const ActivationFunction& f = functions[k];
    Simd().activate[static_cast<size_t>(f.activation)](x, n, static_cast<float>(f.alpha), static_cast<float>(f.beta));
  }
}

void ApplyPostOps(const ConvEpilogue& at, const PostOps& post_ops, const float* residual, int64_t first, int64_t n,
                  float* y) {
  const SimdTable& simd = Simd();
  if (at.scale != nullptr) simd.f32[kTileMul](y, y, at.scale + first, nullptr, n);
  if (at.shift != nullptr) simd.f32[kTileAdd](y, y, at.shift + first, nullptr, n);
  if (residual != nullptr) simd.f32[kTileAdd](y, y, residual + first, nullptr, n);
  Activate(post_ops.activations, 0, y, n);
}

ConvEpilogue TakeEpilogue(const PostOps& post_ops, void* const** buffers) {
  const auto take = [&](bool is_there) { return is_there ? static_cast<const float*>(*(*buffers)++) : nullptr; };
  ConvEpilogue epilogue = {.bias = take(post_ops.bias),
                           .scale = take(post_ops.scale),
                           .shift = take(post_ops.shift),
                           .residual = take(post_ops.residual)};
  if (post_ops.activations.empty()) return epilogue;
  const ActivationFunction& first = post_ops.activations[0];
  epilogue.relu = first.activation == Activation::kRelu && first.alpha == 0;
  epilogue.clips = first.activation == Activation::kClip;
  epilogue.low = static_cast<float>(first.alpha);
  epilogue.high = static_cast<float>(first.beta);
  return epilogue;
}

bool IsOfType(const Graph& graph, const Group& group, DType dtype) {
  const auto fits = [&](Value value) { return graph.type(value).dtype == dtype; };
  return std::all_of(group.inputs.begin(), group.inputs.end(), fits) &&
         std::all_of(group.outputs.begin(), group.outputs.end(), fits);
}

absl::StatusOr<Layout> PlainOperand(Lowering& lowering, Value value, int64_t rank, Place* place) {
  ASSIGN_OR_RETURN(*place, lowering.FindPlain(value));
  Layout layout = place->layout;
  const size_t added = static_cast<size_t>(rank) - layout.dims.size();
  layout.dims.insert(layout.dims.begin(), added, 1);
  layout.strides.insert(layout.strides.begin(), added, 0);
  return layout;
}

std::vector<int64_t> BatchStarts(const Layout& layout, const Shape& out) {
  std::vector<int64_t> starts = {0};
  for (size_t axis = 0; axis + 2 < out.size(); ++axis) {
    const int64_t step = layout.dims[axis] == 1 ? 0 : layout.strides[axis];
    std::vector<int64_t> longer;
    for (int64_t start : starts) {
      for (int64_t i = 0; i < out[axis]; ++i) longer.push_back(start + i * step);
    }
    starts = std::move(longer);
  }
  return starts;
}

std::vector<int64_t> Numbered(const std::vector<int64_t>& places, std::vector<int64_t>* distinct) {
  std::map<int64_t, int64_t> numbers;
  std::vector<int64_t> result;
  for (int64_t place : places) {
    const auto [found, added] = numbers.emplace(place, static_cast<int64_t>(distinct->size()));
    if (added) distinct->push_back(place);
    result.push_back(found->second);
  }
  return result;
}

absl::StatusOr<std::shared_ptr<void>> AllocatePacked(size_t bytes, const TensorType& weights) {
  const std::string what = absl::StrCat("the weight ", weights.ToString(), " packed");
  RETURN_IF_ERROR(CheckMemory(static_cast<int64_t>(bytes), what));
  return AllocateBytes(bytes);
}

absl::StatusOr<int> PackedFactor(Lowering& lowering, int buffer, const TensorType& type, int64_t k, int64_t n,
                                 int64_t k_stride, int64_t n_stride) {
  int& known = lowering.PackedFactorOf(buffer, k, n, k_stride, n_stride);
  if (known >= 0) return known;
  const size_t bytes = PackedMatmulBytes(k, n);
  const void* const elements = lowering.buffer(buffer).data.get();
  const auto pack = [&]() -> absl::StatusOr<std::shared_ptr<void>> {
    ASSIGN_OR_RETURN(std::shared_ptr<void> packed, AllocatePacked(bytes, type));
    PackMatmulWeights(static_cast<const float*>(elements), k, n, k_stride, n_stride, static_cast<float*>(packed.get()));
    return packed;
  };
  const std::shared_ptr<void> weights = lowering.WeightIn(buffer);
  ASSIGN_OR_RETURN(std::shared_ptr<void> packed,
                   weights == nullptr
                       ? pack()
                       : lowering.context()->packed->Get({elements, k, n, k_stride, n_stride}, weights, pack));
  return known = lowering.AddConstant(std::move(packed), bytes);
}

absl::StatusOr<int> PackWeights(Lowering& lowering, Value weights, std::vector<PackingStep> steps) {
  if (!lowering.IsConstant(weights)) {
    ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(weights));
    int buffer = place.buffer;
    for (PackingStep& step : steps) {
      buffer = lowering.EmitToScratch(std::move(step.kernel), buffer, step.bytes, step.label);
    }
    return buffer;
  }
  ASSIGN_OR_RETURN(Tensor plain, lowering.ConstantTensor(weights));
  std::shared_ptr<void> data(std::shared_ptr<void>(), plain.data());
  for (const PackingStep& step : steps) {
    ASSIGN_OR_RETURN(std::shared_ptr<void> next, AllocatePacked(step.bytes, plain.type()));
    void* addresses[] = {data.get(), next.get()};
    RETURN_IF_ERROR(RunKernel(*step.kernel, addresses));
    data = std::move(next);
  }
  return lowering.AddConstant(std::move(data), steps.back().bytes);
}

absl::StatusOr<int> PackWeights(Lowering& lowering, Value weights, PackingStep step) {
  std::vector<PackingStep> steps;
  steps.push_back(std::move(step));
  return PackWeights(lowering, weights, std::move(steps));
}

}  // namespace rewright::cpu
