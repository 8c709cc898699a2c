// Convolutions by oneDNN, in blocked layouts wherever it has them.
#include "backends/cpu/kernels/conv.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/onednn/reorder.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr int64_t kLeastGroup = 16;  // channels of a group that oneDNN multiplies as a matrix
constexpr auto kF32 = memory::data_type::f32;

memory::data_type TypeOf(const ConvProblem& problem) {
  return problem.dtype == DType::kBFloat16 ? memory::data_type::bf16 : kF32;
}

memory::dims WeightDims(const ConvProblem& problem) {
  const Shape& w = problem.weights;
  if (problem.groups == 1) return w;
  return {problem.groups, w[0] / problem.groups, w[1], w[2], w[3]};
}

// One element per channel, in f32. Where the result is one point of one image, oneDNN takes such an operand for one of
// the result's own shape, and wants it laid out like that.
memory::desc PerChannelDesc(const ConvProblem& problem, const memory::desc& dst) {
  const Shape& dims = problem.dst;
  if (dims[0] == 1 && dims[2] == 1 && dims[3] == 1) {
    memory::desc like_dst = dst;
    like_dst.data.data_type = dnnl_f32;
    return like_dst;
  }
  return memory::desc({1, dims[1], 1, 1}, kF32, Tag::nchw);
}

using ConvPrimitive = dnnl::convolution_forward::primitive_desc;

// Empty where oneDNN has no implementation. `operands`: with the post-ops that read memory, for which the layout of the
// result must be known.
ConvPrimitive MakeDesc(const DnnlContext& context, const ConvProblem& problem, const memory::desc& src,
                       const memory::desc& dst, bool operands) {
  const memory::desc weights(WeightDims(problem), TypeOf(problem), Tag::any);
  const memory::desc bias = problem.post_ops.bias ? memory::desc({problem.dst[1]}, kF32, Tag::a) : memory::desc();
  const memory::dims strides = problem.strides;
  const memory::dims dilations = {problem.dilations[0] - 1, problem.dilations[1] - 1};
  const memory::dims before = {problem.pads[0], problem.pads[1]};
  // The windows may end before the padding does.
  memory::dims after(2);
  for (size_t k = 0; k < 2; ++k) {
    const int64_t extent = (problem.weights[2 + k] - 1) * problem.dilations[k] + 1;
    after[k] = (problem.dst[2 + k] - 1) * strides[k] + extent - problem.src[2 + k] - before[k];
  }
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                             src, weights, bias, dst, strides, dilations, before, after);
  PostOps post_ops = problem.post_ops;
  if (!operands) post_ops.scale = post_ops.shift = post_ops.residual = false;
  const dnnl::primitive_attr attr = AttrOf(post_ops, PerChannelDesc(problem, dst), dst, problem.residual_in_place);
  return ConvPrimitive(desc, attr, context.engine, /*allow_empty=*/true);
}

// Empty where oneDNN has no implementation in these layouts, or takes others that the device has no form for.
ConvPrimitive InLayouts(const DnnlContext& context, const ConvProblem& problem, Tag src_tag, Tag dst_tag) {
  memory::desc src(problem.src, TypeOf(problem), src_tag), dst(problem.dst, TypeOf(problem), dst_tag);
  if (dst_tag == Tag::any) {
    const ConvPrimitive asked = MakeDesc(context, problem, src, dst, /*operands=*/false);
    if (IsEmpty(asked) || !LayoutOf(asked.src_desc()) || !LayoutOf(asked.dst_desc())) return {};
    src = asked.src_desc();
    dst = asked.dst_desc();
  }
  const ConvPrimitive desc = MakeDesc(context, problem, src, dst, /*operands=*/true);
  // With channels last, oneDNN's products with copied windows read the operands of post-ops at wrong places.
  if (!IsEmpty(desc) && Slowness(desc.impl_info_str()) == 1 && dst_tag != Tag::nchw) return {};
  return desc;
}

// Returns whether oneDNN 2.6 may compute that wrongly: on tiles (not of kernels of one element, "brgconv_1x1") with
// strides above 2, or above the kernel. Those alone were wrong among 10,000 random convolutions.
bool IsWrong(const ConvProblem& problem, const std::string& implementation) {
  if (!absl::StartsWith(implementation, "brgconv:")) return false;
  bool wrong = false;
  for (size_t k = 0; k < 2; ++k) {
    wrong = wrong || problem.strides[k] > 2 || problem.strides[k] > problem.weights[2 + k];
  }
  return wrong;
}

// Empty where oneDNN has no implementation that is made for it.
ConvPrimitive ChannelsLast(const DnnlContext& context, const ConvProblem& problem) {
  const ConvPrimitive desc = InLayouts(context, problem, Tag::nhwc, Tag::nhwc);
  const bool is_good = !IsEmpty(desc) && Slowness(desc.impl_info_str()) == 0 && !IsWrong(problem, desc.impl_info_str());
  return is_good ? desc : ConvPrimitive();
}

// Blocked layouts are asked for, not left to oneDNN: where the processor has AVX-512 it would answer with channels
// last, in which a residual runs elsewhere, pooling is slow and concatenations of channels are copies. Few channels
// are read as they are. Groups of 4 or 8 channels have blocks of their own, which oneDNN knows, and other odd groups
// exist with channels last alone. Tiles of bf16 are multiplied with channels last alone, ten times as fast as blocks.
ConvPrimitive Choose(const DnnlContext& context, const ConvProblem& problem) {
  if (problem.channels_last) {
    const ConvPrimitive desc = ChannelsLast(context, problem);
    if (IsEmpty(desc)) throw dnnl::error(dnnl_unimplemented, "no implementation with channels last");
    return desc;
  }
  if (problem.dtype == DType::kBFloat16 && MultipliesTilesOfBf16()) {
    ConvPrimitive desc = ChannelsLast(context, problem);
    if (!IsEmpty(desc)) return desc;
  }
  const Tag blocked = context.block == 16 ? Tag::nChw16c : Tag::nChw8c;
  const std::pair<Tag, Tag> candidates[] = {
      {blocked, blocked}, {Tag::nchw, blocked}, {Tag::any, Tag::any}, {Tag::nhwc, Tag::nhwc}, {Tag::nchw, Tag::nchw}};
  ConvPrimitive best;
  for (const auto& [src, dst] : candidates) {
    const ConvPrimitive desc = InLayouts(context, problem, src, dst);
    if (IsEmpty(desc)) continue;
    if (IsEmpty(best) || Slowness(desc.impl_info_str()) < Slowness(best.impl_info_str())) best = desc;
    if (Slowness(best.impl_info_str()) == 0) break;
  }
  if (IsEmpty(best)) throw dnnl::error(dnnl_unimplemented, "no implementation in any layout");
  return best;
}

ConvPlan Build(const std::shared_ptr<const DnnlContext>& context, const ConvProblem& problem) {
  const ConvPrimitive desc = Choose(*context, problem);
  ConvPlan plan;
  plan.src = *LayoutOf(desc.src_desc());
  plan.dst = *LayoutOf(desc.dst_desc());
  plan.weights = desc.weights_desc();
  plan.scratch_bytes = desc.scratchpad_desc().get_size();
  plan.implementation = desc.impl_info_str();
  plan.slowness = Slowness(desc.impl_info_str());
  plan.kernel = std::make_unique<DnnlKernel>(context, dnnl::convolution_forward(desc),
                                             ArgsOf(desc, ProductArgs(problem.post_ops)));
  return plan;
}

}  // namespace

absl::StatusOr<ConvPlan> MakeConv(const std::shared_ptr<const DnnlContext>& context, const ConvProblem& problem) {
  return CatchDnnl("conv2d", [&] { return Build(context, problem); });
}

namespace {

struct InsteadHandles : KernelHandles {
  std::unique_ptr<KernelHandles> direct, reorder;
};

}  // namespace

absl::StatusOr<ConvInstead> ConvInstead::Make(const std::shared_ptr<const DnnlContext>& context,
                                              const ConvProblem& problem, ConvPlan plan) {
  ASSIGN_OR_RETURN(KernelPtr reorder, MakeReorder(context, PlainConvWeights(problem), plan.weights));
  const PostOps& behind = problem.post_ops;
  const size_t operands = size_t{behind.bias} + behind.scale + behind.shift + behind.residual;
  return ConvInstead(std::move(plan), std::move(reorder), operands);
}

absl::StatusOr<std::unique_ptr<KernelHandles>> ConvInstead::MakeHandles() const {
  auto handles = std::make_unique<InsteadHandles>();
  ASSIGN_OR_RETURN(handles->direct, plan_.kernel->MakeHandles());
  ASSIGN_OR_RETURN(handles->reorder, reorder_->MakeHandles());
  return handles;
}

size_t ConvInstead::WeightsBytes() const {
  return static_cast<size_t>(AlignUp(static_cast<int64_t>(plan_.weights.get_size()), 64));
}

absl::Status ConvInstead::Run(void* const* buffers, bool has_own_weights, KernelHandles& handles) const {
  auto& both = static_cast<InsteadHandles&>(handles);
  void* const* const operands = buffers + 1 + (has_own_weights ? 1 : 0);
  void* const* const behind = operands + operands_;  // weights, dst, scratch
  char* const scratch = static_cast<char*>(behind[2]);
  RunContext inner{both.reorder.get()};
  void* const reordered[] = {behind[0], scratch};
  RETURN_IF_ERROR(reorder_->Run(reordered, inner));
  absl::InlinedVector<void*, 16> direct = {buffers[0], scratch};
  direct.insert(direct.end(), operands, behind);
  direct.push_back(behind[1]);
  if (plan_.scratch_bytes > 0) direct.push_back(scratch + WeightsBytes());
  inner.handles = both.direct.get();
  return plan_.kernel->Run(direct.data(), inner);
}

bool KeepsZero(const ActivationFunction& f) {
  switch (f.activation) {
    case Activation::kSigmoid: return false;
    case Activation::kClip: return f.alpha <= 0 && f.beta >= 0;
    default: return true;
  }
}

// Weights as oneDNN reads them from row-major memory.
memory::desc PlainConvWeights(const ConvProblem& problem) {
  return memory::desc(WeightDims(problem), TypeOf(problem), problem.groups == 1 ? Tag::abcd : Tag::abcde);
}

ConvProblem ConvProblemOf(const Graph& graph, const FusedGroup& group) {
  const Node& node = graph.node(group.group.nodes[0]);
  ConvProblem problem;
  problem.src = graph.type(node.operands[0]).shape;
  problem.weights = graph.type(node.operands[1]).shape;
  problem.dst = node.outputs[0].shape;
  problem.strides = Ints(node, "strides");
  problem.pads = Ints(node, "pads");
  problem.dilations = Ints(node, "dilations");
  problem.groups = Int(node, "groups");
  problem.post_ops = PostOpsOf(group);
  return problem;
}

bool ConvRunsInBf16(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  if (!MultipliesBf16() || !IsOfType(graph, group.group, DType::kBFloat16)) return false;
  const ConvProblem wide = ConvProblemOf(graph, group);
  ConvProblem narrow = wide;
  narrow.dtype = DType::kBFloat16;
  const auto runs = CatchDnnl("conv2d", [&] {
    const ConvPrimitive a = Choose(context, narrow);
    const Layout src = *LayoutOf(a.src_desc()), dst = *LayoutOf(a.dst_desc());
    if (Slowness(a.impl_info_str()) > 0 || !src.IsDense() || !dst.IsDense()) return false;
    // Some have a descriptor (groups, a sigmoid behind them) and no code: an exception.
    const dnnl::convolution_forward made(a);
    if (MultipliesTilesOfBf16()) return true;
    const ConvPrimitive b = Choose(context, wide);
    return src == *LayoutOf(b.src_desc()) && dst == *LayoutOf(b.dst_desc());
  });
  return runs.ok() && *runs;
}

namespace {

std::optional<Layout> ConvLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kConv) return std::nullopt;
  ConvProblem problem = ConvProblemOf(query.graph, query.group);
  if (ConvRunsInBf16(query.context, query.graph, query.group)) problem.dtype = DType::kBFloat16;
  const absl::StatusOr<Layout> result =
      CatchDnnl("conv2d", [&] { return *LayoutOf(Choose(query.context, problem).dst_desc()); });
  return result.ok() ? std::optional<Layout>(*result) : std::nullopt;
}

std::vector<std::string> ConvWays(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kConv) return {};
  const Node& node = graph.node(group.group.nodes[0]);
  const ConvProblem problem = ConvProblemOf(graph, group);
  const int64_t taps = NumElements(problem.weights) / problem.weights[0];
  const bool is_large = 2 * static_cast<double>(NumElements(problem.dst)) * static_cast<double>(taps) >= kMinOperations;
  if (!is_large || !graph.IsKnown(node.operands[1]) || problem.weights[1] < kLeastGroup ||
      graph.type(node.operands[0]).dtype != DType::kFloat32) {
    return {};
  }
  const absl::StatusOr<bool> has_both = CatchDnnl("conv2d", [&] {
    return LayoutOf(Choose(context, problem).dst_desc())->blocked() && !IsEmpty(ChannelsLast(context, problem));
  });
  return has_both.ok() && *has_both ? std::vector<std::string>{kChannelsLastWay} : std::vector<std::string>();
}

// The buffer of the weights as the primitive reads them. Weights that change are read where they lie, also transposed,
// as gradients by images have them: no rows are written in between.
absl::StatusOr<int> WeightsInBlocks(Lowering& lowering, Value w, const ConvProblem& problem,
                                    const memory::desc& wanted) {
  if (!lowering.IsConstant(w) && problem.groups == 1 && lowering.graph().type(w).dtype == DType::kFloat32) {
    ASSIGN_OR_RETURN(const Place place, lowering.Find(w));
    const bool is_plain = !place.layout.blocked() && place.layout.IsDense();
    if (const std::optional<memory::desc> found = DescOf(place.layout); is_plain && found) {
      if (absl::StatusOr<KernelPtr> reorder = MakeReorder(lowering.context(), *found, wanted); reorder.ok()) {
        return lowering.EmitToScratch(*std::move(reorder), place.buffer, wanted.get_size(), "reorder");
      }
    }
  }
  ASSIGN_OR_RETURN(KernelPtr reorder, MakeReorder(lowering.context(), PlainConvWeights(problem), wanted));
  return PackWeights(lowering, w, {std::move(reorder), wanted.get_size(), "reorder"});
}

absl::StatusOr<bool> PlanConv(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kConv) return false;
  const Graph& graph = lowering.graph();
  const NodeId anchor = group.group.nodes[0];
  const Node& node = graph.node(anchor);
  const Value x = node.operands[0], w = node.operands[1], out = group.group.outputs[0];
  ConvProblem problem = ConvProblemOf(graph, group);
  problem.dtype = graph.type(out).dtype;
  ASSIGN_OR_RETURN(const std::string way, lowering.LawOf(group));
  problem.channels_last = way == kChannelsLastWay;
  ASSIGN_OR_RETURN(ConvPlan plan, MakeConv(lowering.context(), problem));

  Place residual_place;
  bool overwrites = false;
  if (problem.post_ops.residual) {
    const Value residual = ResidualOf(group);
    ASSIGN_OR_RETURN(residual_place, lowering.FindAs(residual, plan.dst));
    // oneDNN's convolutions can sum into the result only before anything else. In training they do so even where that
    // takes a copy: the sum is in another order than with the residual added at the end, and which memory may be
    // overwritten depends on where the model is cut into pieces.
    overwrites = residual != x && residual != w &&
                 (lowering.CanOverwrite(residual, residual_place, out, Simplified(plan.dst)) ||
                  lowering.CanOverwrite(residual, residual_place, out, plan.dst));
    if (!problem.post_ops.scale && (overwrites || graph.mode() == Mode::kTraining)) {
      ConvProblem in_place = problem;
      in_place.post_ops.residual = false;
      in_place.residual_in_place = true;
      absl::StatusOr<ConvPlan> other = MakeConv(lowering.context(), in_place);
      if (other.ok() && other->dst == plan.dst && other->src == plan.src && other->slowness <= plan.slowness) {
        problem = in_place;
        plan = *std::move(other);
      }
    }
  }
  std::vector<BufferUse> buffers;
  ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadAs(x, plan.src));
  ASSIGN_OR_RETURN(const int weights, WeightsInBlocks(lowering, w, problem, plan.weights));
  buffers.push_back(Lowering::Read(weights));
  const int64_t channels = problem.dst[1];  // whole blocks of which may be read
  const int64_t laid_channels = AlignUp(channels, std::max<int64_t>(plan.dst.block, 1));
  RETURN_IF_ERROR(ReadLinearSteps(lowering, group, channels, laid_channels, &buffers));
  if (problem.post_ops.residual) buffers.push_back(Lowering::Read(residual_place.buffer));
  const bool over = problem.residual_in_place && overwrites;
  // Where channels lie last for this kernel alone, readers find the result in blocks first.
  std::optional<Place> blocks;
  if (problem.channels_last) blocks = lowering.Define(out, lowering.LayoutOf(group, out));
  const int result = lowering.DefineOver(out, plan.dst, over ? residual_place.buffer : -1);
  if (problem.residual_in_place && !over) {
    // Copies the padding of channel blocks, too.
    const size_t elements = lowering.Bytes(out, plan.dst) / DTypeSize(problem.dtype);
    const Layout all = Layout::RowMajor({static_cast<int64_t>(elements)});
    lowering.EmitCopy({residual_place.buffer, all}, {result, all}, problem.dtype, "copy");
  }
  buffers.push_back(problem.residual_in_place ? Lowering::Update(result) : Lowering::Write(result));
  lowering.UseScratch(plan.scratch_bytes, &buffers);
  lowering.Emit(std::move(plan.kernel), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (", plan.implementation, ")"));
  if (blocks) RETURN_IF_ERROR(lowering.EmitConversion({result, plan.dst}, *blocks, problem.dtype));
  return true;
}

}  // namespace

KernelEntry ConvEntry() {
  return {.ops = {ops::Conv2d()}, .plan = PlanConv, .layout = ConvLayout, .ways = ConvWays, .version = 4};
}

}  // namespace rewright::cpu
