// Convolutions by groups of 2 or 4 channels, on images whose blocks of channels hold several groups: oneDNN has no
// kernel for them in blocked layouts, and none at all with AVX2 but one that copies windows.
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// weights[o, c, r, s] as grouped_row reads them: vectors of results, by blocks of results, rows, columns, channels.
class PackGroupsKernel : public Kernel {
 public:
  explicit PackGroupsKernel(Shape weights) : weights_(std::move(weights)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* from = static_cast<const float*>(buffers[0]);
    float* const to = static_cast<float*>(buffers[1]);
    const int64_t lanes = Simd().lanes, channels = weights_[1], taps = weights_[2] * weights_[3];
    for (int64_t o = 0; o < weights_[0]; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          to[((o / lanes * taps + tap) * channels + c) * lanes + o % lanes] = *from++;
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const Shape weights_;
};

// Buffers: src, weights, [bias], [scale], [shift], [residual], dst.
class GroupedConvKernel : public Kernel {
 public:
  GroupedConvKernel(ConvProblem problem, const Layout& src, const Layout& dst, int threads)
      : problem_(std::move(problem)), src_(src), dst_(dst), threads_(threads) {
    windows_.dst = problem_.dst;
    windows_.kernel = {problem_.weights[2], problem_.weights[3]};
    windows_.strides = problem_.strides;
    windows_.pads = problem_.pads;
    windows_.dilations = problem_.dilations;
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    void* const* next = buffers;
    const float* const src = static_cast<const float*>(*next++);
    const float* const weights = static_cast<const float*>(*next++);
    const ConvEpilogue epilogue = TakeEpilogue(problem_.post_ops, &next);
    float* const dst = static_cast<float*>(*next);
    const std::vector<ActivationFunction>& activations = problem_.post_ops.activations;
    const int64_t lanes = Simd().lanes, channels = problem_.weights[1], height = problem_.dst[2];
    const int64_t blocks = problem_.dst[1] / lanes, row = dst_.strides[2];
    const int64_t of_block = problem_.weights[2] * problem_.weights[3] * channels * lanes;
    const auto compute = Simd().grouped_row[channels / 4];
    ForEach(problem_.dst[0] * blocks * height, threads_, [&](int64_t unit) {
      const int64_t y = unit % height, block = unit / height % blocks, image = unit / height / blocks;
      const WindowRow windows = WindowRowAt(windows_, src_, y);
      const int64_t place = image * dst_.strides[0] + block * dst_.strides[1] + y * row;
      ConvEpilogue of_row = epilogue;
      if (of_row.residual != nullptr) of_row.residual += place;
      compute(dst + place, src + image * src_.strides[0] + block * src_.strides[1] + windows.first,
              weights + block * of_block + windows.first_row * problem_.weights[3] * channels * lanes, windows.windows,
              of_row, block * lanes);
      Activate(activations, FusedFunctions(epilogue), dst + place, row);
    });
    return absl::OkStatus();
  }

 private:
  const ConvProblem problem_;
  const Layout src_, dst_;
  PoolProblem windows_;
  const int threads_;
};

bool IsPossible(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kConv || context.block != Simd().lanes) return false;
  const ConvProblem problem = ConvProblemOf(graph, group);
  const Shape& w = problem.weights;
  if (problem.groups == 1 || (w[1] != 2 && w[1] != 4) || w[0] != problem.src[1] || w[0] % context.block != 0) {
    return false;
  }
  for (size_t k = 0; k < 4; ++k) {
    if (problem.pads[k] > (w[2 + k % 2] - 1) * problem.dilations[k % 2]) return false;
  }
  return IsOfType(graph, group.group, DType::kFloat32);
}

std::optional<Layout> GroupedConvLayout(const LayoutQuery& query) {
  if (!IsPossible(query.context, query.graph, query.group)) return std::nullopt;
  return Layout::Blocked(query.dims(), query.context.block);
}

absl::StatusOr<bool> PlanGroupedConv(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  if (!IsPossible(*lowering.context(), graph, group)) return false;
  const Node& node = graph.node(group.group.nodes[0]);
  ConvProblem problem = ConvProblemOf(graph, group);
  const int64_t block = lowering.context()->block;
  const Layout src = Layout::Blocked(problem.src, block), dst = Layout::Blocked(problem.dst, block);
  std::vector<BufferUse> buffers;
  ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadAs(node.operands[0], src));
  const size_t bytes = static_cast<size_t>(NumElements(problem.weights)) * sizeof(float);
  ASSIGN_OR_RETURN(
      const int weights,
      PackWeights(lowering, node.operands[1], {std::make_unique<PackGroupsKernel>(problem.weights), bytes, "reorder"}));
  buffers.push_back(Lowering::Read(weights));
  RETURN_IF_ERROR(ReadEpilogue(lowering, group, problem.dst[1], problem.dst[1], dst, &buffers));
  buffers.push_back(Lowering::Write(lowering.Define(group.group.outputs[0], dst).buffer));
  lowering.Emit(std::make_unique<GroupedConvKernel>(std::move(problem), src, dst, lowering.threads()),
                std::move(buffers), absl::StrCat(GroupLabel(graph, group.group), " (groups:", Simd().name, ")"));
  return true;
}

}  // namespace

KernelEntry GroupedConvEntry() {
  return {.ops = {ops::Conv2d()}, .plan = PlanGroupedConv, .layout = GroupedConvLayout};
}

}  // namespace rewright::cpu
