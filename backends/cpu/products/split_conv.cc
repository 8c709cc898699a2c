// Convolutions of f32 with constant weights on tiles of bf16: numbers are split in three parts, and six products of
// parts are summed in f32 (simd/split.h), as exactly as by oneDNN's convolutions of f32 and in less time. The weights
// are split once, when the graph is compiled, each number of an image once for all places of the kernel that read it
// (split_conv_shape.h). Images lie in oneDNN's blocks of 16 channels, so that no layout changes around the kernel.
// Where an image has numbers beyond what parts are exact for, infinities and NaN among them, oneDNN computes all of it.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/products/split_conv_shape.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/split.h"
#include "backends/device_factory.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kPlaces = SplitTable::kRows, kOutputs = SplitTable::kColumns, kDeep = SplitTable::kDepth;
constexpr int64_t kOutputParts = SplitTable::kParts * kOutputs * kDeep;  // for one step of the depth
constexpr int64_t kLanes = 16;                                           // channels of a block
// Bytes of a panel of a band, and of all threads' together where they share it: they stay in the second cache.
constexpr int64_t kBandBytes = 400 << 10, kSharedBytes = 1 << 20;
constexpr int64_t kMostBytes = 1 << 29;  // of a panel, so that places in it are numbers of 32 bits

int64_t BytesOfRow(const SplitConvShape& shape) {
  return static_cast<int64_t>(sizeof(uint16_t)) * SplitTable::kParts * shape.chunks * shape.unit * shape.pitch *
         shape.stride_down;
}

// Returns whether threads share the columns of weights that are too many to be read by each, and not the rows of
// images.
bool SharesColumns(const SplitConvShape& shape) {
  constexpr int64_t kManyWeights = 1200 << 10, kTimes = 4;
  const int64_t weights = 2 * shape.parts_of_weights();
  return !shape.runs && weights > kManyWeights &&
         weights > kTimes * shape.images * shape.out_height * BytesOfRow(shape);
}

// Buffers: src, parts of the weights, [bias], [scale], [shift], [residual], weights as they are, dst, scratch.
class SplitConvKernel : public Kernel {
 public:
  // `dst` is in blocks; `src` too, or of few channels.
  SplitConvKernel(SplitConvShape shape, Layout src, Layout dst, PostOps post_ops, ConvInstead instead, int threads)
      : shape_(std::move(shape)),
        src_(std::move(src)),
        dst_(std::move(dst)),
        post_ops_(std::move(post_ops)),
        instead_(std::move(instead)),
        threads_(Terms() < SplitTable::kSerialTerms ? 1 : threads),
        shares_columns_(SharesColumns(shape_)) {
    const int64_t rows = shape_.images * shape_.out_height;
    const int64_t share =
        shares_columns_ ? shape_.out_height : std::min(shape_.out_height, (rows + threads_ - 1) / threads_);
    const int64_t most = std::max<int64_t>(1, (shares_columns_ ? kSharedBytes : kBandBytes) / BytesOfRow(shape_));
    const int64_t bands = (share + most - 1) / most;
    shape_.SetBand((share + bands - 1) / bands);
    for (int64_t place = 0; place < AlignUp(shape_.band * shape_.places, kPlaces); ++place) {
      const int64_t row = place / shape_.places, column = place % shape_.places;
      points_.push_back(column < shape_.out_width ? static_cast<int>(row * shape_.out_width + column) : -1);
    }
  }

  size_t scratch_bytes() const {
    const size_t panels = static_cast<size_t>(PanelBytes()) * static_cast<size_t>(shares_columns_ ? 1 : threads_);
    return std::max(panels, instead_.scratch_bytes());
  }

  absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const override { return instead_.MakeHandles(); }

  absl::Status Run(void* const* buffers, RunContext& context) const override {
    Operands at;
    void* const* next = buffers;
    at.x = static_cast<const float*>(*next++);
    at.w = static_cast<const uint16_t*>(*next++);
    at.epilogue = TakeEpilogue(post_ops_, &next);
    ++next;  // weights as they are
    at.y = static_cast<float*>(*next++);
    char* const scratch = static_cast<char*>(*next);
    std::atomic<bool> trusted = true;
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
    {
      const Share share = {omp_get_thread_num(), omp_get_num_threads()};
      auto* const parts = reinterpret_cast<uint16_t*>(scratch + (shares_columns_ ? 0 : share.me * PanelBytes()));
      SplitRange range;
      SplitProducts()->begin();
      ForEachBand(share,
                  [&](int64_t image, int64_t row, int64_t rows) { Band(at, share, image, row, rows, parts, &range); });
      SplitProducts()->end();
      if (range.has_tiny || !SplitProducts()->are_within(range.most, 1, 0, SplitTable::kLargest)) trusted = false;
    }
    return trusted ? absl::OkStatus() : instead_.Run(buffers, /*has_own_weights=*/true, *context.handles);
  }

 private:
  struct Operands {
    const float* x = nullptr;
    const uint16_t* w = nullptr;
    ConvEpilogue epilogue;
    float* y = nullptr;
  };
  struct Share {
    int64_t me, count;
    int64_t First(int64_t all) const { return all * me / count; }
    int64_t Last(int64_t all) const { return all * (me + 1) / count; }
  };

  int64_t Terms() const {
    return shape_.images * shape_.out_height * shape_.out_width * shape_.outputs * shape_.steps * kDeep;
  }
  // Bytes of one panel, and with what it has before it is split, where its points are gathered first.
  int64_t PartBytes() const { return AlignUp(shape_.parts() * static_cast<int64_t>(sizeof(uint16_t)), 64); }
  int64_t PanelBytes() const {
    const int64_t gathered = shape_.runs ? shape_.part() * static_cast<int64_t>(sizeof(float)) : 0;
    return PartBytes() + AlignUp(gathered, 64);
  }

  // All bands where threads share their columns, else those of a thread.
  template <typename F>
  void ForEachBand(const Share& share, const F& f) const {
    const int64_t rows = shape_.images * shape_.out_height;
    const int64_t last = shares_columns_ ? rows : share.Last(rows);
    for (int64_t row = shares_columns_ ? 0 : share.First(rows); row < last;) {
      const int64_t image = row / shape_.out_height, in_image = row % shape_.out_height;
      const int64_t count = std::min({shape_.band, last - row, shape_.out_height - in_image});
      f(image, in_image, count);
      row += count;
    }
  }

  void Band(const Operands& at, const Share& share, int64_t image, int64_t row, int64_t rows, uint16_t* parts,
            SplitRange* range) const {
    const Share all = {0, 1}, &of_columns = shares_columns_ ? share : all;
    const float* const x = at.x + image * src_.strides[0];
    const int64_t top = row * shape_.stride_down * shape_.step_down - shape_.top;
    // Behind the rows that are read lie those whose padding is.
    const int64_t read = shape_.RowsRead(rows), laid = read + shape_.stride_down;
    if (shares_columns_) {
#pragma omp barrier
    }
    if (shape_.runs) {
      SplitRuns(x, top, read, parts, range);
    } else {
      for (int64_t r = of_columns.First(laid); r < of_columns.Last(laid); ++r) {
        SplitRow(x, top + r * shape_.step_down, r < read, parts + shape_.RowAt(r) * kDeep, range);
      }
    }
    if (shares_columns_) {
#pragma omp barrier
    }
    Multiply(at, of_columns.First(shape_.panels), of_columns.Last(shape_.panels), image, row, rows, parts);
  }

  // The points [first, last) of a row of a panel that lie within the image.
  std::pair<int64_t, int64_t> Within() const {
    const int64_t first = std::min(shape_.pitch, (shape_.left + shape_.step_right - 1) / shape_.step_right);
    const int64_t last = (shape_.width - 1 + shape_.left) / shape_.step_right + 1;
    return {first, std::max(first, std::min(shape_.pitch, last))};
  }

  // Row `y` of the image, with the padding around it; its left padding alone where it is not read.
  void SplitRow(const float* x, int64_t y, bool is_read, uint16_t* to, SplitRange* range) const {
    const auto [first, last] = Within();
    const int64_t part = shape_.part();
    const bool within = is_read && y >= 0 && y < shape_.height;
    const int64_t begin = within ? first : is_read ? shape_.pitch : shape_.PaddingBefore();
    const int64_t end = within ? last : begin, stop = is_read ? shape_.pitch : begin;
    const int64_t blocks = (shape_.channels + kLanes - 1) / kLanes;
    for (int64_t chunk = 0; chunk < shape_.chunks; ++chunk, to += SplitTable::kParts * part) {
      for (int64_t k = 0; k < SplitTable::kParts; ++k) {
        std::memset(to + k * part, 0, static_cast<size_t>(begin * kDeep) * sizeof(uint16_t));
        std::memset(to + k * part + end * kDeep, 0, static_cast<size_t>((stop - end) * kDeep) * sizeof(uint16_t));
      }
      if (end == begin) continue;
      const float* const low =
          x + 2 * chunk * src_.strides[1] + y * src_.strides[2] + (first * shape_.step_right - shape_.left) * kLanes;
      SplitConvs()->split_points(low, 2 * chunk + 1 < blocks ? low + src_.strides[1] : nullptr,
                                 shape_.step_right * kLanes, end - begin, to + begin * kDeep, part, range);
    }
  }

  // All points of a panel whose channels lie behind one another.
  void SplitRuns(const float* x, int64_t top, int64_t read, uint16_t* parts, SplitRange* range) const {
    auto* const line = reinterpret_cast<float*>(reinterpret_cast<char*>(parts) + PartBytes());
    std::memset(line, 0, static_cast<size_t>(shape_.part()) * sizeof(float));
    const auto [first, last] = Within();
    const int64_t unit = shape_.unit, lanes = src_.blocked() ? kLanes : unit;
    const int64_t lane = src_.blocked() ? 1 : src_.strides[1];
    const int64_t point = (src_.blocked() ? kLanes : src_.strides[3]) * shape_.step_right;
    for (int64_t r = 0; r < read; ++r) {
      const int64_t y = top + r * shape_.step_down;
      if (y < 0 || y >= shape_.height) continue;
      for (int64_t c = 0; c < unit; ++c) {
        const float* from = x + c / lanes * src_.strides[1] + c % lanes * lane + y * src_.strides[2] +
                            (first * shape_.step_right - shape_.left) * (point / shape_.step_right);
        float* const to = line + shape_.RowAt(r) * unit + c;
        for (int64_t i = first; i < last; ++i, from += point) to[i * unit] = *from;
      }
    }
    SplitConvs()->split_line(line, shape_.part(), parts, shape_.part(), range);
  }

  void Multiply(const Operands& at, int64_t first_panel, int64_t last_panel, int64_t image, int64_t row, int64_t rows,
                const uint16_t* parts) const {
    alignas(64) float sums[kPlaces * kOutputs];
    const int64_t places = rows * shape_.places, strips = (places + kPlaces - 1) / kPlaces, steps = shape_.steps;
    const int64_t blocks = (shape_.outputs + kLanes - 1) / kLanes;
    const int64_t begin = image * dst_.strides[0] + row * dst_.strides[2];
    const size_t fused = FusedFunctions(at.epilogue);
    SplitSums done;
    done.sums = sums;
    done.epilogue = at.epilogue;
    done.plane = dst_.strides[1];
    SplitWindows windows;
    windows.row = shape_.stride_right * shape_.unit;
    windows.part = shape_.part();
    windows.offsets = shape_.offsets.data();
    windows.steps = steps;
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
      const uint16_t* const w = at.w + panel * steps * kOutputParts;
      const int64_t block = panel * (kOutputs / kLanes), wide = std::min(kOutputs / kLanes, blocks - block);
      const int64_t start = begin + block * dst_.strides[1];
      for (int64_t strip = 0; strip < strips; ++strip) {
        const int64_t of_strip = std::min(kPlaces, places - strip * kPlaces);
        windows.first = parts + strip * kPlaces * windows.row;
        // Each strip asks for its share of the next panel.
        const uint16_t* const ahead =
            panel + 1 < last_panel ? w + steps * kOutputParts + strip * steps * kOutputParts / strips : nullptr;
        SplitConvs()->block(windows, w, of_strip > kPlaces / 2, wide > 1, sums, done, ahead,
                            ahead == nullptr ? 0 : (kOutputParts / SplitTable::kLineParts + strips - 1) / strips);
        done.points = points_.data() + strip * kPlaces;
        done.rows = of_strip;
        done.channel = block * kLanes;
        done.blocks = wide;
        done.image = at.y + start;
        done.epilogue.residual = at.epilogue.residual == nullptr ? nullptr : at.epilogue.residual + start;
      }
      if (post_ops_.activations.size() > fused) {
        SplitConvs()->finish(done);
        done.rows = 0;
        for (int64_t k = 0; k < wide; ++k) {
          Activate(post_ops_.activations, fused, at.y + start + k * dst_.strides[1], rows * dst_.strides[2]);
        }
      }
    }
    SplitConvs()->finish(done);
  }

  SplitConvShape shape_;
  const Layout src_, dst_;
  const PostOps post_ops_;
  const ConvInstead instead_;
  const int threads_;
  const bool shares_columns_;
  std::vector<int> points_;  // of places of a band, in the image from the band's first row on
};

// The number, within those of an output, of the weight [outputs, channels, rows, columns] that row k of a step of the
// depth multiplies; -1: none.
int64_t WeightOf(const SplitConvShape& shape, int64_t step, int64_t k) {
  int64_t channel = 0, r = 0, s = 0;
  if (shape.runs) {
    const int64_t of_row = shape.steps / shape.kernel_rows, at = step % of_row * kDeep + k;
    r = step / of_row;
    s = at / shape.channels;
    channel = at % shape.channels;
  } else {
    channel = step / (shape.kernel_rows * shape.kernel_columns) * kDeep + k;
    r = step / shape.kernel_columns % shape.kernel_rows;
    s = step % shape.kernel_columns;
  }
  if (s >= shape.kernel_columns || channel >= shape.channels) return -1;
  return (channel * shape.kernel_rows + r) * shape.kernel_columns + s;
}

// Splits the weights, in panels. Returns the greatest magnitude.
int SplitWeights(const SplitConvShape& shape, const float* weights, uint16_t* parts) {
  const int64_t of_output = shape.channels * shape.kernel_rows * shape.kernel_columns;
  int greatest = 0;
#pragma omp parallel for schedule(static) reduction(max : greatest)
  for (int64_t panel = 0; panel < shape.panels; ++panel) {
    const int64_t columns = std::min(kOutputs, shape.outputs - panel * kOutputs);
    for (int64_t step = 0; step < shape.steps; ++step) {
      alignas(64) float numbers[kDeep * kOutputs] = {};
      for (int64_t k = 0; k < kDeep; ++k) {
        const int64_t at = WeightOf(shape, step, k);
        for (int64_t j = 0; at >= 0 && j < columns; ++j) {
          numbers[k * kOutputs + j] = weights[(panel * kOutputs + j) * of_output + at];
        }
      }
      greatest = std::max(greatest, SplitProducts()->pack(numbers, kDeep, kOutputs, kOutputs, 1,
                                                          parts + (panel * shape.steps + step) * kOutputParts));
    }
  }
  return greatest;
}

// The buffer of the parts of weights; none where its numbers are beyond what parts are exact for.
absl::StatusOr<std::optional<int>> PartsOfWeights(Lowering& lowering, Value w, const Place& place,
                                                  const SplitConvShape& shape) {
  const auto* const elements = static_cast<const float*>(lowering.buffer(place.buffer).data.get());
  const size_t bytes = static_cast<size_t>(shape.parts_of_weights()) * sizeof(uint16_t);
  const auto pack = [&]() -> absl::StatusOr<std::shared_ptr<void>> {
    ASSIGN_OR_RETURN(std::shared_ptr<void> packed, AllocatePacked(bytes, lowering.graph().type(w)));
    alignas(64) const int most[16] = {SplitWeights(shape, elements, static_cast<uint16_t*>(packed.get()))};
    if (!SplitProducts()->are_within(most, 1, SplitTable::kLeastRight, SplitTable::kLargest)) {
      return absl::OutOfRangeError("numbers beyond what parts are exact for");
    }
    return packed;
  };
  const std::shared_ptr<void> weights = lowering.WeightIn(place.buffer);
  // (Negative sizes tell the form from those of products.)
  const PackedWeights::Form form = {elements, -shape.channels, shape.outputs,
                                    -2 * shape.kernel_rows - (shape.runs ? 1 : 0), -shape.kernel_columns};
  absl::StatusOr<std::shared_ptr<void>> packed =
      weights == nullptr ? pack() : lowering.context()->packed->Get(form, weights, pack);
  if (absl::IsOutOfRange(packed.status())) return std::nullopt;
  RETURN_IF_ERROR(packed.status());
  return lowering.AddConstant(*std::move(packed), bytes);
}

// The time of the kernel over that of oneDNN's, by what their parts take on one thread of a Xeon with AMX, in
// nanoseconds (docs/decisions/134).
double EstimatedRatio(const SplitConvShape& shape) {
  constexpr double kBlockOfStep = 132, kFinish = 60, kPoint = 9, kWeightByte = 0.06;  // on tiles
  constexpr double kTerm = 0.0105, kPlainWeightByte = 0.04;                           // by oneDNN
  const double rows = static_cast<double>(shape.images * shape.out_height);
  const double strips = rows * static_cast<double>(shape.places) / kPlaces;
  const double panels = static_cast<double>(AlignUp(shape.outputs, kLanes)) / kOutputs;
  const double points = rows * static_cast<double>(shape.stride_down * shape.pitch * shape.chunks);
  const double on_tiles = strips * panels * (static_cast<double>(shape.steps) * kBlockOfStep + kFinish) +
                          points * kPoint + static_cast<double>(2 * shape.parts_of_weights()) * kWeightByte;
  const double weights = static_cast<double>(shape.outputs * shape.channels * shape.kernel_rows * shape.kernel_columns);
  return on_tiles /
         (rows * static_cast<double>(shape.out_width) * weights * kTerm + sizeof(float) * weights * kPlainWeightByte);
}
// Above the first it is not worth a measurement, below the second it runs where nothing is measured.
constexpr double kMayPay = 2.5, kPays = 0.85;

// Images in blocks, or of few channels; results in blocks, whose padding stays zero.
bool TakesLayouts(const ConvProblem& problem, const ConvPlan& plan) {
  if (plan.dst != Layout::Blocked(problem.dst, kLanes)) return false;
  const std::vector<ActivationFunction>& functions = problem.post_ops.activations;
  if (problem.dst[1] % kLanes != 0 && !std::all_of(functions.begin(), functions.end(), KeepsZero)) return false;
  return plan.src == Layout::Blocked(problem.src, kLanes) || (!plan.src.blocked() && problem.src[1] < kDeep);
}

// The plan by which the kernel would compute a group.
struct SplitConvPlan {
  ConvProblem problem;
  ConvPlan instead;
  Layout src, dst;
  SplitConvShape shape;
};

// None where it cannot.
std::optional<SplitConvPlan> SplitConvPlanOf(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                             const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kConv || SplitConvs() == nullptr || !context->tiles ||
      graph.mode() == Mode::kTraining || !IsOfType(graph, group.group, DType::kFloat32) ||
      !graph.IsKnown(graph.node(group.group.nodes[0]).operands[1])) {
    return std::nullopt;
  }
  SplitConvPlan plan;
  plan.problem = ConvProblemOf(graph, group);
  if (plan.problem.groups != 1 || NumElements(plan.problem.weights) > SplitTable::kMostWeights) return std::nullopt;
  absl::StatusOr<ConvPlan> instead = MakeConv(context, plan.problem);
  if (!instead.ok() || !TakesLayouts(plan.problem, *instead)) return std::nullopt;
  const Layout blocked = Layout::Blocked(plan.problem.src, kLanes);
  plan.src = instead->src == blocked ? blocked : instead->src;
  plan.dst = Layout::Blocked(plan.problem.dst, kLanes);
  plan.instead = *std::move(instead);
  plan.shape = SplitConvShape(plan.problem, !plan.src.blocked());
  const SplitConvShape& shape = plan.shape;
  if (shape.runs && shape.kernel_columns > 1 && shape.right > 1) return std::nullopt;
  if (BytesOfRow(shape) * (shape.kernel_rows * shape.down + 1) > kMostBytes) return std::nullopt;
  return plan;
}

std::vector<std::string> TilesWays(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  // (A view: the context lives as long as what is asked about.)
  const std::shared_ptr<const DnnlContext> view(std::shared_ptr<void>(), &context);
  const std::optional<SplitConvPlan> plan = SplitConvPlanOf(view, graph, group);
  return plan && EstimatedRatio(plan->shape) < kMayPay ? std::vector<std::string>{kTilesWay}
                                                       : std::vector<std::string>();
}

absl::StatusOr<bool> PlanSplitConv(Lowering& lowering, const FusedGroup& group) {
  if (!lowering.PacksFactors()) return false;
  ASSIGN_OR_RETURN(const std::string way, lowering.LawOf(group));
  if (lowering.ChoosesWays() && way != kTilesWay) return false;
  const Graph& graph = lowering.graph();
  std::optional<SplitConvPlan> plan = SplitConvPlanOf(lowering.context(), graph, group);
  if (!plan || (!lowering.ChoosesWays() && EstimatedRatio(plan->shape) > kPays)) return false;
  const ConvProblem& problem = plan->problem;
  const Layout &src = plan->src, &dst = plan->dst;
  const SplitConvShape& shape = plan->shape;
  const Value x = graph.node(group.group.nodes[0]).operands[0], w = graph.node(group.group.nodes[0]).operands[1];
  ASSIGN_OR_RETURN(const Place weights, lowering.FindRowMajor(w));
  ASSIGN_OR_RETURN(const std::optional<int> parts, PartsOfWeights(lowering, w, weights, shape));
  if (!parts) return false;
  std::vector<BufferUse> buffers;
  ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadAs(x, src));
  buffers.push_back(Lowering::Read(*parts));
  RETURN_IF_ERROR(ReadEpilogue(lowering, group, problem.dst[1], AlignUp(problem.dst[1], kOutputs), dst, &buffers));
  buffers.push_back(Lowering::Read(weights.buffer));
  buffers.push_back(Lowering::Write(lowering.Define(group.group.outputs[0], dst).buffer));
  ASSIGN_OR_RETURN(ConvInstead instead, ConvInstead::Make(lowering.context(), problem, std::move(plan->instead)));
  auto kernel =
      std::make_unique<SplitConvKernel>(shape, src, dst, problem.post_ops, std::move(instead), lowering.threads());
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(kernel->scratch_bytes())));
  lowering.Emit(std::move(kernel), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (tiles of bf16 in three parts)"));
  return true;
}

}  // namespace

// Its results lie as oneDNN's do: Conv says how.
KernelEntry SplitConvEntry() { return {.ops = {ops::Conv2d()}, .plan = PlanSplitConv, .ways = TilesWays}; }

}  // namespace rewright::cpu
