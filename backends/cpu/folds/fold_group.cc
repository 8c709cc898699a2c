// Block programs of folds (core/fold/block_program.h): an iteration is a strip of rows and a block of the loop, whose
// values lie in the first level of cache. Right factors of products are packed into panels once, for all rows, and as
// long as the loop is; nothing else grows with it.
//
// Threads share the parallel positions and blocks of rows. A block of the loop serves all strips of a block of rows.
//
// Where a result or a number that was carried is not finite, the strip is computed anew, one pass for each carried
// number with the final values of those before it: as the operators say, without repairs. So rows that begin with
// -infinity throughout a block are exact.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/folds/fold_plan.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

using BlockValue = BlockProgram::Value;
using ValueKind = BlockProgram::Value::Kind;

class FoldKernel : public Kernel {
 public:
  explicit FoldKernel(FoldPlan plan) : plan_(std::move(plan)) {}

  // Buffers: the operands, scratch space, the result.
  absl::Status Run(void* const* buffers, RunContext&) const override {
    float* const scratch = static_cast<float*>(buffers[plan_.num_operands]);
    for (const PackedFold& factor : plan_.packed) {
      const int64_t blocks = plan_.blocks(), matrices = static_cast<int64_t>(factor.starts.size());
      ForEach(matrices * blocks, plan_.threads,
              [&](int64_t unit) { Pack(factor, buffers, scratch, unit / blocks, unit % blocks); });
    }
    ForParts(plan_.tasks(), plan_.threads, [&](int64_t begin, int64_t end) {
      Worker worker(plan_, buffers, scratch, omp_get_thread_num());
      for (int64_t task = begin; task < end; ++task) {
        worker.RunTask(task / plan_.row_blocks(), task % plan_.row_blocks() * plan_.row_block);
      }
    });
    return absl::OkStatus();
  }

 private:
  void Pack(const PackedFold& factor, void* const* buffers, float* scratch, int64_t matrix, int64_t block) const {
    const FoldRead& read = plan_.reads[static_cast<size_t>(factor.value)];
    const int64_t first = block * plan_.loop_block, count = std::min(plan_.loop_block, plan_.loop - first);
    const float* const from = static_cast<const float*>(buffers[read.operand]) +
                              factor.starts[static_cast<size_t>(matrix)] + first * read.loop;
    float* const to = scratch + factor.offset + (matrix * plan_.blocks() + block) * factor.floats;
    if (factor.along_depth) {
      PackMatmulWeights(from, count, factor.columns, read.loop, read.column, to);
    } else {
      PackMatmulWeights(from, factor.depth, count, read.inner, read.loop, to);
    }
  }

  // One thread: its part of the scratch space, and the strip and block at which it is.
  class Worker {
   public:
    Worker(const FoldPlan& plan, void* const* buffers, float* scratch, int thread)
        : plan_(plan),
          values_(plan.program.values),
          buffers_(buffers),
          scratch_(scratch),
          own_(scratch + plan.packed_floats + thread * plan.thread_floats),
          views_(values_.size()) {
      for (const FoldSlots& slots : plan_.slots) {
        for (size_t v = 0; v < values_.size(); ++v) {
          if (values_[v].kind != ValueKind::kNumber || slots.at[v] < 0) continue;
          std::fill_n(own_ + slots.at[v], plan_.FillFloats(), plan_.numbers[v]);
        }
      }
    }

    void RunTask(int64_t point, int64_t first_row) {
      point_ = point;
      const int64_t rows = std::min(plan_.row_block, plan_.rows - first_row);
      const auto for_strips = [&](const auto& f) {
        for (int64_t row = 0; row < rows; row += plan_.strip) {
          in_block_ = row;
          first_row_ = first_row + row;
          count_rows_ = std::min(plan_.strip, rows - row);
          f();
        }
      };
      for (int64_t block = 0; block < plan_.blocks(); ++block) {
        for_strips([&] {
          SetBlock(block);
          for (size_t k = 0; k < plan_.program.steps.size(); ++k) RunStep(k, /*repairs=*/true);
          Advance();
        });
      }
      for_strips([&] {
        if (!Finish()) {
          for (size_t k = 0; k < plan_.program.steps.size(); ++k) {
            for (int64_t block = 0; block < plan_.blocks(); ++block) {
              SetBlock(block);
              RunStep(k, /*repairs=*/false);
            }
          }
          Finish();
        }
        Store();
      });
    }

   private:
    // The elements of a value: a row of them every `row` elements, 0 where all rows are the same.
    struct View {
      char* data = nullptr;
      int64_t row = 0, element_bytes = 4;
      char* At(int64_t r) const { return data + r * row * element_bytes; }
    };

    void SetBlock(int64_t block) {
      block_ = block;
      first_ = block * plan_.loop_block;
      count_ = std::min(plan_.loop_block, plan_.loop - first_);
    }

    static unsigned InnerOf(unsigned axes) {
      if (axes & (kLoopAxis | kColumnAxis)) return axes & (kLoopAxis | kColumnAxis);
      return axes & kRowAxis;
    }
    int64_t CountOf(unsigned axes) const {
      if (axes & kLoopAxis) return count_;
      if (axes & kColumnAxis) return plan_.columns;
      return axes & kRowAxis ? count_rows_ : plan_.FillFloats();
    }
    int64_t RowsOf(unsigned axes) const { return FoldPlan::HasRows(axes) ? count_rows_ : 1; }

    float* Before(size_t carried) const { return Carried(plan_.before, carried); }
    float* Behind(size_t carried) const { return Carried(plan_.behind, carried); }
    float* Carried(const std::vector<int64_t>& offsets, size_t carried) const {
      const bool columns = (plan_.program.steps[carried].axes & kColumnAxis) != 0;
      return own_ + offsets[carried] + in_block_ * (columns ? plan_.column_floats : 1);
    }

    View ViewOf(int v) const {
      const BlockValue& value = values_[static_cast<size_t>(v)];
      if (value.kind != ValueKind::kOld && value.kind != ValueKind::kNew) return views_[static_cast<size_t>(v)];
      const auto carried = static_cast<size_t>(value.carried);
      float* const data = value.kind == ValueKind::kOld ? Before(carried) : Behind(carried);
      return {reinterpret_cast<char*>(data), value.axes & kColumnAxis ? plan_.column_floats : 0};
    }

    void Compute(const std::vector<int>& order, int phase) {
      for (const int v : order) Compute(v, own_ + plan_.slots[phase].at[static_cast<size_t>(v)]);
    }

    void Compute(int v, float* slot) {
      const BlockValue& value = values_[static_cast<size_t>(v)];
      View& view = views_[static_cast<size_t>(v)];
      view = {reinterpret_cast<char*>(slot), FoldPlan::HasRows(value.axes) ? plan_.LineOf(value.axes) : 0,
              static_cast<int64_t>(DTypeSize(value.dtype))};
      switch (value.kind) {
        case ValueKind::kRead: return Read(v, slot, &view);
        case ValueKind::kProduct: return Product(v, slot, view.row);
        case ValueKind::kCall: return Call(value, view);
        case ValueKind::kSelect: return Apply(Simd().f32[kTileSelect], nullptr, value, view);
        default: return;  // numbers are there
      }
    }

    // In place where the elements lie side by side.
    void Read(int v, float* slot, View* view) const {
      const BlockValue& value = values_[static_cast<size_t>(v)];
      const FoldRead& read = plan_.reads[static_cast<size_t>(v)];
      const int64_t bytes = read.element_bytes;
      char* const from = static_cast<char*>(buffers_[read.operand]) +
                         (read.starts[static_cast<size_t>(point_)] + first_row_ * read.row +
                          (value.axes & kLoopAxis ? first_ * read.loop : 0)) *
                             bytes;
      const unsigned inner = InnerOf(value.axes);
      const int64_t step = inner == kLoopAxis     ? read.loop
                           : inner == kColumnAxis ? read.column
                           : inner == kRowAxis    ? read.row
                                                  : 0;
      const int64_t count = CountOf(value.axes);
      if (inner != 0 && (step == 1 || count == 1)) {
        view->data = from;
        view->row = FoldPlan::HasRows(value.axes) ? read.row : 0;
        return;
      }
      for (int64_t r = 0; r < RowsOf(value.axes); ++r) {
        char* const to = reinterpret_cast<char*>(slot) + r * view->row * bytes;
        const char* const line = from + r * read.row * bytes;
        if (bytes == 1) {
          for (int64_t i = 0; i < count; ++i) to[i] = line[i * step];
        } else {
          const float* const floats = reinterpret_cast<const float*>(line);
          for (int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(to)[i] = floats[i * step];
        }
      }
    }

    void Product(int v, float* slot, int64_t row) const {
      const BlockValue& value = values_[static_cast<size_t>(v)];
      const FoldRead& left = plan_.reads[static_cast<size_t>(value.args[0])];
      const PackedFold& right = plan_.packed[static_cast<size_t>(plan_.packed_of[static_cast<size_t>(v)])];
      const float* const a = static_cast<const float*>(buffers_[left.operand]) +
                             left.starts[static_cast<size_t>(point_)] + first_row_ * left.row;
      Multiply(a, left.row, left.inner, PanelsOf(right), right.depth, slot, row, count_, false);
    }

    const float* PanelsOf(const PackedFold& factor) const {
      const int64_t matrix = factor.slots[static_cast<size_t>(point_)];
      return scratch_ + factor.offset + (matrix * plan_.blocks() + block_) * factor.floats;
    }

    void Multiply(const float* a, int64_t a_row, int64_t a_step, const float* panels, int64_t depth, float* c,
                  int64_t c_row, int64_t columns, bool accumulate) const {
      const SimdTable& simd = Simd();
      const int64_t width = simd.gemm_columns;
      for (int64_t first = 0; first < columns; first += width) {
        for (int64_t row = 0; row < count_rows_; row += simd.gemm_rows) {
          simd.gemm_block(a + row * a_row, a_row, a_step, panels + first * depth, depth, c + row * c_row + first, c_row,
                          std::min<int64_t>(simd.gemm_rows, count_rows_ - row), std::min(width, columns - first),
                          accumulate, nullptr, nullptr, 0);
        }
      }
    }

    void Call(const BlockValue& value, const View& to) const {
      const int fn = static_cast<int>(value.fn);
      Apply(Simd().f32[fn], value.args.size() == 2 ? Simd().f32_by_number[fn] : nullptr, value, to);
    }

    void Apply(TileFn fn, TileFn by_number, const BlockValue& value, const View& to) const {
      const int64_t count = CountOf(value.axes);
      const unsigned inner = InnerOf(value.axes);
      View args[3];
      bool fills[3] = {};  // a row repeats one element
      for (size_t k = 0; k < value.args.size(); ++k) {
        const unsigned axes = values_[static_cast<size_t>(value.args[k])].axes;
        args[k] = ViewOf(value.args[k]);
        fills[k] = axes != 0 && (axes & inner) == 0;
        if (fills[k]) args[k].row = 1;
      }
      const bool number =
          !fills[0] && by_number != nullptr && (fills[1] || values_[static_cast<size_t>(value.args[1])].axes == 0);
      const int64_t rows = RowsOf(value.axes);
      bool together = rows > 1 && count == to.row;  // rows lie behind one another
      for (size_t k = 0; k < value.args.size(); ++k) {
        const bool repeats = number && k == 1 && args[k].row == 0;
        together = together && (repeats || (args[k].row == count && args[k].element_bytes == 4 && !fills[k]));
      }
      if (together) return (number ? by_number : fn)(to.data, args[0].data, args[1].data, args[2].data, rows * count);
      for (int64_t r = 0; r < rows; ++r) {
        const void* at[3] = {};
        for (size_t k = 0; k < value.args.size(); ++k) {
          at[k] = args[k].At(r);
          if (!fills[k] || (number && k == 1)) continue;
          float* const line = own_ + plan_.fills[k];
          if (args[k].element_bytes == 1) {
            std::memset(line, *static_cast<const char*>(at[k]), static_cast<size_t>(count));
          } else {
            std::fill_n(line, count, *static_cast<const float*>(at[k]));
          }
          at[k] = line;
        }
        (number ? by_number : fn)(to.At(r), at[0], at[1], at[2], count);
      }
    }

    static int JoinOf(ReduceKind kind) {
      return kind == ReduceKind::kSum ? kJoinSum : kind == ReduceKind::kMax ? kJoinMax : kJoinMin;
    }

    // Reduces the body along the block, to one number a row: a step whose number has no columns.
    void Reduce(const BlockProgram::Step& step, float* numbers) const {
      const unsigned axes = values_[static_cast<size_t>(step.body)].axes;
      const View body = ViewOf(step.body);
      const int join = JoinOf(step.kind);
      float* const joins = own_ + plan_.joins;
      const bool rows = (axes & kRowAxis) != 0;
      for (int64_t r = 0; r < (rows ? count_rows_ : 1); ++r) {
        if (axes & kLoopAxis) {
          Simd().start_join[join](joins);
          Simd().join_row[join](joins, reinterpret_cast<const float*>(body.At(r)), count_);
          numbers[r] = Simd().join_all[join](joins);
        } else {
          const float once = reinterpret_cast<const float*>(body.data)[rows ? r : 0];
          numbers[r] = step.kind == ReduceKind::kSum ? once * static_cast<float>(count_) : once;
        }
      }
      if (!rows) std::fill_n(numbers + 1, count_rows_ - 1, numbers[0]);
    }

    void RunStep(size_t k, bool repairs) {
      const BlockProgram::Step& step = plan_.program.steps[k];
      const bool first = block_ == 0;
      Compute(repairs ? step.values : step.all_values, 0);
      const bool repaired = repairs && !first && step.repair >= 0;
      if (repaired) Compute(step.repair_values, 0);
      float* const to = Behind(k);
      if (step.factor < 0) {
        float* const numbers = first ? to : own_ + plan_.block_numbers;
        Reduce(step, numbers);
        if (first) return;
        const View before = repaired ? ViewOf(step.repair) : View();
        const void* const from = repaired ? before.data : reinterpret_cast<char*>(repairs ? Before(k) : to);
        const TileOp join = step.kind == ReduceKind::kSum   ? kTileAdd
                            : step.kind == ReduceKind::kMax ? kTileMax
                                                            : kTileMin;
        Simd().f32[join](to, from, numbers, nullptr, count_rows_);
        return;
      }
      if (repaired) {
        const View view = ViewOf(step.repair);
        for (int64_t r = 0; r < count_rows_; ++r) {
          std::memmove(to + r * plan_.column_floats, view.At(r), static_cast<size_t>(plan_.columns) * sizeof(float));
        }
      }
      const View body = ViewOf(step.body);
      const int64_t factor = plan_.packed_of[static_cast<size_t>(step.factor)];
      Multiply(reinterpret_cast<const float*>(body.data), body.row, 1,
               PanelsOf(plan_.packed[static_cast<size_t>(factor)]), count_, to, plan_.column_floats, plan_.columns,
               !first);
    }

    void Advance() const {
      for (size_t k = 0; k < plan_.program.steps.size(); ++k) {
        if (plan_.program.steps[k].factor < 0) std::copy_n(Behind(k), count_rows_, Before(k));
      }
    }

    // Computes the element; false where it, or a number that it is computed from, is not finite.
    bool Finish() {
      ComputeElement();
      const auto IsFinite = Simd().row_is_finite;
      bool finite = true;
      for (size_t k = 0; k < plan_.program.steps.size(); ++k) {
        if (plan_.program.steps[k].factor < 0) {
          finite = finite && IsFinite(Behind(k), count_rows_);
          continue;
        }
        for (int64_t r = 0; r < count_rows_; ++r) {
          finite = finite && IsFinite(Behind(k) + r * plan_.column_floats, plan_.columns);
        }
      }
      const unsigned axes = values_[static_cast<size_t>(plan_.program.element)].axes;
      const View element = ViewOf(plan_.program.element);
      for (int64_t r = 0; r < RowsOf(axes); ++r) {
        finite = finite && IsFinite(reinterpret_cast<const float*>(element.At(r)), CountOf(axes));
      }
      return finite;
    }

    float* Out() const {
      return static_cast<float*>(buffers_[plan_.num_operands + 1]) + plan_.out.starts[static_cast<size_t>(point_)] +
             first_row_ * plan_.out.row;
    }

    // Where the columns of the result lie side by side, the last operation writes them.
    void ComputeElement() {
      const BlockProgram& program = plan_.program;
      const BlockValue& element = values_[static_cast<size_t>(program.element)];
      in_place_ = element.kind == ValueKind::kCall && (element.axes & kColumnAxis) && plan_.out.column == 1 &&
                  (element.axes & kRowAxis);
      for (const int v : program.element_values) {
        if (in_place_ && v == program.element) {
          View& view = views_[static_cast<size_t>(v)];
          view = {reinterpret_cast<char*>(Out()), plan_.out.row};
          Call(element, view);
        } else {
          Compute(v, own_ + plan_.slots[1].at[static_cast<size_t>(v)]);
        }
      }
    }

    void Store() const {
      if (in_place_) return;
      const unsigned axes = values_[static_cast<size_t>(plan_.program.element)].axes;
      const View element = ViewOf(plan_.program.element);
      float* const out = Out();
      const bool by_column = axes == 0 || (axes & kColumnAxis) != 0;
      for (int64_t r = 0; r < count_rows_; ++r) {
        const float* const from = by_column ? reinterpret_cast<const float*>(element.At(r))
                                            : reinterpret_cast<const float*>(element.data) + r;
        float* const to = out + r * plan_.out.row;
        if (by_column && plan_.out.column == 1) {
          std::memcpy(to, from, static_cast<size_t>(plan_.columns) * sizeof(float));
        } else {
          for (int64_t i = 0; i < plan_.columns; ++i) to[i * plan_.out.column] = from[by_column ? i : 0];
        }
      }
    }

    const FoldPlan& plan_;
    const std::vector<BlockValue>& values_;
    void* const* const buffers_;
    float* const scratch_;
    float* const own_;
    std::vector<View> views_;
    int64_t point_ = 0;                                      // parallel
    int64_t in_block_ = 0, first_row_ = 0, count_rows_ = 0;  // the strip: from the block's first row, from the first
    int64_t block_ = 0, first_ = 0, count_ = 0;              // of the loop
    bool in_place_ = false;                                  // the element was written where the result lies
  };

  const FoldPlan plan_;
};

std::vector<std::string> FoldLaws(const DnnlContext& context, const Graph&, const FusedGroup& group) {
  if (context.allowed_rewrites == nullptr || group.kind != FusedGroup::Kind::kFold) return {};
  return {kFoldLaw};
}

// It lies as that of its last part does.
std::optional<Layout> FoldLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kFold) return std::nullopt;
  return ProductLayout(query.graph, query.group.parts.back(), query.value);
}

absl::StatusOr<bool> PlanFoldGroup(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kFold) return false;
  const Graph& graph = lowering.graph();
  const Value out = group.group.outputs[0];
  std::vector<Layout> layouts;
  std::vector<BufferUse> buffers;
  for (const int input : group.fold->inputs) {
    ASSIGN_OR_RETURN(const Place place, lowering.FindPlain(group.group.inputs[static_cast<size_t>(input)]));
    layouts.push_back(place.layout);
    buffers.push_back(Lowering::Read(place.buffer));
  }
  const Layout layout = lowering.LayoutOf(group, out);
  FoldPlan plan = PlanFold(*group.fold, layouts, layout, lowering.threads());
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(static_cast<size_t>(plan.scratch_floats()) * sizeof(float))));
  buffers.push_back(Lowering::Write(lowering.Define(out, layout).buffer));
  lowering.Emit(std::make_unique<FoldKernel>(std::move(plan)), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (by ", kFoldLaw, ")"));
  return true;
}

}  // namespace

KernelEntry FoldGroupEntry() { return {.ops = {}, .plan = PlanFoldGroup, .layout = FoldLayout, .laws = FoldLaws}; }

}  // namespace rewright::cpu
