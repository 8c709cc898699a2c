// Kernels that several entries of kernel_list.h plan with. Each head says which buffers its kernel expects, in order.
// They use up to `threads` OpenMP threads. Run needs no memory besides its buffers (oneDNN itself takes a few hundred
// bytes for its arguments).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/cpu/codegen/pointwise.h"
#include "backends/cpu/fuse/fusion.h"
#include "core/device/device.h"

namespace rewright::cpu {

using KernelPtr = std::unique_ptr<Kernel>;

// ---------------------------------------------------------------- pointwise.cc

// Buffers: the program's operands, its results. Layouts and `over` are as in TileProgram::Make; of several results none
// that lies over an operand may go with one that is an operand passed on.
absl::StatusOr<KernelPtr> MakePointwiseKernel(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                              const Layout& out, const std::vector<int>& over, int threads);

// ---------------------------------------------------------------- copy.cc

// Buffers: from, to. Copies every element between two layouts with equal dims. `from_offset` and `to_offset` count
// elements; negative strides of `from` are allowed. Neither layout is padded.
KernelPtr MakeCopyKernel(const Layout& from, int64_t from_offset, const Layout& to, int64_t to_offset,
                         size_t element_bytes, int threads);

// ---------------------------------------------------------------- pool.cc

// Windows that slide over the last two axes of images.
struct PoolProblem {
  bool max = true;
  bool count_padding = false;  // in the mean
  Shape dst;                   // [n, c, windows down, windows right]
  std::vector<int64_t> kernel, strides, pads, dilations;
};

// The windows of row y of a pool's outputs on a blocked image: which of their rows is the first that lies in it, and
// where it lies, in elements from the start of a plane.
struct WindowRow {
  int64_t first_row = 0, first = 0;
  SimdTable::PoolRow windows;
};
WindowRow WindowRowAt(const PoolProblem& problem, const Layout& image, int64_t y);

// The problem of a pool, or of the gradient of one.
PoolProblem PoolProblemOf(const Node& node, bool max, const Shape& windows);

// ---------------------------------------------------------------- ../onednn/epilogue.cc

// The steps behind a product or convolution, element by element: bias, scale and shift per channel, then the residual
// is added, then the functions apply.
struct PostOps {
  bool bias = false;
  bool scale = false;
  bool shift = false;
  bool residual = false;
  std::vector<ActivationFunction> activations;
};

// ---------------------------------------------------------------- matmul.cc

struct NarrowForm;

// c[b.., m, n] = post(sum_k a[b.., m, k] * b[b.., k, n] + bias[n]). Layouts are plain with equal ranks >= 2;
// batch axes of a and b may have stride 0. The last axis of c and of the residual has stride 1 (or size 1).
struct MatmulProblem {
  Layout a, b, c;
  Layout residual;
  bool packed = false;  // b's buffer holds PackMatmulWeights(b) (rank 2)
  std::shared_ptr<const NarrowForm> narrow = nullptr;  // b's buffer holds that instead (products/narrow_product.h)
  PostOps post_ops;
};

// Bytes of the packed form of one [k, n] matrix.
size_t PackedMatmulBytes(int64_t k, int64_t n);

// Packs b[k, n] with element (k, n) at b[k * k_stride + n * n_stride].
void PackMatmulWeights(const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float* packed);

// Bytes of scratch space that the kernel needs; 0: none.
size_t MatmulScratchBytes(const MatmulProblem& problem, int threads);

// Buffers: a, b, [bias], [scale], [shift], [residual], [scratch], c. Without a scale c may lie in the memory of the
// residual with an equal layout.
KernelPtr MakeMatmulKernel(const MatmulProblem& problem, int threads);

}  // namespace rewright::cpu
