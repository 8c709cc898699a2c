// Runs one stage, block by block.
//
// A block is a box of output positions. A node's lanes in a block are the positions of the box projected on the axes
// that the node depends on, in row-major order: in a product a[m, k] * b[k, n] the factor a has as many lanes as the
// box has rows. A node is computed when it is first needed and kept until a variable that it depends on changes. A
// guard that holds nowhere in a block excludes its node from the computation; one that holds everywhere is not tested
// per lane.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/kernels.h"
#include "core/interpreter/panel.h"
#include "core/interpreter/program.h"

namespace rewright::interp {

// Loops over positions in a box for up to kArgs operands, adjacent axes merged where all strides allow it.
struct Nest {
  static constexpr int kArgs = 3;
  struct Dim {
    int64_t n;
    int64_t stride[kArgs];
  };
  // Writes only dimensions that exist: runners of small stages are made by the thousand.
  Nest() {}
  int rank = 0;  // >= 1 once built; the last dimension is the inner loop
  Dim dims[kFirstBound];
};

// Calls f(lane of the row's first position, offsets of the operands there, the inner dimension) for every inner row.
template <typename F>
void ForRows(const Nest& nest, const F& f) {
  int64_t offsets[Nest::kArgs] = {0, 0, 0};
  int64_t counters[kFirstBound] = {};
  const Nest::Dim& inner = nest.dims[nest.rank - 1];
  int64_t lane = 0;
  while (true) {
    f(lane, offsets, inner);
    lane += inner.n;
    int d = nest.rank - 2;
    for (; d >= 0; --d) {
      const Nest::Dim& dim = nest.dims[d];
      if (++counters[d] < dim.n) {
        for (int k = 0; k < Nest::kArgs; ++k) offsets[k] += dim.stride[k];
        break;
      }
      counters[d] = 0;
      for (int k = 0; k < Nest::kArgs; ++k) offsets[k] -= dim.stride[k] * (dim.n - 1);
    }
    if (d < 0) return;
  }
}

inline const Nest::Dim& Inner(const Nest& nest) { return nest.dims[nest.rank - 1]; }

class BlockRunner {
 public:
  // The stage outlives the runner.
  explicit BlockRunner(const Stage& stage);

  // Sets the elements of inputs and earlier stages, which the next blocks read.
  void Bind(const std::vector<const void*>* operands, Undefined undefined) {
    operands_ = operands;
    undefined_ = undefined;
  }

  // Computes the block at `start` of size `size` (at most the box) and stores it in `out`, the whole result.
  void Run(const std::vector<int64_t>& start, const std::vector<int64_t>& size, void* out);

  // Returns the first error so far.
  const absl::Status& status() const { return status_; }

  size_t bytes() const { return bytes_; }

 private:
  enum class Truth : uint8_t { kMixed, kNone, kAll };
  // The lists of lanes that a read ahead makes at once, of elements that fill a line of the cache, and those it keeps:
  // the ones that are made may not replace the last kSteps.
  static constexpr int kAhead = 16;
  static constexpr int kAheadLists = 2 * kAhead + MulAddPanel::kSteps;

  // A linear form in the present block, split by how its terms vary.
  struct Form {
    int64_t axis[kFirstBound] = {};                // factor by axis
    std::vector<std::pair<int, int64_t>> bound;    // bit, factor
    std::vector<std::pair<int, int64_t>> uniform;  // node with one lane, factor
    std::vector<std::pair<int, int64_t>> varying;  // node with several lanes, factor
  };

  struct Slot {
    Slot() {}
    uint32_t axes = 0;
    bool valid = false;
    bool prepared = false;        // nest and form fit the present size of block
    Truth truth = Truth::kMixed;  // of a kBool node; its data is filled only where it is kMixed, see Bytes()
    size_t size = 0;              // bytes per element
    int64_t lanes = 0;
    const void* data = nullptr;
    std::byte* buffer = nullptr;
    uint64_t fill = 0;  // bytes of the constant: of a kConst, of a masked read, of an empty reduction
    UnaryKernel unary = nullptr;
    BinaryKernel binary = nullptr;
    PartialKernel partial = nullptr;
    AccumulateKernel accumulate = nullptr;
    MulAddKernel mul_add = nullptr;  // of a sum of products
    PanelKernel panel = nullptr;     // of one of reads
    PanelFactors factors = {};       // of its terms
    // The factor of such a sum, 0 or 1, that is 0 where a guard does not hold, and room for its elements in all steps.
    int guarded_factor = 0;
    std::byte* guarded = nullptr;
    size_t guarded_stride = 0;
    // A factor of such a sum keeps its results for the steps of a panel: its buffers take turns.
    std::byte* ring = nullptr;
    size_t ring_stride = 0;
    int ring_next = 0;
    ArgKernel arg = nullptr;
    // A condition on few values of bound variables keeps its result for each of them during a block.
    std::vector<std::pair<int, int>> memo_bits;  // bit, stride in the number of the values
    std::vector<Truth> memo_truth;
    std::vector<bool> memo_known;
    std::byte* memo = nullptr;
    size_t memo_stride = 0;
    std::byte* best = nullptr;  // argmax: the extremum so far
    // A read whose lanes lie apart, and that steps of a bound variable move by one element, is made for several steps
    // at once: lists of lanes, of which `ahead_count` begin with number `ahead_at` and offset `ahead_from`. Lists are
    // kept for kSteps more steps.
    std::byte* ahead = nullptr;  // null: each step reads for itself
    int ahead_bit = -1;          // of the variable
    int ahead_count = 0;
    int ahead_at = 0;
    int64_t ahead_from = -1;
    Nest nest;
    Nest masked_nest;
    Form form;
  };

  const Node& node(int id) const { return stage_.nodes[id]; }
  Slot& slot(int id) { return slots_[id]; }
  int64_t Lanes(uint32_t axes) const;
  int64_t DenseStride(uint32_t axes, int axis) const;
  template <typename StrideFn>
  void Build(Nest& nest, uint32_t axes, int args, const StrideFn& stride) const;
  void BuildDense(Nest& nest, uint32_t axes, std::initializer_list<uint32_t> args) const;

  void InitSlot(int id);
  void PlanMemo(const Node& n, Slot& s);
  int AheadBit(const Node& n, const Slot& s) const;
  void Eval(int id) {
    Slot& s = slots_[id];
    if (s.valid) return;
    s.valid = true;
    if (s.memo_bits.empty()) {
      Compute(id, s);
    } else {
      Recall(id, s);
    }
  }
  void Recall(int id, Slot& s);
  void Compute(int id, Slot& s);
  void SetVariable(int bit, int64_t value);

  // Index nodes.
  void PrepareForm(const Node& n, Slot& s);
  int64_t Base(const Node& n, Slot& s);
  void FillForm(const Node& n, Slot& s, int64_t* out);
  void ComputeVar(const Node& n, Slot& s);
  void ComputeIndexBinary(const Node& n, Slot& s);

  // Conditions.
  const uint8_t* Bytes(int id);
  void Summarize(Slot& s);
  void ComputeNonNegative(const Node& n, Slot& s);
  void ComputeIsZero(const Node& n, Slot& s);
  void ComputeAndThen(const Node& n, Slot& s);
  void CombineBytes(const Node& n, Slot& s);
  void ComputeOr(const Node& n, Slot& s);
  void ComputeNot(const Node& n, Slot& s);

  // Elements.
  const void* Data(int id);
  void TakeOver(Slot& s, int from);
  void ComputeFromIndex(const Node& n, Slot& s);
  void ComputeRead(const Node& n, Slot& s);
  bool ReadAhead(Slot& s, const std::byte* in, int64_t base);
  bool CheckBounds(const Node& n, Truth mask);
  void GatherRead(const Node& n, Slot& s, const std::byte* in, bool masked);
  bool GatherRows(const Node& n, Slot& s, const std::byte* in, bool masked);
  void ComputeCall(const Node& n, Slot& s);
  void ComputeSelect(const Node& n, Slot& s);
  void ComputeReduce(const Node& n, Slot& s);
  void ReduceStep(const Node& n, Slot& s);
  const void* Factor(int id);
  const void* GuardedFactor(int guard, const Slot& s, int factor, const void* elements, int step);
  void PanelStep(const Node& n, Slot& s, MulAddPanel& panel);
  void FlushPanel(Slot& s, MulAddPanel& panel);
  int GuardedFactorOf(const Node& n) const;

  void Store(void* out);
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const Stage& stage_;
  Undefined undefined_ = Undefined::kError;
  const std::vector<const void*>* operands_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<std::vector<int>> dependents_;  // of bound variables, by bit from kFirstBound on
  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_ = 0;            // of slots and memory
  int64_t* scratch_ = nullptr;  // index lanes
  int64_t start_[kFirstBound] = {};
  int64_t size_[kFirstBound] = {};
  int64_t value_[kMaxVariables] = {};  // of bound variables
  absl::Status status_;
};

// Small runners of a program's stages between its runs: on a few elements a run takes less than making its runner.
// Thread-safe.
class RunnerPool {
 public:
  explicit RunnerPool(size_t stages) : places_(stages) {}

  // Returns the runner that is kept for the stage, or a new one.
  std::unique_ptr<BlockRunner> Take(size_t number, const Stage& stage);
  // Keeps the runner, from the second time on: many programs run once.
  void Return(size_t number, std::unique_ptr<BlockRunner> runner);

 private:
  struct Place {
    bool returned = false;
    std::unique_ptr<BlockRunner> runner;
  };
  std::mutex mutex_;
  std::vector<Place> places_;
};

template <typename StrideFn>
void BlockRunner::Build(Nest& nest, uint32_t axes, int args, const StrideFn& stride) const {
  nest.rank = 0;
  for (; axes != 0; axes &= axes - 1) {
    const int axis = std::countr_zero(axes);
    if (size_[axis] == 1) continue;
    Nest::Dim dim{size_[axis], {}};
    for (int k = 0; k < args; ++k) dim.stride[k] = stride(k, axis);
    if (nest.rank > 0) {
      Nest::Dim& outer = nest.dims[nest.rank - 1];
      bool merges = true;
      for (int k = 0; k < args; ++k) merges &= outer.stride[k] == dim.n * dim.stride[k];
      if (merges) {
        dim.n *= outer.n;
        outer = dim;
        continue;
      }
    }
    nest.dims[nest.rank++] = dim;
  }
  if (nest.rank == 0) nest.dims[nest.rank++] = Nest::Dim{1, {}};
}

}  // namespace rewright::interp
