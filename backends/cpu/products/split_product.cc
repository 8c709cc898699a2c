// Products of f32 with a constant right factor on tiles of bf16: numbers are split in three parts, and six products of
// parts are summed in f32 (simd/split.h), as exactly as by the products of matmul.cc and in less than half of their
// time. The right factor is split once, when the graph is compiled. All threads split a block of rows of the left one,
// a chunk of its depth at a time; then each thread multiplies it by its share of the panels of the right one.
// Rows with numbers beyond what parts are exact for, infinities and NaN among them, are computed anew on f32.
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/split.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kStrip = SplitTable::kRows, kWidth = SplitTable::kColumns, kStep = SplitTable::kDepth;
// Parts of a strip, and of a panel, for one step of the depth.
constexpr int64_t kStripParts = SplitTable::kParts * kStrip * kStep, kPanelParts = SplitTable::kParts * kWidth * kStep;
// The parts of a block of rows and of a panel, for a chunk of the depth, lie in the second level of cache.
constexpr int64_t kRowBlock = 256, kDepthChunk = 768;
// Fewer rows do not pay for splitting them, smaller factors not for the threads' meeting.
constexpr int64_t kLeastRows = 32, kLeastColumns = 64, kLeastDepth = 64;

int64_t Steps(int64_t depth) { return (depth + kStep - 1) / kStep; }
int64_t Panels(int64_t columns) { return (columns + kWidth - 1) / kWidth; }

// y = x[rows, depth] * w[depth, columns]; rows of x and y are in order.
struct SplitProblem {
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t row = 0, step = 0;  // strides of x
  PostOps post_ops;
};

int64_t PartsOfRight(int64_t depth, int64_t columns) { return Panels(columns) * Steps(depth) * kPanelParts; }

// Buffers: x, parts of w, [bias], [scale], [shift], [residual], scratch, y.
class SplitProductKernel : public Kernel {
 public:
  SplitProductKernel(const SplitProblem& problem, int threads)
      : problem_(problem),
        panels_(Panels(problem.columns)),
        threads_(problem.rows * problem.columns * problem.depth < SplitTable::kSerialTerms ? 1 : threads) {}

  static size_t ScratchBytes(const SplitProblem& problem) {
    return static_cast<size_t>(LeftParts(problem)) * sizeof(uint16_t) +
           static_cast<size_t>(kRowBlock) * 16 * sizeof(int);
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    Operands at;
    at.x = static_cast<const float*>(*buffers++);
    at.w = static_cast<const uint16_t*>(*buffers++);
    at.epilogue = TakeEpilogue(problem_.post_ops, &buffers);
    at.parts = static_cast<uint16_t*>(*buffers++);
    at.most = reinterpret_cast<int*>(at.parts + LeftParts(problem_));
    at.y = static_cast<float*>(*buffers);
#pragma omp parallel num_threads(threads_)
    {
      const int64_t me = omp_get_thread_num(), count = omp_get_num_threads();
      SplitProducts()->begin();
      for (int64_t first = 0; first < problem_.rows; first += kRowBlock) {
        RunRows(at, first, std::min(kRowBlock, problem_.rows - first), me, count);
      }
      SplitProducts()->end();
    }
    return absl::OkStatus();
  }

 private:
  struct Operands {
    const float* x = nullptr;
    const uint16_t* w = nullptr;
    ConvEpilogue epilogue;
    uint16_t* parts = nullptr;  // of a block of rows and a chunk of the depth, strip by strip
    int* most = nullptr;        // magnitudes of its rows, 16 each
    float* y = nullptr;
  };

  static int64_t LeftParts(const SplitProblem& problem) {
    const int64_t strips = (std::min(problem.rows, kRowBlock) + kStrip - 1) / kStrip;
    return strips * Steps(std::min(problem.depth, kDepthChunk)) * kStripParts;
  }

  // Share `me` of `count` of the rows' products. All threads call it together.
  void RunRows(const Operands& at, int64_t first, int64_t rows, int64_t me, int64_t count) const {
    const int64_t strips = (rows + kStrip - 1) / kStrip;
    const int64_t first_strip = strips * me / count, last_strip = strips * (me + 1) / count;
    const int64_t first_panel = panels_ * me / count, last_panel = panels_ * (me + 1) / count;
    std::fill(at.most + first_strip * kStrip * 16, at.most + last_strip * kStrip * 16, 0);
    for (int64_t chunk = 0; chunk < problem_.depth; chunk += kDepthChunk) {
      const int64_t depth = std::min(kDepthChunk, problem_.depth - chunk), steps = Steps(depth);
      for (int64_t strip = first_strip; strip < last_strip; ++strip) {
        const int64_t row = strip * kStrip;
        SplitProducts()->split_rows(at.x + (first + row) * problem_.row + chunk * problem_.step, problem_.row,
                                    problem_.step, 1.0f, std::min(kStrip, rows - row), depth,
                                    at.parts + strip * steps * kStripParts, at.most + row * 16);
      }
#pragma omp barrier
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        const uint16_t* const w = at.w + (panel * Steps(problem_.depth) + chunk / kStep) * kPanelParts;
        for (int64_t strip = 0; strip < strips; ++strip) {
          // Each strip asks for its share of the next panel.
          const uint16_t* const ahead =
              panel + 1 < last_panel ? w + Steps(problem_.depth) * kPanelParts + strip * steps * kPanelParts / strips
                                     : nullptr;
          Multiply(at.parts + strip * steps * kStripParts, w, steps,
                   at.y + (first + strip * kStrip) * problem_.columns + panel * kWidth,
                   std::min(kStrip, rows - strip * kStrip), std::min(kWidth, problem_.columns - panel * kWidth),
                   chunk > 0, ahead,
                   ahead == nullptr ? 0 : (kPanelParts / SplitTable::kLineParts + strips - 1) / strips);
        }
      }
#pragma omp barrier
    }
    const int64_t left = first_panel * kWidth, right = std::min(problem_.columns, last_panel * kWidth);
    for (int64_t i = 0; i < rows; ++i) {
      if (SplitProducts()->are_within(at.most + i * 16, 1, SplitTable::kLeastLeft, SplitTable::kLargest)) continue;
      for (int64_t panel = first_panel; panel < last_panel; ++panel) ComputeOnF32(at, first + i, panel);
    }
    for (int64_t i = first; i < first + rows && left < right; ++i) Finish(at, i, left, right - left);
#pragma omp barrier
  }

  // Writes, or adds, a strip times a panel. The tiles have all rows and columns, the result may not.
  void Multiply(const uint16_t* parts, const uint16_t* w, int64_t steps, float* y, int64_t rows, int64_t columns,
                bool accumulate, const uint16_t* ahead, int64_t lines) const {
    if (rows % 16 == 0 && columns % 16 == 0) {
      SplitProducts()->block(parts, rows, w, steps, y, problem_.columns, columns, accumulate, ahead, lines);
      return;
    }
    alignas(64) float tile[kStrip * kWidth] = {};
    const auto bytes = static_cast<size_t>(columns) * sizeof(float);
    for (int64_t i = 0; accumulate && i < rows; ++i) std::memcpy(tile + i * kWidth, y + i * problem_.columns, bytes);
    SplitProducts()->block(parts, rows, w, steps, tile, kWidth, columns, accumulate, ahead, lines);
    for (int64_t i = 0; i < rows; ++i) std::memcpy(y + i * problem_.columns, tile + i * kWidth, bytes);
  }

  // One row times one panel. A number is the sum of its parts, which lie in pairs along the depth.
  void ComputeOnF32(const Operands& at, int64_t row, int64_t panel) const {
    float sums[kWidth] = {};
    const uint16_t* const w = at.w + panel * Steps(problem_.depth) * kPanelParts;
    for (int64_t k = 0; k < problem_.depth; ++k) {
      const float x = at.x[row * problem_.row + k * problem_.step];
      for (int64_t j = 0; j < kWidth; ++j) {
        const uint16_t* from =
            w + k / kStep * kPanelParts + j / 16 * 16 * kStep + k % kStep / 2 * kStep + 2 * (j % 16) + k % 2;
        float number = 0;
        for (int64_t part = SplitTable::kParts; part-- > 0;) {
          const uint32_t bits = static_cast<uint32_t>(from[part * kWidth * kStep]) << 16;
          float value;
          std::memcpy(&value, &bits, sizeof value);
          number += value;
        }
        sums[j] += x * number;
      }
    }
    const int64_t columns = std::min(kWidth, problem_.columns - panel * kWidth);
    std::memcpy(at.y + row * problem_.columns + panel * kWidth, sums, static_cast<size_t>(columns) * sizeof(float));
  }

  void Finish(const Operands& at, int64_t row, int64_t first, int64_t n) const {
    float* const y = at.y + row * problem_.columns + first;
    const ConvEpilogue& behind = at.epilogue;
    if (behind.bias != nullptr) Simd().f32[kTileAdd](y, y, behind.bias + first, nullptr, n);
    ApplyPostOps(behind, problem_.post_ops,
                 behind.residual == nullptr ? nullptr : behind.residual + row * problem_.columns, first, n, y);
  }

  const SplitProblem problem_;
  const int64_t panels_;
  const int threads_;
};

// The buffer of the parts of a constant factor [k, n]; none where its numbers are beyond what parts are exact for.
absl::StatusOr<std::optional<int>> PackedParts(Lowering& lowering, Value b, int64_t k, int64_t n) {
  ASSIGN_OR_RETURN(const Place place, lowering.Find(b));
  const std::vector<int64_t>& strides = place.layout.strides;
  const int64_t k_stride = strides[strides.size() - 2], n_stride = strides.back();
  constexpr int64_t kOfParts = -1;  // in the place of rows
  int& known = lowering.PackedFactorOf(place.buffer, k, n, k_stride, n_stride, kOfParts);
  if (known >= 0) return known;
  const auto* const elements = static_cast<const float*>(lowering.buffer(place.buffer).data.get());
  const size_t bytes = static_cast<size_t>(PartsOfRight(k, n)) * sizeof(uint16_t);
  // (A negative depth tells the form from that of the products of f32.)
  const auto pack = [&]() -> absl::StatusOr<std::shared_ptr<void>> {
    ASSIGN_OR_RETURN(std::shared_ptr<void> packed, AllocatePacked(bytes, lowering.graph().type(b)));
    auto* const parts = static_cast<uint16_t*>(packed.get());
    const int64_t panels = Panels(n);
    int greatest = 0;
#pragma omp parallel for schedule(static) reduction(max : greatest)
    for (int64_t panel = 0; panel < panels; ++panel) {
      greatest = std::max(
          greatest, SplitProducts()->pack(elements + panel * kWidth * n_stride, k, std::min(kWidth, n - panel * kWidth),
                                          k_stride, n_stride, parts + panel * Steps(k) * kPanelParts));
    }
    alignas(64) const int most[16] = {greatest};
    if (!SplitProducts()->are_within(most, 1, SplitTable::kLeastRight, SplitTable::kLargest)) {
      return absl::OutOfRangeError("numbers beyond what parts are exact for");
    }
    return packed;
  };
  const std::shared_ptr<void> weights = lowering.WeightIn(place.buffer);
  absl::StatusOr<std::shared_ptr<void>> packed =
      weights == nullptr ? pack()
                         : lowering.context()->packed->Get({elements, -k, n, k_stride, n_stride}, weights, pack);
  if (absl::IsOutOfRange(packed.status())) return std::nullopt;
  RETURN_IF_ERROR(packed.status());
  return known = lowering.AddConstant(*std::move(packed), bytes);
}

absl::StatusOr<bool> PlanSplitProduct(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  // In training results may not depend on how rows are cut over ranks and micro-batches.
  if (group.kind != FusedGroup::Kind::kMatmul || SplitProducts() == nullptr || !lowering.context()->tiles ||
      graph.mode() == Mode::kTraining || !lowering.PacksFactors() || !IsOfType(graph, group.group, DType::kFloat32)) {
    return false;
  }
  const Node& node = graph.node(group.group.nodes[0]);
  const Value a = node.operands[0], b = node.operands[1], out = group.group.outputs[0];
  const Shape &dims = node.outputs[0].shape, &b_dims = graph.type(b).shape;
  const int64_t n = dims.back(), k = b_dims[b_dims.size() - 2];
  SplitProblem problem{.rows = NumElements(dims) / n, .depth = k, .columns = n, .post_ops = PostOpsOf(group)};
  if (!lowering.IsConstant(b) || NumElements(b_dims) != k * n || problem.rows < kLeastRows || n < kLeastColumns ||
      k < kLeastDepth || k * n > SplitTable::kMostWeights || !lowering.LayoutOf(group, out).IsRowMajor()) {
    return false;
  }
  Place a_place;
  ASSIGN_OR_RETURN(const Layout a_layout, PlainOperand(lowering, a, static_cast<int64_t>(dims.size()), &a_place));
  Layout flat;
  if (!ReshapeLayout(a_layout, {problem.rows, k}, &flat)) return false;
  problem.row = flat.strides[0];
  problem.step = flat.strides[1];
  ASSIGN_OR_RETURN(const std::optional<int> parts, PackedParts(lowering, b, k, n));
  if (!parts) return false;
  const Layout out_layout = Layout::RowMajor(dims);
  std::vector<BufferUse> buffers = {Lowering::Read(a_place.buffer), Lowering::Read(*parts)};
  RETURN_IF_ERROR(ReadEpilogue(lowering, group, n, n, out_layout, &buffers));
  lowering.UseScratch(SplitProductKernel::ScratchBytes(problem), &buffers);
  buffers.push_back(Lowering::Write(lowering.Define(out, out_layout).buffer));
  lowering.Emit(std::make_unique<SplitProductKernel>(problem, lowering.threads()), std::move(buffers),
                GroupLabel(graph, group.group));
  return true;
}

}  // namespace

// The layout of what it gives is that of the products of f32.
KernelEntry SplitProductEntry() { return {.ops = {ops::Matmul()}, .plan = PlanSplitProduct}; }

}  // namespace rewright::cpu
