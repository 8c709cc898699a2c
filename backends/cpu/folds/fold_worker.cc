#include "backends/cpu/folds/fold_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/folds/fold_packing.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

using ValueKind = BlockProgram::Value::Kind;

FoldWorker::FoldWorker(const FoldPlan& plan, void* const* buffers, float* scratch, int thread)
    : plan_(plan),
      values_(plan.program.values),
      buffers_(buffers),
      scratch_(scratch),
      own_(scratch + plan.packed_floats + thread * plan.thread_floats),
      split_(plan.splits ? SplitProducts() : nullptr),
      views_(values_.size()) {
  if (split_ != nullptr) split_->begin();
  for (const FoldSlots& slots : plan_.slots) {
    for (size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].kind != ValueKind::kNumber || slots.at[v] < 0) continue;
      std::fill_n(own_ + slots.at[v], plan_.FillFloats(), plan_.numbers[v]);
    }
  }
}

FoldWorker::~FoldWorker() {
  if (split_ != nullptr) split_->end();
}

bool FoldWorker::RunTask(int64_t point, int64_t first_row) {
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
  bool is_exact = true;
  if (split_ != nullptr) for_strips([&] { is_exact = SplitLeft() && is_exact; });
  if (plan_.skips) for_strips([&] { BoundLeft(); });
  if (!is_exact) return false;
  for (int64_t block = 0; block < plan_.blocks(); ++block) {
    for_strips([&] {
      SetBlock(block);
      if (plan_.skips && block > 0 && IsUnchanged()) return;
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
  return true;
}

void FoldWorker::SetBlock(int64_t block) {
  block_ = block;
  first_ = block * plan_.loop_block;
  count_ = std::min(plan_.loop_block, plan_.loop - first_);
}

unsigned FoldWorker::InnerOf(unsigned axes) {
  if (axes & (kLoopAxis | kColumnAxis)) return axes & (kLoopAxis | kColumnAxis);
  return axes & kRowAxis;
}

int64_t FoldWorker::CountOf(unsigned axes) const {
  if (axes & kLoopAxis) return count_;
  if (axes & kColumnAxis) return plan_.columns;
  return axes & kRowAxis ? count_rows_ : plan_.FillFloats();
}

float* FoldWorker::Carried(const std::vector<int64_t>& offsets, size_t carried) const {
  const bool columns = (plan_.program.steps[carried].axes & kColumnAxis) != 0;
  return own_ + offsets[carried] + in_block_ * (columns ? plan_.column_floats : 1);
}

FoldWorker::View FoldWorker::ViewOf(int v) const {
  const BlockValue& value = values_[static_cast<size_t>(v)];
  if (value.kind != ValueKind::kOld && value.kind != ValueKind::kNew) return views_[static_cast<size_t>(v)];
  const auto carried = static_cast<size_t>(value.carried);
  float* const data = value.kind == ValueKind::kOld ? Before(carried) : Behind(carried);
  return {reinterpret_cast<char*>(data), value.axes & kColumnAxis ? plan_.column_floats : 0};
}

void FoldWorker::Compute(const std::vector<int>& order, int phase) {
  for (const int v : order) Compute(v, own_ + plan_.slots[phase].at[static_cast<size_t>(v)]);
}

void FoldWorker::Compute(int v, float* slot) {
  const BlockValue& value = values_[static_cast<size_t>(v)];
  View& view = views_[static_cast<size_t>(v)];
  view = {reinterpret_cast<char*>(slot), FoldPlan::HasRows(value.axes) ? plan_.LineOf(value.axes) : 0,
          static_cast<int64_t>(DTypeSize(value.dtype))};
  if (const int same = plan_.skips ? SameAs(value, slot) : -1; same >= 0) {
    view = ViewOf(same);
    return;
  }
  switch (value.kind) {
    case ValueKind::kRead: return Read(v, slot, &view);
    case ValueKind::kProduct: return Product(v, slot, view.row);
    case ValueKind::kCall: return v == sum_of_ ? ExpRows(value, view, sums_) : Call(value, view);
    case ValueKind::kSelect: return Apply(Simd().f32[kTileSelect], nullptr, value, view);
    default: return;  // numbers are there
  }
}

int FoldWorker::SameAs(const BlockValue& value, const float* slot) const {
  const bool adds = value.kind == ValueKind::kCall && value.fn == Fn::kAdd;
  if (!(value.axes & kLoopAxis) || (!adds && value.kind != ValueKind::kSelect)) return -1;
  int same = -1;
  const auto range_of = [&](int arg) {
    return values_[static_cast<size_t>(arg)].kind == ValueKind::kRead ? RangeOfLeaf(static_cast<size_t>(arg)) : Range();
  };
  if (adds) {
    same = range_of(value.args[1]).IsOnly(0) ? value.args[0] : range_of(value.args[0]).IsOnly(0) ? value.args[1] : -1;
  } else {
    const Range condition = range_of(value.args[0]);
    same = condition.IsOnly(1) ? value.args[1] : condition.IsOnly(0) ? value.args[2] : -1;
  }
  if (same < 0 || values_[static_cast<size_t>(same)].axes != value.axes) return -1;
  const int64_t place = plan_.slots[0].at[static_cast<size_t>(same)];
  return place >= 0 && own_ + place == slot ? same : -1;
}

void FoldWorker::Read(int v, float* slot, View* view) const {
  const BlockValue& value = values_[static_cast<size_t>(v)];
  const FoldRead& read = plan_.reads[static_cast<size_t>(v)];
  const int64_t bytes = read.element_bytes;
  char* const from =
      static_cast<char*>(buffers_[read.operand]) + (read.starts[static_cast<size_t>(point_)] + first_row_ * read.row +
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

void FoldWorker::Product(int v, float* slot, int64_t row) const {
  const BlockValue& value = values_[static_cast<size_t>(v)];
  const PackedFold& right = plan_.packed[static_cast<size_t>(plan_.packed_of[static_cast<size_t>(v)])];
  if (split_ != nullptr) {
    return MultiplyParts(LeftParts(static_cast<size_t>(v)), PanelsOf(right), right.depth, slot, row, count_, false);
  }
  const FoldRead& left = plan_.reads[static_cast<size_t>(value.args[0])];
  Multiply(LeftAt(left), left.row, left.inner, PanelsOf(right), right.depth, slot, row, count_, false);
}

const float* FoldWorker::LeftAt(const FoldRead& left) const {
  return static_cast<const float*>(buffers_[left.operand]) + left.starts[static_cast<size_t>(point_)] +
         first_row_ * left.row;
}

uint16_t* FoldWorker::LeftParts(size_t product) const {
  const int64_t depth = plan_.packed[static_cast<size_t>(plan_.packed_of[product])].depth;
  return reinterpret_cast<uint16_t*>(own_ + plan_.left_parts[product] +
                                     in_block_ / plan_.strip * FoldPlan::LeftPartFloats(depth));
}

bool FoldWorker::SplitLeft() const {
  bool is_exact = true;
  int* const most = Magnitudes(plan_.left_most);
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].kind != ValueKind::kProduct) continue;
    const FoldRead& left = plan_.reads[static_cast<size_t>(values_[v].args[0])];
    const int64_t depth = plan_.packed[static_cast<size_t>(plan_.packed_of[v])].depth;
    std::fill_n(most, count_rows_ * kLineFloats, 0);
    split_->split_rows(LeftAt(left), left.row, left.inner, plan_.left_factors[v], count_rows_, depth, LeftParts(v),
                       most);
    is_exact = is_exact && split_->are_within(most, count_rows_, SplitTable::kLeastLeft, SplitTable::kLargest);
  }
  return is_exact;
}

void FoldWorker::BoundLeft() const {
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].kind != ValueKind::kProduct) continue;
    const FoldRead& left = plan_.reads[static_cast<size_t>(values_[v].args[0])];
    const int64_t depth = plan_.packed[static_cast<size_t>(plan_.packed_of[v])].depth;
    const Range range = RangeOf(LeftAt(left), count_rows_, depth, left.row, left.inner);
    *LeftBound(v) = GreatestOf(range) * std::abs(plan_.left_factors[v]);
  }
}

bool FoldWorker::IsUnchanged() const {
  const auto of_value = [&](int v) { return RangeOfLeaf(static_cast<size_t>(v)); };
  const auto of_carried = [&](int carried) {
    const auto k = static_cast<size_t>(carried);
    if (plan_.program.steps[k].factor >= 0) return Range();
    return RangeOf(Behind(k), 1, count_rows_, 0, 1);
  };
  return LeavesAllUnchanged(plan_.program, {of_value, of_carried});
}

Range FoldWorker::RangeOfLeaf(size_t v) const {
  const BlockValue& value = values_[v];
  if (value.kind == ValueKind::kNumber) return {plan_.numbers[v], plan_.numbers[v]};
  if (const int packed = plan_.packed_of[v]; packed >= 0) {
    const PackedFold& factor = plan_.packed[static_cast<size_t>(packed)];
    float most = scratch_[factor.most + factor.slots[static_cast<size_t>(point_)] * plan_.blocks() + block_];
    // No sum of products is greater, rounding included.
    if (value.kind == ValueKind::kProduct) most *= *LeftBound(v) * static_cast<float>(factor.depth) * 1.01f;
    return {-most, most};
  }
  for (const RangedRead& read : plan_.ranged) {
    if (read.value != static_cast<int>(v)) continue;
    const int64_t strip = read.slots[static_cast<size_t>(point_)] * plan_.strips() + first_row_ / plan_.strip;
    const float* const at = scratch_ + read.offset + 2 * (strip * plan_.blocks() + block_);
    return {at[0], at[1]};
  }
  return {};
}

void FoldWorker::MultiplyParts(const uint16_t* parts, const float* panels, int64_t depth, float* c, int64_t c_row,
                               int64_t columns, bool accumulate) const {
  const int64_t steps = FoldPlan::SplitSteps(depth);
  for (int64_t first = 0; first < columns; first += SplitTable::kColumns) {
    split_->block(parts, count_rows_, reinterpret_cast<const uint16_t*>(panels), steps, c + first, c_row,
                  std::min(SplitTable::kColumns, columns - first), accumulate, nullptr, 0);
    panels += steps * FoldPlan::kStepFloats;
  }
}

const float* FoldWorker::PanelsOf(const PackedFold& factor) const {
  const int64_t matrix = factor.slots[static_cast<size_t>(point_)];
  return scratch_ + factor.offset + (matrix * plan_.blocks() + block_) * factor.floats;
}

void FoldWorker::Multiply(const float* a, int64_t a_row, int64_t a_step, const float* panels, int64_t depth, float* c,
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

bool FoldWorker::IsExpOfRows(const BlockValue& value) const {
  return value.kind == ValueKind::kCall && value.fn == Fn::kExp && value.args.size() == 2 &&
         FoldPlan::HasRows(value.axes) && IsNumberOfRow(value.args[1]);
}

void FoldWorker::ExpRows(const BlockValue& value, const View& to, float* sums) const {
  const View a = ViewOf(value.args[0]), b = ViewOf(value.args[1]);
  const auto floats = [](const View& view) { return reinterpret_cast<float*>(view.data); };
  Simd().exp_rows(floats(to), to.row, floats(a), a.row, floats(b),
                  values_[static_cast<size_t>(value.args[1])].axes == 0 ? 0 : 1, sums, count_rows_,
                  CountOf(value.axes));
}

void FoldWorker::Call(const BlockValue& value, const View& to) const {
  if (IsExpOfRows(value)) return ExpRows(value, to, nullptr);
  const int fn = static_cast<int>(value.fn);
  Apply(Simd().f32[fn], value.args.size() == 2 ? Simd().f32_by_number[fn] : nullptr, value, to);
}

void FoldWorker::Apply(TileFn fn, TileFn by_number, const BlockValue& value, const View& to) const {
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
  if (number && args[0].element_bytes == 4) {
    const auto floats = [](const View& view) { return reinterpret_cast<float*>(view.data); };
    return Simd().f32_by_numbers[static_cast<int>(value.fn)](floats(to), to.row, floats(args[0]), args[0].row,
                                                             floats(args[1]), args[1].row, rows, count);
  }
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

int FoldWorker::JoinOf(ReduceKind kind) {
  return kind == ReduceKind::kSum ? kJoinSum : kind == ReduceKind::kMax ? kJoinMax : kJoinMin;
}

void FoldWorker::Reduce(const BlockProgram::Step& step, float* numbers) const {
  const unsigned axes = values_[static_cast<size_t>(step.body)].axes;
  const View body = ViewOf(step.body);
  const bool rows = (axes & kRowAxis) != 0;
  const float* const from = reinterpret_cast<const float*>(body.data);
  if (axes & kLoopAxis) {
    Simd().join_rows[JoinOf(step.kind)](numbers, from, body.row, rows ? count_rows_ : 1, count_);
  } else {
    for (int64_t r = 0; r < (rows ? count_rows_ : 1); ++r) {
      const float once = from[rows ? r : 0];
      numbers[r] = step.kind == ReduceKind::kSum ? once * static_cast<float>(count_) : once;
    }
  }
  if (!rows) std::fill_n(numbers + 1, count_rows_ - 1, numbers[0]);
}

void FoldWorker::RunStep(size_t k, bool repairs) {
  const BlockProgram::Step& step = plan_.program.steps[k];
  const bool first = block_ == 0;
  const bool repaired = repairs && !first && step.repair >= 0;
  float* const to = Behind(k);
  if (step.factor >= 0) {
    Compute(repairs ? step.values : step.all_values, 0);
    if (repaired) Repair(k, to);
    return AddProduct(k, to, first, /*anew=*/!repairs);
  }
  float* const numbers = first ? to : own_ + plan_.block_numbers;
  // A sum of what is computed last is taken on the way.
  const std::vector<int>& values = repairs ? step.values : step.all_values;
  const bool on_the_way = !values.empty() && values.back() == step.body && step.kind == ReduceKind::kSum &&
                          IsExpOfRows(values_[static_cast<size_t>(step.body)]) &&
                          (values_[static_cast<size_t>(step.body)].axes & kLoopAxis);
  if (on_the_way) sum_of_ = step.body, sums_ = numbers;
  Compute(values, 0);
  sum_of_ = -1;
  if (repaired) Compute(step.repair_values, 0);
  if (!on_the_way) Reduce(step, numbers);
  if (first) return;
  const View before = repaired ? ViewOf(step.repair) : View();
  const void* const from = repaired ? before.data : reinterpret_cast<char*>(repairs ? Before(k) : to);
  const TileOp join = step.kind == ReduceKind::kSum ? kTileAdd : step.kind == ReduceKind::kMax ? kTileMax : kTileMin;
  Simd().f32[join](to, from, numbers, nullptr, count_rows_);
}

void FoldWorker::Repair(size_t k, float* to) {
  const BlockProgram::Step& step = plan_.program.steps[k];
  for (const int v : step.repair_values) {
    Compute(v, plan_.in_place[k] && v == step.repair ? to : own_ + plan_.slots[0].at[static_cast<size_t>(v)]);
  }
  if (plan_.in_place[k]) return;
  const View view = ViewOf(step.repair);
  for (int64_t r = 0; r < count_rows_; ++r) {
    std::memmove(to + r * plan_.column_floats, view.At(r), static_cast<size_t>(plan_.columns) * sizeof(float));
  }
}

void FoldWorker::AddProduct(size_t k, float* to, bool first, bool anew) const {
  const BlockProgram::Step& step = plan_.program.steps[k];
  const View body = ViewOf(step.body);
  const auto* const left = reinterpret_cast<const float*>(body.data);
  const PackedFold& factor = plan_.packed[static_cast<size_t>(plan_.packed_of[static_cast<size_t>(step.factor)])];
  if (split_ != nullptr && !anew) {
    auto* const parts = reinterpret_cast<uint16_t*>(own_ + plan_.body_parts);
    int* const most = Magnitudes(plan_.body_most[k]) + in_block_ * kLineFloats;
    if (first) std::fill_n(most, count_rows_ * kLineFloats, 0);
    split_->split_rows(left, body.row, 1, 1.0f, count_rows_, count_, parts, most);
    return MultiplyParts(parts, PanelsOf(factor), count_, to, plan_.column_floats, plan_.columns, !first);
  }
  const float* panels = PanelsOf(factor);
  if (split_ != nullptr) {
    const FoldRead& read = plan_.reads[static_cast<size_t>(step.factor)];
    const float* const from = static_cast<const float*>(buffers_[read.operand]) +
                              read.starts[static_cast<size_t>(point_)] + first_ * read.loop;
    PackMatmulWeights(from, count_, plan_.columns, read.loop, read.column, own_ + plan_.anew);
    panels = own_ + plan_.anew;
  }
  Multiply(left, body.row, 1, panels, count_, to, plan_.column_floats, plan_.columns, !first);
}

void FoldWorker::Advance() const {
  for (size_t k = 0; k < plan_.program.steps.size(); ++k) {
    if (plan_.program.steps[k].factor < 0) std::copy_n(Behind(k), count_rows_, Before(k));
  }
}

bool FoldWorker::Finish() {
  ComputeElement();
  const auto IsFinite = Simd().row_is_finite;
  bool finite = true;
  for (size_t k = 0; k < plan_.program.steps.size(); ++k) {
    if (plan_.program.steps[k].factor < 0) {
      finite = finite && IsFinite(Behind(k), count_rows_);
      continue;
    }
    if (split_ != nullptr) {
      const int* const most = Magnitudes(plan_.body_most[k]) + in_block_ * kLineFloats;
      finite = finite && split_->are_within(most, count_rows_, SplitTable::kLeastLeft, SplitTable::kLargest);
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

float* FoldWorker::Out() const {
  return static_cast<float*>(buffers_[plan_.num_operands + 1]) + plan_.out.starts[static_cast<size_t>(point_)] +
         first_row_ * plan_.out.row;
}

void FoldWorker::ComputeElement() {
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

void FoldWorker::Store() const {
  if (in_place_) return;
  const unsigned axes = values_[static_cast<size_t>(plan_.program.element)].axes;
  const View element = ViewOf(plan_.program.element);
  float* const out = Out();
  const bool by_column = axes == 0 || (axes & kColumnAxis) != 0;
  for (int64_t r = 0; r < count_rows_; ++r) {
    const float* const from =
        by_column ? reinterpret_cast<const float*>(element.At(r)) : reinterpret_cast<const float*>(element.data) + r;
    float* const to = out + r * plan_.out.row;
    if (by_column && plan_.out.column == 1) {
      std::memcpy(to, from, static_cast<size_t>(plan_.columns) * sizeof(float));
    } else {
      for (int64_t i = 0; i < plan_.columns; ++i) to[i * plan_.out.column] = from[by_column ? i : 0];
    }
  }
}

}  // namespace rewright::cpu
