// Reductions of f32 over any axes of any layout, of a tensor or of what pointwise nodes give.
#include <omp.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/codegen/tile_program.h"
#include "backends/cpu/fuse/row_groups.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/lower/lower_pointwise.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin };

TileJoin JoinOf(Reduction reduction) {
  return reduction == Reduction::kMax ? kJoinMax : reduction == Reduction::kMin ? kJoinMin : kJoinSum;
}

struct ReduceAxis {
  int64_t size, x, out;
  bool reduced;
};

// Returns whether the elements that are joined to one number lie side by side.
bool IsByRows(const std::vector<ReduceAxis>& axes) { return axes.empty() || axes.back().reduced; }

constexpr int64_t kPiece = 8192;      // elements of a row, or lines of a block, that one thread takes at a time
constexpr int64_t kFewUnits = 8;      // sums below which each is shared by threads
constexpr int64_t kWidest = 16;       // columns of a block: the channels of an image that lie side by side
constexpr int64_t kBlock = 3072;      // elements of a few rows that stay in the first level of cache
constexpr int64_t kMostNumbers = 64;  // 4 * lanes
constexpr int64_t kMaxParts = 16;     // into which one sum is cut, whatever the threads: they round alike

// The order in which elements are joined. Rows, and columns of up to kWidest that lie in lines, have the same one, so
// that an image has the same sums for its channels whether it lies row by row or in blocks of channels: element i of an
// image's channel goes to the number i % (4 * lanes), for all images; the numbers are joined at the end as join_all
// joins them. Sums that are shared by threads are cut at the same places.
class ReduceKernel : public Kernel {
 public:
  // Buffers: x, out, or the operands of the program that gives x, out. out[kept..] = reduction of x. `axes` as AxesOf
  // gives them. With a program x lies nowhere and is dense; where rows are reduced the program joins them (IsByRows).
  ReduceKernel(Reduction reduction, std::vector<ReduceAxis> axes, std::optional<TileProgram> program, int threads)
      : reduction_(reduction), program_(std::move(program)) {
    // The innermost axis is either reduced (rows) or kept (columns).
    rows_ = IsByRows(axes);
    if (axes.empty()) axes.push_back({1, 1, 0, true});
    inner_ = axes.back();
    axes.pop_back();
    if (!rows_ && inner_.x == 1 && inner_.size <= kTile / 2 && !axes.empty() && axes.back().reduced &&
        axes.back().x == inner_.size) {
      lines_ = axes.back().size;
      axes.pop_back();
    }
    int64_t reduced = rows_ ? inner_.size : lines_;
    for (const ReduceAxis& axis : axes) {
      (axis.reduced ? reduced_ : kept_).push_back(axis);
      (axis.reduced ? reduced : kept_count_) *= axis.size;
      if (axis.reduced) reduced_count_ *= axis.size;
    }
    scale_ = reduction == Reduction::kMean ? 1.0f / static_cast<float>(reduced) : 1.0f;
    const bool in_blocks = lines_ > 1 && inner_.size <= kWidest;
    numbers_ = rows_ || in_blocks ? 4 * Simd().lanes : 0;
    chunk_ = rows_ ? 1 : std::min(inner_.size, kTile / 2);
    // Columns that few sums have are shared by threads in smaller chunks.
    if (!rows_ && kept_count_ < kFewUnits) chunk_ = std::min(chunk_, std::max<int64_t>(64, inner_.size / kFewUnits));
    if (lines_ > 1) chunk_ = inner_.size;
    chunks_ = rows_ ? 1 : (inner_.size + chunk_ - 1) / chunk_;
    tile_lines_ = lines_ > 1 ? kTile / inner_.size : 1;
    const int64_t whole = rows_ ? inner_.size : lines_, step = numbers_ != 0 ? kPiece : tile_lines_ * 16;
    pieces_ = (whole + step - 1) / step;
    piece_ = step;
    const int64_t work = kept_count_ * reduced_count_ * inner_.size * lines_, units = kept_count_ * chunks_;
    const bool few = numbers_ != 0 ? units * chunk_ < kFewUnits * kWidest : units < kFewUnits;
    if (work >= kSharedElements && few) parts_ = std::min(kMaxParts, reduced_count_ * pieces_);
    threads_ = ThreadsFor(work, kSharedElements, units * parts_, threads);
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    float* out = static_cast<float*>(buffers[program_ ? program_->program().operands.size() : 1]);
    const int64_t units = kept_count_ * chunks_, terms = reduced_count_ * pieces_;
    float partial[kMaxParts * kFewUnits * kTile / 2];
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
    {
      const int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
      Elements elements(*this, buffers);
      if (parts_ == 1) {
        float sums[kTile];
        for (int64_t unit = units * me / all; unit < units * (me + 1) / all; ++unit) {
          Add(elements, unit, 0, terms, sums);
          Store(unit, sums, out);
        }
      } else {
        const int64_t tasks = units * parts_;
        for (int64_t task = tasks * me / all; task < tasks * (me + 1) / all; ++task) {
          const int64_t part = task % parts_;
          Add(elements, task / parts_, terms * part / parts_, terms * (part + 1) / parts_, partial + task * chunk_);
        }
#pragma omp barrier
        for (int64_t unit = units * me / all; unit < units * (me + 1) / all; ++unit) {
          float* const sums = partial + unit * parts_ * chunk_;
          for (int64_t part = 1; part < parts_; ++part) {
            for (int64_t i = 0; i < Width(unit); ++i) sums[i] = Join(sums[i], sums[part * chunk_ + i]);
          }
          Store(unit, sums, out);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  // The elements that one thread reads.
  class Elements {
   public:
    Elements(const ReduceKernel& kernel, void* const* buffers)
        : program_(kernel.program_ ? &*kernel.program_ : nullptr), buffers_(buffers) {
      if (program_ != nullptr) program_->Begin(buffers, tiles_);
    }
    // `count` elements from this one on, at most kTile of a program.
    const float* At(int64_t offset, int64_t count) {
      if (program_ == nullptr) return static_cast<const float*>(buffers_[0]) + offset;
      RunTiles(offset, count, [&](int64_t at) { return computed_ + (at - offset); });
      return computed_;
    }
    // Joins them to numbers.
    void JoinTo(float* numbers, int64_t offset, int64_t count, TileJoin join) {
      if (program_ != nullptr) return RunTiles(offset, count, [&](int64_t) { return numbers; });
      Simd().join_row[join](numbers, static_cast<const float*>(buffers_[0]) + offset, count);
    }

   private:
    // `to`: by the first position of a tile, where its result goes.
    template <typename F>
    void RunTiles(int64_t offset, int64_t count, const F& to) {
      void* result = nullptr;
      program_->RunTiles(buffers_, tiles_, offset, offset + count, [&](int64_t at) {
        result = to(at);
        return &result;
      });
    }

    const TileProgram* const program_;
    void* const* const buffers_;
    TileSpace tiles_;
    alignas(64) float computed_[kTile];
  };

  int64_t Width(int64_t unit) const { return rows_ ? 1 : std::min(chunk_, inner_.size - unit % chunks_ * chunk_); }

  // Calls f(offset, piece) for terms begin..end-1: positions of the outer reduced axes and pieces of what lies inside.
  template <typename F>
  void ForTerms(int64_t begin, int64_t end, const F& f) const {
    int64_t index[kMaxAxes] = {};
    int64_t offset = 0, rest = begin / pieces_, piece = begin % pieces_;
    for (size_t k = reduced_.size(); k-- > 0;) {
      index[k] = rest % reduced_[k].size;
      rest /= reduced_[k].size;
      offset += index[k] * reduced_[k].x;
    }
    for (int64_t term = begin; term < end; ++term) {
      f(offset, piece);
      if (++piece < pieces_) continue;
      piece = 0;
      for (size_t k = reduced_.size(); k-- > 0;) {
        offset += reduced_[k].x;
        if (++index[k] < reduced_[k].size) break;
        offset -= reduced_[k].x * reduced_[k].size;
        index[k] = 0;
      }
    }
  }

  // Some terms of one unit: `sums` gets one number, or one for each column.
  void Add(Elements& elements, int64_t unit, int64_t begin, int64_t end, float* sums) const {
    int64_t rest = unit / chunks_, from = unit % chunks_ * chunk_ * (rows_ ? 0 : inner_.x);
    for (size_t k = kept_.size(); k-- > 0;) {
      from += rest % kept_[k].size * kept_[k].x;
      rest /= kept_[k].size;
    }
    if (rows_) {
      alignas(64) float numbers[kMostNumbers];
      Simd().start_join[JoinOf(reduction_)](numbers);
      ForTerms(begin, end, [&](int64_t offset, int64_t piece) { JoinRow(elements, from + offset, piece, numbers); });
      sums[0] = Simd().join_all[JoinOf(reduction_)](numbers);
    } else if (numbers_ != 0) {
      Blocks(elements, from, begin, end, sums);
    } else {
      Columns(elements, from, Width(unit), begin, end, sums);
    }
  }

  void JoinRow(Elements& elements, int64_t from, int64_t piece, float* numbers) const {
    const int64_t first = piece * piece_, end = std::min(first + piece_, inner_.size);
    if (inner_.x == 1) return elements.JoinTo(numbers, from + first, end - first, JoinOf(reduction_));
    const float* x = elements.At(from, inner_.size);  // of no program
    for (int64_t i = first; i < end; ++i) numbers[i % numbers_] = Join(numbers[i % numbers_], x[i * inner_.x]);
  }

  // Lines of a few columns: the numbers of a row, for each column.
  void Blocks(Elements& elements, int64_t from, int64_t begin, int64_t end, float* sums) const {
    const int64_t width = inner_.size;
    const int64_t step = std::min(kTile / width, numbers_);
    float columns[kMostNumbers * kWidest];
    std::fill(columns, columns + numbers_ * width, Start());
    ForTerms(begin, end, [&](int64_t offset, int64_t piece) {
      const int64_t last = std::min((piece + 1) * piece_, lines_);
      for (int64_t line = piece * piece_; line < last;) {
        const int64_t number = line % numbers_, count = std::min({step, last - line, numbers_ - number});
        const float* x = elements.At(from + offset + line * width, count * width);
        JoinFn()(columns + number * width, columns + number * width, x, nullptr, count * width);
        line += count;
      }
    });
    for (int64_t i = 0; i < width; ++i) {
      alignas(64) float numbers[kMostNumbers];
      for (int64_t k = 0; k < numbers_; ++k) numbers[k] = columns[k * width + i];
      sums[i] = Simd().join_all[JoinOf(reduction_)](numbers);
    }
  }

  TileFn JoinFn() const {
    return Simd().f32[reduction_ == Reduction::kMax ? kTileMax : reduction_ == Reduction::kMin ? kTileMin : kTileAdd];
  }

  // Lines of short columns are added many at a time, each to a sum of its own.
  void Columns(Elements& elements, int64_t from, int64_t width, int64_t begin, int64_t end, float* sums) const {
    const TileFn join = JoinFn();
    float sum[kTile];
    std::fill(sum, sum + tile_lines_ * width, Start());
    ForTerms(begin, end, [&](int64_t offset, int64_t piece) {
      const int64_t last = std::min((piece + 1) * piece_, lines_);
      for (int64_t line = piece * piece_; line < last; line += tile_lines_) {
        const int64_t count = std::min(tile_lines_, last - line) * width;
        const float* x = elements.At(from + offset + line * width, count);
        if (inner_.x == 1) {
          join(sum, sum, x, nullptr, count);
        } else {
          for (int64_t i = 0; i < count; ++i) sum[i] = Join(sum[i], x[i * inner_.x]);
        }
      }
    });
    std::copy(sum, sum + width, sums);
    for (int64_t line = 1; line < tile_lines_; ++line) {
      for (int64_t i = 0; i < width; ++i) sums[i] = Join(sums[i], sum[line * width + i]);
    }
  }

  void Store(int64_t unit, const float* sums, float* out) const {
    int64_t rest = unit / chunks_, to = unit % chunks_ * chunk_ * inner_.out;
    for (size_t k = kept_.size(); k-- > 0;) {
      to += rest % kept_[k].size * kept_[k].out;
      rest /= kept_[k].size;
    }
    for (int64_t i = 0; i < Width(unit); ++i) out[to + i * inner_.out] = sums[i] * scale_;
  }

  float Start() const {
    switch (reduction_) {
      case Reduction::kMax: return -std::numeric_limits<float>::infinity();
      case Reduction::kMin: return std::numeric_limits<float>::infinity();
      default: return 0;
    }
  }
  float Join(float a, float b) const {
    switch (reduction_) {
      case Reduction::kMax: return a > b || a != a ? a : b;
      case Reduction::kMin: return a < b || a != a ? a : b;
      default: return a + b;
    }
  }

  const Reduction reduction_;
  const std::optional<TileProgram> program_;
  ReduceAxis inner_;
  bool rows_ = true;
  std::vector<ReduceAxis> kept_, reduced_;
  int64_t kept_count_ = 1, reduced_count_ = 1;
  int64_t lines_ = 1, tile_lines_ = 1;  // of columns that lie one behind another: all, and those of a tile
  int64_t chunk_ = 1, chunks_ = 1;      // columns that are accumulated together
  int64_t piece_ = 1, pieces_ = 1;      // of a row, or of the lines
  int64_t numbers_ = 0;                 // to which the elements of a row go in turn; 0: columns in no blocks
  int64_t parts_ = 1;                   // of a sum
  float scale_ = 1;
  int threads_ = 1;
};

// A reduction along rows, and what is computed of each row from its number: `results`, row by row. Buffers: x, or the
// operands of the terms that give x, then those of `results`, one of which is the numbers, one for each row; out.
class RowsKernel : public Kernel {
 public:
  // `numbers`: which operand of `results` they are.
  RowsKernel(Reduction reduction, int64_t rows, int64_t size, std::optional<TileProgram> terms, TileProgram results,
             size_t numbers, int threads)
      : join_(JoinOf(reduction)),
        rows_(rows),
        size_(size),
        block_(std::clamp<int64_t>(kBlock / size, 1, 8)),
        terms_(std::move(terms)),
        results_(std::move(results)),
        numbers_(numbers),
        out_bytes_(DTypeSize(results_.program().TypeOf(results_.program().results[0]))),
        scale_(reduction == Reduction::kMean ? 1.0f / static_cast<float>(size) : 1.0f),
        threads_(ThreadsFor(rows * size, kSharedElements, rows, threads)) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    ForParts(rows_, threads_, [&](int64_t begin, int64_t end) { RunRows(buffers, begin, end); });
    return absl::OkStatus();
  }

 private:
  void RunRows(void* const* buffers, int64_t first, int64_t last) const {
    void* const* const operands = buffers + (terms_ ? terms_->program().operands.size() : 1);
    float* const numbers = static_cast<float*>(operands[numbers_]);
    unsigned char* const out = static_cast<unsigned char*>(operands[results_.program().operands.size()]);
    TileSpace term_tiles, result_tiles;
    if (terms_) terms_->Begin(buffers, term_tiles);
    results_.Begin(operands, result_tiles);
    alignas(64) float joined[64];
    void* const to = joined;
    void* result = out;
    TileProgram::Lines term_lines, result_lines;
    const bool by_term_lines = terms_ && terms_->StartLines(buffers, &to, size_, first, term_lines);
    const bool by_result_lines = results_.StartLines(operands, &result, size_, first, result_lines);
    for (int64_t row = first; row < last;) {
      const int64_t block = row, block_end = std::min(row + block_, last);
      for (; row < block_end; ++row) {
        Simd().start_join[join_](joined);
        if (by_term_lines) {
          term_lines.RunNext();
        } else if (terms_) {
          terms_->RunTiles(buffers, term_tiles, row * size_, (row + 1) * size_, [&](int64_t) { return &to; });
        } else {
          Simd().join_row[join_](joined, static_cast<const float*>(buffers[0]) + row * size_, size_);
        }
        numbers[row] = Simd().join_all[join_](joined) * scale_;
      }
      for (int64_t at = block; by_result_lines && at < block_end; ++at) result_lines.RunNext();
      if (by_result_lines) continue;
      results_.RunTiles(operands, result_tiles, block * size_, block_end * size_, [&](int64_t start) {
        result = out + static_cast<size_t>(start) * out_bytes_;
        return &result;
      });
    }
  }

  const TileJoin join_;
  const int64_t rows_, size_;
  const int64_t block_;  // rows reduced one after the other: while one's sum is put together the next one begins
  const std::optional<TileProgram> terms_;
  const TileProgram results_;
  const size_t numbers_, out_bytes_;
  const float scale_;
  const int threads_;
};

// The axes of x that do not fall together, by descending stride. `reduced` marks those that are; `kept` has the sizes
// of x with 1 there. `x` is not padded; the result is row-major. Images of a batch do not fall together, so that
// elements are joined in one order wherever their channels lie.
std::vector<ReduceAxis> AxesOf(const Layout& x, const std::vector<bool>& reduced, const Shape& kept) {
  Layout out{x.dims, Layout::RowMajor(kept).strides, 0};  // the number that each element of x goes to
  for (size_t k = 0; k < reduced.size(); ++k) {
    if (reduced[k]) out.strides[k] = 0;
  }
  int64_t image = 1;
  for (size_t k = 2; k < reduced.size(); ++k) image *= reduced[k] ? x.dims[k] : 0;
  std::vector<ReduceAxis> axes;
  for (const CopyAxis& axis : CopyAxes(out, x)) {
    const bool joined = axis.from == 0;
    if (joined && image > 1 && !reduced[1] && x.dims[0] > 1 && axis.size == x.dims[0] * image) {
      axes.push_back({x.dims[0], axis.to * image, 0, true});
      axes.push_back({image, axis.to, 0, true});
    } else {
      axes.push_back({axis.size, axis.to, axis.from, joined});
    }
  }
  return axes;
}

struct Sizes {
  Shape kept;  // 1 where reduced
  std::vector<bool> reduced;
};
Sizes SizesOf(const Node& node, const Shape& dims) {
  Sizes sizes{dims, std::vector<bool>(dims.size(), false)};
  for (int64_t axis : Ints(node, "axes")) {
    sizes.reduced[axis] = true;
    sizes.kept[axis] = 1;
  }
  return sizes;
}

Reduction ReductionOf(const Node& node) {
  return node.op == ops::ReduceSum()    ? Reduction::kSum
         : node.op == ops::ReduceMean() ? Reduction::kMean
         : node.op == ops::ReduceMax()  ? Reduction::kMax
                                        : Reduction::kMin;
}

absl::StatusOr<bool> PlanReduce(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0], out{id, 0};
  if (graph.type(out).dtype != DType::kFloat32) return false;
  ASSIGN_OR_RETURN(Place place, lowering.Find(x));
  if (place.layout.IsPadded()) {
    ASSIGN_OR_RETURN(place, lowering.FindRowMajor(x));
  }
  const Sizes sizes = SizesOf(node, graph.type(x).shape);
  std::vector<ReduceAxis> axes = AxesOf(place.layout, sizes.reduced, sizes.kept);
  lowering.Emit(std::make_unique<ReduceKernel>(ReductionOf(node), std::move(axes), std::nullopt, lowering.threads()),
                {Lowering::Read(place.buffer), lowering.WriteRowMajor(out)}, node.op->name);
  return true;
}

// A reduction of what pointwise nodes give.
absl::StatusOr<bool> PlanFused(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kReduce) return false;
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes.back();
  const Node& node = graph.node(id);
  const Value x = node.operands[0], out{id, 0};
  Group pointwise = group.group;
  pointwise.nodes.pop_back();
  pointwise.outputs = {x};
  const auto layout_of = [&](Value value) -> std::optional<Layout> {
    if (lowering.IsConstant(value)) return std::nullopt;
    const absl::StatusOr<Place> place = lowering.Find(value);
    return place.ok() ? std::optional(place->layout) : std::nullopt;
  };
  const Sizes sizes = SizesOf(node, graph.type(x).shape);
  const Layout layout = LayoutOfMost(graph, pointwise, graph.type(x).shape, layout_of);
  ASSIGN_OR_RETURN(PlannedProgram planned, PlanProgram(lowering, pointwise, layout));
  std::vector<ReduceAxis> axes = AxesOf(layout, sizes.reduced, sizes.kept);
  const std::optional<TileJoin> join = IsByRows(axes) ? std::optional(JoinOf(ReductionOf(node))) : std::nullopt;
  ASSIGN_OR_RETURN(TileProgram program, TileProgram::Make(planned.program, planned.layouts, layout, {-1}, join));
  planned.buffers.push_back(lowering.WriteRowMajor(out));
  lowering.Emit(
      std::make_unique<ReduceKernel>(ReductionOf(node), std::move(axes), std::move(program), lowering.threads()),
      std::move(planned.buffers), GroupLabel(graph, group.group));
  return true;
}

absl::StatusOr<bool> PlanRows(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kRows) return false;
  const Graph& graph = lowering.graph();
  const RowParts parts = RowPartsOf(graph, group);
  const Node& reduction = graph.node(group.reduction);
  const Layout layout = Layout::RowMajor(graph.type(reduction.operands[0]).shape);
  std::vector<BufferUse> buffers;
  std::optional<TileProgram> terms;
  // A group of this kind is only made if it is worth compiling as a whole.
  constexpr int64_t kAlways = 0;
  if (parts.terms.nodes.empty()) {
    ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadRowMajor(reduction.operands[0]));
  } else {
    ASSIGN_OR_RETURN(const PlannedProgram planned, PlanProgram(lowering, parts.terms, layout));
    ASSIGN_OR_RETURN(terms, TileProgram::Make(planned.program, planned.layouts, layout, {-1},
                                              JoinOf(ReductionOf(reduction)), kAlways));
    buffers = planned.buffers;
  }
  const Layout of_numbers = Layout::RowMajor(graph.type(parts.row.value).shape);
  const int numbers = lowering.AddScratch(lowering.Bytes(parts.row.value, of_numbers));
  lowering.DefineAt(parts.row.value, numbers, of_numbers);
  ASSIGN_OR_RETURN(PlannedProgram planned, PlanProgram(lowering, parts.results, layout, &parts.row));
  const std::vector<int> over = PlaceResults(lowering, parts.results.outputs, planned);
  ASSIGN_OR_RETURN(TileProgram results,
                   TileProgram::Make(planned.program, planned.layouts, layout, over, std::nullopt, kAlways));
  const auto read = std::find_if(planned.operands.begin(), planned.operands.end(),
                                 [&](const ProgramOperand& operand) { return operand.place.buffer == numbers; });
  CHECK(read != planned.operands.end());
  const auto number = static_cast<size_t>(read - planned.operands.begin());
  planned.buffers[number] = Lowering::Scratch(numbers);
  buffers.insert(buffers.end(), planned.buffers.begin(), planned.buffers.end());
  lowering.Emit(std::make_unique<RowsKernel>(ReductionOf(reduction), parts.rows, parts.size, std::move(terms),
                                             std::move(results), number, lowering.threads()),
                std::move(buffers), GroupLabel(graph, group.group));
  return true;
}

}  // namespace

KernelEntry RowsEntry() { return {.ops = {}, .plan = PlanRows}; }
KernelEntry ReduceEntry() {
  return {.ops = {ops::ReduceSum(), ops::ReduceMean(), ops::ReduceMax(), ops::ReduceMin()},
          .plan = PlanReduce,
          .version = 4};
}
KernelEntry FusedReduceEntry() { return {.ops = {}, .plan = PlanFused, .version = 3}; }

}  // namespace rewright::cpu
