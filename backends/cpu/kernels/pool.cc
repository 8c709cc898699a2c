// Pooling of blocked layouts, one row of outputs at a time.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {

WindowRow WindowRowAt(const PoolProblem& problem, const Layout& image, int64_t y) {
  const int64_t dilation = problem.dilations[0];
  const int64_t top = y * problem.strides[0] - problem.pads[0];
  int64_t first = 0, last = problem.kernel[0];
  while (top + first * dilation < 0) ++first;
  while (last > first && top + (last - 1) * dilation >= image.dims[2]) --last;
  WindowRow row;
  row.first_row = first;
  row.first = (top + first * dilation) * image.strides[2];
  row.windows.width = image.dims[3];
  row.windows.out_width = problem.dst[3];
  row.windows.rows = last - first;
  row.windows.row_step = dilation * image.strides[2];
  row.windows.kernel = problem.kernel[1];
  row.windows.stride = problem.strides[1];
  row.windows.before = problem.pads[1];
  row.windows.dilation = problem.dilations[1];
  row.windows.block = image.block;
  row.windows.count_all = problem.count_padding ? static_cast<float>(problem.kernel[0] * problem.kernel[1]) : 0.0f;
  return row;
}

namespace {

// Buffers: src, dst, which is Layout::Blocked(problem.dst, src.block).
class PoolKernel : public Kernel {
 public:
  PoolKernel(const PoolProblem& problem, const Layout& src, const Layout& dst, int threads)
      : problem_(problem),
        src_(src),
        dst_(dst),
        blocks_((src.dims[1] + src.block - 1) / src.block),
        rows_(dst.dims[0] * blocks_ * dst.dims[2]),
        threads_(ThreadsFor(src.num_elements(), 2 * kSharedElements, rows_, threads)) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    float* out = static_cast<float*>(buffers[1]);
    const int64_t height = dst_.dims[2];
    const auto pool = problem_.max ? Simd().pool_max_row : Simd().pool_sum_row;
    ForEach(rows_, threads_, [&](int64_t i) {
      const int64_t y = i % height, block = i / height % blocks_, n = i / height / blocks_;
      const WindowRow row = WindowRowAt(problem_, src_, y);
      pool(out + n * dst_.strides[0] + block * dst_.strides[1] + y * dst_.strides[2],
           x + n * src_.strides[0] + block * src_.strides[1] + row.first, row.windows);
    });
    return absl::OkStatus();
  }

 private:
  const PoolProblem problem_;
  const Layout src_, dst_;
  const int64_t blocks_, rows_;
  const int threads_;
};

bool EveryWindowSeesAPoint(const PoolProblem& problem, const Layout& src) {
  for (size_t axis = 0; axis < 2; ++axis) {
    for (int64_t i = 0; i < problem.dst[2 + axis]; ++i) {
      bool sees = false;
      for (int64_t k = 0; k < problem.kernel[axis] && !sees; ++k) {
        const int64_t at = i * problem.strides[axis] - problem.pads[axis] + k * problem.dilations[axis];
        sees = at >= 0 && at < src.dims[2 + axis];
      }
      if (!sees) return false;
    }
  }
  return true;
}

// Returns whether the kernel takes the layout: blocked, its points side by side, its blocks full vector registers.
// Where padding fills the last block, every window must see a point: the padding of the result would not be zero else.
bool CanPool(const PoolProblem& problem, const Layout& src) {
  return src.blocked() && src.block % Simd().lanes == 0 && (src.dims[3] == 1 || src.strides[3] == src.block) &&
         (!src.IsPadded() || EveryWindowSeesAPoint(problem, src));
}

// The window's sum is divided by all its points where padding counts: it must not reach behind the padding.
bool CountsRight(const PoolProblem& problem, const Shape& src) {
  for (size_t k = 0; problem.count_padding && k < 2; ++k) {
    const int64_t extent = (problem.kernel[k] - 1) * problem.dilations[k] + 1;
    const int64_t reach = (problem.dst[2 + k] - 1) * problem.strides[k] + extent;
    if (reach > src[2 + k] + problem.pads[k] + problem.pads[2 + k]) return false;
  }
  return true;
}

// The layout in which the kernel reads an operand that is laid out like `given`; none where it does not run.
std::optional<Layout> SourceLayout(const DnnlContext& context, const Node& node, const PoolProblem& problem,
                                   const Layout& given) {
  if (node.outputs[0].dtype != DType::kFloat32 || !CountsRight(problem, given.dims)) return std::nullopt;
  if (CanPool(problem, given)) return given;
  const Layout blocked = Layout::Blocked(given.dims, context.block);
  if (CanPool(problem, blocked)) return blocked;
  return std::nullopt;
}

PoolProblem ProblemOf(const Node& node) {
  return PoolProblemOf(node, node.op == ops::MaxPool2d(), node.outputs[0].shape);
}

std::optional<Layout> PoolLayout(const LayoutQuery& query) {
  const std::optional<Layout> src =
      SourceLayout(query.context, query.node(), ProblemOf(query.node()), query.operand(0));
  if (!src) return std::nullopt;
  return Layout::Blocked(query.dims(), src->block);
}

absl::StatusOr<bool> PlanPool(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const Value x = node.operands[0];
  const PoolProblem problem = ProblemOf(node);
  ASSIGN_OR_RETURN(Place place, lowering.Find(x));
  const std::optional<Layout> src = SourceLayout(*lowering.context(), node, problem, place.layout);
  if (!src) return false;
  ASSIGN_OR_RETURN(place, lowering.FindAs(x, *src));
  const Layout dst = Layout::Blocked(problem.dst, src->block);
  const int result = lowering.Define(Value{id, 0}, dst).buffer;
  lowering.Emit(std::make_unique<PoolKernel>(problem, *src, dst, lowering.threads()),
                {Lowering::Read(place.buffer), Lowering::Write(result)},
                absl::StrCat(node.op->name, " (", Simd().name, ")"));
  return true;
}

}  // namespace

PoolProblem PoolProblemOf(const Node& node, bool max, const Shape& windows) {
  PoolProblem problem;
  problem.max = max;
  problem.dst = windows;
  problem.kernel = Ints(node, "kernel");
  problem.strides = Ints(node, "strides");
  problem.pads = Ints(node, "pads");
  problem.dilations = max ? Ints(node, "dilations") : std::vector<int64_t>{1, 1};
  problem.count_padding = !max && Int(node, "count_include_pad") != 0;
  return problem;
}

KernelEntry PoolEntry() {
  return {.ops = {ops::MaxPool2d(), ops::AvgPool2d()}, .plan = PlanPool, .layout = PoolLayout, .version = 2};
}

}  // namespace rewright::cpu
