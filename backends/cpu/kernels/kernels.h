// The device's kernels. Each head says which buffers its kernel expects, in order. They use up to `threads` OpenMP
// threads. Run needs no memory besides its buffers (oneDNN itself takes a few hundred bytes for its arguments).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/activation.h"
#include "backends/cpu/pointwise.h"
#include "backends/layout.h"
#include "backends/meaning.h"
#include "core/ir/device.h"
#include "core/ir/index_range.h"

namespace rewright::cpu {

using KernelPtr = std::unique_ptr<Kernel>;

// ---------------------------------------------------------------- pointwise.cc

// Buffers: the program's operands, the result. `operands[i]` is the layout of program.operands[i]; blocked ones must
// have the block of every other blocked layout and no padding. `out` is dense. The result may lie in the memory of an
// operand with an equal layout that is read at the very position.
absl::StatusOr<KernelPtr> MakePointwiseKernel(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                              const Layout& out, int threads);

// ---------------------------------------------------------------- copy.cc

// Buffers: from, to. Copies every element between two layouts with equal dims. `from_offset` and `to_offset` count
// elements; negative strides of `from` are allowed. Neither layout is padded.
KernelPtr MakeCopyKernel(const Layout& from, int64_t from_offset, const Layout& to, int64_t to_offset,
                         size_t element_bytes, int threads);

// ---------------------------------------------------------------- pool.cc

struct PoolProblem {
  bool max = true;
  bool count_padding = false;
  Shape dst;
  std::vector<int64_t> kernel, strides, pads, dilations;
};

// Whether the kernel takes the layout: blocked, its points side by side, its blocks full vector registers. Where
// padding fills the last block, every window must see a point: the padding of the result would not be zero else.
bool CanPool(const PoolProblem& problem, const Layout& src);
// Buffers: src, dst, which is Layout::Blocked(problem.dst, src.block).
KernelPtr MakePoolKernel(const PoolProblem& problem, const Layout& src, int threads);

// ---------------------------------------------------------------- reduce.cc

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin };

// Buffers: x, out. out[kept..] = reduction of x over the axes that `reduced` marks. `x` is not padded; `out` has the
// sizes of x with 1 where reduced (it may be blocked where x is, else plain). f32.
KernelPtr MakeReduceKernel(Reduction reduction, const Layout& x, const std::vector<bool>& reduced, const Layout& out,
                           int threads);

// ---------------------------------------------------------------- rows.cc

enum class RowOp : uint8_t { kSoftmax, kLogSoftmax };

// Buffers: x, out: `rows` rows of `size` contiguous elements. out may be x.
KernelPtr MakeSoftmaxKernel(RowOp op, int64_t rows, int64_t size, int threads);
// Buffers: x, scale, bias, out.
KernelPtr MakeLayerNormKernel(int64_t rows, int64_t size, double epsilon, int threads);

// ---------------------------------------------------------------- gather.cc

// Buffers: x, indices, out; all row-major. x is [outer, range.size(), inner], `count` indices pick along the axis;
// negative ones count from the end. An index outside the range is an error.
KernelPtr MakeGatherKernel(IndexRange range, int64_t outer, int64_t inner, int64_t count, size_t element_bytes,
                           DType index_type, int threads);

// ---------------------------------------------------------------- fill.cc

// Buffers: to. Sets `count` elements to `value`.
KernelPtr MakeFillKernel(int64_t count, DType dtype, double value, int threads);

// ---------------------------------------------------------------- generic.cc

// Buffers: the operands, the outputs; all row-major. The reference interpreter on one node. An integer that has no value
// (a quotient by 0) becomes -1, as in pointwise kernels.
absl::StatusOr<KernelPtr> MakeGenericKernel(const Graph& graph, NodeId node, int threads);

// ---------------------------------------------------------------- matmul.cc

// What follows a product or convolution, element by element: scale and shift per channel, then the residual is added,
// then the functions apply. (A bias comes before all.)
struct PostOps {
  bool scale = false;
  bool shift = false;
  bool residual = false;
  std::vector<ActivationFunction> activations;
};

// c[b.., m, n] = post(sum_k a[b.., m, k] * b[b.., k, n] + bias[n]). Layouts are plain with equal ranks >= 2;
// batch axes of a and b may have stride 0. The last axis of c and of the residual has stride 1 (or size 1).
struct MatmulProblem {
  Layout a, b, c;
  Layout residual;
  bool packed = false;  // b's buffer holds PackMatmulWeights(b) (rank 2)
  bool bias = false;
  PostOps post_ops;
};

// Bytes of the packed form of one [k, n] matrix.
size_t PackedMatmulBytes(int64_t k, int64_t n);
// Packs b[k, n] with element (k, n) at b[k * k_stride + n * n_stride].
void PackMatmulWeights(const float* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, float* packed);
// Bytes of scratch space that the kernel needs; 0: none.
size_t MatmulScratchBytes(const MatmulProblem& problem);
// Buffers: a, b, [bias], [scale], [shift], [residual], [scratch], c. Without a scale c may lie in the memory of the
// residual with an equal layout.
KernelPtr MakeMatmulKernel(const MatmulProblem& problem, int threads);

}  // namespace rewright::cpu
