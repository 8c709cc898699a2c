// Products of matrices and convolutions of 32-bit integers, which is what quantized ones are once their zero points are
// subtracted. Sums wrap, so every order of them gives the same bits.
//
// Operands whose elements all have 16 bits, as those of quantized models do, are multiplied two by two, with sums in 32
// bits: that is exact, and as fast again as f32. The kernel looks at the operands when it runs, and then chooses.
// (oneDNN's products of 8-bit integers saturate sums of 16 bits where the processor has no VNNI: docs/decisions/070.)
#include <omp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kSerialProducts = 100000;
constexpr int kMostColumns = 64;  // of a panel
constexpr int64_t kLine = 16;     // integers in a line of the cache

// c[g][i, j] = sum k: a[g][i, k] * b[g][k, j], with a in rows and c row-major.
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  std::vector<int64_t> a, b, c;  // by g: where its matrices begin

  int64_t panels() const { return (columns + Simd().gemm_columns - 1) / Simd().gemm_columns; }
  // The slots of 32 bits that a row or a column takes: one for each integer, or one for each pair.
  int64_t slots(bool pairs) const { return pairs ? (depth + 1) / 2 : depth; }
  int64_t panel_slots(bool pairs) const { return slots(pairs) * Simd().gemm_columns; }
};

// Row k of a panel, which is zero yet, from column `first` on: `count` integers of which each lies `step` behind the
// one before. In pairs they have 16 bits, the even ones below.
template <bool kPairs>
void PutRow(int32_t* panel, int64_t k, int64_t first, const int32_t* from, int64_t step, int64_t count) {
  uint32_t* const to = reinterpret_cast<uint32_t*>(panel) + (kPairs ? k / 2 : k) * Simd().gemm_columns + first;
  const auto put = [&](auto f) {
    if (step == 1) {
#pragma omp simd
      for (int64_t j = 0; j < count; ++j) f(to[j], static_cast<uint32_t>(from[j]));
    } else {
      for (int64_t j = 0; j < count; ++j) f(to[j], static_cast<uint32_t>(from[j * step]));
    }
  };
  if (!kPairs) {
    put([](uint32_t& place, uint32_t x) { place = x; });
  } else if (k % 2 == 0) {
    put([](uint32_t& place, uint32_t x) { place = x & 0xffffu; });
  } else {
    put([](uint32_t& place, uint32_t x) { place |= x << 16; });
  }
}

// b is a matrix: element (k, j) at k * columns + j.
struct MatrixSide {
  template <bool kPairs>
  void Pack(const Product& product, const int32_t* b, int64_t first, int64_t count, int32_t* panel) const {
    for (int64_t k = 0; k < product.depth; ++k) {
      PutRow<kPairs>(panel, k, 0, b + k * product.columns + first, 1, count);
    }
  }
};

// b is what the windows of a convolution see: element ((c, r, s), (y, x)) is that of channel c at (y * stride - before
// + r * dilation, ..), or zero outside of the image.
struct WindowSide {
  int64_t channels = 0, height = 0, width = 0, out_width = 0, kernel_height = 0, kernel_width = 0;
  std::vector<int64_t> strides, pads, dilations;

  template <bool kPairs>
  void Pack(const Product&, const int32_t* image, int64_t first, int64_t count, int32_t* panel) const {
    // Columns of one row of the result.
    struct Run {
      int64_t column, count, y, x;
    };
    Run runs[kMostColumns];
    int num_runs = 0;
    for (int64_t j = 0; j < count; j += runs[num_runs++].count) {
      const int64_t y = (first + j) / out_width, x = (first + j) % out_width;
      runs[num_runs] = {j, std::min(count - j, out_width - x), y * strides[0] - pads[0], x * strides[1] - pads[1]};
    }
    int64_t k = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const int32_t* const plane = image + c * height * width;
      for (int64_t r = 0; r < kernel_height; ++r) {
        for (int64_t s = 0; s < kernel_width; ++s, ++k) {
          for (const Run* run = runs; run < runs + num_runs; ++run) {
            const int64_t y = run->y + r * dilations[0], x = run->x + s * dilations[1];
            if (y < 0 || y >= height || x >= width) continue;
            // The part of the run that lies inside.
            const int64_t begin = x >= 0 ? 0 : std::min(run->count, CeilDiv(-x, strides[1]));
            const int64_t end = std::min(run->count, CeilDiv(width - x, strides[1]));
            PutRow<kPairs>(panel, k, run->column + begin, plane + y * width + x + begin * strides[1], strides[1],
                           end - begin);
          }
        }
      }
    }
  }

 private:
  static int64_t CeilDiv(int64_t a, int64_t b) { return b == 1 ? a : (a + b - 1) / b; }
};

bool HaveSixteenBits(const int32_t* x, int64_t count, int threads) {
  uint32_t high = 0;
#pragma omp parallel for simd reduction(| : high) num_threads(threads) if (parallel : count > 65536 && threads > 1)
  for (int64_t i = 0; i < count; ++i) high |= static_cast<uint32_t>(x[i]) + 32768u;
  return high < 65536;
}

template <bool kPairs>
void PackLine(const int32_t* from, int64_t depth, int32_t* to) {
  if constexpr (kPairs) {
    int16_t* const pairs = reinterpret_cast<int16_t*>(to);
#pragma omp simd
    for (int64_t k = 0; k < depth; ++k) pairs[k] = static_cast<int16_t>(from[k]);
    if (depth % 2 != 0) pairs[depth] = 0;
  } else {
    std::copy_n(from, depth, to);
  }
}

// Buffers: a, b, [b in panels of pairs, where it is constant and has 16 bits], scratch, c.
template <typename Side>
class IntegerProductKernel : public Kernel {
 public:
  IntegerProductKernel(Product product, Side side, int64_t a_count, int64_t b_count, bool packed, int threads)
      : product_(std::move(product)), side_(std::move(side)), a_count_(a_count), b_count_(b_count), packed_(packed) {
    const auto batches = static_cast<int64_t>(product_.c.size());
    a_slot_ = Numbered(product_.a, &a_starts_);
    b_slot_ = Numbered(product_.b, &b_starts_);
    threads_ = batches * product_.rows * product_.columns * product_.depth < kSerialProducts ? 1 : threads;
    row_parts_ = 1;
    if (batches * product_.panels() < threads_) {
      row_parts_ = std::min<int64_t>(threads_, (product_.rows + Simd().gemm_rows - 1) / Simd().gemm_rows);
    }
  }

  size_t scratch_bytes() const { return static_cast<size_t>(RowSlots() + threads_ * PanelRoom()) * sizeof(int32_t); }
  size_t packed_bytes() const {
    return b_starts_.size() * static_cast<size_t>(product_.panels() * product_.panel_slots(true)) * sizeof(int32_t);
  }
  void PackAll(const int32_t* b, int32_t* panels) const {
    for (int64_t start : b_starts_) {
      for (int64_t panel = 0; panel < product_.panels(); ++panel, panels += product_.panel_slots(true)) {
        PackPanel<true>(b + start, panel, panels);
      }
    }
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    At at;
    at.a = static_cast<const int32_t*>(*buffers++);
    at.b = static_cast<const int32_t*>(*buffers++);
    at.packed = packed_ ? static_cast<const int32_t*>(*buffers++) : nullptr;
    at.rows = static_cast<int32_t*>(*buffers++);
    at.panels = at.rows + RowSlots();
    at.c = static_cast<int32_t*>(*buffers++);
    if (HaveSixteenBits(at.a, a_count_, threads_) && (packed_ || HaveSixteenBits(at.b, b_count_, threads_))) {
      Multiply<true>(at);
    } else {
      Multiply<false>(at);
    }
    return absl::OkStatus();
  }

 private:
  struct At {
    const int32_t *a, *b, *packed;
    int32_t *rows, *panels, *c;
  };

  // Room for either form.
  int64_t RowSlots() const {
    const auto matrices = static_cast<int64_t>(a_starts_.size());
    return AlignUp(matrices * product_.rows * product_.slots(false), kLine);
  }
  int64_t PanelRoom() const { return AlignUp(product_.panel_slots(false), kLine); }

  template <bool kPairs>
  void PackPanel(const int32_t* b, int64_t panel, int32_t* to) const {
    const int64_t width = Simd().gemm_columns, first = panel * width;
    std::fill_n(to, product_.panel_slots(kPairs), 0);  // what lies outside, and half of the last pair
    side_.template Pack<kPairs>(product_, b, first, std::min(width, product_.columns - first), to);
  }

  template <bool kPairs>
  void Multiply(const At& at) const {
    const int64_t slots = product_.slots(kPairs), panels = product_.panels();
    for (size_t slot = 0; slot < a_starts_.size(); ++slot) {
      const int32_t* const a = at.a + a_starts_[slot];
      int32_t* const rows = at.rows + static_cast<int64_t>(slot) * product_.rows * slots;
      ForEach(product_.rows, threads_,
              [&](int64_t i) { PackLine<kPairs>(a + i * product_.depth, product_.depth, rows + i * slots); });
    }
    const int64_t tasks = static_cast<int64_t>(product_.c.size()) * panels * row_parts_;
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t part = task % row_parts_, panel = task / row_parts_ % panels, g = task / row_parts_ / panels;
      const int32_t* b = nullptr;
      if (kPairs && packed_) {
        b = at.packed + (b_slot_[g] * panels + panel) * product_.panel_slots(true);
      } else {
        int32_t* const mine = at.panels + omp_get_thread_num() * PanelRoom();
        PackPanel<kPairs>(at.b + product_.b[g], panel, mine);
        b = mine;
      }
      Rows<kPairs>(at, g, panel, b, product_.rows * part / row_parts_, product_.rows * (part + 1) / row_parts_);
    }
  }

  template <bool kPairs>
  void Rows(const At& at, int64_t g, int64_t panel, const int32_t* b, int64_t first, int64_t last) const {
    const SimdTable& simd = Simd();
    const int64_t slots = product_.slots(kPairs), column = panel * simd.gemm_columns;
    const int32_t* const a = at.rows + a_slot_[g] * product_.rows * slots;
    for (int64_t i = first; i < last; i += simd.gemm_rows) {
      const int64_t rows = std::min<int64_t>(simd.gemm_rows, last - i);
      (kPairs ? simd.pair_block : simd.int_block)(
          a + i * slots, slots, b, slots, at.c + product_.c[g] + i * product_.columns + column, product_.columns, rows,
          std::min<int64_t>(simd.gemm_columns, product_.columns - column));
    }
  }

  const Product product_;
  const Side side_;
  const int64_t a_count_, b_count_;
  const bool packed_;
  std::vector<int64_t> a_starts_, b_starts_;  // of distinct matrices, in the order of the packed ones
  std::vector<int64_t> a_slot_, b_slot_;      // by g
  int threads_ = 1;
  int64_t row_parts_ = 1;
};

Product MatmulProduct(const Shape& a, const Shape& b, const Shape& out) {
  Product product{.rows = out[out.size() - 2], .columns = out.back(), .depth = a.back()};
  if (NumElements(b) == product.depth * product.columns) {  // all rows of all batches are one matrix
    product.rows = NumElements(out) / product.columns;
    product.a = product.b = product.c = {0};
    return product;
  }
  const auto starts = [&](Shape dims) {
    dims.insert(dims.begin(), out.size() - dims.size(), 1);
    return BatchStarts(Layout::RowMajor(dims), out);
  };
  product.a = starts(a);
  product.b = starts(b);
  product.c = starts(out);
  return product;
}

// The kernels' matrix times what the windows see, for every image and group of channels.
Product ConvProduct(const Shape& w, const Shape& x, const Shape& out, int64_t groups) {
  Product product{.rows = w[0] / groups, .columns = out[2] * out[3], .depth = w[1] * w[2] * w[3]};
  for (int64_t image = 0; image < x[0]; ++image) {
    for (int64_t group = 0; group < groups; ++group) {
      product.a.push_back(group * product.rows * product.depth);
      product.b.push_back((image * groups + group) * w[1] * x[2] * x[3]);
      product.c.push_back((image * groups + group) * product.rows * product.columns);
    }
  }
  return product;
}

template <typename Side>
absl::Status Emit(Lowering& lowering, NodeId id, Product product, Side side, Value a, Value b, bool may_pack) {
  const Graph& graph = lowering.graph();
  ASSIGN_OR_RETURN(const Place a_place, lowering.FindRowMajor(a));
  ASSIGN_OR_RETURN(const Place b_place, lowering.FindRowMajor(b));
  const int64_t a_count = graph.type(a).num_elements(), b_count = graph.type(b).num_elements();
  Tensor known;
  if (may_pack && lowering.IsConstant(b)) {
    ASSIGN_OR_RETURN(known, lowering.ConstantTensor(b));
  }
  const bool packed = known.data() != nullptr &&
                      HaveSixteenBits(static_cast<const int32_t*>(known.data()), b_count, lowering.threads());
  auto kernel = std::make_unique<IntegerProductKernel<Side>>(std::move(product), std::move(side), a_count, b_count,
                                                             packed, lowering.threads());
  std::vector<BufferUse> buffers = {Lowering::Read(a_place.buffer), Lowering::Read(b_place.buffer)};
  if (packed) {
    const auto slots = static_cast<int64_t>(kernel->packed_bytes() / sizeof(int32_t));
    ASSIGN_OR_RETURN(Tensor panels, AllocateTensor({DType::kInt32, {slots}}, "packed weights"));
    kernel->PackAll(static_cast<const int32_t*>(known.data()), static_cast<int32_t*>(panels.data()));
    buffers.push_back(Lowering::Read(lowering.AddConstant(std::move(panels))));
  }
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(kernel->scratch_bytes())));
  buffers.push_back(lowering.WriteRowMajor({id, 0}));
  lowering.Emit(std::move(kernel), std::move(buffers), absl::StrCat(graph.node(id).op->name, " (", Simd().name, ")"));
  return absl::OkStatus();
}

absl::StatusOr<bool> PlanIntegerProduct(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  if (node.outputs[0].dtype != DType::kInt32) return false;
  const Value left = node.operands[0], right = node.operands[1];
  const Shape &a = graph.type(left).shape, &b = graph.type(right).shape, &out = node.outputs[0].shape;
  if (node.op == ops::Matmul()) {
    RETURN_IF_ERROR(Emit(lowering, id, MatmulProduct(a, b, out), MatrixSide{}, left, right, /*may_pack=*/true));
    return true;
  }
  const WindowSide windows{.channels = b[1],
                           .height = a[2],
                           .width = a[3],
                           .out_width = out[3],
                           .kernel_height = b[2],
                           .kernel_width = b[3],
                           .strides = Ints(node, "strides"),
                           .pads = Ints(node, "pads"),
                           .dilations = Ints(node, "dilations")};
  RETURN_IF_ERROR(Emit(lowering, id, ConvProduct(b, a, out, Int(node, "groups")), windows, right, left,
                       /*may_pack=*/false));
  return true;
}

}  // namespace

KernelEntry IntegerProductEntry() { return {.ops = {ops::Matmul(), ops::Conv2d()}, .plan = PlanIntegerProduct}; }

}  // namespace rewright::cpu
