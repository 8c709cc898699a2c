// The epilogue: the nodes behind a convolution or product within its group.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

// Appends what the linear steps of an epilogue amount to, (result + bias) * scale + shift: constants [channels], filled
// up with zeros to `laid_channels`, of those that there are.
absl::Status ReadLinearSteps(Lowering& lowering, const FusedGroup& group, int64_t channels, int64_t laid_channels,
                             std::vector<BufferUse>* uses);
// Appends these constants, and the residual in that layout where there is one.
absl::Status ReadEpilogue(Lowering& lowering, const FusedGroup& group, int64_t channels, int64_t laid_channels,
                          const Layout& residual, std::vector<BufferUse>* uses);

PostOps PostOpsOf(const FusedGroup& group);
// The value that is added in a group whose post-ops have a residual.
Value ResidualOf(const FusedGroup& group);

// The number of functions that kernels of convolutions apply before they store: the first, where it is relu or a clip.
size_t FusedFunctions(const ConvEpilogue& epilogue);
// x[i] = the functions from number `first` on, one after the other.
void Activate(const std::vector<ActivationFunction>& functions, size_t first, float* x, int64_t n);

// y[0..n) = columns `first` and on of a row of a product, to which the bias is added: the steps behind that. The
// residual is that of the row, null where it is in y.
void ApplyPostOps(const ConvEpilogue& at, const PostOps& post_ops, const float* residual, int64_t first, int64_t n,
                  float* y);

// Takes a kernel's next buffers, [bias], [scale], [shift], [residual]; `buffers` then points behind them.
ConvEpilogue TakeEpilogue(const PostOps& post_ops, void* const** buffers);

// Returns whether all that the group reads and gives is of that type.
bool IsOfType(const Graph& graph, const Group& group, DType dtype);

// The value as matrices: its place, not blocked, and its layout with leading axes of size 1 up to `rank`.
absl::StatusOr<Layout> PlainOperand(Lowering& lowering, Value value, int64_t rank, Place* place);

// Where the matrices of each batch of a product of sizes `out` begin, in an operand of as many axes, those of size 1
// broadcast.
std::vector<int64_t> BatchStarts(const Layout& layout, const Shape& out);
// Numbers places in order of their first use.
std::vector<int64_t> Numbered(const std::vector<int64_t>& places, std::vector<int64_t>* distinct);

// Memory for weights in the form in which a kernel reads them.
absl::StatusOr<std::shared_ptr<void>> AllocatePacked(size_t bytes, const TensorType& weights);

// The buffer of a constant factor [k, n] as products read it, packed from a constant of that type; elements (k, n) lie
// at k * k_stride + n * n_stride there.
absl::StatusOr<int> PackedFactor(Lowering& lowering, int buffer, const TensorType& type, int64_t k, int64_t n,
                                 int64_t k_stride, int64_t n_stride);

// Packs a buffer into a new one of `bytes` bytes.
struct PackingStep {
  KernelPtr kernel;
  size_t bytes = 0;
  const char* label = "";
};

// The buffer of the weights behind steps that begin at their row-major form: run at once where the weights are
// constant, else steps of the schedule.
absl::StatusOr<int> PackWeights(Lowering& lowering, Value weights, std::vector<PackingStep> steps);
absl::StatusOr<int> PackWeights(Lowering& lowering, Value weights, PackingStep step);

}  // namespace rewright::cpu
