// Convolutions and matrix products with their epilogues.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "backends/cpu/lowering.h"
#include "backends/group.h"
#include "backends/meaning.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "core/ops/ops.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

absl::StatusOr<std::shared_ptr<void>> AllocatePacked(size_t bytes, const TensorType& weights) {
  const std::string what = absl::StrCat("the weight ", weights.ToString(), " packed");
  RETURN_IF_ERROR(CheckMemory(static_cast<int64_t>(bytes), what));
  return AllocateBytes(bytes);
}

// Element c of a tensor with one element per channel, or its only one.
double PerChannel(const Tensor& tensor, int64_t c) { return tensor.At(tensor.num_elements() == 1 ? 0 : c); }

PostOps PostOpsOf(const FusedGroup& group, Value* residual) {
  PostOps post_ops;
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

}  // namespace

absl::StatusOr<Lowering::LinearEpilogue> Lowering::LinearStepsOf(const FusedGroup& group, int64_t channels) {
  std::vector<double> bias(static_cast<size_t>(channels), 0), scale(static_cast<size_t>(channels), 1), shift = bias;
  bool biased = false, scaled = false, shifted = false;
  for (const EpilogueStep& step : group.epilogue) {
    if (step.kind != EpilogueStep::Kind::kLinear) continue;
    const Node& node = graph_.node(step.node);
    const OpDef* const op = node.op;
    std::vector<Tensor> tensors;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      tensors.emplace_back();
      if (k != static_cast<size_t>(step.operand)) {
        ASSIGN_OR_RETURN(tensors[k], ConstantTensor(node.operands[k]));
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

ConvProblem ConvProblemOf(const Graph& graph, const Node& node) {
  ConvProblem problem;
  problem.src = graph.type(node.operands[0]).shape;
  problem.weights = graph.type(node.operands[1]).shape;
  problem.dst = node.outputs[0].shape;
  problem.strides = Ints(node, "strides");
  problem.pads = Ints(node, "pads");
  problem.dilations = Ints(node, "dilations");
  problem.groups = Int(node, "groups");
  return problem;
}

absl::Status Lowering::LowerConv(const FusedGroup& group) {
  const NodeId anchor = group.group.nodes[0];
  const Node& node = graph_.node(anchor);
  const Value x = node.operands[0], w = node.operands[1], out = group.group.outputs[0];
  ASSIGN_OR_RETURN(LinearEpilogue linear, LinearStepsOf(group, node.outputs[0].shape[1]));

  ConvProblem problem = ConvProblemOf(graph_, node);
  problem.bias = !linear.bias.empty();
  Value residual;
  problem.post_ops = PostOpsOf(group, &residual);
  problem.post_ops.scale = !linear.scale.empty();
  problem.post_ops.shift = !linear.shift.empty();
  absl::StatusOr<ConvPlan> plan = MakeConv(context_, problem);
  if (!plan.ok()) return plan.status();

  Place residual_place;
  if (problem.post_ops.residual) {
    absl::StatusOr<Place> found = FindAs(residual, plan->dst);
    if (!found.ok()) return found.status();
    residual_place = *found;
    // oneDNN's convolutions can sum into the result only before anything else.
    if (!problem.post_ops.scale && residual != x && residual != w &&
        (CanOverwrite(residual, residual_place, out, Simplified(plan->dst)) ||
         CanOverwrite(residual, residual_place, out, plan->dst))) {
      ConvProblem in_place = problem;
      in_place.residual_in_place = true;
      absl::StatusOr<ConvPlan> other = MakeConv(context_, in_place);
      if (other.ok() && other->dst == plan->dst && other->src == plan->src && other->slowness <= plan->slowness) {
        problem = in_place;
        plan = std::move(other);
      }
    }
  }
  absl::StatusOr<Place> src = FindAs(x, plan->src);
  if (!src.ok()) return src.status();
  std::vector<BufferUse> buffers = {Read(src->buffer)};

  const size_t packed_bytes = plan->weights.get_size();
  absl::StatusOr<KernelPtr> pack = MakeReorder(context_, PlainConvWeights(problem), plan->weights);
  if (!pack.ok()) return pack.status();
  if (IsConstant(w)) {
    ASSIGN_OR_RETURN(Tensor plain, ConstantTensor(w));
    absl::StatusOr<std::shared_ptr<void>> packed = AllocatePacked(packed_bytes, plain.type());
    if (!packed.ok()) return packed.status();
    void* addresses[] = {plain.data(), packed->get()};
    RETURN_IF_ERROR(RunKernel(**pack, addresses));
    buffers.push_back(Read(AddConstant(*std::move(packed), packed_bytes)));
  } else {
    absl::StatusOr<Place> weights = FindRowMajor(w);
    if (!weights.ok()) return weights.status();
    const int packed = AddScratch(packed_bytes);
    Emit(*std::move(pack), {Read(weights->buffer), Write(packed)}, "reorder");
    buffers.push_back(Read(packed));
  }
  for (std::vector<float>* values : {&linear.bias, &linear.scale, &linear.shift}) {
    if (values->empty()) continue;
    // Whole blocks of channels may be read.
    const size_t block = std::max<int64_t>(plan->dst.block, 1);
    values->resize((values->size() + block - 1) / block * block);
    buffers.push_back(Read(AddConstantFloats(*values)));
  }
  int result = -1;
  if (problem.residual_in_place) {
    result = residual_place.buffer;
    DefineAt(out, result, plan->dst);
  } else {
    if (problem.post_ops.residual) buffers.push_back(Read(residual_place.buffer));
    result = Define(out, plan->dst).buffer;
  }
  buffers.push_back(problem.residual_in_place ? Update(result) : Write(result));
  if (plan->scratch_bytes > 0) buffers.push_back(Scratch(AddScratch(plan->scratch_bytes)));
  Emit(std::move(plan->kernel), std::move(buffers),
       absl::StrCat(GroupLabel(graph_, group.group), " (", plan->implementation, ")"));
  return absl::OkStatus();
}

// The value's place, plain, with its layout extended by leading axes of size one to `rank`.
absl::StatusOr<Layout> Lowering::MatmulOperand(Value value, int64_t rank, Place* place) {
  absl::StatusOr<Place> found = Find(value);
  if (found.ok() && found->layout.blocked()) found = FindRowMajor(value);
  if (!found.ok()) return found.status();
  *place = *found;
  Layout layout = found->layout;
  const size_t added = static_cast<size_t>(rank) - layout.dims.size();
  layout.dims.insert(layout.dims.begin(), added, 1);
  layout.strides.insert(layout.strides.begin(), added, 0);
  return layout;
}

absl::Status Lowering::LowerMatmul(const FusedGroup& group) {
  const NodeId anchor = group.group.nodes[0];
  const Node& node = graph_.node(anchor);
  const Value a = node.operands[0], b = node.operands[1], out = group.group.outputs[0];
  const Shape& dims = node.outputs[0].shape;
  const size_t rank = dims.size();
  const int64_t n = dims[rank - 1];
  ASSIGN_OR_RETURN(const LinearEpilogue linear, LinearStepsOf(group, n));

  MatmulProblem problem;
  Value residual;
  problem.post_ops = PostOpsOf(group, &residual);
  problem.bias = !linear.bias.empty();
  problem.post_ops.scale = !linear.scale.empty();
  problem.post_ops.shift = !linear.shift.empty();
  Place a_place, b_place, residual_place;
  absl::StatusOr<Layout> a_layout = MatmulOperand(a, static_cast<int64_t>(rank), &a_place);
  if (!a_layout.ok()) return a_layout.status();
  problem.a = *a_layout;

  const Shape& b_dims = graph_.type(b).shape;
  const int64_t k = b_dims[b_dims.size() - 2];
  if (IsConstant(b) && NumElements(b_dims) == k * n) {
    problem.packed = true;
    const size_t bytes = PackedMatmulBytes(k, n);
    absl::StatusOr<std::shared_ptr<void>> packed = AllocatePacked(bytes, graph_.type(b));
    if (!packed.ok()) return packed.status();
    absl::StatusOr<Place> weights = Find(b);
    if (!weights.ok()) return weights.status();
    const std::vector<int64_t>& strides = weights->layout.strides;
    PackMatmulWeights(static_cast<const float*>(schedule_.buffers[weights->buffer].data.get()), k, n,
                      strides[strides.size() - 2], strides[strides.size() - 1], static_cast<float*>(packed->get()));
    b_place.buffer = AddConstant(*std::move(packed), bytes);
    Shape packed_dims(rank, 1);
    packed_dims[rank - 2] = k;
    packed_dims[rank - 1] = n;
    problem.b = Layout::RowMajor(packed_dims);
  } else {
    absl::StatusOr<Layout> b_layout = MatmulOperand(b, static_cast<int64_t>(rank), &b_place);
    if (!b_layout.ok()) return b_layout.status();
    problem.b = *b_layout;
  }

  problem.c = LayoutForReader(graph_, out);
  // All rows of all batches against one matrix are one product.
  if (problem.packed && rank > 2) {
    Layout flat;
    const Shape flat_dims = {NumElements(dims) / n, k};
    if (problem.c.IsRowMajor() && ReshapeLayout(problem.a, flat_dims, &flat)) {
      problem.a = flat;
      problem.b = Layout::RowMajor({k, n});
      problem.c = Layout::RowMajor({flat_dims[0], n});
    }
  }
  const Layout out_layout = problem.c.dims == dims ? problem.c : Layout::RowMajor(dims);
  bool in_place = false;
  if (problem.post_ops.residual) {
    absl::StatusOr<Place> found = FindAs(residual, out_layout);
    if (!found.ok()) return found.status();
    residual_place = *found;
    problem.residual = problem.c;
    in_place = !problem.post_ops.scale && residual != a && residual != b &&
               CanOverwrite(residual, residual_place, out, out_layout);
  }
  std::vector<BufferUse> buffers = {Read(a_place.buffer), Read(b_place.buffer)};
  for (const std::vector<float>* values : {&linear.bias, &linear.scale, &linear.shift}) {
    if (!values->empty()) buffers.push_back(Read(AddConstantFloats(*values)));
  }
  int result = -1;
  if (in_place) {
    result = residual_place.buffer;
    DefineAt(out, result, out_layout);
  } else {
    result = Define(out, out_layout).buffer;
  }
  if (problem.post_ops.residual) buffers.push_back(Read(residual_place.buffer));
  if (const size_t bytes = MatmulScratchBytes(problem); bytes > 0) buffers.push_back(Scratch(AddScratch(bytes)));
  buffers.push_back(Write(result));
  Emit(MakeMatmulKernel(problem, context_->threads), std::move(buffers), GroupLabel(graph_, group.group));
  return absl::OkStatus();
}

}  // namespace rewright::cpu
