// One thread of the kernel of folds (fold_group.cc): runs a block program over its blocks of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/folds/fold_plan.h"
#include "backends/cpu/folds/fold_ranges.h"
#include "backends/cpu/simd/split.h"

namespace rewright::cpu {

// Has its part of the scratch space, and the strip and block at which it is.
class FoldWorker {
 public:
  // Buffers: the operands, scratch space, the result.
  FoldWorker(const FoldPlan& plan, void* const* buffers, float* scratch, int thread);

  FoldWorker(const FoldWorker&) = delete;
  FoldWorker& operator=(const FoldWorker&) = delete;
  ~FoldWorker();

  // False if elements of a left factor are beyond what is exact.
  bool RunTask(int64_t point, int64_t first_row);

 private:
  using BlockValue = BlockProgram::Value;

  // The elements of a value: a row of them every `row` elements, 0 where all rows are the same.
  struct View {
    char* data = nullptr;
    int64_t row = 0, element_bytes = 4;
    char* At(int64_t r) const { return data + r * row * element_bytes; }
  };

  void SetBlock(int64_t block);

  static unsigned InnerOf(unsigned axes);
  int64_t CountOf(unsigned axes) const;
  int64_t RowsOf(unsigned axes) const { return FoldPlan::HasRows(axes) ? count_rows_ : 1; }

  float* Before(size_t carried) const { return Carried(plan_.before, carried); }
  float* Behind(size_t carried) const { return Carried(plan_.behind, carried); }
  float* Carried(const std::vector<int64_t>& offsets, size_t carried) const;

  View ViewOf(int v) const;

  void Compute(const std::vector<int>& order, int phase);
  void Compute(int v, float* slot);

  // The argument that the value is equal to in all of the block, as the ranges of reads tell: x + 0, or a choice that
  // is the same everywhere. Its elements may stay where they are, in the value's own place. -1: none.
  int SameAs(const BlockValue& value, const float* slot) const;

  // In place where the elements lie side by side.
  void Read(int v, float* slot, View* view) const;

  void Product(int v, float* slot, int64_t row) const;

  const float* LeftAt(const FoldRead& left) const;
  uint16_t* LeftParts(size_t product) const;
  int* Magnitudes(int64_t offset) const { return reinterpret_cast<int*>(own_ + offset); }

  // Splits the left factors of a strip; false where parts are not exact.
  bool SplitLeft() const;

  float* LeftBound(size_t product) const { return own_ + plan_.left_bounds[product] + in_block_ / plan_.strip; }

  void BoundLeft() const;

  // Returns whether the block is known to leave all carried numbers of the strip as they are.
  bool IsUnchanged() const;

  Range RangeOfLeaf(size_t v) const;

  void MultiplyParts(const uint16_t* parts, const float* panels, int64_t depth, float* c, int64_t c_row,
                     int64_t columns, bool accumulate) const;

  const float* PanelsOf(const PackedFold& factor) const;

  void Multiply(const float* a, int64_t a_row, int64_t a_step, const float* panels, int64_t depth, float* c,
                int64_t c_row, int64_t columns, bool accumulate) const;

  // One number a row, or one for all.
  bool IsNumberOfRow(int v) const { return (values_[static_cast<size_t>(v)].axes & ~kRowAxis) == 0; }

  // Returns whether the value is exp(a - b) along the loop or the columns, b a number a row.
  bool IsExpOfRows(const BlockValue& value) const;

  void ExpRows(const BlockValue& value, const View& to, float* sums) const;
  void Call(const BlockValue& value, const View& to) const;
  void Apply(TileFn fn, TileFn by_number, const BlockValue& value, const View& to) const;

  static int JoinOf(ReduceKind kind);

  // Reduces the body along the block, to one number a row: a step whose number has no columns.
  void Reduce(const BlockProgram::Step& step, float* numbers) const;

  void RunStep(size_t k, bool repairs);

  // Brings a number that is carried by columns to the new values of those before it.
  void Repair(size_t k, float* to);

  // Adds the product of the block, the body times the factor. Anew: by products of f32.
  void AddProduct(size_t k, float* to, bool first, bool anew) const;

  void Advance() const;

  // Computes the element; false where it, or a number that it is computed from, is not finite, or a product was not
  // exact.
  bool Finish();

  float* Out() const;

  // Where the columns of the result lie side by side, the last operation writes them.
  void ComputeElement();

  void Store() const;

  const FoldPlan& plan_;
  const std::vector<BlockValue>& values_;
  void* const* const buffers_;
  float* const scratch_;
  float* const own_;
  const SplitTable* const split_;  // null: nothing is split
  std::vector<View> views_;
  int64_t point_ = 0;                                      // parallel
  int64_t in_block_ = 0, first_row_ = 0, count_rows_ = 0;  // the strip: from the block's first row, from the first
  int64_t block_ = 0, first_ = 0, count_ = 0;              // of the loop
  bool in_place_ = false;                                  // the element was written where the result lies
  int sum_of_ = -1;                                        // the value whose sums are taken on the way, -1: none
  float* sums_ = nullptr;                                  // to there
};

}  // namespace rewright::cpu
