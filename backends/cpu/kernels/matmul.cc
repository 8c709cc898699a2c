// Matrix products on f32. The right factor is packed into panels of as many columns as the micro-kernel computes at
// once: at compile time where it is constant, else by the kernel itself, block by block, so that what is packed is read
// from the second level of cache. The left factor is read in place, unless its columns lie side by side: then every
// element of a row would come from a line of its own, so chunks of it are packed instead, each for all panels of the
// right one, which is packed as a whole there.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/kernels/transpose.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/products/narrow_product.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kDepthChunk = 512, kPackedDepthChunk = 768;  // at most; the latter of weights
constexpr int64_t kRowBlock = 192;
constexpr int64_t kPanelsPerBlock = 8;  // panels that are packed, and finished by the post-ops, at a time
constexpr int64_t kStreamedAhead = 128;  // of the depth
constexpr double kSerialFlops = 100e3;

int64_t Panels(int64_t n) {
  const int64_t columns = Simd().gemm_columns;
  return (n + columns - 1) / columns;
}

int64_t PanelElements(int64_t k) { return k * Simd().gemm_columns; }

// Columns of four turned lines, from one whose elements along the depth lie side by side.
void PackTurned(const float* b, int64_t depth, int64_t columns, int64_t n_stride, float* to) {
  constexpr int64_t kStep = 16;  // a line of the cache
  const int64_t width = Simd().gemm_columns, whole = columns / kTransposed * kTransposed;
  const auto words = [](auto* floats) { return reinterpret_cast<uint32_t*>(const_cast<float*>(floats)); };
  for (int64_t k0 = 0; k0 < depth; k0 += kStep) {
    const int64_t k1 = std::min(depth, k0 + kStep), turned = k0 + (k1 - k0) / kTransposed * kTransposed;
    for (int64_t j = 0; j < whole; j += kTransposed) {
      for (int64_t i = j; i < j + kTransposed; ++i) __builtin_prefetch(b + k0 + 4 * kStep + i * n_stride);
      for (int64_t k = k0; k < turned; k += kTransposed) {
        Transpose4(words(b + k + j * n_stride), n_stride, words(to + k * width + j), width);
      }
      for (int64_t k = turned; k < k1; ++k) {
        for (int64_t i = j; i < j + kTransposed; ++i) to[k * width + i] = b[k + i * n_stride];
      }
    }
    for (int64_t k = k0; k < k1; ++k) {
      for (int64_t i = whole; i < columns; ++i) to[k * width + i] = b[k + i * n_stride];
      std::fill(to + k * width + columns, to + (k + 1) * width, 0.0f);
    }
  }
}

// A panel of b[depth, n].
void PackPanel(const float* b, int64_t depth, int64_t n, int64_t panel, int64_t k_stride, int64_t n_stride, float* to) {
  const int64_t width = Simd().gemm_columns, columns = std::min(width, n - panel * width);
  b += panel * width * n_stride;
  if (k_stride == 1 && n_stride != 1) return PackTurned(b, depth, columns, n_stride, to);
  for (int64_t k = 0; k < depth; ++k) {
    if (n_stride == 1) {
      std::memcpy(to + k * width, b + k * k_stride, static_cast<size_t>(columns) * sizeof(float));
    } else {
      for (int64_t j = 0; j < columns; ++j) to[k * width + j] = b[k * k_stride + j * n_stride];
    }
    std::fill(to + k * width + columns, to + (k + 1) * width, 0.0f);
  }
}

// The left factor's rows [0, rows) x [0, depth), whose columns lie side by side, in tiles of `tile` rows and a last one
// of those that are left: a tile begins at to[first row * depth], its column k as many elements further as k of its
// rows.
void PackTiles(const float* a, int64_t a_step, int64_t rows, int64_t depth, int64_t tile, float* to) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t row = 0; row < rows; row += tile) {
      const int64_t some = std::min(tile, rows - row);
      std::memcpy(to + row * depth + k * some, a + k * a_step + row, static_cast<size_t>(some) * sizeof(float));
    }
  }
}

// Sizes and strides of one batch axis.
struct BatchAxis {
  int64_t size, a, b, c, residual;
};

// A tile of rows reads packed weights once, from memory in one piece.
bool Streams(const MatmulProblem& problem) {
  return problem.packed && problem.c.dims[problem.c.dims.size() - 2] <= Simd().gemm_rows;
}

// The depth is cut into chunks of one size, but for the last. Weights of few bits are cut between their groups.
int64_t DepthChunk(const MatmulProblem& problem) {
  if (Streams(problem)) return std::max<int64_t>(1, problem.a.dims.back());
  if (problem.narrow != nullptr) return kDepthChunk;
  const int64_t depth = problem.a.dims.back(), most = problem.packed ? kPackedDepthChunk : kDepthChunk;
  const int64_t chunks = std::max<int64_t>(1, (depth + most - 1) / most);
  return std::max<int64_t>(1, (depth + chunks - 1) / chunks);
}

// The parts that a kernel packs while it runs, and the floats of scratch space that they take.
struct Packing {
  Packing(const MatmulProblem& problem, int threads) {
    const size_t rank = problem.c.dims.size();
    const int64_t depth = problem.a.dims[rank - 1], panels = Panels(problem.c.dims[rank - 1]);
    int64_t batches = 1;
    for (size_t axis = 0; axis + 2 < rank; ++axis) {
      batches *= problem.c.dims[axis];
      if (problem.b.dims[axis] > 1 && problem.b.strides[axis] != 0) separate = true;
    }
    left = problem.narrow == nullptr && problem.a.strides[rank - 2] == 1 && problem.a.strides[rank - 1] != 1 &&
           problem.a.dims[rank - 2] >= Simd().gemm_rows && panels >= 4;
    blocks = problem.narrow != nullptr || (!problem.packed && !left && (separate || batches == 1));
    if (!problem.packed && !blocks) shared = (separate ? batches : 1) * panels * PanelElements(depth);
    const int64_t chunk = DepthChunk(problem);
    if (left) of_thread = std::min(problem.a.dims[rank - 2], kRowBlock) * chunk;
    if (blocks) of_thread = std::min(panels, kPanelsPerBlock) * PanelElements(chunk);
    if (problem.narrow != nullptr) of_thread += Simd().gemm_columns * kDepthChunk;  // a panel's columns, widened
    total = shared + threads * of_thread;
  }

  bool left = false;      // chunks of the left factor
  bool separate = false;  // batches have right factors of their own
  bool blocks = false;    // the right factor, block by block: not where batches share it
  int64_t shared = 0;     // for the whole right factor, before its products; then each thread's own
  int64_t of_thread = 0;
  int64_t total = 0;
};

// The buffers of a kernel.
struct Operands : ConvEpilogue {
  Operands(const MatmulProblem& problem, bool packs, void* const* buffers)
      : a(static_cast<const float*>(*buffers++)), b(static_cast<const float*>(*buffers++)) {
    static_cast<ConvEpilogue&>(*this) = TakeEpilogue(problem.post_ops, &buffers);
    if (packs) scratch = static_cast<float*>(*buffers++);
    c = static_cast<float*>(*buffers);
  }

  const float *a, *b;
  float *scratch = nullptr, *c = nullptr;
};

class MatmulKernel : public Kernel {
 public:
  MatmulKernel(const MatmulProblem& problem, int threads) : problem_(problem), packing_(problem, threads) {
    const size_t rank = problem.c.dims.size();
    rows_ = problem.c.dims[rank - 2];
    columns_ = problem.c.dims[rank - 1];
    depth_ = problem.a.dims[rank - 1];
    depth_chunk_ = DepthChunk(problem);
    a_row_ = problem.a.strides[rank - 2];
    a_step_ = problem.a.strides[rank - 1];
    c_row_ = problem.c.strides[rank - 2];
    r_row_ = problem.post_ops.residual ? problem.residual.strides[rank - 2] : 0;
    auto stride = [](const Layout& layout, size_t axis) { return layout.dims[axis] == 1 ? 0 : layout.strides[axis]; };
    for (size_t axis = 0; axis + 2 < rank; ++axis) {
      const int64_t size = problem.c.dims[axis];
      if (size == 1) continue;
      batch_.push_back({size, stride(problem.a, axis), problem.packed || problem.narrow ? 0 : stride(problem.b, axis),
                        problem.c.strides[axis], problem.post_ops.residual ? problem.residual.strides[axis] : 0});
      batches_ *= size;
    }
    panels_ = Panels(columns_);
    const double flops = 2.0 * static_cast<double>(batches_ * rows_ * columns_) * static_cast<double>(depth_);
    threads_ = flops < kSerialFlops ? 1 : threads;
    // One unit of work is a range of panels of one batch, or of its rows where there are few panels.
    const int64_t wanted = std::max<int64_t>(1, (threads_ + batches_ - 1) / batches_);
    if (batches_ >= 4 * threads_ || batches_ % threads_ == 0) {
      row_parts_ = column_parts_ = 1;
    } else if (panels_ >= 4 * wanted || panels_ % wanted == 0 || rows_ < Simd().gemm_rows * wanted) {
      column_parts_ = std::min(panels_, wanted);
    } else {
      row_parts_ = wanted;
    }
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const Operands operands(problem_, packing_.total > 0, buffers);
    const int64_t units = batches_ * row_parts_ * column_parts_;
    if (threads_ == 1) {
      if (packing_.shared > 0) Pack(operands, 0, 1);
      for (int64_t unit = 0; unit < units; ++unit) RunUnit(operands, unit);
      return absl::OkStatus();
    }
#pragma omp parallel num_threads(threads_)
    {
      if (packing_.shared > 0) {
        Pack(operands, omp_get_thread_num(), omp_get_num_threads());
#pragma omp barrier
      }
#pragma omp for schedule(static)
      for (int64_t unit = 0; unit < units; ++unit) RunUnit(operands, unit);
    }
    return absl::OkStatus();
  }

 private:
  int64_t PackedElements() const { return panels_ * PanelElements(depth_); }

  void Offsets(int64_t batch, int64_t* a, int64_t* b, int64_t* c, int64_t* residual) const {
    *a = *b = *c = *residual = 0;
    for (size_t k = batch_.size(); k-- > 0;) {
      const int64_t index = batch % batch_[k].size;
      batch /= batch_[k].size;
      *a += index * batch_[k].a;
      *b += index * batch_[k].b;
      *c += index * batch_[k].c;
      *residual += index * batch_[k].residual;
    }
  }

  // Share `me` of `count` of packing the right factors.
  void Pack(const Operands& operands, int64_t me, int64_t count) const {
    const int64_t matrices = packing_.separate ? batches_ : 1;
    const int64_t units = matrices * panels_;
    for (int64_t unit = units * me / count; unit < units * (me + 1) / count; ++unit) {
      const int64_t matrix = unit / panels_, panel = unit % panels_;
      int64_t a, b, c, residual;
      Offsets(matrix, &a, &b, &c, &residual);
      PackChunk(operands.b + b, panel, 0, depth_,
                operands.scratch + matrix * PackedElements() + panel * PanelElements(depth_));
    }
  }

  // Rows [first, first + depth) of a panel of a right factor.
  void PackChunk(const float* b, int64_t panel, int64_t first, int64_t depth, float* to) const {
    const size_t rank = problem_.b.dims.size();
    const int64_t k_stride = problem_.b.strides[rank - 2], n_stride = problem_.b.strides[rank - 1];
    PackPanel(b + first * k_stride, depth, columns_, panel, k_stride, n_stride, to);
  }

  // The same of weights of few bits.
  void WidenChunk(const Operands& at, int64_t panel, int64_t first, int64_t depth, float* to) const {
    const int64_t width = Simd().gemm_columns, columns = std::min(width, columns_ - panel * width);
    float* const widened = at.scratch + packing_.of_thread - width * kDepthChunk;
    WidenColumns(*problem_.narrow, at.b, panel * width, columns, first, depth, kDepthChunk, widened);
    PackTurned(widened, depth, columns, kDepthChunk, to);
  }

  void RunUnit(const Operands& operands, int64_t unit) const {
    const int64_t column_part = unit % column_parts_;
    const int64_t row_part = unit / column_parts_ % row_parts_;
    const int64_t batch = unit / (column_parts_ * row_parts_);
    int64_t a, b, c, residual;
    Offsets(batch, &a, &b, &c, &residual);
    Operands mine = operands;
    mine.a += a;
    mine.c += c;
    if (mine.residual != nullptr) mine.residual += residual;
    if (packing_.blocks) mine.b += b;
    if (packing_.shared > 0) mine.b = operands.scratch + (packing_.separate ? batch * PackedElements() : 0);
    if (packing_.of_thread > 0) mine.scratch += packing_.shared + omp_get_thread_num() * packing_.of_thread;
    const int64_t unit_rows = Simd().gemm_rows;
    const int64_t row_units = (rows_ + unit_rows - 1) / unit_rows;
    const int64_t first_row = row_units * row_part / row_parts_ * unit_rows;
    const int64_t last_row = std::min(rows_, row_units * (row_part + 1) / row_parts_ * unit_rows);
    const int64_t first_panel = panels_ * column_part / column_parts_;
    const int64_t last_panel = panels_ * (column_part + 1) / column_parts_;
    // Packed parts serve as many products as they can: a block of the right factor serves all rows, a chunk of the left
    // one all panels.
    const int64_t rows = packing_.blocks ? last_row - first_row : kRowBlock;
    const int64_t panels = packing_.left ? last_panel - first_panel : kPanelsPerBlock;
    for (int64_t row = first_row; row < last_row; row += rows) {
      for (int64_t panel = first_panel; panel < last_panel; panel += panels) {
        Block(mine, row, std::min(last_row, row + rows), panel, std::min(last_panel, panel + panels), last_panel);
      }
    }
  }

  // Rows of a tile where `rows` are shared out evenly: twelve are six and six, not eight and four.
  static int64_t Tile(int64_t rows) {
    const int64_t tiles = (rows + Simd().gemm_rows - 1) / Simd().gemm_rows;
    return (rows + tiles - 1) / tiles;
  }

  // A block of rows and panels; panels before `end_panel` are read later.
  void Block(const Operands& at, int64_t first_row, int64_t last_row, int64_t first_panel, int64_t last_panel,
             int64_t end_panel) const {
    const int64_t width = Simd().gemm_columns;
    const bool on_residual = StartsAtResidual(at);
    if (on_residual && at.residual != at.c) {
      const int64_t first = first_panel * width, last = std::min(columns_, last_panel * width);
      for (int64_t row = first_row; row < last_row; ++row) {
        std::memcpy(at.c + row * c_row_ + first, at.residual + row * r_row_ + first,
                    static_cast<size_t>(last - first) * sizeof(float));
      }
    }
    for (int64_t chunk = 0; chunk < depth_; chunk += depth_chunk_) {
      const int64_t depth = std::min(depth_chunk_, depth_ - chunk);
      if (packing_.left) {
        const int64_t rows = last_row - first_row;
        PackTiles(at.a + first_row * a_row_ + chunk * a_step_, a_step_, rows, depth, Tile(rows), at.scratch);
      }
      for (int64_t panel = first_panel; packing_.blocks && panel < last_panel; ++panel) {
        float* const to = at.scratch + (panel - first_panel) * PanelElements(depth);
        problem_.narrow != nullptr ? WidenChunk(at, panel, chunk, depth, to) : PackChunk(at.b, panel, chunk, depth, to);
      }
      for (int64_t row = first_row; row < last_row; row += kRowBlock) {
        for (int64_t panel = first_panel; panel < last_panel; ++panel) {
          const float* const b =
              packing_.blocks ? at.scratch + (panel - first_panel) * PanelElements(depth) : PackedAt(at, panel, chunk);
          Panel(at, row, std::min(last_row, row + kRowBlock), panel, chunk, depth, b,
                Ahead(at, panel, chunk, first_panel, last_panel, end_panel));
        }
      }
    }
    Finish(at, first_row, last_row, first_panel * width, std::min(columns_, last_panel * width));
  }

  const float* PackedAt(const Operands& at, int64_t panel, int64_t k) const {
    return at.b + panel * PanelElements(depth_) + k * Simd().gemm_columns;
  }

  // Memory that is read behind a chunk of a panel; null: nothing, or it was packed just now.
  const float* Ahead(const Operands& at, int64_t panel, int64_t chunk, int64_t first_panel, int64_t last_panel,
                     int64_t end_panel) const {
    if (packing_.blocks) return nullptr;
    if (Streams(problem_)) return PackedAt(at, panel, kStreamedAhead);
    if (panel + 1 < last_panel) return PackedAt(at, panel + 1, chunk);
    if (chunk + depth_chunk_ < depth_) return PackedAt(at, first_panel, chunk + depth_chunk_);
    return last_panel < end_panel ? PackedAt(at, last_panel, 0) : nullptr;
  }

  // At most kRowBlock rows times a chunk of a panel, while as much is brought from `ahead`.
  void Panel(const Operands& at, int64_t first_row, int64_t last_row, int64_t panel, int64_t chunk, int64_t depth,
             const float* b, const float* ahead) const {
    const SimdTable& simd = Simd();
    const int64_t width = simd.gemm_columns, rows = last_row - first_row, tile = Tile(rows);
    const bool on_residual = StartsAtResidual(at);
    const float* const bias = at.bias != nullptr && !on_residual ? at.bias + panel * width : nullptr;
    int64_t lines = ahead == nullptr ? 0 : depth * width / kLineFloats;
    const int64_t tiles = (rows + tile - 1) / tile, share = (lines + tiles - 1) / tiles;
    for (int64_t row = 0; row < rows; row += tile) {
      const int64_t some = std::min(tile, rows - row);
      const float* const a =
          packing_.left ? at.scratch + row * depth : at.a + (first_row + row) * a_row_ + chunk * a_step_;
      simd.gemm_block(a, packing_.left ? 1 : a_row_, packing_.left ? some : a_step_, b, depth,
                      at.c + (first_row + row) * c_row_ + panel * width, c_row_, some,
                      std::min(width, columns_ - panel * width), chunk > 0 || on_residual, bias,
                      ahead, std::min(share, lines));
      ahead += lines > 0 ? share * kLineFloats : 0;
      lines -= share;
    }
  }

  // The product is added to the residual, whether that lies where c is written or is copied there: which of them it is
  // depends on what else reads the residual, on which no result may depend.
  bool StartsAtResidual(const Operands& at) const { return at.residual != nullptr && at.scale == nullptr; }

  void Finish(const Operands& at, int64_t first_row, int64_t last_row, int64_t first, int64_t last) const {
    const bool on_residual = StartsAtResidual(at);
    if (at.scale == nullptr && at.shift == nullptr && problem_.post_ops.activations.empty() &&
        (on_residual ? at.bias : at.residual) == nullptr) {
      return;
    }
    for (int64_t row = first_row; row < last_row; ++row) {
      float* c = at.c + row * c_row_;
      if (on_residual && at.bias != nullptr) {
        Simd().f32[kTileAdd](c + first, c + first, at.bias + first, nullptr, last - first);
      }
      ApplyPostOps(at, problem_.post_ops, on_residual || at.residual == nullptr ? nullptr : at.residual + row * r_row_,
                   first, last - first, c + first);
    }
  }

  const MatmulProblem problem_;
  const Packing packing_;
  std::vector<BatchAxis> batch_;
  int64_t batches_ = 1, rows_ = 0, columns_ = 0, depth_ = 0, depth_chunk_ = 1, panels_ = 0;
  int64_t a_row_ = 0, a_step_ = 0, c_row_ = 0, r_row_ = 0;
  int64_t row_parts_ = 1, column_parts_ = 1;
  int threads_ = 1;
};

// One row against packed weights: bound by the memory that holds them.
class GemvKernel : public Kernel {
 public:
  GemvKernel(const MatmulProblem& problem, int threads)
      : problem_(problem), depth_(problem.a.dims.back()), columns_(problem.c.dims.back()) {
    threads_ = static_cast<double>(depth_ * columns_) < kSerialFlops ? 1 : threads;
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const Operands at(problem_, false, buffers);
    const SimdTable& simd = Simd();
    const int64_t width = simd.gemm_columns, panels = Panels(columns_);
    ForEach(panels, threads_, [&](int64_t panel) {
      const int64_t first = panel * width, n = std::min(width, columns_ - first);
      float y[64];
      simd.gemv_panel(at.a, at.b + panel * PanelElements(depth_), depth_, y, n,
                      at.bias != nullptr ? at.bias + first : nullptr);
      ApplyPostOps(at, problem_.post_ops, at.residual, first, n, y);
      std::memcpy(at.c + first, y, static_cast<size_t>(n) * sizeof(float));
    });
    return absl::OkStatus();
  }

 private:
  const MatmulProblem problem_;
  const int64_t depth_, columns_;
  int threads_;
};

}  // namespace

size_t PackedMatmulBytes(int64_t k, int64_t n) {
  return static_cast<size_t>(Panels(n) * PanelElements(k)) * sizeof(float);
}

void PackMatmulWeights(const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float* packed) {
  const int64_t panels = Panels(n);
#pragma omp parallel for schedule(static) if (k * n > 65536)
  for (int64_t panel = 0; panel < panels; ++panel) {
    PackPanel(b, k, n, panel, k_stride, n_stride, packed + panel * PanelElements(k));
  }
}

size_t MatmulScratchBytes(const MatmulProblem& problem, int threads) {
  if (problem.narrow != nullptr && HasFewRows(problem)) return NarrowScratchBytes(problem);
  return static_cast<size_t>(Packing(problem, threads).total) * sizeof(float);
}

KernelPtr MakeMatmulKernel(const MatmulProblem& problem, int threads) {
  const size_t rank = problem.c.dims.size();
  CHECK(problem.a.dims.size() == rank && problem.b.dims.size() == rank) << ShapeString(problem.c.dims);
  CHECK(problem.c.dims[rank - 1] == 1 || problem.c.strides[rank - 1] == 1) << problem.c.ToString();
  if (problem.narrow != nullptr && HasFewRows(problem)) return MakeNarrowKernel(problem, threads);
  const bool one_row = problem.c.num_elements() == problem.c.dims[rank - 1];
  const bool contiguous = problem.a.dims[rank - 1] == 1 || problem.a.strides[rank - 1] == 1;
  if (one_row && contiguous && problem.packed) {
    return std::make_unique<GemvKernel>(problem, threads);
  }
  return std::make_unique<MatmulKernel>(problem, threads);
}

namespace {

// Returns whether the matrices are stored column by column.
bool IsTurned(const Layout& layout) {
  const size_t rank = layout.dims.size();
  return layout.dims[rank - 1] != 1 && layout.strides[rank - 1] != 1 && layout.strides[rank - 2] == 1;
}
void Turn(Layout* matrices) {
  const size_t rank = matrices->dims.size();
  std::swap(matrices->dims[rank - 1], matrices->dims[rank - 2]);
  std::swap(matrices->strides[rank - 1], matrices->strides[rank - 2]);
}

// Makes one matrix of the rows of batches that share a right factor, where they lie evenly: those of grouped heads,
// whose right factor would be packed for each.
void JoinRows(MatmulProblem* problem) {
  const auto even = [](const Layout& layout, size_t row) {
    return layout.dims[row] == 1 || layout.strides[row - 1] == layout.dims[row] * layout.strides[row];
  };
  const auto join = [](Layout* layout, size_t row) {
    if (layout->dims[row] == 1) layout->strides[row] = layout->strides[row - 1];
    layout->dims[row] *= layout->dims[row - 1];
    layout->dims.erase(layout->dims.begin() + static_cast<int64_t>(row) - 1);
    layout->strides.erase(layout->strides.begin() + static_cast<int64_t>(row) - 1);
  };
  while (problem->c.dims.size() > 2) {
    const size_t row = problem->c.dims.size() - 2;
    const bool shared = problem->b.dims[row - 1] == 1 && problem->a.dims[row - 1] == problem->c.dims[row - 1];
    if (!shared || !even(problem->a, row) || !even(problem->c, row)) return;
    join(&problem->a, row);
    join(&problem->c, row);
    problem->b.dims.erase(problem->b.dims.begin() + static_cast<int64_t>(row) - 1);
    problem->b.strides.erase(problem->b.strides.begin() + static_cast<int64_t>(row) - 1);
  }
}

absl::StatusOr<bool> PlanMatmul(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kMatmul) return false;
  const Graph& graph = lowering.graph();
  const NodeId anchor = group.group.nodes[0];
  const Node& node = graph.node(anchor);
  const Value a = node.operands[0], b = node.operands[1], out = group.group.outputs[0];
  const Shape& dims = node.outputs[0].shape;
  const size_t rank = dims.size();
  const int64_t n = dims[rank - 1];

  MatmulProblem problem;
  problem.post_ops = PostOpsOf(group);
  Place a_place, b_place, residual_place;
  ASSIGN_OR_RETURN(problem.a, PlainOperand(lowering, a, static_cast<int64_t>(rank), &a_place));

  const Shape& b_dims = graph.type(b).shape;
  const int64_t k = b_dims[b_dims.size() - 2];
  Shape one_matrix(rank, 1);
  one_matrix[rank - 2] = k;
  one_matrix[rank - 1] = n;
  const bool shared = lowering.IsConstant(b) && NumElements(b_dims) == k * n;
  std::optional<NarrowFactor> narrow;
  if (shared) {
    ASSIGN_OR_RETURN(narrow, FindNarrowFactor(lowering, b));
  }
  if (narrow) {
    problem.narrow = std::make_shared<const NarrowForm>(narrow->form);
    b_place.buffer = narrow->buffer;
    problem.b = Layout::RowMajor(one_matrix);
  } else if (lowering.PacksFactors() && shared) {
    problem.packed = true;
    ASSIGN_OR_RETURN(const Place weights, lowering.Find(b));
    const std::vector<int64_t>& strides = weights.layout.strides;
    ASSIGN_OR_RETURN(b_place.buffer, PackedFactor(lowering, weights.buffer, graph.type(b), k, n,
                                                  strides[strides.size() - 2], strides[strides.size() - 1]));
    problem.b = Layout::RowMajor(one_matrix);
  } else {
    ASSIGN_OR_RETURN(problem.b, PlainOperand(lowering, b, static_cast<int64_t>(rank), &b_place));
  }

  problem.c = lowering.LayoutOf(group, out);
  // All rows of all batches against one matrix are one product.
  if (NumElements(b_dims) == k * n && rank > 2) {
    Layout flat;
    const Shape flat_dims = {NumElements(dims) / n, k};
    if (problem.c.IsRowMajor() && ReshapeLayout(problem.a, flat_dims, &flat)) {
      problem.a = flat;
      problem.b = Layout{{k, n}, {problem.b.strides[rank - 2], problem.b.strides[rank - 1]}};
      problem.c = Layout::RowMajor({flat_dims[0], n});
    }
  }
  const Layout out_layout = problem.c.dims == dims ? problem.c : Layout::RowMajor(dims);
  if (!IsTurned(problem.c)) JoinRows(&problem);
  if (IsTurned(problem.c)) {  // c^T = b^T a^T
    std::swap(problem.a, problem.b);
    std::swap(a_place, b_place);
    for (Layout* factor : {&problem.a, &problem.b, &problem.c}) Turn(factor);
  }
  bool in_place = false;
  if (problem.post_ops.residual) {
    const Value residual = ResidualOf(group);
    ASSIGN_OR_RETURN(residual_place, lowering.FindAs(residual, out_layout));
    problem.residual = problem.c;
    in_place = !problem.post_ops.scale && residual != a && residual != b &&
               lowering.CanOverwrite(residual, residual_place, out, out_layout);
  }
  std::vector<BufferUse> buffers = {Lowering::Read(a_place.buffer), Lowering::Read(b_place.buffer)};
  RETURN_IF_ERROR(ReadLinearSteps(lowering, group, n, n, &buffers));
  const int result = lowering.DefineOver(out, out_layout, in_place ? residual_place.buffer : -1);
  if (problem.post_ops.residual) buffers.push_back(Lowering::Read(residual_place.buffer));
  lowering.UseScratch(MatmulScratchBytes(problem, lowering.threads()), &buffers);
  buffers.push_back(Lowering::Write(result));
  const std::string bits = narrow ? absl::StrCat(" (", narrow->form.bits, " bits)") : "";
  lowering.Emit(MakeMatmulKernel(problem, lowering.threads()), std::move(buffers),
                GroupLabel(graph, group.group) + bits);
  return true;
}

std::optional<Layout> MatmulLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kMatmul) return std::nullopt;
  return ProductLayout(query.graph, query.group, query.value);
}

}  // namespace

Layout ProductLayout(const Graph& graph, const FusedGroup& group, Value value) {
  // Behind an epilogue the last axis has to be the one of the channels, as in packed weights.
  const bool turns = group.group.nodes.size() == 1 && !graph.IsKnown(graph.node(group.group.nodes[0]).operands[1]);
  return LayoutForReader(graph, value, turns);
}

KernelEntry MatmulEntry() { return {.ops = {ops::Matmul()}, .plan = PlanMatmul, .layout = MatmulLayout, .version = 7}; }

}  // namespace rewright::cpu
